/* SPDX-License-Identifier: MIT */
/*
 * fault.h - where what is asked of the system may be refused: VARIANT=faults alone.
 *
 * There, MEMCTX_FAULT_AT=N has the Nth such call of a process refused without being made, and
 * MEMCTX_FAULT_LOG=FILE gets a line that says which it was; with MEMCTX_FAULT_FROM=N memory is out for good from
 * the Nth request for it on. In all other builds nothing of this exists. Raw
 * system calls are counted in OS_CALL, libc's functions where they stand in one of these.
 */
#ifndef MEMCTX_FAULT_H
#define MEMCTX_FAULT_H

#ifdef MEMCTX_FAULTS
#include "base/base.h"

#include <errno.h>

/* True: this call is to be refused. */
bool os_fault(const char *what);
/* What the kernel says when it refuses; 0: this call is not refused. */
long os_fault_call(long number);

#define OS_TRY(call) (os_fault(#call) ? (errno = ENOMEM, -1) : (call)) /* -1 and errno */
#define OS_TRY_ERROR(call) (os_fault(#call) ? EAGAIN : (call))         /* an error number */
#define OS_TRY_POINTER(call) (os_fault(#call) ? NULL : (call))
#else
#define OS_TRY(call) (call)
#define OS_TRY_ERROR(call) (call)
#define OS_TRY_POINTER(call) (call)
#endif

#endif
