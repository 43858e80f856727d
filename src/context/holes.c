/* SPDX-License-Identifier: MIT */
/* Finds quiet pages (pages that did not change between two looks) and gives back their empty OS
 * pages; see holes.h. */
#include "context/holes.h"
#include "base/options.h"
#include "context/collect.h"
#include "context/internal.h"
#include "region/punch.h"

#define LOOK_MIN_MS 50     /* time between two looks, where MEMCTX_DECAY_MS is less */
#define LOOK_NS 4000000U   /* a look ends after this time; so does collecting before a look */
#define LOOK_SHARE 32      /* the pause after a look is at least this many times its length */
#define LOOK_SEGMENTS 256U /* most segments that one look reads: 1 GiB */
#define VISIT_SEGMENTS 16U /* most segments in which a visit gathers pages */
#define PAGES_MAX 32U      /* most pages of one visit */
#define BUSY_MAX 8U        /* a look ends when this many heaps could not be visited */
#define DEALT_WITH 1U      /* set in page.seen: the page was punched, or cannot be punched */
/* Positions in page.seen: of the number of used blocks, and of the number of punched OS pages, of
 * which the lower bits stand elsewhere than the higher ones. */
#define SEEN_USED_SHIFT 48
#define SEEN_PUNCHED_SHIFT 1
#define SEEN_PUNCHED_LOW 7U
#define SEEN_PUNCHED_HIGH_SHIFT 61

static struct {
    uint64_t next_ns;
    uint64_t place; /* the segment where the next look begins */
    /* the last look ended early: some unchanged pages may not have been punched yet, or owners that
     * sleep have pages that were not collected yet */
    bool hurries;
} state;

struct look {
    bool trims;        /* the look answers a trim request for heaps whose threads sleep */
    uint64_t place;    /* the segment that was read last */
    unsigned segments; /* number of segments that may still be read */
    bool stopped;      /* segments are left for the next look */
    struct heap *heap; /* a heap with a page that the look is to punch (is_wanted) */
    const struct heap *busy[BUSY_MAX]; /* the last heaps that could not be visited */
    unsigned busy_count;
    struct page *pages[PAGES_MAX]; /* such pages of `heap` */
    unsigned count;
    size_t bytes; /* bytes that went back */
};

/* Returns the head of the page's list of free blocks, the number of blocks in use and the number of
 * punched OS pages, in one word. If the owner allocates and frees the blocks in the opposite order,
 * the word has its old value again, unless the owner used a punched OS page. Blocks begin at
 * multiples of 16, and a page has at most 4096 blocks in 16 OS pages. Bit 0 is 0, so page.seen can
 * hold DEALT_WITH there. */
static uint64_t state_of(const struct page *page) {
    uint64_t punched = (uint64_t)__builtin_popcountl(blocks_punched(page));
    return (uintptr_t)load_relaxed(&page->free) |
           ((uint64_t)load_relaxed(&page->used) + 1) << SEEN_USED_SHIFT |
           (punched & SEEN_PUNCHED_LOW) << SEEN_PUNCHED_SHIFT |
           (punched / (SEEN_PUNCHED_LOW + 1)) << SEEN_PUNCHED_HIGH_SHIFT;
}
_Static_assert(WIDE_PAGE_SLICES *SLICE_BYTES / OS_PAGE_BYTES <= 16 &&
                   WIDE_PAGE_SLICES * SLICE_BYTES / 16 + 1 <
                       1UL << (SEEN_PUNCHED_HIGH_SHIFT - SEEN_USED_SHIFT),
               "the numbers fit their places in page.seen, below the bit of PAGE_NOT_SEEN");

/* True when the page may have empty OS pages, and has not changed since the last look. */
UNSANITIZED static bool is_quiet(struct page *page) {
    /* The owner may destroy the page at any time. The header may then describe a large chunk or a
     * serial page, where another field uses the word of page.seen. This function must not change
     * that field. All values of page.seen are 1 << SEEN_USED_SHIFT or more, and that field is
     * always less (PAGE_NOT_SEEN). So it suffices that the compare-and-swap below replaces only the
     * value of page.seen that is read here. */
    uint64_t seen = load_acquire(&page->seen), same = seen;
    if (!(seen >> SEEN_USED_SHIFT) || !punch_may_help(page))
        return false;
    uint64_t now = state_of(page);
    if ((seen & ~(uint64_t)DEALT_WITH) != now)
        cas_release(&page->seen, &same, now);
    return seen == now;
}

