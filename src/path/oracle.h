/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - what libunwind says of the same stack: the check on everything else in this layer.
 *
 * libunwind is opened privately (RTLD_LOCAL, so that the _Unwind_* names it exports reach nobody)
 * by the constructor or the control thread, only when MEMCTX_VERIFY asks for it. No lock of ours
 * is held while it runs.
 */
#ifndef MEMCTX_ORACLE_H
#define MEMCTX_ORACLE_H

#include "path/rules.h"

struct oracle_counts { /* atomic */
    uint64_t checked, mismatches;
    uint64_t shorter; /* libunwind gave up before we did: compared as far as it went */
};
INTERNAL struct oracle_counts oracle_counts;

bool oracle_load(void); /* false: libunwind could not be opened */
bool oracle_is_loaded(void);
/* Walks the calling function's stack by libunwind: return addresses, innermost first, from `first` on,
 * which skips our own frames; returns how many there are, at most `max`. *complete: the last one is the
 * thread's outermost frame. */
unsigned oracle_walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete);
/* Counts a comparison. `at`: the frame in which the paths differ, or `count`. */
void oracle_judge(const uintptr_t *ours, const uintptr_t *theirs, unsigned at, unsigned count,
                  bool shorter);

/* In a forked child: when another thread was inside libunwind its locks and tables stay as they were
 * then, for ever, and nothing is compared in this child any more. */
void oracle_fork_child(void);

#endif
