/* SPDX-License-Identifier: MIT */
/*
 * Huge chunks: each has a mapping of its own, aligned to a segment (4 MiB), with the page header in
 * the mapping's first OS page.
 *
 * Serves chunks that need more than 1 MiB together with the padding for their alignment. To grow a
 * chunk, realloc asks the kernel to extend the mapping where it is. If that fails, mremap moves the
 * OS pages to a new place that is aligned to a segment. The bytes are copied only if the mapping
 * has cuts (struct huge_cuts), if the chunk has an alignment above an OS page, during a dump, or if
 * a limit of the process leaves no room for the new place beside the old one.
 *
 * A cache keeps up to HUGE_CACHE_MAX freed mappings of at most HUGE_CACHED_MAX_BYTES, because a
 * program that frees a big buffer mostly needs another one. A mapping that would fill the last
 * quarter of the cache's bound is not kept whole: the cache keeps only its beginning. The cache is
 * part of the bounded freelist. A chunk of 4 to 64 MiB may get a mapping that is put together of
 * two cached ones. A chunk of any other size may get a cached mapping that is too large. The
 * mapping's *spare end* then stays in the cache. Chunks cannot share a mapping.
 */
#include <errno.h>

#include "base/options.h"
#include "segment/internal.h"

#define global segment_global
#define HUGE_HEADER_BYTES OS_PAGE_BYTES
#define HUGE_CACHED_MAX_BYTES (64UL << 20)
#define CUTS_MAX 15 /* the most cuts that one mapping may have */
/* the most cuts in all mappings: the kernel allows a process some 65 000 areas */
#define CUTS_ALL 4096
#define DONOR_MIN (256U << 10) /* a smaller remainder is not cached, a smaller part not moved */
/* A chunk of fewer bytes is not put together of two mappings: programs often write only the
 * beginning of such a chunk, so OS pages that were moved to the chunk's end would stay unused. */
#define PUT_TOGETHER_MIN SEGMENT_BYTES
#define BEGINNINGS 8    /* see cache_share */
#define FEW_CHUNKS 4096 /* see segment_huge_are_few */

struct huge_cached segment_huge_cache[HUGE_CACHE_MAX];

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
        /* released before the chunks are unmapped: a dump that starts now does not find them */
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
 * segments is clear already, so a dump that starts now does not see the chunk. A running dump may
 * still read the chunk, and holds the unmap lock. Then the mapping waits in the `deferred` list,
 * and the thread that releases the lock unmaps the mapping. */
static void unmap_or_defer(struct page *header) {
    struct page *head = load_relaxed(&global.deferred);
    do
        header->next = head;
    while (!cas_release(&global.deferred, &head, header));
    segment_unmap_deferred();
}

static int64_t chunks; /* atomic: number of huge chunks */

bool segment_huge_are_few(void) {
    return load_relaxed(&chunks) < FEW_CHUNKS;
}

/* OS pages that mremap moved to the end of a mapping stay a separate area (VMA) of the kernel, and
 * one call of mremap can extend or move only one area. So the first OS page of a mapping holds,
 * behind struct page, the *cuts*: the offsets at which the second and each later area begin. */
struct huge_cuts {
    uint32_t count;
    uint32_t at[CUTS_MAX]; /* OS pages from the mapping's start, ascending */
};
static int64_t cuts_of_all; /* atomic: number of cuts of all mappings */

static struct huge_cuts *cuts_of(void *start) {
    return (struct huge_cuts *)(void *)((char *)start + sizeof(struct page));
}

/* Returns the start of the area that holds the byte before `end`, as an offset in the mapping. */
static size_t area_before(const struct huge_cuts *cuts, size_t end) {
    uint32_t i = cuts->count;
    while (i && (size_t)cuts->at[i - 1] * OS_PAGE_BYTES >= end)
        i--;
    return i ? (size_t)cuts->at[i - 1] * OS_PAGE_BYTES : 0;
}

