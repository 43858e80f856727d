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
/* Compares a path (innermost first) with a fresh walk by libunwind from the calling function;
 * `complete`: the path says that it ends with the thread's outermost frame. */
void oracle_compare(const uintptr_t *addresses, unsigned count, bool complete);

/* In a forked child: when another thread was inside libunwind its locks and tables stay as they were
 * then, for ever, and nothing is compared in this child any more. */
void oracle_fork_child(void);

#endif
