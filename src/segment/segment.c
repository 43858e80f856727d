/* SPDX-License-Identifier: MIT */
/*
 * Segments of 256 slices, and the freelist of empty slices.
 *
 * Serves pages of 16-64 KiB and large chunks up to 1 MiB. Each segment has two maps of 256 bits:
 * one of the free slices, and one of the free slices that are dirty (used, and not given back to
 * the kernel since). The map of dirty slices is the freelist. A request takes dirty slices if a
 * segment has a long enough run of them, else free slices. It prefers segments whose longest run is
 * short, and takes the run with the lowest address there that is long enough.
 * (segment_span_alloc_grouped takes free slices in groups instead.) Neighbouring free slices are
 * neighbouring bits, so empty memory coalesces by itself. This file cannot serve spans beyond
 * MAX_SPAN_SLICES (huge.c does). It unmaps segments that are empty and clean, but gives no dirty
 * slices back to the kernel (purge.c does).
 */
#include "segment/segment.h"
#include "base/bits.h"
#include "base/options.h"
#include "segment/internal.h"

void (*segment_watch)(const void *chunk) FORK_PAGE;

#define GROUP_SEARCH_MAX 16 /* segments searched for a group (aligned run) of free slices */

struct segment_global segment_global FORK_PAGE = {.lock = LOCK_INIT(RANK_SEGMENT),
                                                  .unmap_lock = LOCK_INIT(RANK_UNMAP)};
#define global segment_global

/* One set of lists for the segments with free slices, and one for those with dirty slices. List i
 * has the segments whose `longest` (an upper bound of their longest run) is i slices. The last list
 * also has all segments with a larger `longest`. A segment enters its list at the head. Bit i of
 * `used` says that list i is not empty. Guarded by global.lock. */
static struct lists {
    uint32_t first[MAX_SPAN_SLICES + 1]; /* number of the segment; 0: none */
    uint64_t used[2];
} lists[SEGMENT_RUNS] START_PAGE;
_Static_assert(MAX_SPAN_SLICES + 1 <= 128, "a bit for each list");

static uint32_t number_of(const struct segment *segment) {
    return (uint32_t)((uintptr_t)segment >> SEGMENT_SHIFT);
}
_Static_assert(ADDRESS_BITS - SEGMENT_SHIFT <= 32, "the number of a segment fits");

static unsigned list_of(unsigned slices) {
    return slices < MAX_SPAN_SLICES ? slices : MAX_SPAN_SLICES;
}

/* Returns the first list that is not empty among list `from` and those behind it; MAX_SPAN_SLICES +
 * 1: all of them are empty. */
static unsigned list_from(enum segment_run of, unsigned from) {
    for (unsigned word = from / 64; word < 2; word++, from = word * 64) {
        uint64_t used = from < 128 ? lists[of].used[word] >> from % 64 : 0;
        if (used)
            return from + (unsigned)__builtin_ctzl(used);
    }
    return MAX_SPAN_SLICES + 1;
}

static void list_push(enum segment_run of, struct segment *segment, unsigned longest) {
    struct segment_state *state = &segment->state;
    unsigned list = list_of(longest);
    uint32_t *first = &lists[of].first[list];
    state->longest[of] = longest;
    state->in_list[of] = (struct segment_link){.next = *first};
    if (*first)
        segment_numbered(*first)->state.in_list[of].prev = number_of(segment);
    *first = number_of(segment);
    lists[of].used[list / 64] |= 1UL << list % 64;
}

static void list_remove(enum segment_run of, struct segment *segment) {
    struct segment_link link = segment->state.in_list[of];
    unsigned list = list_of(segment->state.longest[of]);
    if (link.prev)
        segment_numbered(link.prev)->state.in_list[of].next = link.next;
    else
        lists[of].first[list] = link.next;
    if (link.next)
        segment_numbered(link.next)->state.in_list[of].prev = link.prev;
    if (!lists[of].first[list])
        lists[of].used[list / 64] &= ~(1UL << list % 64);
}

/* Notes that no run in the segment is longer than `longest`, and moves the segment to the list for
 * this length. The segment is in a list. */