/* Forgets the cuts from `bytes` on: the mapping ends there now. */
static void cuts_drop(struct huge_cuts *cuts, size_t bytes) {
    uint32_t before = cuts->count;
    while (cuts->count && (size_t)cuts->at[cuts->count - 1] * OS_PAGE_BYTES >= bytes)
        cuts->count--;
    if (before != cuts->count)
        add_relaxed(&cuts_of_all, (int64_t)cuts->count - (int64_t)before);
}

/* Extends or shrinks a mapping where it is. Returns 0, or the error of os_resize_in_place. */
static int resize_in_place(char *start, size_t old_bytes, size_t bytes) {
    struct huge_cuts *cuts = cuts_of(start);
    cuts_drop(cuts, old_bytes); /* cuts of a spare end that has gone back to the kernel */
    size_t last = area_before(cuts, old_bytes < bytes ? old_bytes : bytes);
    int error;
    if (old_bytes > bytes && last != area_before(cuts, old_bytes))
        os_unmap(start + bytes, old_bytes - bytes);
    else if ((error = os_resize_in_place(start + last, old_bytes - last, bytes - last)) != 0)
        return error;
    cuts_drop(cuts, bytes);
    return 0;
}

/* A move of areas into one mapping. */
struct move {
    char *target;        /* the mapping that the OS pages come to */
    size_t fresh;        /* the bytes of the target from here on are new, and so zero */
    size_t hole, beyond; /* if the kernel refused, [hole, beyond) of the target may be unmapped */
};

/* Moves one area to an offset in the target. The area replaces the OS pages that the target has
 * there. False: the kernel refused, and the area is where it was. */
static bool move_area(struct move *move, char *area, size_t bytes, size_t offset) {
    if (os_move(area, bytes, move->target + offset, bytes))
        return true;
    move->hole = offset;
    move->beyond = offset + bytes;
    return false;
}

/* Moves a whole mapping with its header page, and so with its cuts, to the start of the target. The
 * areas are moved from the last to the first, so that the header stays in its place until all other
 * areas are moved. Returns how many bytes of the mapping were not moved: 0, or those before the
 * area that the kernel refused to move. */
static size_t move_whole(struct move *move, char *from, size_t bytes) {
    struct huge_cuts cuts = *cuts_of(from);
    while (bytes) {
        size_t first = area_before(&cuts, bytes);
        if (!move_area(move, from + first, bytes - first, first))
            break;
        bytes = first;
    }
    return bytes;
}

/* Notes that an area begins at this offset, behind all other cuts. The caller has made sure that
 * there are fewer than CUTS_MAX cuts. */
static void cut_add(struct huge_cuts *cuts, size_t offset) {
    cuts->at[cuts->count++] = (uint32_t)(offset / OS_PAGE_BYTES);
    add_relaxed(&cuts_of_all, 1);
}

/* Moves the part [begin, end) of a mapping to an offset in the target, behind all cuts of the
 * target. Goes from the part's end to its beginning. Stops when the target or all mappings together
 * would have too many cuts, or when the kernel refuses. Returns how many bytes are left of the
 * mapping, counted from its start. */
static size_t move_part(struct move *move, char *from, size_t begin, size_t end, size_t offset) {
    struct huge_cuts cuts = *cuts_of(from), *to = cuts_of(move->target);
    size_t firsts[CUTS_MAX + 1], left = end;
    unsigned count = 0, room = CUTS_MAX - to->count;
    while (left > begin && count + 1 < room && load_relaxed(&cuts_of_all) < CUTS_ALL) {
        size_t first = area_before(&cuts, left);
        first = first > begin ? first : begin;
        if (!move_area(move, from + first, left - first, offset + (first - begin)))
            break;
        firsts[count++] = left = first;
    }
    if (!left) /* the header page has moved, too, so the mapping `from` and its cuts are gone */
        add_relaxed(&cuts_of_all, -(int64_t)cuts.count);
    for (unsigned i = count; i-- > 0;)
        cut_add(to, offset + (firsts[i] - begin));
    return left;
}

/* Unmaps a mapping that holds no chunk and is not in the cache; during a dump, defers the unmapping
 * (unmap_or_defer). */
