/* SPDX-License-Identifier: MIT */
/*
 * Huge chunks: each has a mapping of its own, aligned to a segment (4 MiB), with the page header in
 * the mapping's first OS page.
 *
 * Serves chunks that need more than 1 MiB, counting the padding for their alignment. To grow a
 * chunk, realloc asks the kernel to extend the mapping. If that fails, mremap moves the OS pages to
 * a new aligned place, so that no byte is copied. Freed mappings up to HUGE_CACHED_MAX_BYTES wait
 * in a small cache, because a program that frees a big buffer mostly needs another one. The cache
 * is part of the bounded freelist. Chunks cannot share a mapping.
 */
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global
#define HUGE_HEADER_BYTES OS_PAGE_BYTES
#define HUGE_CACHED_MAX_BYTES (64UL << 20)
#define BEGINNINGS 8 /* number of beginnings of mappings that fill the cache's bound */

struct page *segment_huge_of(const void *pointer) {
    uintptr_t number = ((uintptr_t)pointer - 1) >> SEGMENT_SHIFT;
    if (!segment_map_test(SEGMENT_HUGE, number))
        return NULL;
    struct page *header = &((struct segment *)(number << SEGMENT_SHIFT))->huge;
    return header->chunk == pointer ? header : NULL;
}

void segment_unmap_deferred(void) {
    while (load_acquire(&global.deferred) && lock_try(&global.unmap_lock)) {
        struct page *list = exchange_acquire(&global.deferred, NULL);
        /* released first: no dump that starts now finds these chunks */
        lock_release(&global.unmap_lock);
        while (list) {
            struct page *next = list->next;
            os_unmap(list, list->mapped_bytes);
            list = next;
        }
    }
}

static void unmap_lock_release(void) {
    lock_release(&global.unmap_lock);
    segment_unmap_deferred();
}

/* Unmaps a huge chunk, or leaves the unmapping to another thread. The chunk's bit in the table of
 * segments is clear already, so a dump that starts now does not see the chunk. A running dump holds
 * the unmap lock; then the mapping waits in the `deferred` list, and the thread that releases the
 * lock unmaps it. */
static void unmap_or_defer(struct page *header) {
    struct page *head = load_relaxed(&global.deferred);
    do
        header->next = head;
    while (!cas_release(&global.deferred, &head, header));
    segment_unmap_deferred();
}

/* Chooses the cached mapping for a chunk that needs `bytes`. The first choice is the smallest
 * mapping that is large enough, if it is at most a quarter larger than `bytes`. The second choice
 * is the largest mapping that is too small. The last choice is the smallest mapping that is large
 * enough. Returns the mapping's index; -1: the cache is empty. The caller holds the lock. */
static int cache_choose(size_t bytes) {
    int fits = -1, smaller = -1, larger = -1;
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        const struct huge_cached *c = &global.huge_cache[i];
        if (!c->start)
            continue;
        if (c->bytes < bytes) {
            if (smaller < 0 || c->bytes > global.huge_cache[smaller].bytes)
                smaller = i;
        } else if (larger < 0 || c->bytes < global.huge_cache[larger].bytes) {
            larger = i;
            if (c->bytes - bytes <= bytes / 4)
                fits = i;
        }
    }
    return fits >= 0 ? fits : smaller >= 0 ? smaller : larger;
}

/* Removes an entry from the cache and returns it. The caller holds the lock. */
static struct huge_cached cache_remove(int place) {
    struct huge_cached entry = global.huge_cache[place];
    global.huge_cache[place].start = NULL;
    global.huge_cached_bytes -= (int64_t)entry.bytes;
    global.huge_cached--;
    return entry;
}

/* Takes a mapping for `bytes` from the cache. A mapping that is as large, or at most a quarter
 * larger, is used as it is: its OS pages need no page faults. A smaller mapping is extended, and
 * moved if needed. A larger mapping gives its end back to the kernel. *reused is set to the bytes
 * that come from the cache. NULL: the cache is empty, or the mapping could not be extended; *mapped
 * and *reused are unchanged. */