static void set_longest(enum segment_run of, struct segment *segment, unsigned longest) {
    if (list_of(segment->state.longest[of]) != list_of(longest)) {
        list_remove(of, segment);
        list_push(of, segment, longest);
    }
    segment->state.longest[of] = longest;
}

/* Returns a segment with a run of `slices` free or dirty slices, and sets *start to the run's first
 * slice. Prefers segments whose runs are short, so that long runs last. NULL: there is no such run.
 */
static struct segment *find_run(enum segment_run of, uint32_t slices, unsigned *start) {
    unsigned longest;
    for (unsigned list; (list = list_from(of, slices)) <= MAX_SPAN_SLICES;) {
        struct segment *segment = segment_numbered(lists[of].first[list]);
        const struct segment_state *state = &segment->state;
        *start = bits_find_run(of == SEGMENT_DIRTY ? state->dirty : state->free, slices, &longest);
        if (*start < BITS_COUNT)
            return segment;
        set_longest(of, segment, longest); /* moves the segment to a list before list `slices` */
    }
    return NULL;
}

/* Adds a segment at the end of the list of segments with dirty slices, which is in the order of
 * dirty_ns. */
static void age_push(struct segment *segment, uint64_t now) {
    struct segment_state *state = &segment->state;
    state->dirty_ns = now;
    state->by_age = (struct segment_link){.prev = global.dirty_last};
    if (global.dirty_last)
        segment_numbered(global.dirty_last)->state.by_age.next = number_of(segment);
    else
        global.dirty_first = number_of(segment);
    global.dirty_last = number_of(segment);
}

static void age_remove(struct segment *segment) {
    struct segment_link link = segment->state.by_age;
    if (link.prev)
        segment_numbered(link.prev)->state.by_age.next = link.next;
    else
        global.dirty_first = link.next;
    if (link.next)
        segment_numbered(link.next)->state.by_age.prev = link.prev;
    else
        global.dirty_last = link.prev;
}

void segment_dirty_since(struct segment *segment, uint64_t now) {
    age_remove(segment);
    age_push(segment, now);
}

uint32_t segment_clock FORK_PAGE;

void segment_clock_set(uint64_t now_ns) {
    uint32_t tick = (uint32_t)(now_ns >> SEGMENT_TICK_SHIFT);
    /* Threads may come here with times that differ by milliseconds, and the clock must not go
     * back. */
    uint32_t before = load_relaxed(&segment_clock);
    if (!before || (int32_t)(tick - before) > 0)
        store_owner(&segment_clock, tick);
}

/* True if no slice of the segment is in use or dirty, so that the segment can be unmapped. */
static bool is_clean(const struct segment *segment) {
    return segment_is_empty(segment) && !segment->state.dirty_count;
}

/* Maps a new segment with all slices free and clean. NULL: out of memory. The caller holds the
 * lock. */
static struct segment *segment_create(void) {
    struct segment *segment = segment_map_memory(SEGMENT_BYTES);
    if (!segment)
        return NULL;
    struct segment_state *state = &segment->state;
    if (global.segments < SEGMENTS_WITHOUT_HUGE && options.thp == THP_DEFAULT) {
        os_advise_huge(segment, SEGMENT_BYTES, false); /* before the first write to the segment */
        state->small_pages = state->gaps_are_empty = true;
    }
    bits_fill(state->free, HEADER_SLICES, SLICES_MAX, true);
    state->free_count = SLICES_MAX;
    list_push(SEGMENT_FREE, segment, SLICES_MAX);
    global.segments++;
    global.free_slices += state->free_count;
    add_owner(&global.empty_segments, 1);
    add_owner(&global.clean_segments, 1);
    segment_map_set(SEGMENT_SLICED, segment, true);
    return segment;
}

