/* SPDX-License-Identifier: MIT */
/* evictions.h - scenarios in which unused call paths are evicted while threads look up paths, free
 * chunks and end. */
#ifndef MEMCTX_MODEL_EVICTIONS_H
#define MEMCTX_MODEL_EVICTIONS_H

#include "region/heap.h"

/* evictions_NAME() prepares the scenario NAME with the heaps of its threads; thread_evict_NAME() is
 * what thread `id` does; check_NAME() checks the state after all threads have ended. */
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