static char *cache_take(size_t bytes, size_t *mapped, size_t *reused) {
    struct huge_cached entry = {0};
    lock_take(&global.lock);
    int chosen = cache_choose(bytes);
    if (chosen >= 0)
        entry = cache_remove(chosen);
    lock_release(&global.lock);
    if (!entry.start)
        return NULL;
    if (entry.bytes >= bytes && entry.bytes - bytes <= bytes / 4) {
        *mapped = *reused = entry.bytes;
        return entry.start;
    }
    size_t kept = entry.bytes < bytes ? entry.bytes : bytes;
    if (os_resize_in_place(entry.start, entry.bytes, bytes)) {
        *mapped = bytes;
        *reused = kept;
        return entry.start;
    }
    char *target = segment_map_memory(bytes);
    bool moved = false;
    /* moving unmaps the old place, which a dump may read */
    if (target && lock_try(&global.unmap_lock)) {
        moved = os_move(entry.start, entry.bytes, target, bytes);
        unmap_lock_release();
    }
    if (!moved) {
        if (target)
            os_unmap(target, bytes);
        unmap_or_defer((struct page *)entry.start);
        return NULL;
    }
    *mapped = bytes;
    *reused = kept;
    return target;
}

/* Returns how many bytes of a freed mapping the cache keeps, counted from its start; 0: none. A
 * program writes the beginning of a large buffer first, and the kernel can extend a mapping again
 * that lost its end. So when the cache has little room left, several beginnings are worth more than
 * one whole mapping. The caller holds the lock. */
static size_t cache_share(size_t bytes) {
    int64_t plain, bound_now = segment_freelist_bound(
                       (int64_t)(load_relaxed(&global.dirty_slices) * SLICE_BYTES), &plain);
    size_t bound = (size_t)bound_now, cached = (size_t)global.huge_cached_bytes;
    size_t part = align_up((size_t)plain / BEGINNINGS, OS_PAGE_BYTES);
    if (cached + bytes <= bound - (size_t)plain / 2)
        return bytes;
    bytes = bytes < part ? bytes : part;
    return cached + bytes <= bound ? bytes : 0;
}

static bool cache_put(char *start, size_t bytes) {
    size_t kept = 0;
    if (bytes > HUGE_CACHED_MAX_BYTES)
        return false;
    lock_take(&global.lock);
    for (int i = 0; i < HUGE_CACHE_MAX && load_relaxed(&options.decay_ms); i++) {
        struct huge_cached *c = &global.huge_cache[i];
        if (c->start)
            continue;
        kept = cache_share(bytes);
        if (kept) {
            *c = (struct huge_cached){start, kept, os_now_ns()};
            /* segment_unmap_deferred will unmap this many bytes */
            store_owner(&((struct page *)start)->mapped_bytes, kept);
            global.huge_cached_bytes += (int64_t)kept;
            global.huge_cached++;
        }
        break;
    }
    if (load_relaxed(&options.decay_ms))
        segment_note_early((int64_t)(bytes - kept));
    lock_release(&global.lock);
    if (kept && kept < bytes)
        os_unmap(start + kept, bytes - kept);
    return kept;
}

size_t segment_huge_purge(bool all) {
    size_t released = 0;
    uint64_t decay_ns = (uint64_t)load_relaxed(&options.decay_ms) * 1000000U;
    uint64_t now = os_now_ns();
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        struct huge_cached entry = {0};
        lock_take(&global.lock);
        if (global.huge_cache[i].start && (all || now >= global.huge_cache[i].since_ns + decay_ns))
            entry = cache_remove(i);
        lock_release(&global.lock);
        if (entry.start) {
            unmap_or_defer((struct page *)entry.start);
            released += entry.bytes;
        }
    }
    return released;
}

/* Adds to the bytes in use; `fresh` of them came from the kernel. */
static void account(int64_t bytes, int64_t fresh) {
    lock_take(&global.lock);
    global.huge_bytes += bytes;
    add_owner(&global.used_bytes, bytes);
    segment_note_taken(fresh);
    lock_release(&global.lock);
}

static void account_resized(int64_t more) {
    account(more, more > 0 ? more : 0);
}

/* atomic: list of emergency chunks that are not accounted yet */
static struct page *emergencies START_PAGE;

struct page *segment_emergency_alloc(size_t bytes, size_t alignment, uint32_t context) {
    size_t offset = alignment <= OS_PAGE_BYTES ? HUGE_HEADER_BYTES : SEGMENT_BYTES;
    size_t mapped = align_up(bytes ? bytes : 1, OS_PAGE_BYTES) + offset;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1) || alignment > SEGMENT_BYTES)
        return NULL;
    struct page *header = segment_map_memory(mapped);
    if (!header)
        return NULL;
    header->kind = PAGE_HUGE;
    header->flags = PAGE_EMERGENCY;
    header->chunk = (char *)header + offset;
    header->mapped_bytes = mapped;
    header->requested_bytes = bytes;
    header->context = context;
    header->born = load_relaxed(&segment_clock);
    segment_map_set(SEGMENT_HUGE, header, true);
    struct page *first = load_relaxed(&emergencies);
    do
        header->next = first;
    while (!cas_release(&emergencies, &first, header));
    return header;
}