static void note_dealt_with(struct page *page) {
    store_owner(&page->seen, state_of(page) | DEALT_WITH);
}

bool visit_pages(struct segment *segment, bool (*each)(void *context, struct page *page),
                 void *context) {
    for (unsigned i = HEADER_SLICES; i < SEGMENT_SLICES;) {
        struct page *page = &segment->pages[i];
        unsigned kind = load_acquire(&page->kind);
        uint32_t slices = kind == PAGE_NONE ? 1 : load_relaxed(&page->slices);
        if (kind != PAGE_NONE && !each(context, page))
            return false;
        i += slices ? slices : 1;
    }
    return true;
}

static bool is_left_alone(const struct look *look, const struct heap *heap) {
    for (unsigned i = 0; i < look->busy_count && i < BUSY_MAX; i++)
        if (look->busy[i] == heap)
            return true;
    return false;
}

/* True if the trim request names the page, and the page has changed since it was punched last. A
 * request without `punch` names only pages without a block in use. May be called for a header that
 * its owner is changing: views stay mapped while the control thread does not give heaps back. */
UNSANITIZED static bool is_to_trim(const struct page *page) {
    uint64_t seen = load_acquire(&page->seen);
    if (!(seen >> SEEN_USED_SHIFT) || !punch_may_help(page))
        return false;
    const struct view *view = load_acquire(&page->view);
    bool marked = !view || trim_is_marked(view);
    bool named =
        load_relaxed(&page->used) ? trim_wanted.punch && marked : trim_wanted.all || marked;
    return named && seen != (state_of(page) | DEALT_WITH);
}

/* True if the heap's thread has not answered the trim request yet. */
static bool waits_for_trim(const struct heap *heap) {
    return load_relaxed(&heap->state) == HEAP_OWNED && load_acquire(&heap->trims) != trim_number;
}

/* True if the look is to punch the page, which belongs to the heap. */
static bool is_wanted(const struct look *look, const struct heap *heap, struct page *page) {
    return look->trims ? waits_for_trim(heap) && is_to_trim(page) : is_quiet(page);
}

static bool search_page(void *context, struct page *page) {
    struct look *look = context;
    struct heap *heap = load_relaxed(&page->heap);
    if (!heap || !is_wanted(look, heap, page) || is_left_alone(look, heap) ||
        load_relaxed(&heap->state) == HEAP_ORPHAN)
        return true;
    look->heap = heap;
    return false;
}

/* Reads one segment. False ends the search: a heap with a quiet page was found (look->heap), or no
 * further segment may be read in this look. */
static bool search_segment(struct segment *segment, bool huge, void *context) {
    struct look *look = context;
    look->place = segment_place(segment);
    look->stopped = !look->segments;
    if (look->stopped)
        return false;
    look->segments--;
    return huge || visit_pages(segment, search_page, look);
}

static bool is_named(const struct page *page) {
    const struct view *view = load_acquire(&page->view);
    return view && view->region && region_of(view->region)->named;
}

static bool collect_page(void *context, struct page *page) {
    struct look *look = context;
    if (load_relaxed(&page->heap) != look->heap || !is_wanted(look, look->heap, page))
        return true;
    if (is_named(page)) {
        note_dealt_with(page);
        return true;
    }
    punch_announce(page);
    look->pages[look->count++] = page;
    return look->count < PAGES_MAX;
}

/* Gathers the wanted pages of look->heap in one segment, and announces that they will be punched.
 * The heap's owner waits, so it destroys none of them. False: no further segment may be read. */
static bool collect_segment(struct segment *segment, bool huge, void *context) {
    struct look *look = context;
    if (!look->segments)
        return false;
    look->segments--;
    return huge || visit_pages(segment, collect_page, look);
}

static void collect(struct look *look) {
    unsigned left = look->segments;
    look->count = 0;
    look->segments = VISIT_SEGMENTS;
    segment_each_from(look->place, collect_segment, look);
    look->segments = left;
}

