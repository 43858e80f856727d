/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - walks the stack by libunwind: the check on everything else in this layer.
 *
 * The constructor or the control thread opens libunwind privately (RTLD_LOCAL, so that no other
 * object sees the _Unwind_* names that it exports), only when MEMCTX_VERIFY asks for it. The
 * library holds no lock of its own while libunwind runs.
 */
#ifndef MEMCTX_ORACLE_H
#define MEMCTX_ORACLE_H

#include "path/unwind_rules.h"

struct oracle_counts { /* atomic */
    uint64_t checked, mismatches;
    uint64_t shorter; /* libunwind gave up before we did: compared as far as it went */
};
INTERNAL struct oracle_counts oracle_counts;

bool oracle_load(void); /* false: libunwind could not be opened */
bool oracle_is_loaded(void);
/* Walks the calling function's stack by libunwind. Stores the return addresses, innermost first,
 * from `first` on, which skips our own frames. Returns their number, at most `max`. Sets *complete
 * to true if the last one is the thread's outermost frame. */
unsigned oracle_walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete);
/* Counts a comparison. `at` is the frame in which the paths differ, or `count` if they are
 * equal. */
void oracle_judge(const uintptr_t *ours, const uintptr_t *theirs, unsigned at, unsigned count,
                  bool shorter);

/* For a forked child: if another thread was inside libunwind during the fork, libunwind's locks and
 * tables stay as they were then for ever, so this child compares nothing any more. */
void oracle_fork_child(void);

#endif
