/* SPDX-License-Identifier: MIT */
/*
 * Chooses the contexts that the black box watches, and adds up all other contexts.
 *
 * The black box watches the contexts that hold at least 0.1 % of the live bytes, and those that the
 * program named. It goes on watching contexts that were large earlier, as long as there is room.
 * All other contexts are summed, so that the sums of a moment equal its totals. A watched context
 * is marked in the tree (TREE_MARKED), so that its id keeps its meaning.
 */
#include "context/tree.h"
#include "control/recorder.h"
#include "figures/buffers.h"
#include "region/heap.h"

#include <errno.h>

#define LEAST_PART 1000 /* a context with 1/LEAST_PART of the live bytes is watched */
#define NAMED_MAX 512U  /* greatest number of contexts that are watched because they have a name */
/* when more contexts than this are watched only because they were large earlier, some are
 * dropped */
#define EARLIER_MAX 384U

/* Returns the entry that the context had at the last moment; NULL: the context was not watched
 * then. Must be called with rising ids. */
static const struct watched *watched_before(struct walk *walk, uint32_t id) {
    const struct watched *before = recorder->tables->before;
    while (walk->place < walk->before_count && before[walk->place].id < id)
        walk->place++;
    return walk->place < walk->before_count && before[walk->place].id == id ? &before[walk->place]
                                                                            : NULL;
}

/* Decides whether a context is watched from now on. */
static bool watch(struct walk *walk, uint32_t id, const struct sum *sum) {
    const struct watched *before = watched_before(walk, id);
    bool named = tree_is_named(id) && recorder->named < NAMED_MAX;
    bool large = named || sum->live_bytes >= walk->least;
    bool earlier = !large && before && before->large > walk->cutoff;
    if (recorder->count == WATCHED_MAX || !(large || earlier)) {
        recorder->unpin |= before != NULL;
        return false;
    }
    recorder->tables->watched[recorder->count++] =
        (struct watched){.id = id,
                         .large = large ? recorder->sequence : before->large,
                         .since = before          ? before->since
                                  : tree_reused() ? recorder->sequence
                                                  : 0,
                         .sum = *sum};
    recorder->named += named;
    recorder->earlier += earlier;
    recorder->changed |= !before;
    tree_flag(id, TREE_MARKED);
    return true;
}

/* Returns the sequence number of a moment. Contexts that were last large at that moment or before
 * it are no longer watched. 0: there is room for all of them. Otherwise the number is halfway
 * between now and the oldest moment at which some watched context was last large. */
static uint32_t find_cutoff(void) {
    uint32_t oldest = recorder->sequence;
    if (recorder->earlier <= EARLIER_MAX)
        return 0;
    for (uint32_t i = 0; i < recorder->count; i++)
        if (recorder->tables->watched[i].large < oldest)
            oldest = recorder->tables->watched[i].large;
    return oldest + (recorder->sequence - oldest) / 2;
}

/* Returns a bit for each context: set if some heap has a view of it. Sets *live to the live bytes.
 * Walks the views, because in a large tree most nodes have none, and looking up the views of each
 * node would take ten times as long. NULL: no memory. */
static uint64_t *find_counted(uint32_t count, int64_t *live) {
    uint64_t *counted = buffers_map(count / 8 + sizeof *counted, false);
    *live = 0;
    if (!counted)
        return NULL;
    sums_begin();
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
            const struct view *view = heap_view_at(heap, i);
            uint32_t id = view->context;
            if (id < count)
                counted[id / 64] |= 1UL << id % 64;
            *live += view_live_bytes(view);
        }
    }
    sums_end();
    return counted;
}

uint32_t recorder_next_id(const uint64_t *bits, uint32_t id, uint32_t count) {
    while (id < count) {
        uint64_t rest = bits[id / 64] >> id % 64;
        if (rest) {
            id += (uint32_t)__builtin_ctzl(rest);
            break;
        }
        id = (id / 64 + 1) * 64;
    }
    return id < count ? id : count;
}

bool recorder_read_contexts(struct walk *walk) {
    struct record_tables *tables = recorder->tables;
    uint32_t count = tree_count(), steps = 0;
    int64_t live;
    uint64_t *counted = find_counted(count, &live);
    if (!counted)
        return recorder_failed(-ENOMEM);
    int64_t least = live / LEAST_PART;
    *walk = (struct walk){
        .least = least > 0 ? least : 1, .cutoff = find_cutoff(), .before_count = recorder->count};
    __builtin_memcpy(tables->before, tables->watched, recorder->count * sizeof tables->watched[0]);
    recorder->count = recorder->named = recorder->earlier = 0;
    sums_begin();
    for (uint32_t id = recorder_next_id(counted, 0, count); id < count;
         id = recorder_next_id(counted, id + 1, count)) {
        struct sum sum;
        sums_pause(++steps);
        sums_read(id, &sum, NULL);
        if (!sum.allocs && !sum.frees)
            continue;
        sums_add(&walk->all, &sum);
        if (watch(walk, id, &sum))
            continue;
        sums_add(&walk->rest, &sum);
    }
    sums_end();
    buffers_unmap(counted);
    return true;
}

void record_pin(void) {
    for (uint32_t i = 0; recorder && recorder->tables && i < recorder->count; i++)
        tree_flag(recorder->tables->watched[i].id, TREE_MARKED);
}
