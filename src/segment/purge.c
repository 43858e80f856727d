/* SPDX-License-Identifier: MIT */
/*
 * Gives empty memory back to the kernel: slices that waited for longer than the decay time, and
 * slices beyond the freelist's bound.
 *
 * For: threads that free pages, and the control thread. Cannot do: give back empty OS pages inside
 * a page in use; context/holes.c does.
 */
#include "base/bits.h"
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global

#define PURGE_CHECK_EVERY 64 /* calls of segment_purge_when_due for one look at the clock */
/* a purge of everything leaves slices that were freed more than this long after it began */
#define PURGE_ALL_NS 20000000U
#define HEADERS_PER_OS_PAGE (unsigned)(OS_PAGE_BYTES / sizeof(struct page))

int64_t segment_returned START_PAGE;
bool segment_huge_by_default;

void segment_learn_huge_pages(void) {
    char text[64];
    if (options.thp != THP_DEFAULT ||
        os_read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) <= 0)
        return;
    /* The setting stands in brackets, and "always" is the first one. */
    store_owner(&segment_huge_by_default, text[0] == '[');
}

void segment_keep_gaps(const void *address) {
    struct segment *segment = (struct segment *)((uintptr_t)address & ~(SEGMENT_BYTES - 1));
    if (LIKELY(!load_relaxed(&segment_huge_by_default)) ||
        load_relaxed(&segment->state.small_pages))
        return;
    store_owner(&segment->state.small_pages, true);
    os_advise_huge(segment, SEGMENT_BYTES, false);
}

/* Returns by how many bytes the dirty slices, and the span caches up to half of the plain bound,
 * exceed the freelist's bound; negative: they are below it. The caller holds the lock. */