static void mapping_end(char *start, size_t bytes) {
    cuts_drop(cuts_of(start), 0);
    store_owner(&((struct page *)start)->mapped_bytes, bytes);
    unmap_or_defer((struct page *)start);
}

/* Chooses a cached mapping. First choice: the smallest mapping of at least `bytes`, if it exceeds
 * them by at most `slack`. Second: the largest mapping of fewer bytes. Never chooses a spare end,
 * which is a part of a mapping in use. Returns the mapping's index; -1: there is none. The caller
 * holds the lock. */
static int cache_choose(size_t bytes, size_t slack) {
    int smaller = -1, larger = -1;
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        const struct huge_cached *c = &segment_huge_cache[i];
        if (!c->start || c->before)
            continue;
        if (c->bytes < bytes) {
            if (smaller < 0 || c->bytes > segment_huge_cache[smaller].bytes)
                smaller = i;
        } else if (larger < 0 || c->bytes < segment_huge_cache[larger].bytes) {
            larger = i;
        }
    }
    return larger >= 0 && segment_huge_cache[larger].bytes - bytes <= slack ? larger : smaller;
}

/* Removes an entry from the cache and returns it. The caller holds the lock. */
static struct huge_cached cache_remove(int place) {
    struct huge_cached entry = segment_huge_cache[place];
    segment_huge_cache[place].start = NULL;
    global.huge_cached_bytes -= (int64_t)entry.bytes;
    add_owner(&global.huge_cached, -1);
    return entry;
}

/* Adds an entry to the cache. False: the cache is full. The caller holds the lock. */
static bool cache_add(struct huge_cached entry) {
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        if (segment_huge_cache[i].start)
            continue;
        if (!entry.before) {
            cuts_drop(cuts_of(entry.start), entry.bytes);
            /* segment_unmap_deferred will unmap this many bytes */
            store_owner(&((struct page *)entry.start)->mapped_bytes, entry.bytes);
        }
        segment_huge_cache[i] = entry;
        global.huge_cached_bytes += (int64_t)entry.bytes;
        add_owner(&global.huge_cached, 1);
        return true;
    }
    return false;
}

/* Gives a mapping or a spare end, which is no longer in the cache, back to the kernel. */
static void entry_end(struct huge_cached entry) {
    if (entry.before) /* a spare end, which dumps do not read */
        os_unmap(entry.start, entry.bytes);
    else
        mapping_end(entry.start, entry.bytes);
}

/* Returns the cache's entry for the spare end of a mapping; NULL: the mapping has none (any more).
 * The caller holds the lock. */
static struct huge_cached *spare_of(struct page *header) {
    for (int i = 0; i < HUGE_CACHE_MAX; i++)
        if (segment_huge_cache[i].start && segment_huge_cache[i].before == header)
            return &segment_huge_cache[i];
    header->flags &= (uint8_t)~PAGE_SPARE;
    return NULL;
}

/* Takes the spare end of a mapping out of the cache. Returns its bytes; 0: there is none. */
static size_t spare_remove(struct page *header) {
    size_t bytes = 0;
    if (LIKELY(!(header->flags & PAGE_SPARE)))
        return 0;
    lock_take(&global.lock);
    struct huge_cached *spare = spare_of(header);
    if (spare)
        bytes = cache_remove((int)(spare - segment_huge_cache)).bytes;
    header->flags &= (uint8_t)~PAGE_SPARE;
    lock_release(&global.lock);
    return bytes;
}

/* Gives the spare end of a mapping back to the kernel. */
static void spare_end(struct page *header) {
    size_t bytes = spare_remove(header);
    if (!bytes)
        return;
    add_relaxed(&segment_returned, (int64_t)bytes);
    os_unmap((char *)header + header->mapped_bytes, bytes);
}

