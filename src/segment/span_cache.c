/* SPDX-License-Identifier: MIT */
/*
 * The freed spans that a thread keeps for its next pages and large chunks; see struct span_cache.
 *
 * For: threads that allocate and free buffers of 9 to 128 KiB all the time. Without the cache they
 * would wait for the segments' lock, and for the cache lines that it guards. Cannot do: keep spans
 * of more than SPAN_CACHE_SLICES slices, or serve a request from a longer span.
 *
 * Any thread may take a span out of a place, by an atomic exchange, and then owns the span. Only
 * the heap's user, its owner or the thread that holds its lock, puts spans into empty places. While
 * a span waits, its slices count as used in the maps of its segment, and its header says PAGE_NONE.
 */
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global
/* At one in this many frees that find no place for a length, the cache tries to get more places, if
 * it also lacked a span of that length since it last tried. */
#define GROW_EVERY 16U
#define FIRST_PLACES 2U /* the places that the cache first gets for a length */
/* The places of all caches may have 1/SHARE of the freelist's bound. A cache gets places for a
 * length above SHORT slices only while all places have at most 1/LONG_SHARE of the bound, and more
 * than its first places for a length only while they have at most 1/MORE_SHARE. */
#define SHARE 2
#define LONG_SHARE 4
#define MORE_SHARE 8
#define SHORT 4U
#define CONTENTS_LOOKS 8U /* segment_span_caches_most looks into this many caches */

/* Returns the cache's places for spans of `slices` slices. */
static struct page **places_for(struct span_cache *cache, uint32_t slices) {
    return cache->spans + (slices - 1UL) * SPAN_CACHE_EACH;
}

/* True if `slices` slices take at most 1/share of the freelist's bound, without the part of the
 * bound that the library has learnt. */
static bool fits(int64_t slices, int64_t share) {
    int64_t plain;
    segment_freelist_bound(0, &plain);
    return slices * (int64_t)SLICE_BYTES <= plain / share;
}

/* Sets the number of places for a length. The caller holds the segments' lock. */
static void set_places(struct span_cache *cache, uint32_t slices, uint32_t places) {
    uint8_t *now = &cache->places[slices - 1];
    global.span_caches_room += ((int64_t)places - *now) * slices;
    store_owner(now, (uint8_t)places);
}

/* Notes that the user of the heap takes spans of this length. */
static void note_use(struct span_cache *cache, uint32_t slices) {
    store_owner(&cache->used, (uint8_t)(cache->used | 1U << (slices - 1)));
}

/* A cache with `places` places for a length may get more of them if all places then have at most
 * 1/N of the freelist's bound. Returns N. */
static int64_t share_to_grow(uint32_t slices, uint32_t places) {
    if (places)
        return MORE_SHARE;
    return slices > SHORT ? LONG_SHARE : SHARE;
}

/* Gets the first places for a length, or twice as many places, if the freelist's bound has room. */
static void grow(struct span_cache *cache, uint32_t slices) {
    if (cache->places[slices - 1] == SPAN_CACHE_EACH || !segment_is_purged() ||
        !load_relaxed(&options.freelist_kib) || !load_relaxed(&options.decay_ms))
        return;
    lock_take(&global.lock);
    uint32_t places = cache->places[slices - 1], wanted = places ? 2 * places : FIRST_PLACES;
    int64_t more = (int64_t)(wanted - places) * slices;
    if (fits(global.span_caches_room + more, share_to_grow(slices, places))) {
        if (!cache->is_listed) {
            cache->is_listed = true;
            cache->next = global.span_caches;
            store_release(&global.span_caches, cache); /* a child may be forked here */
        }
        note_use(cache, slices); /* the places stay at the next look */
        set_places(cache, slices, wanted);
    }
    lock_release(&global.lock);
}

/* Takes the places for a length away, and puts their spans into the freelist. The caller holds the
 * segments' lock. */
static void give_back(struct span_cache *cache, uint32_t slices) {
    struct page **spans = places_for(cache, slices);
    /* The comparison avoids a write, which costs a forked child an OS page. */
    if (cache->places[slices - 1])
        set_places(cache, slices, 0);
    for (unsigned i = load_relaxed(&cache->filled[slices - 1]); i-- > 0;) {
        struct page *page = load_relaxed(&spans[i]) ? exchange_acquire(&spans[i], NULL) : NULL;
        if (page)
            segment_return_span(page);
    }
}

void segment_span_cache_end(struct span_cache *cache) {
    if (!cache->is_listed)
        return;
    lock_take(&global.lock);
    for (uint32_t slices = 1; slices <= SPAN_CACHE_SLICES; slices++)
        give_back(cache, slices);
    struct span_cache **at = &global.span_caches;
    while (*at && *at != cache)
        at = &(*at)->next;
    if (*at) /* else this child was forked while another thread changed the list */
        *at = cache->next;
    cache->is_listed = false;
    lock_release(&global.lock);
}

void segment_span_caches_fade(bool all) {
    if (!load_relaxed(&options.freelist_kib) || !load_relaxed(&options.decay_ms))
        all = true;
    for (struct span_cache *cache = global.span_caches; cache; cache = cache->next) {
        unsigned used = load_relaxed(&cache->used);
        for (uint32_t slices = 1; slices <= SPAN_CACHE_SLICES; slices++)
            if (all || !(used >> (slices - 1) & 1) || !fits(global.span_caches_room, SHARE))
                give_back(cache, slices);
        if (used)
            store_owner(&cache->used, 0);
    }
}