unsigned segment_take_slices(struct segment *segment, unsigned start, unsigned count) {
    struct segment_state *state = &segment->state;
    unsigned dirty = bits_count_in(state->dirty, start, count);
    if (is_clean(segment))
        add_owner(&global.clean_segments, -1);
    if (segment_is_empty(segment))
        add_owner(&global.empty_segments, -1);
    bits_fill(state->free, start, count, false);
    bits_fill(state->dirty, start, count, false);
    state->free_count -= count;
    global.free_slices -= count;
    state->dirty_count -= dirty;
    global.dirty_slices -= dirty;
    if (dirty && !state->dirty_count) {
        age_remove(segment);
        list_remove(SEGMENT_DIRTY, segment);
    } else if (dirty && state->longest[SEGMENT_DIRTY] > state->dirty_count) {
        set_longest(SEGMENT_DIRTY, segment, state->dirty_count);
    }
    if (!state->free_count)
        list_remove(SEGMENT_FREE, segment);
    else if (state->longest[SEGMENT_FREE] > state->free_count)
        set_longest(SEGMENT_FREE, segment, state->free_count);
    add_owner(&global.used_bytes, (int64_t)(count * SLICE_BYTES));
    return dirty;
}

void segment_return_slices(struct segment *segment, unsigned start, unsigned count, bool dirty) {
    struct segment_state *state = &segment->state;
    bits_fill(state->free, start, count, true);
    unsigned run = bits_run_around(state->free, start);
    if (!state->free_count)
        list_push(SEGMENT_FREE, segment, run);
    else if (run > state->longest[SEGMENT_FREE])
        set_longest(SEGMENT_FREE, segment, run);
    state->free_count += count;
    global.free_slices += count;
    if (dirty) {
        bits_fill(state->dirty, start, count, true);
        run = bits_run_around(state->dirty, start);
        if (!state->dirty_count) {
            age_push(segment, os_now_ns());
            list_push(SEGMENT_DIRTY, segment, run);
        } else if (run > state->longest[SEGMENT_DIRTY]) {
            set_longest(SEGMENT_DIRTY, segment, run);
        }
        state->dirty_count += count;
        global.dirty_slices += count;
    }
    if (segment_is_empty(segment))
        add_owner(&global.empty_segments, 1);
    if (is_clean(segment))
        add_owner(&global.clean_segments, 1);
    add_owner(&global.used_bytes, -(int64_t)(count * SLICE_BYTES));
}

/* Makes the slices [from, slices) part of the page: their headers lead back to the page's
 * header. */
static void set_back(struct page *page, uint32_t from, uint32_t slices) {
    for (uint32_t i = from; i < slices; i++) {
        page[i].back = (uint8_t)i;
        /* only the header of the page's first slice names the heap: see segment_slice_of */
        store_owner(&page[i].heap, NULL);
    }
    store_owner(&page->slices, (uint16_t)slices);
}

/* Looks for slices behind the last page of one kind. `next` is the address of the header behind
 * that page. If the `slices` slices from there on are free and in the same group as that page,
 * returns their segment and sets *start to the first slice; else returns NULL. The caller holds the
 * lock. */
static struct segment *find_next(uint32_t slices, uint32_t group, uintptr_t next, unsigned *start) {
    if (!next || !segment_map_test(SEGMENT_SLICED, next >> SEGMENT_SHIFT))
        return NULL;
    struct segment *segment = (struct segment *)(next & ~(SEGMENT_BYTES - 1));
    *start = (unsigned)((struct page *)next - segment->pages);
    unsigned end = *start + slices;
    return *start % group && (*start ^ (end - 1)) < group &&
                   bits_next(segment->state.free, *start, false) >= end
               ? segment
               : NULL;
}

/* Looks for a group of `group` free slices in the segments of a list, and sets *start to the first
 * slice. In a segment's first group the headers take HEADER_SLICES, so this group comes last, and
 * only if the rest of it has room for `slices`. *looked counts the segments. NULL: no group, or
 * GROUP_SEARCH_MAX segments were counted. */
static struct segment *find_group_in(unsigned list, uint32_t slices, uint32_t group,
                                     unsigned *looked, unsigned *start) {
    uint64_t all = group < 64 ? (1UL << group) - 1 : ~0UL;
    unsigned rest = group - HEADER_SLICES;
    for (struct segment *s = segment_numbered(lists[SEGMENT_FREE].first[list]);
         s && *looked < GROUP_SEARCH_MAX;
         s = segment_numbered(s->state.in_list[SEGMENT_FREE].next), ++*looked) {
        for (*start = group; *start < SEGMENT_SLICES; *start += group)
            if ((s->state.free[*start / 64] >> *start % 64 & all) == all)
                return s;
        *start = HEADER_SLICES;
        if (rest >= slices && bits_count_in(s->state.free, HEADER_SLICES, rest) == rest)
            return s;
    }
    return NULL;
}