/* Grows a chunk by up to `most` bytes of its mapping's spare end. Returns the bytes. */
static size_t spare_use(struct page *header, size_t most) {
    size_t bytes = 0;
    if (LIKELY(!(header->flags & PAGE_SPARE)))
        return 0;
    lock_take(&global.lock);
    struct huge_cached *spare = spare_of(header);
    if (spare) {
        bytes = most < spare->bytes ? most : spare->bytes;
        spare->start += bytes;
        spare->bytes -= bytes;
        if (!spare->bytes)
            cache_remove((int)(spare - segment_huge_cache));
        store_owner(&header->mapped_bytes, header->mapped_bytes + bytes);
        global.huge_cached_bytes -= (int64_t)bytes;
        global.huge_bytes += (int64_t)bytes;
        add_owner(&global.used_bytes, (int64_t)bytes);
        segment_note_taken(0);
    }
    lock_release(&global.lock);
    return bytes;
}

/* Puts what is left of a mapping into the cache again if `keep` is set and it is large enough;
 * otherwise unmaps it. */
static void leave(struct huge_cached left, bool keep) {
    if (!left.start || !left.bytes)
        return;
    lock_take(&global.lock);
    keep = keep && left.bytes >= DONOR_MIN && cache_add(left);
    lock_release(&global.lock);
    if (!keep)
        mapping_end(left.start, left.bytes);
}

/* Fills the mapping that put_together makes, the target. Moves the whole base, if there is one, to
 * the start of the target, and the end of the donor, if there is one, to the offset `have` of the
 * target. Sets base and donor to the parts that were not moved. The caller holds the unmap lock. */
static void fill(struct move *move, size_t have, size_t bytes, struct huge_cached *base,
                 struct huge_cached *donor) {
    struct huge_cuts *cuts = cuts_of(move->target);
    if (base->start) {
        base->bytes = move_whole(move, base->start, base->bytes);
        if (base->bytes)
            return;
        cut_add(cuts, have);
    }
    if (!donor->start || bytes - have < DONOR_MIN)
        return;
    size_t part = donor->bytes < bytes - have ? donor->bytes : bytes - have;
    size_t end = donor->bytes;
    donor->bytes = move_part(move, donor->start, end - part, end, have);
    if (donor->bytes < end)
        move->fresh = have + part;
    if (have + part < bytes && donor->bytes < end)
        cut_add(cuts, have + part);
}

/* The parts of a mapping that was made for a chunk. */
struct parts {
    size_t mapped; /* bytes of the mapping */
    size_t reused; /* bytes that come from the cache */
    size_t fresh;  /* the bytes from here on come from the kernel, and so are zero */
    bool spare;    /* the mapping has a spare end */
};

/* Makes a mapping of `bytes` out of two mappings from the cache: the base and the end of the donor
 * (see cache_take). One of the two may be empty. Sets base and donor to the parts that were not
 * used. Returns the mapping, and describes it in *parts. NULL: a dump keeps mappings from being
 * moved, or the kernel refused. */
static char *put_together(size_t bytes, struct huge_cached *base, struct huge_cached *donor,
                          struct parts *parts) {
    bool extended = base->start && !resize_in_place(base->start, base->bytes, bytes);
    struct move move = {.target = extended ? base->start : segment_map_memory(bytes)};
    size_t of_base = base->bytes, of_donor = donor->bytes;
    if (!move.target)
        return NULL;
    if (extended) {
        *base = (struct huge_cached){0}; /* the base is the target now */
    } else if (base->start && cuts_of(base->start)->count == CUTS_MAX) {
        /* the donor's part behind the base would be one cut more than a mapping may have, so the
         * base goes back to the kernel */
        of_base = 0;
        mapping_end(base->start, base->bytes);
        *base = (struct huge_cached){0};
    }
    move.fresh = of_base ? of_base : HUGE_HEADER_BYTES;
    /* Moving unmaps the old place, which a dump may read. */
    if (lock_try(&global.unmap_lock)) {
        fill(&move, move.fresh, bytes, base, donor);
        unmap_lock_release();
    } else if (!extended) {
        os_unmap(move.target, bytes);
        return NULL;
    }
    if (LIKELY(!move.beyond)) {
        *parts = (struct parts){bytes, of_base + (of_donor - donor->bytes), move.fresh, false};
        return move.target;
    }
    /* The hole is not unmapped, because another thread may have mapped memory there by now. */
    if (move.hole) {
        cuts_drop(cuts_of(move.target), 0);
        os_unmap(move.target, move.hole);
    }
    if (move.beyond < bytes)
        os_unmap(move.target + move.beyond, bytes - move.beyond);
    return NULL;
}