static int64_t slices_excess(void) {
    int64_t plain, bound = segment_slices_bound(&plain);
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

/* True while the time that segment_purge_later set is not over. */
static bool is_for_later(void) {
    if (os_now_ns() < load_relaxed(&global.later_until_ns))
        return true;
    store_owner(&global.later_until_ns, 0);
    return false;
}

void segment_unlock_and_purge(void) {
    bool over = slices_excess() > 0;
    lock_release(&global.lock);
    if (UNLIKELY(load_relaxed(&global.later_until_ns)) && is_for_later())
        return;
    if (over)
        segment_purge(false);
    else
        segment_purge_when_due();
}

/* The slices that a purge has taken and not freed yet, so that a child that is forked meanwhile can
 * free them. If more purges run at one time than there are places, the slices of the others stay
 * taken in the child. Under the lock, except that a purge that has freed all its slices leaves its
 * place without the lock. */
#define PURGES_MAX 4
static struct purge {
    struct segment *segment; /* atomic; NULL: the place is free */
    uintptr_t thread;        /* lock_self() of the thread that purges */
    uint64_t taken[4];
} purges[PURGES_MAX];

/* Returns a free place, or NULL. */
static struct purge *purge_begin(struct segment *segment) {
    for (unsigned i = 0; i < PURGES_MAX; i++)
        if (!load_acquire(&purges[i].segment)) {
            purges[i] = (struct purge){.segment = segment, .thread = lock_self()};
            return &purges[i];
        }
    return NULL;
}

static void purge_take(struct purge *purge, const uint64_t *slices) {
    for (unsigned i = 0; purge && i < 4; i++)
        purge->taken[i] |= slices[i];
}

/* Frees slices that the purge has taken. The caller holds the lock. */
static void purge_return(struct purge *purge, struct segment *segment, unsigned start,
                         unsigned count) {
    if (purge)
        bits_fill(purge->taken, start, count, false);
    segment_return_slices(segment, start, count, false);
}

void segment_purges_fork_child(bool whole) {
    for (unsigned i = 0; i < PURGES_MAX; i++) {
        struct purge *purge = &purges[i];
        /* A signal handler may have interrupted a purge and forked. That purge goes on. */
        if (!purge->segment || purge->thread == lock_self())
            continue;
        for (unsigned k = bits_next(purge->taken, 0, true); whole && k < BITS_COUNT;) {
            unsigned end = bits_next(purge->taken, k, false);
            segment_return_slices(purge->segment, k, end - k, true);
            k = bits_next(purge->taken, end, true);
        }
        purge->segment = NULL;
    }
}

/* Takes all slices of a map, so that no other thread gets these slices while the kernel discards
 * their memory. */
static void take_all(struct segment *segment, const uint64_t *slices) {
    for (unsigned i = bits_next(slices, 0, true); i < BITS_COUNT;) {
        unsigned end = bits_next(slices, i, false);
        segment_take_slices(segment, i, end - i);
        i = bits_next(slices, end, true);
    }
}

/* number of slices in a huge page of 2 MiB */
#define HUGE_PAGE_SLICES (1U << (21 - SLICE_SHIFT))

/* Finds, in a segment, the slices that can give their memory back to the kernel; false: there are
 * none. If the user wants huge pages (THP_ALWAYS), a huge page that has dirty slices and none in
 * use goes back with all its slices, because the slices that were never used are resident, too. In
 * an empty segment the first huge page counts as such, although its first slices hold headers. From
 * all other memory only the dirty slices go back. With `whole`, these stay as well, so that huge
 * pages in use stay whole. */
static bool find_discardable(const struct segment *segment, bool whole, uint64_t found[4]) {
    const struct segment_state *state = &segment->state;
    uint64_t any = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned first = i * 64 / HUGE_PAGE_SLICES * HUGE_PAGE_SLICES, word = first / 64;
        bool dirty = state->dirty[word] | state->dirty[word + 1];
        if (options.thp == THP_ALWAYS &&
            (segment_is_empty(segment) ||
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
 * freelist exceeds its bound, or `all` is set. Takes the slices that can go back to the kernel, and
 * returns the segment and the slices. NULL: nothing has to go back. The caller holds the lock. */
static struct segment *claim_dirty(uint64_t now, bool all, uint64_t claimed[4]) {
    bool over = slices_excess() > 0, whole = options.thp == THP_ALWAYS && !all && !over;
    uint64_t decay_ns = (uint64_t)load_relaxed(&options.decay_ms) * 1000000U;
    struct segment *oldest = segment_numbered(global.dirty_first);
    while (oldest && !find_discardable(oldest, whole, claimed))
        oldest = segment_numbered(oldest->state.by_age.next);
    bool aged = oldest && now >= oldest->state.dirty_ns + decay_ns;
    if (!oldest || !(all || over || aged))
        return NULL;
    /* With `all`, a purge leaves the slices that were freed long after its start. Otherwise it
     * might never end. */
    if (all && oldest->state.dirty_ns > now + PURGE_ALL_NS)
        return NULL;
    if (!all && !aged)
        segment_note_early((int64_t)(bits_count_in(claimed, 0, BITS_COUNT) * SLICE_BYTES));
    take_all(oldest, claimed);
    if (oldest->state.dirty_count) /* slices that were not taken count as dirty since now */
        segment_dirty_since(oldest, now);
    return oldest;
}

/* The headers of 32 slices share an OS page. If all 32 slices are free or in `claimed`, takes the
 * free ones, too, and returns them in `others`. No other thread then uses these headers, so their
 * OS page can go back to the kernel: a zeroed header is right for a free slice. The caller holds
 * the lock. */
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

/* Gives the OS pages back whose headers all belong to slices of `claimed` or `others`, and frees
 * the slices of `others` again. */
static void discard_headers(struct purge *purge, struct segment *segment, const uint64_t *claimed,
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
        purge_return(purge, segment, i, end - i);
        i = bits_next(others, end, true);
    }
    lock_release(&global.lock);
}

/* Takes the free slices that a huge page may have made resident although they were never used: all
 * free slices of a segment of which memory goes back for the first time while other memory stays in
 * use. `claimed` and `others` were taken before. False: there are none. The caller holds the lock.
 */
static bool claim_gaps(struct segment *segment, const uint64_t *claimed, const uint64_t *others,
                       uint64_t gaps[4]) {
    struct segment_state *state = &segment->state;
    size_t taken = bits_count_in(claimed, 0, BITS_COUNT) + bits_count_in(others, 0, BITS_COUNT);
    if (LIKELY(!load_relaxed(&segment_huge_by_default)) || state->gaps_are_empty ||
        state->free_count + taken == SLICES_MAX)
        return false;
    state->gaps_are_empty = true;
    __builtin_memcpy(gaps, state->free, sizeof state->free);
    take_all(segment, gaps);
    return true;
}

/* Gives the memory of taken slices back to the kernel, and frees the slices. `unused`: the slices
 * were never used, so they are zero, and must not be touched. */
static void discard_slices(struct purge *purge, struct segment *segment, const uint64_t *slices,
                           bool unused) {
    for (unsigned i = bits_next(slices, 0, true); i < BITS_COUNT;) {
        unsigned end = bits_next(slices, i, false);
        (unused ? os_give_back : os_discard)((char *)segment + i * SLICE_BYTES,
                                             (end - i) * SLICE_BYTES);
        lock_take(&global.lock);
        purge_return(purge, segment, i, end - i);
        lock_release(&global.lock);
        i = bits_next(slices, end, true);
    }
}

/* Gives memory of one segment back. Returns the bytes; 0: nothing has to go back. */
static size_t purge_segment(uint64_t now, bool all) {
    uint64_t claimed[4], others[4], gaps[4];
    uint64_t next = now + (uint64_t)load_relaxed(&options.decay_ms) * 1000000U / 4;
    lock_take(&global.lock);
    bool due = all || now >= load_relaxed(&global.next_purge_ns);
    if (due) {
        segment_span_caches_fade(all);
        segment_demand_fades(all);
    }
    if (due || next < load_relaxed(&global.next_purge_ns)) /* the decay time may be less now */
        store_owner(&global.next_purge_ns, next);
    struct segment *segment = claim_dirty(now, all, claimed);
    struct purge *purge = segment ? purge_begin(segment) : NULL;
    bool has_gaps = false;
    if (segment) {
        claim_headers(segment, claimed, others);
        has_gaps = claim_gaps(segment, claimed, others, gaps);
        purge_take(purge, claimed);
        purge_take(purge, others);
        if (has_gaps)
            purge_take(purge, gaps);
    }
    lock_release(&global.lock);
    if (!segment)
        return 0;
    if (has_gaps) {
        segment_keep_gaps(segment);
        discard_slices(purge, segment, gaps, true);
    }
    discard_headers(purge, segment, claimed, others);
    discard_slices(purge, segment, claimed, false);
    if (purge)
        store_release(&purge->segment, NULL);
    return bits_count_in(claimed, 0, BITS_COUNT) * SLICE_BYTES;
}

size_t segment_purge(bool all) {
    size_t released = segment_huge_purge(all), bytes;
    uint64_t now = os_now_ns();
    segment_clock_set(now);
    while ((bytes = purge_segment(now, all)))
        released += bytes;
    segment_release_empty();
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
