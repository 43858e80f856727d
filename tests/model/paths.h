/* SPDX-License-Identifier: MIT */
/* paths.h - scenarios of the library's tables: folded recursion, paths that wait, the budget. */
#ifndef MEMCTX_MODEL_PATHS_H
#define MEMCTX_MODEL_PATHS_H

#include "region/heap.h"

/* Functions paths_... and budget_for_two prepare a scenario; thread_NAME() is what thread `id`
 * does; check_NAME() checks the state after all threads have ended. */
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