/* Takes a mapping for `bytes` from the cache. A mapping of `bytes` or at most a quarter more is
 * used as it is: its OS pages need no page faults. For other sizes than 4 to 64 MiB, the smallest
 * of the larger mappings is used, and its end stays in the cache as a spare end. Otherwise the
 * largest of the smaller mappings, the *base*, is extended. For 4 to 64 MiB the end of another
 * mapping, the *donor*, is moved behind the base, or into a new mapping if there is no base: to
 * move an OS page takes a hundredth of the time of a page fault. Describes the mapping in *parts.
 * NULL: the cache is empty, or the mapping could not be made; *parts is unchanged. */
static char *cache_take(size_t bytes, struct parts *parts) {
    struct huge_cached base = {0}, donor = {0};
    bool may_donate = bytes >= PUT_TOGETHER_MIN && bytes <= HUGE_CACHED_MAX_BYTES;
    lock_take(&global.lock);
    int chosen = cache_choose(bytes, may_donate ? bytes / 4 : SIZE_MAX);
    if (chosen >= 0)
        base = cache_remove(chosen);
    if (base.bytes > bytes + bytes / 4) {
        cache_add((struct huge_cached){base.start + bytes, base.bytes - bytes, base.since_ns,
                                       (struct page *)base.start});
        lock_release(&global.lock);
        *parts = (struct parts){bytes, bytes, bytes, true};
        return base.start;
    }
    if (may_donate && base.bytes < bytes &&
        (chosen = cache_choose(bytes - base.bytes, SIZE_MAX)) >= 0)
        donor = cache_remove(chosen);
    lock_release(&global.lock);
    if (base.bytes >= bytes) {
        *parts = (struct parts){base.bytes, base.bytes, base.bytes, false};
        return base.start;
    }
    if (!base.start && !donor.start)
        return NULL;
    char *start = put_together(bytes, &base, &donor, parts);
    leave(base, !start);
    leave(donor, true);
    return start;
}

/* Returns how many bytes of a freed mapping the cache keeps, counted from its start; 0: none. A
 * program writes the beginning of a large buffer first, and the kernel can extend a mapping again
 * that lost its end. So the cache keeps as much of a mapping as fits into three quarters of the
 * plain bound and the part that the bound has learnt. Beyond that, and up to the bound, it keeps
 * only beginnings, of at most 1/BEGINNINGS of the plain bound. The caller holds the lock. */
static size_t cache_share(size_t bytes) {
    int64_t dirty = (int64_t)(load_relaxed(&global.dirty_slices) * SLICE_BYTES), plain;
    size_t bound = (size_t)segment_freelist_bound(dirty, &plain);
    /* Only beginnings may fill the last quarter of the plain bound. If this quarter was subtracted
     * from the result alone, it would also lower the limit that the peak of the bytes in use sets
     * (segment_freelist_bound). A program with one buffer at a time needs all of this limit. So the
     * quarter is subtracted from `dirty`, too, which raises the limit by as much. */
    size_t whole = (size_t)(segment_freelist_bound(dirty - plain / 4, &plain) - plain / 4);
    size_t cached = (size_t)global.huge_cached_bytes;
    size_t part = align_up((size_t)plain / BEGINNINGS, OS_PAGE_BYTES);
    if (cached + bytes <= whole)
        return bytes;
    if (cached + part < whole)
        return (whole - cached) & ~(OS_PAGE_BYTES - 1);
    bytes = bytes < part ? bytes : part;
    return cached + bytes <= bound ? bytes : 0;
}

