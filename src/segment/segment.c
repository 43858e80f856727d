/* SPDX-License-Identifier: MIT */
/*
 * Segments of 256 slices, and the freelist of empty slices.
 *
 * Serves pages of 16-64 KiB and large chunks up to 1 MiB. Each segment has two maps of 256 bits:
 * one of the free slices, and one of the free slices that are dirty (used, and not given back to
 * the kernel since). The map of dirty slices is the freelist. A request takes dirty slices if a
 * segment has a long enough run of them, else free slices. It prefers segments whose longest run is
 * short, and takes the lowest long enough run there. Neighbouring free slices are neighbouring
 * bits, so empty memory coalesces by itself. This file cannot serve spans beyond MAX_SPAN_SLICES;
 * huge.c does.
 */
#include "segment/segment.h"
#include "base/bits.h"
#include "base/options.h"
#include "segment/internal.h"

void (*segment_watch)(const void *chunk) FORK_PAGE;

#define PURGE_CHECK_EVERY 64 /* calls of segment_purge_when_due for one look at the clock */
/* a purge of everything leaves slices that were freed more than this long after it began */
#define PURGE_ALL_NS 20000000U
#define GROUP_SEARCH_MAX 16 /* segments searched for a group (aligned run) of free slices */
#define HEADERS_PER_OS_PAGE (unsigned)(OS_PAGE_BYTES / sizeof(struct page))

struct segment_global segment_global FORK_PAGE = {.lock = LOCK_INIT(RANK_SEGMENT),
                                                  .unmap_lock = LOCK_INIT(RANK_UNMAP)};
#define global segment_global
int64_t segment_returned START_PAGE;

/* How much memory the program takes again shortly after the memory went back to the kernel. Guarded
 * by global.lock. */
static struct {
    /* bytes that went back to the kernel only because the freelist was full, and that the program
     * has not taken again since; demand_fades forgets these bytes */
    int64_t early;
    /* bytes that left `early` because the program took them again; the freelist may keep this many
     * bytes more. Also read without the lock. */
    int64_t again;
    /* the most bytes that were in use, lowered by demand_fades; also read without the lock */
    int64_t peak;
} demand START_PAGE;

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

static struct segment *numbered(uint32_t number) {
    return (struct segment *)((uintptr_t)number << SEGMENT_SHIFT);
}

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
        numbered(*first)->state.in_list[of].prev = number_of(segment);
    *first = number_of(segment);
    lists[of].used[list / 64] |= 1UL << list % 64;
}

static void list_remove(enum segment_run of, struct segment *segment) {
    struct segment_link link = segment->state.in_list[of];
    unsigned list = list_of(segment->state.longest[of]);
    if (link.prev)
        numbered(link.prev)->state.in_list[of].next = link.next;
    else
        lists[of].first[list] = link.next;
    if (link.next)
        numbered(link.next)->state.in_list[of].prev = link.prev;
    if (!lists[of].first[list])
        lists[of].used[list / 64] &= ~(1UL << list % 64);
}

/* Says that no run in the segment, which is in a list, is longer than `longest`. */
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
        struct segment *segment = numbered(lists[of].first[list]);
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
        numbered(global.dirty_last)->state.by_age.next = number_of(segment);
    else
        global.dirty_first = number_of(segment);
    global.dirty_last = number_of(segment);
}

static void age_remove(struct segment *segment) {
    struct segment_link link = segment->state.by_age;
    if (link.prev)
        numbered(link.prev)->state.by_age.next = link.next;
    else
        global.dirty_first = link.next;
    if (link.next)
        numbered(link.next)->state.by_age.prev = link.prev;
    else
        global.dirty_last = link.prev;
}

struct segment_leaf *segment_root[1U << SEGMENT_ROOT_BITS];
struct segment_leaf segment_near;
uintptr_t segment_near_first FORK_PAGE;

/* Number of segments in the near leaf from the first segment upwards. The number is small, because
 * the kernel places new mappings below older ones. */
#define NEAR_ABOVE (SEGMENT_LEAF_COUNT / 8)

bool segment_map_test_far(enum segment_map map, uintptr_t number) {
    uintptr_t place = number >> SEGMENT_LEAF_SHIFT;
    if (place >> SEGMENT_ROOT_BITS)
        return false;
    const struct segment_leaf *leaf = load_relaxed(&segment_root[place]);
    return leaf && load_relaxed(&leaf->flags[number & (SEGMENT_LEAF_COUNT - 1)]) & map;
}