/* Finds a group of `group` free slices for a page of `slices` in one of GROUP_SEARCH_MAX segments,
 * and sets *start to the first slice. If no group is free and at least half of all slices are in
 * use, makes a new segment. NULL: no group, or out of memory. The caller holds the lock. */
static struct segment *find_group(uint32_t slices, uint32_t group, unsigned *start) {
    unsigned looked = 0;
    struct segment *segment;
    /* a run of this many slices has a group in it, wherever the run begins */
    unsigned certain = list_of(2 * group - 1);
    for (unsigned list = list_from(SEGMENT_FREE, certain); list <= MAX_SPAN_SLICES;
         list = list_from(SEGMENT_FREE, list + 1))
        if ((segment = find_group_in(list, slices, group, &looked, start)) != NULL)
            return segment;
    for (unsigned list = list_from(SEGMENT_FREE, group - HEADER_SLICES); list < certain;
         list = list_from(SEGMENT_FREE, list + 1))
        if ((segment = find_group_in(list, slices, group, &looked, start)) != NULL)
            return segment;
    if (global.free_slices * 2 > global.segments * SEGMENT_SLICES)
        return NULL;
    *start = group; /* slice 0, and so the first group, holds headers */
    return segment_create();
}

struct page *segment_span_alloc_grouped(uint32_t slices, uint32_t group, uintptr_t *next) {
    unsigned start = 0;
    lock_take(&global.lock);
    /* Dirty slices are used first, because the kernel need not supply new memory for them. */
    struct segment *segment = find_run(SEGMENT_DIRTY, slices, &start);
    if (!segment && next) {
        segment = find_next(slices, group, *next, &start);
        segment = segment ? segment : find_group(slices, group, &start);
    }
    segment = segment ? segment : find_run(SEGMENT_FREE, slices, &start);
    if (!segment) {
        segment = segment_create();
        if (!segment) {
            lock_release(&global.lock);
            return NULL;
        }
        start = HEADER_SLICES;
    }
    unsigned dirty = segment_take_slices(segment, start, slices);
    segment_note_taken((int64_t)((slices - dirty) * SLICE_BYTES));
    lock_release(&global.lock);
    struct page *page = &segment->pages[start];
    __builtin_memset(page, 0, sizeof *page);
    set_back(page, 1, slices);
    page->fresh = !dirty;
    page->born = load_relaxed(&segment_clock);
    if (next)
        *next = (uintptr_t)(page + slices);
    return page;
}

struct page *segment_span_alloc(uint32_t slices) {
    return segment_span_alloc_grouped(slices, 0, NULL);
}

static struct segment *segment_of_page(struct page *page) {
    return (struct segment *)((uintptr_t)page & ~(SEGMENT_BYTES - 1));
}

void segment_forget_page(struct page *page) {
    store_owner(&page->kind, PAGE_NONE);
    store_owner(&page->heap, NULL); /* a second free of a chunk in the page then finds no owner */
}

void segment_return_span(struct page *page) {
    struct segment *segment = segment_of_page(page);
    segment_return_slices(segment, (unsigned)(page - segment->pages), page->slices, true);
}

void segment_span_free(struct page *page) {
    segment_forget_page(page);
    lock_take(&global.lock);
    segment_return_span(page);
    segment_unlock_and_purge();
}

bool segment_span_extend(struct page *page, uint32_t slices) {
    struct segment *segment = segment_of_page(page);
    unsigned end = (unsigned)(page - segment->pages) + page->slices;
    unsigned more = slices - page->slices;
    if (slices > MAX_SPAN_SLICES || end + more > SEGMENT_SLICES)
        return false;
    lock_take(&global.lock);
    bool fits = bits_next(segment->state.free, end, false) >= end + more;
    if (fits) {
        segment_note_taken(
            (int64_t)((more - segment_take_slices(segment, end, more)) * SLICE_BYTES));
        set_back(page, page->slices, slices);
    }
    lock_release(&global.lock);
    return fits;
}

