/* SPDX-License-Identifier: MIT */
/*
 * The table of counts of realloc beside the views of a heap; see resizes.h.
 *
 * For: the first realloc of a view in a heap, and views whose numbers move. Cannot do: remove an
 * entry. An entry stays with the index of its view: before the view gets another context, heap_fold
 * moves the counts of the entry away.
 */
#include "region/resizes.h"
#include "os/meta.h"

#define FIRST_SLOTS 16U

/* Returns the slot that points to the view's entry; if the view has no entry, the free slot for the
 * entry. */
static struct view_resizes **slot_of(struct resizes *all, uint32_t view_index) {
    uint32_t at = view_index & all->slot_mask;
    while (all->slots[at] && all->slots[at]->view_index != view_index)
        at = (at + 1) & all->slot_mask;
    return &all->slots[at];
}

/* Takes memory for a part of a heap's table. NULL: the tables' budget or the kernel refuses. */
static void *take(size_t bytes, enum tables_share share) {
    int64_t block = (int64_t)meta_block_bytes(bytes);
    if (!tables_take(block, share))
        return NULL;
    void *memory = meta_alloc(bytes);
    if (!memory && share != TABLES_UNCOUNTED)
        tables_add(-block);
    return memory;
}

static struct resizes *make_table(struct heap *heap, enum tables_share share) {
    struct resizes *all = take(sizeof *all, share);
    struct view_resizes **slots = all ? take(FIRST_SLOTS * sizeof(void *), share) : NULL;
    if (!slots) {
        if (all) {
            tables_add(-(int64_t)meta_block_bytes(sizeof *all));
            meta_free(all, sizeof *all);
        }
        return NULL;
    }
    all->slots = slots;
    all->slot_mask = FIRST_SLOTS - 1;
    all->last = &all->first;
    all->recent = &all->first.list[0];
    store_release(&heap->resizes, all);
    return all;
}

/* Doubles the slots. The old slots are freed at once, because only the owner reads slots. False:
 * there is no room. */
static bool grow_slots(struct resizes *all, enum tables_share share) {
    uint32_t old_count = all->slot_mask + 1;
    struct view_resizes **old = all->slots, **slots = take(2UL * old_count * sizeof *slots, share);
    if (!slots)
        return false;
    all->slots = slots;
    all->slot_mask = 2 * old_count - 1;
    for (struct resizes_block *block = &all->first; block; block = block->next)
        for (uint32_t i = 0; i < block->used; i++)
            *slot_of(all, block->list[i].view_index) = &block->list[i];
    tables_add(-(int64_t)meta_block_bytes(old_count * sizeof *old));
    meta_free(old, old_count * sizeof *old);
    return true;
}

/* Returns a new entry behind the others. NULL: there is no room. */
static struct view_resizes *make_entry(struct resizes *all, uint32_t view_index,
                                       enum tables_share share) {
    if (all->count == RESIZES_MOST)
        return NULL;
    if (2 * (all->count + 1) > all->slot_mask && !grow_slots(all, share))
        return NULL;
    if (all->last->used == RESIZES_PER_BLOCK) {
        struct resizes_block *block = take(sizeof *block, share);
        if (!block)
            return NULL;
        store_release(&all->last->next, block);
        all->last = block;
    }
    struct view_resizes *entry = &all->last->list[all->last->used];
    entry->view_index = view_index;
    store_release(&all->last->used, all->last->used + 1); /* a dump reads the entry from now on */
    *slot_of(all, view_index) = entry;
    all->count++;
    return entry;
}

NOINLINE struct view_resizes *resizes_entry(struct heap *heap, const struct view *view,
                                            enum tables_share share) {
    heap_await(heap); /* a visitor may be moving counts of this table */
    struct resizes *all = heap->resizes;
    if (!all && !(all = make_table(heap, share)))
        return NULL;
    struct view_resizes *entry = *slot_of(all, view->index);
    if (!entry)
        entry = make_entry(all, view->index, share);
    if (entry)
        all->recent = entry;
    return entry;
}

static void give(void *memory, size_t bytes) {
    tables_add(-(int64_t)meta_block_bytes(bytes));
    meta_free(memory, bytes);
}

void resizes_free(struct heap *heap) {
    struct resizes *all = heap->resizes;
    struct resizes_block *block = all ? all->first.next : NULL, *next;
    for (; block; block = next) {
        next = block->next;
        give(block, sizeof *block);
    }
    if (!all)
        return;
    give(all->slots, (all->slot_mask + 1UL) * sizeof *all->slots);
    give(all, sizeof *all);
}

uint64_t resizes_lost;

NOINLINE void resizes_lose(uint64_t calls) {
    add_relaxed(&resizes_lost, calls);
}

void resizes_fold(struct heap *heap, const struct view *view, struct heap *to,
                  const struct view *sum) {
    struct resizes *all = heap->resizes;
    struct view_resizes *from = all ? *slot_of(all, view->index) : NULL;
    if (!from || !from->counts.reallocs)
        return;
    struct view_resizes *entry = resizes_entry(to, sum, TABLES_SITE);
    if (entry) {
#define X(name)                                                                                    \
    add_owner(&entry->counts.name, from->counts.name);                                             \
    entry->base.name += from->base.name;
        RESIZE_COUNTS(X)
#undef X
    } else {
        resizes_lose(from->counts.reallocs - from->base.reallocs);
    }
#define X(name) store_owner(&from->counts.name, 0);
    RESIZE_COUNTS(X)
#undef X
    from->base = (struct resize_counts){0};
}