/* Returns the byte of segment `number` in the table; NULL: its leaf does not exist yet. */
static uint8_t *map_flags(uintptr_t number) {
    uint8_t *near = segment_near_flags(number);
    if (near)
        return near;
    struct segment_leaf *leaf = load_acquire(&segment_root[number >> SEGMENT_LEAF_SHIFT]);
    return leaf ? &leaf->flags[number & (SEGMENT_LEAF_COUNT - 1)] : NULL;
}

bool segment_map_reserve(const void *segment) {
    uintptr_t number = (uintptr_t)segment >> SEGMENT_SHIFT, first = 0;
    if (number >> SEGMENT_LEAF_SHIFT >> SEGMENT_ROOT_BITS)
        return false;
    uintptr_t below = SEGMENT_LEAF_COUNT - NEAR_ABOVE;
    while (!load_relaxed(&segment_near_first)) {
        cas_release(&segment_near_first, &first, number > below ? number - below : 1);
        first = 0;
    }
    if (map_flags(number))
        return true;
    struct segment_leaf *leaf = os_map(sizeof *leaf), *nothing = NULL;
    if (!leaf)
        return false;
    bool mine;
    do
        mine = cas_release(&segment_root[number >> SEGMENT_LEAF_SHIFT], &nothing, leaf);
    while (!mine && !nothing);
    if (!mine) /* another thread made the leaf meanwhile */
        os_unmap(leaf, sizeof *leaf);
    return true;
}

bool segment_claim_memory(void *start, size_t bytes) {
    if (!segment_map_reserve(start)) {
        os_unmap(start, bytes);
        return false;
    }
    if (UNLIKELY(options.thp != THP_DEFAULT))
        os_advise_huge(start, bytes, options.thp == THP_ALWAYS);
    return true;
}

void *segment_map_memory(size_t bytes) {
    void *start = os_map_aligned(bytes, SEGMENT_BYTES);
    return start && segment_claim_memory(start, bytes) ? start : NULL;
}

