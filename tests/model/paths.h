/* SPDX-License-Identifier: MIT */
/* paths.h - scenarios of the library's tables: folded recursion, paths that wait, the budget. */
#ifndef MEMCTX_MODEL_PATHS_H
#define MEMCTX_MODEL_PATHS_H

#include "region/heap.h"

/* What stands before each begins, with the heaps of its threads; what a thread does; what must hold
 * then. */
void paths_folded(struct heap **heaps);
void paths_unfolded(struct heap **heaps);
void paths_about_to_fold(struct heap **heaps);
void thread_unfold(unsigned id);
void thread_fold_again(unsigned id);
void thread_begin_folding(unsigned id);
void thread_new_rules(unsigned id);

void paths_nearly_full(struct heap **heaps);
void thread_wait(unsigned id);
void check_waited(void);

void budget_for_two(void);
void thread_budget(unsigned id);
void check_budget(void);

#endif
