/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - walks the stack by libunwind, to check the call paths that stack.c finds.
 *
 * The constructor opens libunwind, only when MEMCTX_VERIFY asks for it, and privately (RTLD_LOCAL),
 * so that no other object sees the _Unwind_* names that libunwind exports. The library holds no
 * lock of its own while libunwind runs.
 */
#ifndef MEMCTX_ORACLE_H
#define MEMCTX_ORACLE_H

#include "path/unwind_rules.h"

struct oracle_counts { /* atomic */
    uint64_t checked, mismatches;
    /* comparisons in which libunwind found fewer frames; only these frames were compared */
    uint64_t shorter;
};
INTERNAL struct oracle_counts oracle_counts;

bool oracle_load(void); /* false: libunwind could not be opened */
bool oracle_is_loaded(void);
/* Walks the calling function's stack by libunwind. Stores the return addresses, innermost first,
 * beginning with the address `first`; frames of this library, further in than `first`, are skipped.
 * Returns the number of addresses, at most `max`; 0 also during a fork. Sets *complete to true if
 * libunwind found no frame beyond the last address. */
unsigned oracle_walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete);
/* Counts a comparison of `count` frames. `at` is the frame in which the paths differ, or `count` if
 * the paths are equal. `shorter`: libunwind found fewer frames than the path has. */
void oracle_judge(const uintptr_t *ours, const uintptr_t *theirs, unsigned at, unsigned count,
                  bool shorter);

/* Called before and after a fork. oracle_fork_prepare waits until no thread is inside libunwind, at
 * most 0.3 s, and no thread begins a walk until oracle_fork_done is called: the child would find
 * the locks of libunwind and of the loader taken for ever. If a thread was inside libunwind even
 * so, the child compares no paths any more. */
void oracle_fork_prepare(void);
void oracle_fork_done(bool child);

#endif
