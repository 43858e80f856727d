/* SPDX-License-Identifier: MIT */
/*
 * fault.h - makes system calls and libc calls fail on purpose, in the build VARIANT=faults only.
 *
 * MEMCTX_FAULT_AT=N refuses the Nth counted call of a process without making it. Two kinds of calls
 * are counted: the raw system calls that OS_CALL makes and that are in the table of os_fault_call,
 * and the calls of libc functions that an OS_TRY macro below wraps. MEMCTX_FAULT_FROM=N refuses all
 * requests for memory from the Nth on. MEMCTX_FAULT_LOG=FILE appends a line to FILE that names the
 * refused call (with MEMCTX_FAULT_FROM, the first refused one).
 */
#ifndef MEMCTX_FAULT_H
#define MEMCTX_FAULT_H

#ifdef MEMCTX_FAULTS
#include "base/base.h"

#include <errno.h>

/* True: the caller must refuse this call. */
bool os_fault(const char *what);
/* Returns the negative error number with which to refuse the system call; 0: do not refuse it. */
long os_fault_call(long number);

/* A refused call returns -1 and sets errno. */
#define OS_TRY(call) (os_fault(#call) ? (errno = ENOMEM, -1) : (call))
/* a refused call returns an error number */
#define OS_TRY_ERROR(call) (os_fault(#call) ? EAGAIN : (call))
#define OS_TRY_POINTER(call) (os_fault(#call) ? NULL : (call))
#else
#define OS_TRY(call) (call)
#define OS_TRY_ERROR(call) (call)
#define OS_TRY_POINTER(call) (call)
#endif

#endif
