/* SPDX-License-Identifier: MIT */
/* The owner's part of a visit: it waits until the control thread has left its heap. */
#include "region/heap.h"

struct lock heap_visit_lock FORK_PAGE = LOCK_INIT(RANK_VISIT);

void heap_await_visitor(struct heap *heap) {
    do {
        lock_take(&heap_visit_lock);
        lock_release(&heap_visit_lock);
    } while (load_acquire(&heap->visited));
}