/* Puts the mapping of a freed chunk, or as much of its beginning as cache_share allows, into the
 * cache. The rest goes back to the kernel. False: nothing was kept, and the mapping is
 * unchanged. */
static bool cache_put(char *start, size_t bytes) {
    size_t kept = 0;
    if (bytes > HUGE_CACHED_MAX_BYTES)
        return false;
    lock_take(&global.lock);
    if (load_relaxed(&options.decay_ms)) {
        kept = cache_share(bytes);
        if (kept && !cache_add((struct huge_cached){start, kept, os_now_ns(), NULL}))
            kept = 0;
        segment_note_early((int64_t)(bytes - kept));
    }
    lock_release(&global.lock);
    if (kept && kept < bytes) {
        add_relaxed(&segment_returned, (int64_t)(bytes - kept));
        os_unmap(start + kept, bytes - kept);
    }
    return kept;
}

size_t segment_huge_purge(bool all) {
    size_t released = 0;
    /* Even with `all`, the mappings that other threads free from now on stay. Otherwise this
     * function might never end. */
    uint64_t decay_ns = all ? 0 : (uint64_t)load_relaxed(&options.decay_ms) * 1000000U;
    uint64_t now = os_now_ns();
    while (load_relaxed(&global.huge_cached)) {
        struct huge_cached entry = {0};
        lock_take(&global.lock);
        for (int i = 0; i < HUGE_CACHE_MAX && !entry.start; i++)
            if (segment_huge_cache[i].start && now >= segment_huge_cache[i].since_ns + decay_ns)
                entry = cache_remove(i);
        lock_release(&global.lock);
        if (!entry.start)
            break;
        entry_end(entry);
        released += entry.bytes;
    }
    return released;
}

/* Returns by how many bytes the cache exceeds its bound; 0 or less: it does not. The caller holds
 * the lock. */
static int64_t cache_excess(void) {
    int64_t plain, dirty = (int64_t)(load_relaxed(&global.dirty_slices) * SLICE_BYTES);
    return global.huge_cached_bytes - segment_freelist_bound(dirty, &plain);
}

/* Returns the index of the mapping that has been in the cache for longest; -1: the cache is empty.
 * The caller holds the lock. */
static int cache_oldest(void) {
    const struct huge_cached *cache = segment_huge_cache;
    int oldest = -1;
    for (int i = 0; i < HUGE_CACHE_MAX; i++)
        if (cache[i].start && (oldest < 0 || cache[i].since_ns < cache[oldest].since_ns))
            oldest = i;
    return oldest;
}

/* Takes up to `excess` bytes from the end of the oldest cached mapping, or the whole mapping if too
 * little of it would be left, and gives them back to the kernel. */
static void cache_cut(size_t excess) {
    lock_take(&global.lock);
    int oldest = cache_oldest();
    struct huge_cached entry = {0};
    size_t left = 0;
    if (oldest >= 0) {
        entry = cache_remove(oldest);
        left = entry.bytes > excess + DONOR_MIN ? entry.bytes - align_up(excess, OS_PAGE_BYTES) : 0;
    }
    if (left)
        cache_add((struct huge_cached){entry.start, left, entry.since_ns, entry.before});
    lock_release(&global.lock);
    add_relaxed(&segment_returned, (int64_t)(entry.bytes - left));
    if (left)
        os_unmap(entry.start + left, entry.bytes - left);
    else if (entry.start)
        entry_end(entry);
}

/* Adds `bytes` to the bytes in use. `fresh`: how many of these bytes came from the kernel. More
 * bytes in use lower the bound that the freelist has learnt, so the cache may have to shrink. */
static void account(int64_t bytes, int64_t fresh) {
    lock_take(&global.lock);
    global.huge_bytes += bytes;
    add_owner(&global.used_bytes, bytes);
    segment_note_taken(fresh);
    int64_t excess = fresh > 0 && global.huge_cached ? cache_excess() : 0;
    lock_release(&global.lock);
    while (UNLIKELY(excess > 0)) {
        cache_cut((size_t)excess);
        lock_take(&global.lock);
        excess = global.huge_cached ? cache_excess() : 0;
        lock_release(&global.lock);
    }
}