void segment_map_set(enum segment_map map, const void *segment, bool set) {
    uint8_t *flags = map_flags((uintptr_t)segment >> SEGMENT_SHIFT);
    if (set)
        or_release(flags, (uint8_t)map);
    else
        and_release(flags, (uint8_t)~map);
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

#define SLICES_MAX (SEGMENT_SLICES - HEADER_SLICES)

static bool is_empty(const struct segment *segment) {
    return segment->state.free_count == SLICES_MAX;
}

/* Returns whether no slice of the segment is in use or dirty, so that the segment can be unmapped.
 */
static bool is_clean(const struct segment *segment) {
    return is_empty(segment) && !segment->state.dirty_count;
}

static struct segment *segment_create(void) {
    struct segment *segment = segment_map_memory(SEGMENT_BYTES);
    if (!segment)
        return NULL;
    struct segment_state *state = &segment->state;
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

/* Takes slices out of the maps of free and dirty slices. Returns how many of them were dirty. */
static unsigned take_slices(struct segment *segment, unsigned start, unsigned count) {
    struct segment_state *state = &segment->state;
    unsigned dirty = bits_count_in(state->dirty, start, count);
    if (is_clean(segment))
        add_owner(&global.clean_segments, -1);
    if (is_empty(segment))
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

/* Puts slices back into the map of free slices and, with `dirty`, into the map of dirty slices. */
static void return_slices(struct segment *segment, unsigned start, unsigned count, bool dirty) {
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
    if (is_empty(segment))
        add_owner(&global.empty_segments, 1);
    if (is_clean(segment))
        add_owner(&global.clean_segments, 1);
    add_owner(&global.used_bytes, -(int64_t)(count * SLICE_BYTES));
}

static void set_back(struct page *page, uint32_t from, uint32_t slices) {
    for (uint32_t i = from; i < slices; i++) {
        page[i].back = (uint8_t)i;
        /* only the header of the page's first slice names the heap: see segment_slice_of */
        page[i].heap = NULL;
    }
    page->slices = slices;
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
 * slice. *looked counts the segments. NULL: no group, or GROUP_SEARCH_MAX segments were counted. */
static struct segment *find_group_in(unsigned list, uint32_t group, unsigned *looked,
                                     unsigned *start) {
    uint64_t all = group < 64 ? (1UL << group) - 1 : ~0UL;
    for (struct segment *s = numbered(lists[SEGMENT_FREE].first[list]);
         s && *looked < GROUP_SEARCH_MAX;
         s = numbered(s->state.in_list[SEGMENT_FREE].next), ++*looked)
        for (*start = 0; *start < SEGMENT_SLICES; *start += group)
            if ((s->state.free[*start / 64] >> *start % 64 & all) == all)
                return s;
    return NULL;
}

/* Finds a group of `group` free slices in one of GROUP_SEARCH_MAX segments, and sets *start to the
 * first slice. If no group is free and at least half of all slices are in use, makes a new
 * segment. NULL: no group. */
static struct segment *find_group(uint32_t group, unsigned *start) {
    unsigned looked = 0;
    struct segment *segment;
    /* a run of this many slices has a group in it, wherever the run begins */
    unsigned certain = list_of(2 * group - 1);
    for (unsigned list = list_from(SEGMENT_FREE, certain); list <= MAX_SPAN_SLICES;
         list = list_from(SEGMENT_FREE, list + 1))
        if ((segment = find_group_in(list, group, &looked, start)) != NULL)
            return segment;
    for (unsigned list = list_from(SEGMENT_FREE, group); list < certain;
         list = list_from(SEGMENT_FREE, list + 1))
        if ((segment = find_group_in(list, group, &looked, start)) != NULL)
            return segment;
    if (global.free_slices * 2 > global.segments * SEGMENT_SLICES)
        return NULL;
    *start = group;
    return segment_create();
}

struct page *segment_span_alloc_grouped(uint32_t slices, uint32_t group, uintptr_t *next) {
    unsigned start = 0;
    lock_take(&global.lock);
    /* Dirty slices are used first, because the kernel need not supply new memory for them. */
    struct segment *segment = find_run(SEGMENT_DIRTY, slices, &start);
    if (!segment && next) {
        segment = find_next(slices, group, *next, &start);
        segment = segment ? segment : find_group(group, &start);
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
    unsigned dirty = take_slices(segment, start, slices);
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

void segment_note_early(int64_t bytes) {
    demand.early += bytes;
}

void segment_note_taken(int64_t fresh) {
    int64_t used = load_relaxed(&global.used_bytes);
    int64_t again = fresh < demand.early ? fresh : demand.early;
    if (used > demand.peak)
        store_owner(&demand.peak, used);
    if (again) {
        demand.early -= again;
        store_owner(&demand.again, demand.again + again);
    }
}

/* Each quarter of the decay time, demand_fades forgets 1/EARLY_FORGOTTEN of demand.early,
 * 1/AGAIN_FORGOTTEN of demand.again, and 1/PEAK_FORGOTTEN of the difference between demand.peak and
 * the bytes in use. */
#define EARLY_FORGOTTEN 4
#define AGAIN_FORGOTTEN 32
#define PEAK_FORGOTTEN 16

/* Forgets a part of the demand; called once in each quarter of the decay time. With `all`, forgets
 * the whole demand; may be called at any time. */
static void demand_fades(bool all) {
    int64_t used = load_relaxed(&global.used_bytes), above = demand.peak - used;
    demand.early -= all ? demand.early : (demand.early + EARLY_FORGOTTEN - 1) / EARLY_FORGOTTEN;
    int64_t again = all ? demand.again : (demand.again + AGAIN_FORGOTTEN - 1) / AGAIN_FORGOTTEN;
    store_owner(&demand.again, demand.again - again);
    if (above > 0)
        store_owner(&demand.peak,
                    demand.peak - (all ? above : (above + PEAK_FORGOTTEN - 1) / PEAK_FORGOTTEN));
}

uint32_t segment_purger;

bool segment_is_purged(void) {
    uint32_t purger = load_relaxed(&segment_purger);
    return purger && !load_relaxed(&os_restricted) && purger == os_process_recorded();
}

int64_t segment_freelist_bound(int64_t others, int64_t *plain) {
    int64_t bytes = load_relaxed(&options.freelist_kib) << 10;
    int64_t used = load_relaxed(&global.used_bytes), again = load_relaxed(&demand.again);
    int64_t below_peak = load_relaxed(&demand.peak) / 16 * 17 - used - others;
    *plain = bytes > used / 20 ? bytes : used / 20;
    if (!bytes || !again || !segment_is_purged())
        return *plain;
    int64_t more = *plain + again < below_peak ? *plain + again : below_peak;
    return more > *plain ? more : *plain;
}

/* Returns by how many bytes the dirty slices exceed the freelist's bound; negative: they are below
 * it. The caller holds the lock. */
static int64_t slices_excess(void) {
    int64_t plain, bound = segment_freelist_bound(global.huge_cached_bytes, &plain);
    int64_t dirty = (int64_t)(load_relaxed(&global.dirty_slices) * SLICE_BYTES);
    int64_t cached = global.span_caches_room * (int64_t)SLICE_BYTES;
    if (cached && dirty + cached > bound)
        cached = segment_span_caches_most() * (int64_t)SLICE_BYTES;
    return dirty - bound + (cached < plain / 2 ? cached : plain / 2);
}

void segment_purge_later(void) {
    if (segment_is_purged())
        store_owner(&global.later_until_ns, os_now_ns() + SEGMENT_LATER_NS);
}

static bool is_for_later(void) {
    if (os_now_ns() < load_relaxed(&global.later_until_ns))
        return true;
    store_owner(&global.later_until_ns, 0);
    return false;
}

void segment_forget_page(struct page *page) {
    store_owner(&page->kind, PAGE_NONE);
    page->heap = NULL; /* a second free of a chunk in the page then finds no owner */
}

void segment_return_span(struct page *page) {
    struct segment *segment = segment_of_page(page);
    return_slices(segment, (unsigned)(page - segment->pages), page->slices, true);
}

/* Called after slices came back to the freelist; the caller holds the lock. Releases the lock, and
 * gives memory back to the kernel if the freelist is full or the time has come. */
static void unlock_and_purge(void) {
    bool over = slices_excess() > 0;
    lock_release(&global.lock);
    if (UNLIKELY(load_relaxed(&global.later_until_ns)) && is_for_later())
        return;
    if (over)
        segment_purge(false);
    else
        segment_purge_when_due();
}

void segment_span_free(struct page *page) {
    segment_forget_page(page);
    lock_take(&global.lock);
    segment_return_span(page);
    unlock_and_purge();
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
        segment_note_taken((int64_t)((more - take_slices(segment, end, more)) * SLICE_BYTES));
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
        segment->pages[end + i].kind = PAGE_NONE;
    }
    page->slices = slices;
    lock_take(&global.lock);
    return_slices(segment, end, fewer, true);
    unlock_and_purge();
}

/* Takes all slices of a map, so that no other thread gets these slices while the kernel discards
 * their memory. */
static void take_all(struct segment *segment, const uint64_t *slices) {
    for (unsigned i = bits_next(slices, 0, true); i < BITS_COUNT;) {
        unsigned end = bits_next(slices, i, false);
        take_slices(segment, i, end - i);
        i = bits_next(slices, end, true);
    }
}

#define HUGE_PAGE_SLICES (1U << (21 - SLICE_SHIFT))

/* Finds, in a segment, the slices that can give their memory back to the kernel; false: there are
 * none. If the user wants huge pages (THP_ALWAYS), a huge page with dirty slices and nothing in use
 * goes back with all its slices, because its slices that were never used are resident, too. From
 * all other memory only the dirty slices go back, and not even these if `whole` is true: huge pages
 * in use then stay whole. */
static bool find_discardable(const struct segment *segment, bool whole, uint64_t found[4]) {
    const struct segment_state *state = &segment->state;
    uint64_t any = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned first = i * 64 / HUGE_PAGE_SLICES * HUGE_PAGE_SLICES, word = first / 64;
        bool dirty = state->dirty[word] | state->dirty[word + 1];
        if (options.thp == THP_ALWAYS &&
            (is_empty(segment) ||
             bits_count_in(state->free, first, HUGE_PAGE_SLICES) == HUGE_PAGE_SLICES))
            found[i] = dirty ? state->free[i] : 0;
        else
            found[i] = whole ? 0 : state->dirty[i];
        any |= found[i];
    }
    return any;
}
_Static_assert(HUGE_PAGE_SLICES == 2 * 64, "two words each");

/* Chooses the segment whose dirty slices are oldest, if they are older than the decay time, or the
 * freelist is too large, or `all` is set. Takes the slices that can go back to the kernel, and
 * returns the segment. NULL: nothing has to go back. */
static struct segment *claim_dirty(uint64_t now, bool all, uint64_t claimed[4]) {
    bool over = slices_excess() > 0, whole = options.thp == THP_ALWAYS && !all && !over;
    uint64_t decay_ns = (uint64_t)load_relaxed(&options.decay_ms) * 1000000U;
    struct segment *oldest = numbered(global.dirty_first);
    while (oldest && !find_discardable(oldest, whole, claimed))
        oldest = numbered(oldest->state.by_age.next);
    bool aged = oldest && now >= oldest->state.dirty_ns + decay_ns;
    if (!oldest || !(all || over || aged))
        return NULL;
    /* With `all`, leaves slices that were freed long after the start, or it might never end. */
    if (all && oldest->state.dirty_ns > now + PURGE_ALL_NS)
        return NULL;
    if (!all && !aged)
        segment_note_early((int64_t)(bits_count_in(claimed, 0, BITS_COUNT) * SLICE_BYTES));
    take_all(oldest, claimed);
    if (oldest->state.dirty_count) { /* slices that were not taken count as dirty since now */
        age_remove(oldest);
        age_push(oldest, now);
    }
    return oldest;
}

/* The headers of 32 slices share an OS page. If all 32 slices are free or claimed, claims the free
 * slices, too, and returns them in `others`. No other thread then uses these headers, so their OS
 * page can go back to the kernel: a zeroed header is right for a free slice. The caller holds the
 * lock. */
static void claim_headers(struct segment *segment, const uint64_t *claimed, uint64_t others[4]) {
    for (unsigned i = 0; i < 4; i++)
        others[i] = 0;
    if (options.thp == THP_ALWAYS)
        return; /* the headers share a huge page with data, so they stay */
    for (unsigned i = HEADERS_PER_OS_PAGE; i < SEGMENT_SLICES; i += HEADERS_PER_OS_PAGE) {
        uint64_t mask = ((1UL << HEADERS_PER_OS_PAGE) - 1) << i % 64;
        uint64_t ours = claimed[i / 64] & mask, rest = segment->state.free[i / 64] & mask;
        if (ours && (ours | rest) == mask)
            others[i / 64] |= rest;
    }
    take_all(segment, others);
}

static void discard_headers(struct segment *segment, const uint64_t *claimed,
                            const uint64_t *others) {
    uint64_t both[4];
    for (unsigned i = 0; i < 4; i++)
        both[i] = claimed[i] | others[i];
    for (unsigned i = HEADERS_PER_OS_PAGE; i < SEGMENT_SLICES; i += HEADERS_PER_OS_PAGE)
        if (options.thp != THP_ALWAYS &&
            bits_count_in(both, i, HEADERS_PER_OS_PAGE) == HEADERS_PER_OS_PAGE)
            os_discard(&segment->pages[i], OS_PAGE_BYTES);
    lock_take(&global.lock);
    for (unsigned i = bits_next(others, 0, true); i < BITS_COUNT;) {
        unsigned end = bits_next(others, i, false);
        return_slices(segment, i, end - i, false);
        i = bits_next(others, end, true);
    }
    lock_release(&global.lock);
}

/* Unmaps empty segments that have no dirty slices, until one empty segment is left. While a dump
 * reads segments, unmaps none. */
static void release_empty(void) {
    bool any = true;
    /* If another thread is unmapping segments in this function, this thread stops: the other thread
     * looks for clean segments once more before it returns. */
    while (any && load_relaxed(&global.clean_segments) &&
           load_relaxed(&global.empty_segments) > 1) {
        uint32_t found = 0, next;
        lock_take(&global.lock);
        bool may_unmap = lock_try(&global.unmap_lock);
        for (uint32_t i = may_unmap ? lists[SEGMENT_FREE].first[MAX_SPAN_SLICES] : 0;
             i && global.empty_segments > 1 && global.clean_segments; i = next) {
            struct segment *segment = numbered(i);
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
            next = numbered(found)->state.in_list[SEGMENT_FREE].next;
            os_unmap(numbered(found), SEGMENT_BYTES);
        }
        if (may_unmap)
            lock_release(&global.unmap_lock);
    }
    segment_unmap_deferred();
}

size_t segment_purge(bool all) {
    size_t released = segment_huge_purge(all);
    uint64_t now = os_now_ns();
    uint64_t claimed[4], others[4];
    segment_clock_set(now);
    for (;;) {
        lock_take(&global.lock);
        if (all || now >= load_relaxed(&global.next_purge_ns)) {
            segment_span_caches_fade(all);
            demand_fades(all);
        }
        store_owner(&global.next_purge_ns,
                    now + (uint64_t)load_relaxed(&options.decay_ms) * 1000000U / 4);
        struct segment *segment = claim_dirty(now, all, claimed);
        if (segment)
            claim_headers(segment, claimed, others);
        lock_release(&global.lock);
        if (!segment)
            break;
        discard_headers(segment, claimed, others);
        for (unsigned i = bits_next(claimed, 0, true); i < BITS_COUNT;) {
            unsigned end = bits_next(claimed, i, false);
            os_discard((char *)segment + i * SLICE_BYTES, (end - i) * SLICE_BYTES);
            released += (end - i) * SLICE_BYTES;
            lock_take(&global.lock);
            return_slices(segment, i, end - i, false);
            lock_release(&global.lock);
            i = bits_next(claimed, end, true);
        }
    }
    release_empty();
    if (released)
        add_relaxed(&segment_returned, (int64_t)released);
    return released;
}

void segment_purge_when_due(void) {
    /* Two threads may write the same count, which only delays the next look at the clock. */
    uint32_t calls = load_relaxed(&global.calls) + 1;
    store_owner(&global.calls, calls);
    if (calls % PURGE_CHECK_EVERY == 0 && os_now_ns() >= load_relaxed(&global.next_purge_ns))
        segment_purge(false);
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

/* Visits the segments of a leaf, from segment number `from` on. `first` is the number of the leaf's
 * first segment. False: `visit` returned false. */
static bool each_of_leaf(const struct segment_leaf *leaf, uintptr_t first, uintptr_t from,
                         bool (*visit)(struct segment *, bool, void *), void *context) {
    for (uintptr_t i = from > first ? from - first : 0; leaf && i < SEGMENT_LEAF_COUNT; i++) {
        uint8_t flags = load_acquire(&leaf->flags[i]);
        struct segment *segment = (struct segment *)((first + i) << SEGMENT_SHIFT);
        if (flags && segment && !visit(segment, flags & SEGMENT_HUGE, context))
            return false;
    }
    return true;
}

static void each_of_map(uint64_t from, bool (*visit)(struct segment *, bool, void *),
                        void *context) {
    uintptr_t near = load_acquire(&segment_near_first);
    uintptr_t number = (from & ~SEGMENT_FAR) >> SEGMENT_SHIFT;
    bool far = from & SEGMENT_FAR;
    if (near && !far && /* `near` is 0 until a thread has made the first segment */
        !each_of_leaf(&segment_near, near, number, visit, context))
        return;
    number = far ? number : 0;
    for (uintptr_t place = number >> SEGMENT_LEAF_SHIFT; place < 1U << SEGMENT_ROOT_BITS; place++)
        if (!each_of_leaf(load_acquire(&segment_root[place]), place << SEGMENT_LEAF_SHIFT, number,
                          visit, context))
            return;
}

void segment_each_from(uint64_t place, bool (*visit)(struct segment *, bool, void *),
                       void *context) {
    lock_take(&global.unmap_lock);
    each_of_map(place, visit, context);
    lock_release(&global.unmap_lock);
    segment_unmap_deferred();
    release_empty();
}

struct each {
    void (*visit)(struct segment *, bool, void *);
    void *context;
};

static bool visit_on(struct segment *segment, bool huge, void *context) {
    const struct each *each = context;
    each->visit(segment, huge, each->context);
    return true;
}

void segment_each(void (*visit)(struct segment *, bool, void *), void *context) {
    struct each each = {visit, context};
    segment_each_from(0, visit_on, &each);
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
 * be inconsistent. These slices are never used again. */
static void give_up_free(void) {
    each_of_map(0, forget_free, NULL);
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
    return whole;
}