void segment_span_shrink(struct page *page, uint32_t slices) {
    struct segment *segment = segment_of_page(page);
    unsigned end = (unsigned)(page - segment->pages) + slices;
    unsigned fewer = page->slices - slices;
    for (unsigned i = 0; i < fewer; i++) {
        segment->pages[end + i].back = 0;
        store_owner(&segment->pages[end + i].kind, PAGE_NONE);
    }
    store_owner(&page->slices, (uint16_t)slices);
    lock_take(&global.lock);
    segment_return_slices(segment, end, fewer, true);
    segment_unlock_and_purge();
}

void segment_release_empty(void) {
    bool any = true;
    /* If another thread is unmapping segments in this function, this thread stops. The other thread
     * looks for clean segments once more before it returns. */
    while (any && load_relaxed(&global.clean_segments) &&
           load_relaxed(&global.empty_segments) > 1) {
        uint32_t found = 0, next;
        lock_take(&global.lock);
        bool may_unmap = lock_try(&global.unmap_lock);
        for (uint32_t i = may_unmap ? lists[SEGMENT_FREE].first[MAX_SPAN_SLICES] : 0;
             i && global.empty_segments > 1 && global.clean_segments; i = next) {
            struct segment *segment = segment_numbered(i);
            next = segment->state.in_list[SEGMENT_FREE].next;
            if (!is_clean(segment))
                continue;
            list_remove(SEGMENT_FREE, segment);
            global.segments--;
            global.free_slices -= segment->state.free_count;
            add_owner(&global.empty_segments, -1);
            add_owner(&global.clean_segments, -1);
            segment_map_set(SEGMENT_SLICED, segment, false);
            segment->state.in_list[SEGMENT_FREE].next = found;
            found = i;
        }
        lock_release(&global.lock);
        any = found;
        for (; found; found = next) {
            next = segment_numbered(found)->state.in_list[SEGMENT_FREE].next;
            os_unmap(segment_numbered(found), SEGMENT_BYTES);
        }
        if (may_unmap)
            lock_release(&global.unmap_lock);
    }
    segment_unmap_deferred();
}

int64_t segment_used_bytes(void) {
    return load_relaxed(&global.used_bytes);
}

struct segment_usage segment_usage(void) {
    lock_take(&global.lock);
    int64_t cached = segment_span_caches_slices();
    struct segment_usage usage = {
        .mapped_bytes = (int64_t)(global.segments * SEGMENT_BYTES) + global.huge_bytes +
                        global.huge_cached_bytes,
        .used_bytes = global.used_bytes - cached * (int64_t)SLICE_BYTES,
        .header_bytes = (int64_t)(global.segments * HEADER_SLICES * SLICE_BYTES),
        .freelist_bytes = ((int64_t)global.dirty_slices + cached) * (int64_t)SLICE_BYTES +
                          global.huge_cached_bytes,
        .freelist_items = (int64_t)global.dirty_slices + cached + global.huge_cached,
        .returned_bytes = load_relaxed(&segment_returned),
    };
    lock_release(&global.lock);
    return usage;
}

void segment_fork_prepare(bool interrupted) {
    lock_fork_prepare(&global.lock, interrupted);
}

static bool forget_free(struct segment *segment, bool huge, void *context) {
    (void)context;
    if (!huge)
        __builtin_memset(&segment->state, 0, sizeof segment->state);
    return true;
}

/* Gives up all free slices and cached mappings in a forked child, because their maps and lists may
 * be inconsistent. Their memory is never used again. */
static void give_up_free(void) {
    segment_each_of_map(0, forget_free, NULL);
    __builtin_memset(lists, 0, sizeof lists);
    global.dirty_first = global.dirty_last = 0;
    global.empty_segments = global.clean_segments = 0;
    global.free_slices = global.dirty_slices = 0;
    global.huge_cached = global.huge_cached_bytes = 0;
    __builtin_memset(segment_huge_cache, 0, sizeof segment_huge_cache);
    segment_span_caches_recount();
}

bool segment_fork_done(bool child) {
    if (child && !lock_is_mine(&global.unmap_lock))
        lock_reset(&global.unmap_lock);
    bool whole = lock_fork_done(&global.lock, child);
    if (child && !whole)
        give_up_free();
    /* If a signal handler forked, this thread may be in the middle of a change of the lists. */
    if (child && !lock_is_mine(&global.lock))
        segment_purges_fork_child(whole);
    return whole;
}