bool segment_emergency_waits(void) {
    return load_relaxed(&emergencies) != NULL;
}

struct page *segment_emergency_take(void) {
    return exchange_acquire(&emergencies, NULL);
}

void segment_emergency_booked(struct page *header) {
    account((int64_t)header->mapped_bytes, (int64_t)header->mapped_bytes);
    store_release(&header->flags, 0);
}

struct page *segment_huge_alloc(size_t bytes, size_t alignment) {
    /* The chunk starts one OS page into the mapping, or, if it needs a larger alignment, exactly
     * one segment into the mapping. In both cases segment_huge_of finds the header by `p - 1`. */
    size_t offset = alignment <= OS_PAGE_BYTES ? HUGE_HEADER_BYTES : SEGMENT_BYTES;
    size_t mapped = align_up(bytes ? bytes : 1, OS_PAGE_BYTES) + offset;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1))
        return NULL;
    bool fresh = false;
    size_t reused = 0;
    char *start = offset == HUGE_HEADER_BYTES ? cache_take(mapped, &mapped, &reused) : NULL;
    if (!start) {
        fresh = true;
        if (alignment > SEGMENT_BYTES) {
            /* The padding before the header and the padding behind the chunk go back to the kernel
             * at once. */
            size_t padded = mapped + alignment;
            char *padding = padded < mapped ? NULL : os_map_aligned(padded, SEGMENT_BYTES);
            if (!padding)
                return NULL;
            start = (char *)align_up((uintptr_t)padding + SEGMENT_BYTES, alignment) - SEGMENT_BYTES;
            if (start > padding)
                os_unmap(padding, (size_t)(start - padding));
            os_unmap(start + mapped, (size_t)(padding + padded - start) - mapped);
            if (!segment_claim_memory(start, mapped))
                return NULL;
        } else {
            start = segment_map_memory(mapped);
        }
        if (!start)
            return NULL;
    }
    struct page *header = (struct page *)start;
    if (!fresh)
        __builtin_memset(header, 0, sizeof *header);
    store_owner(&header->mapped_bytes, mapped);
    header->chunk = start + offset;
    header->fresh = fresh;
    header->born = load_relaxed(&segment_clock);
    store_release(&header->kind, PAGE_HUGE);
    account((int64_t)mapped, (int64_t)(mapped - reused));
    segment_map_set(SEGMENT_HUGE, start, true);
    return header;
}

void segment_huge_free(struct page *header) {
    size_t mapped = header->mapped_bytes;
    bool plain = header->chunk == (char *)header + HUGE_HEADER_BYTES;
    store_owner(&header->kind, PAGE_NONE);
    segment_map_set(SEGMENT_HUGE, header, false);
    account(-(int64_t)mapped, 0);
    if (!plain || !cache_put((char *)header, mapped)) {
        add_relaxed(&segment_returned, (int64_t)mapped);
        unmap_or_defer(header);
    }
    segment_purge_when_due();
}

struct page *segment_huge_resize(struct page *header, size_t bytes) {
    size_t offset = (size_t)(header->chunk - (char *)header);
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + offset;
    size_t old = header->mapped_bytes;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1))
        return NULL;
    if (mapped == old)
        return header;
    if (os_resize_in_place(header, old, mapped)) {
        header->mapped_bytes = mapped;
        account_resized((int64_t)mapped - (int64_t)old);
        return header;
    }
    if (offset != HUGE_HEADER_BYTES)
        return NULL; /* the caller copies the chunk to a place with its alignment */
    char *target = segment_map_memory(mapped);
    if (!target)
        return NULL;
    segment_map_set(SEGMENT_HUGE, header, false);
    /* Moving unmaps the old range, which a running dump may read. So during a dump the move fails,
     * and the caller copies the chunk. */
    bool moved = false;
    if (lock_try(&global.unmap_lock)) {
        moved = os_move(header, old, target, mapped);
        unmap_lock_release();
    }
    if (!moved) {
        segment_map_set(SEGMENT_HUGE, header, true);
        os_unmap(target, mapped);
        return NULL;
    }
    struct page *new_header = (struct page *)target;
    new_header->chunk = target + offset;
    new_header->mapped_bytes = mapped;
    account_resized((int64_t)mapped - (int64_t)old);
    segment_map_set(SEGMENT_HUGE, target, true);
    return new_header;
}