/* Returns the slices of the places that may be filled. */
static int64_t filled_slices(const struct span_cache *cache) {
    int64_t slices = 0;
    for (uint32_t length = 1; length <= SPAN_CACHE_SLICES; length++)
        slices += (int64_t)load_relaxed(&cache->filled[length - 1]) * length;
    return slices;
}

/* Returns the slices that fit all places of a cache. */
static int64_t room_of(const struct span_cache *cache) {
    int64_t slices = 0;
    for (uint32_t length = 1; length <= SPAN_CACHE_SLICES; length++)
        slices += (int64_t)cache->places[length - 1] * length;
    return slices;
}

int64_t segment_span_caches_most(void) {
    int64_t slices = global.span_caches_room;
    unsigned looks = CONTENTS_LOOKS;
    for (const struct span_cache *cache = global.span_caches; cache && looks; looks--) {
        int64_t room = room_of(cache), filled = filled_slices(cache);
        if (filled < room)
            slices -= room - filled;
        cache = cache->next;
    }
    return slices;
}

int64_t segment_span_caches_slices(void) {
    int64_t slices = 0;
    for (const struct span_cache *cache = global.span_caches; cache; cache = cache->next)
        for (unsigned i = 0; i < SPAN_CACHE_SPANS; i++)
            slices += load_relaxed(&cache->spans[i]) ? i / SPAN_CACHE_EACH + 1 : 0;
    return slices;
}

void segment_span_caches_recount(void) {
    global.span_caches_room = 0;
    for (const struct span_cache *cache = global.span_caches; cache; cache = cache->next)
        global.span_caches_room += room_of(cache);
}

/* Puts a span behind the other spans of its length. False: there is no place, or no control thread
 * would take the span away again. */
static bool put(struct span_cache *cache, struct page *page) {
    uint32_t slices = page->slices, end = cache->filled[slices - 1];
    uint32_t places = load_relaxed(&cache->places[slices - 1]);
    struct page **spans = places_for(cache, slices);
    if (!places || !segment_is_purged())
        return false;
    if (end >= places) { /* other threads may have emptied the last places */
        while (end && !load_relaxed(&spans[end - 1]))
            end--;
        store_owner(&cache->filled[slices - 1], (uint8_t)end);
        if (end >= places)
            return false;
    }
    segment_forget_page(page);
    /* `filled` grows before the place is filled, so that a thread that empties the cache does not
     * overlook the span */
    store_owner(&cache->filled[slices - 1], (uint8_t)(end + 1));
    store_release(&spans[end], page);
    return true;
}

void segment_span_free_by(struct span_cache *cache, struct page *page) {
    uint32_t slices = page->slices;
    if (slices > SPAN_CACHE_SLICES) {
        segment_span_free(page);
    } else if (!put(cache, page)) {
        segment_span_free(page);
        uint8_t length = (uint8_t)(1U << (slices - 1));
        if (++cache->misses[slices - 1] % GROW_EVERY == 0 && cache->lacked & length) {
            cache->lacked &= (uint8_t)~length;
            grow(cache, slices);
        }
    }
}

/* Takes the span of this length that was put last out of the cache; NULL: the cache has none. */
static struct page *take(struct span_cache *cache, uint32_t slices) {
    struct page **spans = places_for(cache, slices), *page = NULL;
    uint32_t end = cache->filled[slices - 1];
    while (end && !page) {
        end--;
        if (load_relaxed(&spans[end]))
            page = exchange_acquire(&spans[end], NULL);
    }
    store_owner(&cache->filled[slices - 1], (uint8_t)end);
    return page;
}

struct page *segment_span_alloc_by(struct span_cache *cache, uint32_t slices, uint32_t group,
                                   uintptr_t *next) {
    if (slices > SPAN_CACHE_SLICES)
        return segment_span_alloc_grouped(slices, group, next);
    struct page *page = take(cache, slices);
    if (!page) {
        cache->lacked |= (uint8_t)(1U << (slices - 1));
        return segment_span_alloc_grouped(slices, group, next);
    }
    note_use(cache, slices);
    /* The other headers of the span are as segment_span_alloc_grouped left them. */
    __builtin_memset(page, 0, sizeof *page);
    page->slices = (uint16_t)slices;
    page->born = load_relaxed(&segment_clock);
    if (next)
        *next = (uintptr_t)(page + slices);
    return page;
}

size_t segment_freed_most;

bool segment_span_mend(struct page *page) {
    size_t bytes = page->slices * SLICE_BYTES;
    char *start = segment_span_start(page);
    struct segment *segment = (struct segment *)((uintptr_t)page & ~(SEGMENT_BYTES - 1));
    if (bytes > load_relaxed(&segment_freed_most))
        store_owner(&segment_freed_most, bytes);
    if (load_relaxed(&os_restricted)) /* a filter of system calls may forbid to ask the kernel */
        return true;
    os_remove_guards(start, bytes);
    /* the OS page in front of the slices belongs to another page or to the headers */
    if (os_is_one_area(start - OS_PAGE_BYTES, bytes + OS_PAGE_BYTES))
        return true;
    if (!os_map_anew(start, bytes)) {
        segment_forget_page(page);
        return false;
    }
    if (options.thp != THP_DEFAULT || load_relaxed(&segment->state.small_pages))
        os_advise_huge(start, bytes, options.thp == THP_ALWAYS);
    return true;
}
