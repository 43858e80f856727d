/* SPDX-License-Identifier: MIT */
/* Heaps, and chunks in slots, for the scenarios; see slots.h. */
#include "slots.h"

#include "../lib/sums_of.h"
#include "context/tree.h"
#include "region/region.h"

struct heap *heaps[MODEL_THREADS_MAX];
uint32_t contexts[CONTEXTS];
void *chunks[CHUNKS];
size_t sizes[CHUNKS];
int64_t used_before;
uint64_t allocated[CONTEXTS];

/* --- chunks --------------------------------------------------------------------------------- */

void stamp(unsigned slot, bool set) {
    char *chunk = chunks[slot];
    char value = (char)(slot + 1);
    if (set)
        chunk[0] = chunk[sizes[slot] / 2] = chunk[sizes[slot] - 1] = value;
    model_check(chunk[0] == value && chunk[sizes[slot] / 2] == value &&
                    chunk[sizes[slot] - 1] == value,
                "a chunk was changed by somebody else");
}

void take_sized(struct heap *heap, unsigned slot, unsigned context, size_t size) {
    void *chunk = region_alloc(heap, heap_view(heap, contexts[context]), size, false);
    model_check(chunk, "out of memory");
    chunks[slot] = chunk;
    sizes[slot] = size;
    allocated[context]++;
    stamp(slot, true);
}

void take(struct heap *heap, unsigned slot) {
    take_sized(heap, slot, 0, BLOCK);
}

void give(struct heap *heap, unsigned slot) {
    void *chunk = chunks[slot];
    stamp(slot, false);
    chunks[slot] = NULL;
    region_free(heap, chunk);
}

void give_if_there(struct heap *heap, unsigned slot) {
    if (load_acquire(&chunks[slot]))
        give(heap, slot);
}

/* --- before and after ---------------------------------------------------------------------- */

void new_heaps(unsigned count) {
    for (unsigned i = 0; i < CONTEXTS; i++) {
        struct tree_frame frame = {.address = 0x1000 + i, .module = MODULE_NONE};
        contexts[i] = tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED);
    }
    for (unsigned i = 0; i < count; i++)
        heaps[i] = heap_acquire(os_thread_id(), false);
    used_before = segment_used_bytes();
}

void three_heaps(void) {
    new_heaps(3);
}

void three_chunks(void) {
    new_heaps(3);
    for (unsigned i = 0; i < 3; i++)
        take(heaps[0], i);
}

void check_books(void) {
    for (unsigned i = 0; i < CONTEXTS; i++) {
        struct sum sum = sums_of(contexts[i]);
        model_check(sum.allocs == (int64_t)allocated[i], "allocations are missing from the books");
        model_check(sum.allocs == sum.frees, "frees are missing from the books");
        model_check(sum.live_bytes == 0, "bytes are left on the books");
    }
    model_check(!heap_global.lost_views, "an operation was not accounted");
}

void check_all_gone(void) {
    for (unsigned i = 0; i < CHUNKS; i++) {
        if (chunks[i])
            give(heaps[0], i);
    }
    for (struct heap *heap = heap_global.first; heap; heap = heap->next) {
        if (heap->state == HEAP_OWNED || heap->state == HEAP_PARKED)
            heap_park(heap);
    }
    model_check(segment_used_bytes() == used_before, "pages are left that hold nothing");
    check_books();
}
