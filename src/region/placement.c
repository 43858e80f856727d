/* SPDX-License-Identifier: MIT */
/*
 * Placements of contexts: a byte for each context says in which pages its next chunks are placed.
 *
 * For: contexts that a user or a rule isolated, merged or gave a policy, and named contexts. The
 * bytes are in arrays (leaves), which are made when needed. While no context has a placement, a
 * look-up reads one word (heap_placed_any), and the common malloc reads none. Cannot do: move
 * chunks that are allocated already.
 */
#include "os/meta.h"
#include "region/heap.h"

uint32_t heap_placed_any FORK_PAGE, heap_placings;
void *heap_placed[PLACED_LEAVES];

void *heap_leaf_entry(void **leaves, uint32_t context, size_t bytes) {
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return NULL;
    void **leaf = &leaves[context / PLACED_PER_LEAF];
    if (!load_acquire(leaf)) {
        void *made = meta_alloc(PLACED_PER_LEAF * bytes), *there = NULL;
        if (!made)
            return NULL;
        if (!cas_acq_rel(leaf, &there, made)) /* another thread made the leaf meanwhile */
            meta_free(made, PLACED_PER_LEAF * bytes);
    }
    return (char *)load_acquire(leaf) + context % PLACED_PER_LEAF * bytes;
}

uint8_t *heap_placed_byte(uint32_t context) {
    return heap_leaf_entry(heap_placed, context, 1);
}

bool heap_set_placement(uint32_t context, enum placement placement) {
    uint8_t *byte = heap_placed_byte(context);
    if (!byte)
        return false;
    uint8_t before = load_relaxed(byte); /* the control thread may change flags meanwhile */
    while (!cas_acq_rel(byte, &before, (uint8_t)((before & ~PLACE_MASK) | placement))) {
    }
    or_release(&heap_placed_any, 1U << placement);
    return true;
}

/* Makes the next allocation of each context of the heap come to region_alloc. The owner may read
 * view.bins at the same time: either value will do. */
UNSANITIZED static void forget_bins(struct heap *heap) {
    uint32_t views = load_acquire(&heap->view_count);
    for (uint32_t i = 1; i < views; i = heap_view_after(heap, i))
        store_owner(&heap_view_at(heap, i)->bins, (struct bins *)&heap_no_bins);
}

void heap_reconsider(struct heap *heap) {
    heap->placings = load_acquire(&heap_placings);
    forget_bins(heap);
}

/* The owner of a heap may set view.bins at the same time, by the old placement. Then the owner
 * notices the new heap_placings when it next does its periodic work (look_around, alloc.c). */
void heaps_reconsider(void) {
    lock_take(&heap_global.lock);
    store_release(&heap_placings, heap_placings + 1);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        forget_bins(heap);
    lock_release(&heap_global.lock);
}