/* Adds the change of a mapping's size to the bytes in use; new bytes came from the kernel. */
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
    add_relaxed(&chunks, 1);
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
    struct parts parts = {.mapped = mapped};
    char *start = offset == HUGE_HEADER_BYTES ? cache_take(mapped, &parts) : NULL;
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
    /* Of the segment in front of the chunk only one OS page is used, so it must not get a huge
     * page. */
    if (UNLIKELY(offset == SEGMENT_BYTES))
        os_advise_huge(start, SEGMENT_BYTES, false);
    struct page *header = (struct page *)start;
    if (!fresh)
        __builtin_memset(header, 0, sizeof *header);
    store_owner(&header->mapped_bytes, parts.mapped);
    header->chunk = start + offset;
    header->fresh = fresh;
    header->flags = parts.spare ? PAGE_SPARE : 0;
    header->stale_bytes = parts.fresh > offset ? parts.fresh - offset : 0;
    header->born = load_relaxed(&segment_clock);
    if (UNLIKELY(offset == SEGMENT_BYTES)) /* the advice has split the mapping into two areas */
        cut_add(cuts_of(start), SEGMENT_BYTES);
    store_release(&header->kind, PAGE_HUGE);
    account((int64_t)parts.mapped, (int64_t)(parts.mapped - parts.reused));
    add_relaxed(&chunks, 1);
    segment_map_set(SEGMENT_HUGE, start, true);
    return header;
}

void segment_huge_free(struct page *header) {
    size_t mapped = header->mapped_bytes, spare = spare_remove(header);
    bool plain = header->chunk == (char *)header + HUGE_HEADER_BYTES;
    store_owner(&header->kind, PAGE_NONE);
    segment_map_set(SEGMENT_HUGE, header, false);
    account(-(int64_t)mapped, 0);
    add_relaxed(&chunks, -1);
    if (!plain || !cache_put((char *)header, mapped + spare)) {
        add_relaxed(&segment_returned, (int64_t)(mapped + spare));
        mapping_end((char *)header, mapped + spare);
    }
    segment_purge_when_due();
}

#define COPY_STEP SEGMENT_BYTES

/* Copies a mapping with its header page to another place. Bytes that are copied go back to the
 * kernel at once, so that the chunk does not take twice its memory meanwhile. */
static void copy_whole(char *from, size_t bytes, char *to) {
    for (size_t at = 0; at < bytes; at += COPY_STEP) {
        size_t part = bytes - at < COPY_STEP ? bytes - at : COPY_STEP;
        __builtin_memcpy(to + at, from + at, part);
        if (at) /* the header's OS page is needed until all is copied, so it stays */
            os_discard(from + at, part);
    }
    cuts_of(to)->count = 0;
}

/* Moves a mapping to a new place, which has `mapped` bytes. A mapping with cuts is copied: if the
 * kernel refused to move one of its areas, the kernel might also refuse to move the other areas
 * back. False: a dump is running, or the kernel refused. The caller must not use or unmap `target`
 * then. */
static bool move_to(char *start, size_t bytes, char *target, size_t mapped) {
    if (cuts_of(start)->count) {
        copy_whole(start, bytes < mapped ? bytes : mapped, target);
        mapping_end(start, bytes);
        return true;
    }
    /* Moving unmaps the old range, which a running dump may read. So during a dump the move fails,
     * and the caller copies the chunk. */
    if (!lock_try(&global.unmap_lock)) {
        os_unmap(target, mapped);
        return false;
    }
    bool moved = os_move(start, bytes, target, mapped);
    unmap_lock_release();
    /* If the kernel refused, another thread may have mapped memory at `target`: do not unmap it. */
    return moved;
}

/* Grows a mapping when the kernel grants no second place beside it, because a limit of the process
 * (RLIMIT_AS, RLIMIT_DATA) would count both places. The kernel moves the mapping to a place of its
 * choice, with room for the alignment, and then the bytes move up to the alignment. Returns the new
 * place. NULL: a dump is running, the mapping has cuts, or the kernel refused; nothing changed. */
