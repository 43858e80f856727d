/* SPDX-License-Identifier: MIT */
/*
 * resizes.h - counts of realloc: how often each context's chunks were resized, and what it cost.
 *
 * A view has no room for these counts, and most contexts never resize a chunk. So a heap keeps the
 * counts in a table beside its views, with an entry for each view that resized a chunk. The table
 * is made at the heap's first realloc. malloc and free do not touch it.
 *
 * Cost: a dozen instructions if the view is that of the heap's last realloc, else a look-up in a
 * hash table. An entry has 104 bytes of the tables' budget, and a heap has RESIZES_MOST entries at
 * most. A realloc for which there is no room is counted in resizes_lost.
 *
 * Owner: as for views, the owner of the heap writes, without a lock. Entries never move, so a dump
 * reads them at any time. `base` belongs to the thread that holds heap_global.lock.
 */
#ifndef MEMCTX_RESIZES_H
#define MEMCTX_RESIZES_H

#include "region/heap.h"

#define RESIZES_MOST 4096U
#define RESIZES_PER_BLOCK 9U /* with this number struct resizes fits 1 KiB */

/* The counts, which only grow until heap_fold moves them to another view. struct wire_resizes
 * (wire.h) says what each of them counts. */
#define RESIZE_COUNTS(X)                                                                           \
    X(reallocs) X(copies) X(copied_bytes) X(grows) X(grown_bytes) X(grown_from_bytes)

struct resize_counts {
#define X(name) uint64_t name;
    RESIZE_COUNTS(X)
#undef X
};
struct view_resizes {
    uint32_t view_index; /* index of the view in heap->views */
    struct resize_counts counts;
    /* the counts at the last reset of the figures (memctx reset); dumps subtract them */
    struct resize_counts base;
};
struct resizes_block {
    struct resizes_block *next; /* atomic */
    uint32_t used;              /* atomic: entries of `list` that are filled */
    struct view_resizes list[RESIZES_PER_BLOCK];
};
struct resizes {
    struct view_resizes *recent; /* the entry that was used last, at first an empty one; not NULL */
    /* A hash table from the index of a view to its entry; NULL: the slot is free. */
    struct view_resizes **slots;
    uint32_t slot_mask, count; /* number of slots minus 1; number of entries */
    struct resizes_block *last;
    struct resizes_block first;
};

/* Returns the entry of a view, and makes it if it is missing and `share` of the tables' budget has
 * room. NULL: there is no room. */
struct view_resizes *resizes_entry(struct heap *heap, const struct view *view,
                                   enum tables_share share);
/* Atomic: reallocs that no heap's table counts. */
INTERNAL uint64_t resizes_lost;
/* Counts a realloc for which there is no entry. */
void resizes_lose(uint64_t calls);
/* Adds the counts of `view` to those of `sum`, a view of the heap `to`, and sets them to 0.
 * heap_fold calls this when it moves the numbers of a view. */
void resizes_fold(struct heap *heap, const struct view *view, struct heap *to,
                  const struct view *sum);

/* Gives back the memory of the heap's table, for heap_free. */
void resizes_free(struct heap *heap);

/* Counts a realloc by the heap's owner from `had` to `size` requested bytes, in the entry of the
 * view that pays after the call. `copied`: number of bytes that were copied; 0: the chunk stays
 * where it is, or the kernel moved its OS pages. */
INLINE void resizes_count(struct heap *heap, const struct view *view, size_t had, size_t size,
                          size_t copied) {
    struct resizes *all = heap->resizes;
    struct view_resizes *entry =
        LIKELY(all != NULL) && LIKELY(all->recent->view_index == view->index)
            ? all->recent
            : resizes_entry(heap, view, TABLES_OTHERS);
    if (UNLIKELY(!entry)) {
        resizes_lose(1);
        return;
    }
    struct resize_counts *counts = &entry->counts;
    add_owner(&counts->reallocs, 1);
    if (copied) {
        add_owner(&counts->copies, 1);
        add_owner(&counts->copied_bytes, copied);
    }
    if (size > had) {
        add_owner(&counts->grows, 1);
        add_owner(&counts->grown_bytes, size - had);
        add_owner(&counts->grown_from_bytes, had);
    }
}

#endif
