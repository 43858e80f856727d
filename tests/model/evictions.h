/* SPDX-License-Identifier: MIT */
/* evictions.h - scenarios in which call paths that are not used any more make room, while threads
 * look up, free, end. */
#ifndef MEMCTX_MODEL_EVICTIONS_H
#define MEMCTX_MODEL_EVICTIONS_H

#include "region/heap.h"

/* What stands before each begins, with the heaps of its threads; what a thread does; what must hold
 * then. */
void evictions_used(struct heap **heaps);
void thread_evict_used(unsigned id);
void evictions_handed_over(struct heap **heaps);
void thread_evict_handed_over(unsigned id);
void evictions_balanced(struct heap **heaps);
void thread_evict_balanced(unsigned id);
void evictions_empty_nodes(struct heap **heaps);
void thread_evict_nodes(unsigned id);
void evictions_children(struct heap **heaps);
void thread_evict_children(unsigned id);
void evictions_marked(struct heap **heaps);
void thread_evict_dump(unsigned id);
void evictions_parked(struct heap **heaps);
void thread_evict_parked(unsigned id);
void evictions_folded(struct heap **heaps);
void thread_evict_folded(unsigned id);
void check_folded(void);
void evictions_sleeping(struct heap **heaps);
void thread_evict_sleeping(unsigned id);
void thread_evict_alone(unsigned id);
void check_evictions(void);

#endif
