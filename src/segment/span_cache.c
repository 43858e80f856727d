/* SPDX-License-Identifier: MIT */
/*
 * The freed spans that a thread keeps for its next pages and large chunks; see struct span_cache.
 *
 * For: threads that allocate and free buffers of 8 to 64 KiB all the time. Without the cache they
 * would wait for the segments' lock, and for the cache lines that it guards. Cannot do: keep spans
 * of more than SPAN_CACHE_SLICES slices, or serve a request from a longer span.
 *
 * Any thread may take a span out of a slot, by an atomic exchange, and then owns the span. Only the
 * heap's user puts spans into empty slots. While a span waits, its slices count as used in the maps
 * of its segment, and its header says PAGE_NONE.
 */
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global
#define OPEN_EVERY 16U /* a closed cache tries to open at one of this many frees */

/* Opens the cache, if the freelist's bound has room for its spans. */
static void try_to_open(struct span_cache *cache) {
    if (!segment_is_purged() || !load_relaxed(&options.freelist_kib) ||
        !load_relaxed(&options.decay_ms))
        return;
    lock_take(&global.lock);
    int64_t plain;
    segment_freelist_bound(0, &plain);
    if ((global.span_caches_open + 1) * SPAN_CACHE_BYTES <= plain / 2) {
        if (!cache->is_listed) {
            cache->is_listed = true;
            cache->next = global.span_caches;
            store_release(&global.span_caches, cache);
        }
        global.span_caches_open++;
        store_owner(&cache->used, 1); /* stays open at the next look */
        store_owner(&cache->is_open, true);
    }
    lock_release(&global.lock);
}

/* Puts spans of the cache into the freelist, except those of the lengths in `keep` (as in
 * cache->used). If `keep` is 0, also closes the cache. The caller holds the segments' lock. */
static void give_back(struct span_cache *cache, unsigned keep) {
    /* The comparison avoids a write, which costs a forked child an OS page. */
    if (!keep && cache->is_open) {
        global.span_caches_open--;
        store_owner(&cache->is_open, false);
    }
    for (unsigned i = 0; i < SPAN_CACHE_SPANS; i++) {
        if (keep >> i / SPAN_CACHE_EACH & 1 || !load_relaxed(&cache->spans[i]))
            continue;
        struct page *page = exchange_acquire(&cache->spans[i], NULL);
        if (page)
            segment_return_span(page);
    }
}

void segment_span_cache_end(struct span_cache *cache) {
    if (!cache->is_listed)
        return;
    lock_take(&global.lock);
    give_back(cache, 0);
    lock_release(&global.lock);
}

void segment_span_caches_fade(bool all) {
    int64_t plain;
    segment_freelist_bound(0, &plain);
    if (!load_relaxed(&options.freelist_kib) || !load_relaxed(&options.decay_ms))
        all = true;
    for (struct span_cache *cache = global.span_caches; cache; cache = cache->next) {
        bool over = global.span_caches_open * SPAN_CACHE_BYTES > plain / 2;
        unsigned used = load_relaxed(&cache->used);
        give_back(cache, all || over ? 0 : used);
        if (used)
            store_owner(&cache->used, 0);
    }
}

int64_t segment_span_caches_slices(void) {
    int64_t slices = 0;
    for (const struct span_cache *cache = global.span_caches; cache; cache = cache->next)
        for (unsigned i = 0; i < SPAN_CACHE_SPANS; i++)
            slices += load_relaxed(&cache->spans[i]) ? i / SPAN_CACHE_EACH + 1 : 0;
    return slices;
}

void segment_span_caches_recount(void) {
    global.span_caches_open = 0;
    for (const struct span_cache *cache = global.span_caches; cache; cache = cache->next)
        global.span_caches_open += cache->is_open;
}

/* Notes that the user of the heap needs spans of this length. */
static void note_use(struct span_cache *cache, uint32_t slices) {
    store_owner(&cache->used, (uint8_t)(cache->used | 1U << (slices - 1)));
}

/* Puts a span into an empty slot; false: there is none. */
static bool put(struct span_cache *cache, struct page *page) {
    if (page->slices > SPAN_CACHE_SLICES || !load_relaxed(&cache->is_open) || !segment_is_purged())
        return false;
    struct page **slot = cache->spans + (page->slices - 1UL) * SPAN_CACHE_EACH;
    for (unsigned i = 0; i < SPAN_CACHE_EACH; i++, slot++) {
        if (load_relaxed(slot))
            continue;
        segment_forget_page(page);
        note_use(cache, page->slices);
        store_release(slot, page);
        return true;
    }
    return false;
}

void segment_span_free_by(struct span_cache *cache, struct page *page) {
    if (put(cache, page))
        return;
    bool may_open = page->slices <= SPAN_CACHE_SLICES && !load_relaxed(&cache->is_open);
    segment_span_free(page);
    if (may_open && ++cache->frees % OPEN_EVERY == 0)
        try_to_open(cache);
}

/* Takes a span out of the cache; NULL: it has none of this length. */
static struct page *take(struct span_cache *cache, uint32_t slices) {
    if (slices > SPAN_CACHE_SLICES)
        return NULL;
    struct page **slot = cache->spans + slices * (size_t)SPAN_CACHE_EACH - 1;
    for (unsigned i = 0; i < SPAN_CACHE_EACH; i++, slot--) {
        struct page *page = load_relaxed(slot) ? exchange_acquire(slot, NULL) : NULL;
        if (page)
            return page;
    }
    return NULL;
}

struct page *segment_span_alloc_by(struct span_cache *cache, uint32_t slices, uint32_t group,
                                   uintptr_t *next) {
    struct page *page = take(cache, slices);
    if (!page)
        return segment_span_alloc_grouped(slices, group, next);
    note_use(cache, slices);
    /* The other headers of the span are as segment_span_alloc_grouped left them. */
    __builtin_memset(page, 0, sizeof *page);
    page->slices = (uint16_t)slices;
    page->born = load_relaxed(&segment_clock);
    if (next)
        *next = (uintptr_t)(page + slices);
    return page;
}