static char *grow_elsewhere(char *start, size_t bytes, size_t mapped) {
    size_t padded = mapped + SEGMENT_BYTES - OS_PAGE_BYTES;
    if (padded < mapped || cuts_of(start)->count || !lock_try(&global.unmap_lock))
        return NULL;
    char *moved = os_grow_elsewhere(start, bytes, padded);
    unmap_lock_release();
    if (!moved)
        return NULL;
    char *target = (char *)align_up((uintptr_t)moved, SEGMENT_BYTES);
    /* The target is mostly near the other segments. Then segment_map_reserve has nothing to do and
     * does not fail. If it fails, the bytes move back to `start`. The move back replaces any memory
     * that another thread has mapped there meanwhile. */
    if (UNLIKELY(!segment_map_reserve(target))) {
        os_move(moved, padded, start, bytes);
        return NULL;
    }
    __builtin_memmove(target, moved, bytes);
    if (target > moved)
        os_unmap(moved, (size_t)(target - moved));
    if (target + mapped < moved + padded)
        os_unmap(target + mapped, (size_t)(moved + padded - target) - mapped);
    segment_claim_memory(target, mapped);
    return target;
}

bool segment_huge_shrink_to_spare(struct page *header, size_t bytes) {
    size_t offset = (size_t)(header->chunk - (char *)header);
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + offset, end = header->mapped_bytes - mapped;
    bool kept = false;
    if (offset != HUGE_HEADER_BYTES || !load_relaxed(&options.decay_ms))
        return false;
    lock_take(&global.lock);
    if (cache_share(end) == end) {
        struct huge_cached *spare = header->flags & PAGE_SPARE ? spare_of(header) : NULL;
        size_t behind = spare ? cache_remove((int)(spare - segment_huge_cache)).bytes : 0;
        /* if the cache has no place, it had none before, either, so that `behind` is 0 */
        kept = cache_add(
            (struct huge_cached){(char *)header + mapped, end + behind, os_now_ns(), header});
    }
    if (kept) {
        header->flags |= PAGE_SPARE;
        store_owner(&header->mapped_bytes, mapped);
        global.huge_bytes -= (int64_t)end;
        add_owner(&global.used_bytes, -(int64_t)end);
    }
    lock_release(&global.lock);
    return kept;
}

struct page *segment_huge_resize(struct page *header, size_t bytes) {
    size_t offset = (size_t)(header->chunk - (char *)header);
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + offset;
    size_t old = header->mapped_bytes;
    if (mapped < bytes || mapped >> (ADDRESS_BITS - 1))
        return NULL;
    if (mapped == old)
        return header;
    if (mapped > old)
        old += spare_use(header, mapped - old);
    else if (header->flags & PAGE_SPARE)
        spare_end(header);
    if (mapped == old)
        return header;
    int error = resize_in_place((char *)header, old, mapped);
    if (!error) {
        header->mapped_bytes = mapped;
        account_resized((int64_t)mapped - (int64_t)old);
        return header;
    }
    /* The mapping cannot move: the chunk has an alignment that a new place might not give, or the
     * kernel would refuse the move. The caller copies the chunk. */
    if (offset != HUGE_HEADER_BYTES || error != -ENOMEM)
        return NULL;
    char *target = segment_map_memory(mapped);
    segment_map_set(SEGMENT_HUGE, header, false);
    bool moved = target && move_to((char *)header, old, target, mapped);
    if (!target && mapped > old)
        moved = (target = grow_elsewhere((char *)header, old, mapped)) != NULL;
    if (!moved) {
        segment_map_set(SEGMENT_HUGE, header, true);
        return NULL;
    }
    struct page *new_header = (struct page *)target;
    new_header->chunk = target + offset;
    new_header->mapped_bytes = mapped;
    account_resized((int64_t)mapped - (int64_t)old);
    segment_map_set(SEGMENT_HUGE, target, true);
    return new_header;
}
