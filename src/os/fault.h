/* SPDX-License-Identifier: MIT */
/*
 * fault.h - makes system calls and libc calls fail on purpose. Only VARIANT=faults has it.
 *
 * MEMCTX_FAULT_AT=N refuses the Nth such call of a process without making it. MEMCTX_FAULT_LOG=FILE
 * appends a line that names the refused call. MEMCTX_FAULT_FROM=N refuses all requests for memory
 * from the Nth on. In all other builds this code does not exist. OS_CALL counts raw system calls; a
 * call of a libc function is counted if it is wrapped in one of the OS_TRY macros below.
 */
#ifndef MEMCTX_FAULT_H
#define MEMCTX_FAULT_H

#ifdef MEMCTX_FAULTS
#include "base/base.h"

#include <errno.h>

/* True: the caller must refuse this call. */
bool os_fault(const char *what);
/* The error (negative) with which to refuse the system call; 0: do not refuse it. */
long os_fault_call(long number);

/* returns -1 and sets errno */
#define OS_TRY(call) (os_fault(#call) ? (errno = ENOMEM, -1) : (call))
#define OS_TRY_ERROR(call) (os_fault(#call) ? EAGAIN : (call)) /* returns an error number */
#define OS_TRY_POINTER(call) (os_fault(#call) ? NULL : (call))
#else
#define OS_TRY(call) (call)
#define OS_TRY_ERROR(call) (call)
#define OS_TRY_POINTER(call) (call)
#endif

#endif
