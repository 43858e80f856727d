/* SPDX-License-Identifier: MIT */
/*
 * Contexts with chunks that have to stand elsewhere than the allocator would place them.
 *
 * For: contexts that a user or a rule isolated or merged. One byte for each context stands in
 * leaves that are made when needed. A process that places no context reads one word only.
 */
#include "os/meta.h"
#include "region/heap.h"

uint32_t heap_placed_any FORK_PAGE, heap_placings;
void *heap_placed[PLACED_LEAVES];

void *heap_leaf_place(void **leaves, uint32_t context, size_t bytes) {
    if (context / PLACED_PER_LEAF >= PLACED_LEAVES)
        return NULL;
    void **leaf = &leaves[context / PLACED_PER_LEAF];
    if (!load_acquire(leaf)) {
        void *made = meta_alloc(PLACED_PER_LEAF * bytes), *there = NULL;
        if (!made)
            return NULL;
        if (!cas_acq_rel(leaf, &there, made)) /* threads place their named contexts themselves */
            meta_free(made, PLACED_PER_LEAF * bytes);
    }
    return (char *)load_acquire(leaf) + context % PLACED_PER_LEAF * bytes;
}

uint8_t *heap_placed_byte(uint32_t context) {
    return heap_leaf_place(heap_placed, context, 1);
}

bool heap_place(uint32_t context, enum placement placement) {
    uint8_t *byte = heap_placed_byte(context);
    if (!byte)
        return false;
    store_owner(byte, (uint8_t)((*byte & ~PLACE_MASK) | placement));
    or_release(&heap_placed_any, 1U << placement);
    return true;
}

static void forget_bins(struct heap *heap) {
    uint32_t views = load_acquire(&heap->view_count);
    for (uint32_t i = 1; i < views; i++)
        store_owner(&heap_view_at(heap, i)->bins, (struct bins *)&heap_no_bins);
}

void heap_reconsider(struct heap *heap) {
    heap->placings = load_acquire(&heap_placings);
    forget_bins(heap);
}

/* An owner may set its views' at the same time, to what was right before; then it does the same at
 * its next page. */
void heaps_reconsider(void) {
    lock_take(&heap_global.lock);
    store_release(&heap_placings, heap_placings + 1);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        forget_bins(heap);
    lock_release(&heap_global.lock);
}
