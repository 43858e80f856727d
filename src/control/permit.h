/* SPDX-License-Identifier: MIT */
/*
 * permit.h - tells whether the control thread may start now: whether a filter of system calls
 * forbids the thread, and whether the calling thread can start it.
 *
 * If the process has no descriptor or no memory left at a start, the start is only postponed:
 * such a moment passes.
 */
#ifndef MEMCTX_PERMIT_H
#define MEMCTX_PERMIT_H

#include "base/base.h"

/* True when the caller may start the thread now. Only then is it known that no filter forbids to
 * block signals. Until then a signal handler may leave this function by a jump, so the caller holds
 * no lock. */
bool permit_start(void);
/* The thread starts now. Before the next start, filters are examined again. */
void permit_use(void);
/* For a second, permit_is_postponed returns true. */
void permit_postpone(void);
bool permit_is_postponed(void);
void permit_fork_child(void);

#endif