/* Gives back the empty OS pages of the gathered pages. Meanwhile no thread changes the lists of
 * free blocks of these pages. */
static void punch(struct look *look) {
    int64_t waste = 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < look->count; i++) {
        bytes += punch_announced(look->pages[i], &waste);
        note_dealt_with(look->pages[i]);
    }
    add_relaxed(&heap_global.own_free, -waste);
    add_relaxed(&segment_returned, (int64_t)bytes);
    look->bytes += bytes;
}

static void end(struct look *look) {
    for (unsigned i = 0; i < look->count; i++)
        punch_end(look->pages[i]);
    look->count = 0;
}

/* Visits a heap that a thread owns. False: the thread is inside the allocator, or the kernel has no
 * membarrier. */
static bool visit_owned(struct look *look) {
    bool waits = visit_begin(look->heap);
    if (waits) {
        collect(look);
        waits = visit_owner_is_outside(look->heap);
        if (waits)
            punch(look);
        end(look);
    }
    visit_end(look->heap);
    return waits;
}

/* Visits a parked heap or the shared heap, which no thread uses while another holds its lock. */
static bool visit_locked(struct look *look, uint32_t kind) {
    if (!lock_try(&look->heap->lock))
        return false;
    bool still = load_acquire(&look->heap->state) == kind;
    if (still) {
        collect(look);
        punch(look);
        end(look);
    }
    lock_release(&look->heap->lock);
    return still;
}

static bool visit(struct look *look) {
    lock_take(&heap_global.lock);
    uint32_t kind = load_acquire(&look->heap->state);
    bool done = kind == HEAP_OWNED                           ? visit_owned(look)
                : kind == HEAP_PARKED || kind == HEAP_SHARED ? visit_locked(look, kind)
                                                             : false;
    lock_release(&heap_global.lock);
    return done;
}

size_t holes_look_now(void) {
    uint64_t until = os_now_exact_ns() + LOOK_NS;
    struct look look = {.place = state.place, .segments = LOOK_SEGMENTS};
    do {
        look.heap = NULL;
        segment_each_from(look.place, search_segment, &look);
        if (!look.heap)
            break;
        if (!visit(&look))
            look.busy[look.busy_count++] = look.heap;
    } while (os_now_exact_ns() < until && look.busy_count < BUSY_MAX);
    if (look.busy_count == BUSY_MAX) /* the next look begins at the next segment */
        look.place += SEGMENT_BYTES;
    state.hurries = look.heap != NULL;
    state.place = look.heap || look.stopped ? look.place : 0;
    return look.bytes;
}

size_t holes_trim(uint64_t until_ns) {
    struct look look = {.trims = true, .segments = UINT32_MAX};
    do {
        look.heap = NULL;
        segment_each_from(look.place, search_segment, &look);
        if (!look.heap)
            break;
        if (!visit(&look)) /* the owner is inside the allocator, and answers the request itself */
            look.busy[look.busy_count++ % BUSY_MAX] = look.heap;
    } while (os_now_exact_ns() < until_ns);
    return look.bytes;
}

void holes_look(void) {
    uint64_t now = os_now_exact_ns();
    int64_t decay = load_relaxed(&options.decay_ms);
    uint64_t pause = (uint64_t)(decay > LOOK_MIN_MS ? decay : LOOK_MIN_MS) * 1000000U;
    /* Only a second look punches, and many processes end before it. */
    if (UNLIKELY(!state.next_ns))
        state.next_ns = now + pause;
    if (now < state.next_ns || !load_relaxed(&options.holes))
        return;
    bool uncollected = collect_look(false, now + LOOK_NS);
    state.hurries = false;
    if (options.thp != THP_ALWAYS)
        holes_look_now();
    state.hurries |= uncollected;
    uint64_t after = os_now_exact_ns(), rest = (after - now) * LOOK_SHARE;
    /* If quiet pages are left, the next look need not wait for the decay time. */
    state.next_ns = after + (rest > pause || state.hurries ? rest : pause);
}

int holes_wait_ms(int wait) {
    uint64_t now = os_now_exact_ns();
    if (!state.hurries || !load_relaxed(&options.holes))
        return wait;
    int until = state.next_ns > now ? (int)((state.next_ns - now) / 1000000U) + 1 : 1;
    return until < wait ? until : wait;
}
