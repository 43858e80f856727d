/* SPDX-License-Identifier: MIT */
/*
 * huge_cache.c - the cache of freed mappings of huge chunks, and of the spare ends of mappings in
 * use; see huge.c.
 *
 * The cache keeps up to HUGE_CACHE_MAX freed mappings of at most HUGE_CACHED_MAX_BYTES, because a
 * program that frees a big buffer mostly needs another one. A mapping that would fill the last
 * quarter of the cache's bound is not kept whole: the cache keeps only its beginning. The cache is
 * part of the bounded freelist. A chunk may get a mapping that is put together of two cached ones.
 * A chunk of other sizes than 4 to 64 MiB may get a cached mapping that is too large. The mapping's
 * *spare end* then stays in the cache. If no freed mapping is left, a spare end may become a part
 * of another mapping.
 *
 * A mapping that is put together of two cached ones, the base and the end of the donor (see
 * huge_cache_take in huge.h; `have`, `part` and `fresh` are names in put_together and fill):
 *
 *     base, whole  [header|..........]             donor  [...stays in the cache...|...part...]
 *     the mapping  [header|..........|...part...|...new from the kernel...]
 *                                    ^ have     ^ fresh
 *
 * The kernel keeps the three pieces as areas of their own, so there is a *cut* (huge.h) at `have`,
 * and one behind the part. Without a base the part comes behind the header of a new mapping.
 */
#include "base/options.h"
#include "segment/huge.h"

#define global segment_global
#define HUGE_CACHED_MAX_BYTES ((1UL << 30) + HUGE_HEADER_BYTES)
#define DONOR_MIN (256U << 10) /* a smaller remainder is not cached, a smaller part not moved */
/* A chunk of fewer bytes is put together of two mappings only if its program writes whole chunks:
 * see take_donor. */
#define PUT_TOGETHER_MIN SEGMENT_BYTES
#define PUT_TOGETHER_MAX ((64UL << 20) + HUGE_HEADER_BYTES)
#define ASKED_BYTES (4 * OS_PAGE_BYTES) /* see end_is_resident */
/* The base gets room for this many further cuts before a donor's part is moved behind it. That is
 * enough for a part of two areas, or of three if the base is extended where it is. */
#define CUTS_OF_PART 4
#define BEGINNINGS 8                   /* see cache_share */
#define LIBC_UNMAPS_BYTES (32UL << 20) /* glibc never keeps freed chunks of this size or more */

struct huge_cached segment_huge_cache[HUGE_CACHE_MAX];

/* Chooses a cached mapping. First choice: the smallest mapping of at least `bytes`, if it exceeds
 * them by at most `slack`. Second: the largest mapping of fewer bytes. Never chooses a spare end,
 * which is a part of a mapping in use. Returns the mapping's index; -1: there is none. The caller
 * holds the lock. */
static int cache_choose(size_t bytes, size_t slack) {
    int smaller = -1, larger = -1;
    int64_t left = global.huge_cached;
    for (int i = 0; i < HUGE_CACHE_MAX && left; i++) {
        const struct huge_cached *c = &segment_huge_cache[i];
        left -= c->start != NULL;
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
        if (!entry.before)
            huge_cuts_drop(huge_cuts_of(entry.start), entry.bytes);
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
        huge_unmap(entry.start, entry.bytes);
}

/* Returns the cache's entry for the spare end of a mapping. NULL: the mapping has no spare end; if
 * PAGE_SPARE still said that it has one, the flag is removed. The caller holds the lock. */
static struct huge_cached *spare_of(struct page *header) {
    for (int i = 0; i < HUGE_CACHE_MAX; i++)
        if (segment_huge_cache[i].start && segment_huge_cache[i].before == header)
            return &segment_huge_cache[i];
    header->flags &= (uint8_t)~PAGE_SPARE;
    return NULL;
}

/* Takes the spare end of a mapping out of the cache. Returns its bytes; 0: there is none. */
static size_t remove_spare(struct page *header) {
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

void huge_spare_end(struct page *header) {
    size_t bytes = remove_spare(header);
    if (!bytes)
        return;
    add_relaxed(&segment_returned, (int64_t)bytes);
    os_unmap((char *)header + header->mapped_bytes, bytes);
}

size_t huge_spare_use(struct page *header, size_t most) {
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

/* Puts the rest of a mapping into the cache again if `keep` is set and the rest is large enough;
 * otherwise unmaps the rest. The rest of a part of a spare end is always unmapped. */
static void leave(struct huge_cached left, bool keep) {
    if (!left.start || !left.bytes)
        return;
    lock_take(&global.lock);
    keep = keep && !left.before && left.bytes >= DONOR_MIN && cache_add(left);
    lock_release(&global.lock);
    if (keep)
        return;
    add_relaxed(&segment_returned, (int64_t)left.bytes);
    entry_end(left);
}

/* Takes up to `bytes` from the end of a spare end for another mapping: from the smallest spare end
 * that has as many bytes, else from the largest one. Chooses only spare ends that are one area of
 * the kernel. The caller holds the lock, so the chunks in front of the spare ends stay, and their
 * cuts do not change. The result has no bytes if there is no such spare end. */
static struct huge_cached spare_part(size_t bytes) {
    struct huge_cached *best = NULL;
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        struct huge_cached *c = &segment_huge_cache[i];
        if (!c->start || !c->before || c->bytes < DONOR_MIN ||
            huge_area_ends(c->before, c->start) < c->start + c->bytes)
            continue;
        if (!best || (best->bytes < bytes ? c->bytes > best->bytes
                                          : c->bytes >= bytes && c->bytes < best->bytes))
            best = c;
    }
    if (!best)
        return (struct huge_cached){0};
    if (best->bytes < bytes + DONOR_MIN)
        return cache_remove((int)(best - segment_huge_cache));
    struct huge_cached part = *best;
    best->bytes -= bytes;
    global.huge_cached_bytes -= (int64_t)bytes;
    part.start += best->bytes;
    part.bytes = bytes;
    return part;
}

/* True if the last OS pages of these bytes are resident. False without a control thread and if
 * os_mincore_forbidden, because a filter of system calls may then forbid the question. */
static bool end_is_resident(const char *start, size_t bytes) {
    size_t sample = ASKED_BYTES < bytes ? ASKED_BYTES : bytes;
    return segment_is_purged() && !load_relaxed(&os_mincore_forbidden) &&
           os_resident_bytes(start + bytes - sample, sample) == (int64_t)sample;
}

/* Chooses a donor for the bytes that the base lacks, and takes it out of the cache. */
static struct huge_cached take_donor(const struct huge_cached *base, size_t bytes) {
    struct huge_cached donor = {0};
    size_t missing = bytes - (base->start ? base->bytes : HUGE_HEADER_BYTES);
    /* Programs often write only the beginning of a chunk of less than PUT_TOGETHER_MIN. OS pages
     * that were moved to its end would then stay unused. */
    if (missing < DONOR_MIN || bytes > PUT_TOGETHER_MAX ||
        (base->start && bytes < PUT_TOGETHER_MIN && !end_is_resident(base->start, base->bytes)))
        return donor;
    lock_take(&global.lock);
    int chosen = cache_choose(missing, SIZE_MAX);
    if (chosen >= 0)
        donor = cache_remove(chosen);
    else if (segment_is_purged()) /* else end_is_resident cannot ask the kernel */
        donor = spare_part(missing);
    lock_release(&global.lock);
    if (!donor.before || end_is_resident(donor.start, donor.bytes))
        return donor;
    leave(donor, false);
    return (struct huge_cached){0};
}

/* Fills the mapping that put_together makes, the target. Moves the whole base, if there is one, to
 * the start of the target, and the end of the donor, if there is one, to the offset `have` of the
 * target. Sets base and donor to the parts that were not moved. The caller holds the unmap lock. */
static void fill(struct huge_move *move, size_t have, size_t bytes, struct huge_cached *base,
                 struct huge_cached *donor) {
    struct huge_cuts *cuts = huge_cuts_of(move->target);
    if (base->start) {
        base->bytes = huge_move_whole(move, base->start, base->bytes);
        if (base->bytes)
            return;
        huge_cut_add(cuts, have);
    }
    if (!donor->start || bytes - have < DONOR_MIN)
        return;
    size_t part = donor->bytes < bytes - have ? donor->bytes : bytes - have;
    size_t end = donor->bytes, begin = end - part;
    if (donor->before)
        donor->bytes = huge_move_area(move, donor->start + begin, part, have) ? begin : end;
    else
        donor->bytes = huge_move_part(move, donor->start, begin, end, have);
    if (donor->bytes < end)
        move->fresh = have + part;
    if (have + part < bytes && donor->bytes < end)
        huge_cut_add(cuts, have + part);
}

/* Makes room for `more` cuts. If there is no room, the end of the base goes back to the kernel,
 * from the middle one of its cuts on. */
static void drop_cuts(struct huge_cached *base, unsigned more) {
    struct huge_cuts *cuts = huge_cuts_of(base->start);
    if (cuts->count + more <= CUTS_MAX)
        return;
    size_t kept = (size_t)cuts->at[CUTS_MAX / 2] * OS_PAGE_BYTES;
    huge_cuts_drop(cuts, kept);
    add_relaxed(&segment_returned, (int64_t)(base->bytes - kept));
    os_unmap(base->start + kept, base->bytes - kept);
    base->bytes = kept;
}

/* Makes a mapping of `bytes` out of two mappings from the cache: the base and the end of the donor
 * (see huge_cache_take). One of the two may be empty. Sets base and donor to the parts that were
 * not used. Returns the mapping, and describes it in *parts. NULL: a dump keeps mappings from being
 * moved, or the kernel refused. */
static char *put_together(size_t bytes, struct huge_cached *base, struct huge_cached *donor,
                          struct huge_parts *parts) {
    if (base->start)
        drop_cuts(base, donor->start ? CUTS_OF_PART : 1);
    bool extended = base->start && !huge_resize_in_place(base->start, base->bytes, bytes);
    struct huge_move move = {.target = extended ? base->start : segment_map_memory(bytes)};
    size_t of_base = base->bytes, of_donor = donor->bytes;
    if (!move.target)
        return NULL;
    if (extended)
        *base = (struct huge_cached){0}; /* the base is the target now */
    move.fresh = of_base ? of_base : HUGE_HEADER_BYTES;
    /* Moving unmaps the old place, which a dump may read. */
    if (lock_try(&global.unmap_lock)) {
        fill(&move, move.fresh, bytes, base, donor);
        huge_unmap_lock_release();
    } else if (!extended) {
        os_unmap(move.target, bytes);
        return NULL;
    }
    if (LIKELY(!move.beyond)) {
        *parts = (struct huge_parts){bytes, of_base + (of_donor - donor->bytes), move.fresh, false,
                                     false};
        return move.target;
    }
    /* The hole is not unmapped, because another thread may have mapped memory there by now. */
    if (move.hole) {
        huge_cuts_drop(huge_cuts_of(move.target), 0);
        os_unmap(move.target, move.hole);
    }
    if (move.beyond < bytes)
        os_unmap(move.target + move.beyond, bytes - move.beyond);
    return NULL;
}

/* Counts a mapping that comes from the cache as it is. The caller holds the lock. */
static struct huge_parts count_reused(size_t bytes, bool spare) {
    global.huge_bytes += (int64_t)bytes;
    add_owner(&global.used_bytes, (int64_t)bytes);
    segment_note_taken(0);
    return (struct huge_parts){bytes, bytes, bytes, spare, true};
}

char *huge_cache_take(size_t bytes, struct huge_parts *parts) {
    struct huge_cached base = {0}, donor = {0};
    bool may_donate = bytes >= PUT_TOGETHER_MIN && bytes <= PUT_TOGETHER_MAX;
    lock_take(&global.lock);
    int chosen = cache_choose(bytes, may_donate ? bytes / 4 : SIZE_MAX);
    if (chosen >= 0)
        base = cache_remove(chosen);
    if (base.bytes > bytes + bytes / 4) {
        cache_add((struct huge_cached){base.start + bytes, base.bytes - bytes, base.since_ns,
                                       (struct page *)base.start});
        *parts = count_reused(bytes, true);
    } else if (base.bytes >= bytes) {
        *parts = count_reused(base.bytes, false);
    }
    lock_release(&global.lock);
    if (base.bytes >= bytes)
        return base.start;
    if (load_relaxed(&global.huge_cached))
        donor = take_donor(&base, bytes);
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

/* True if each area of a chunk's mapping is still one area. The program never changes the mapping's
 * first OS page. So if the program has locked OS pages (mlock), given them a protection key, or
 * registered them with a userfaultfd, they are an area of their own now. */
static bool areas_are_whole(const struct page *header) {
    char *at = (char *)(uintptr_t)header, *end = at + header->mapped_bytes, *next;
    for (; at < end; at = next) {
        next = huge_area_ends(header, at);
        next = next < end ? next : end;
        if (!os_is_one_area(at, (size_t)(next - at)))
            return false;
    }
    return true;
}

/* True if the part of a chunk's mapping from `offset` on can be handed out again: see
 * segment_largest. glibc also unmaps each freed chunk of LIBC_UNMAPS_BYTES or more. Any other chunk
 * is not examined: a buffer that is taken and freed in turns costs no system call, and is kept also
 * if the program advises huge pages for a part of it. */
static bool part_is_usable(const struct page *header, size_t offset) {
    size_t mapped = header->mapped_bytes;
    bool is_small = mapped < LIBC_UNMAPS_BYTES;
    char *part = (char *)(uintptr_t)header + offset;
    if (offset == mapped || (is_small && !(header->flags & PAGE_LARGEST)))
        return true;
    if (is_small && offset == OS_PAGE_BYTES && mapped > load_relaxed(&segment_freed_most))
        store_owner(&segment_freed_most, mapped);
    if (load_relaxed(&os_restricted))
        return is_small;
    if (is_small)
        os_remove_guards(part, mapped - offset);
    else if (!os_make_plain(part, mapped - offset))
        return false;
    return areas_are_whole(header);
}

void huge_cache_put(struct page *header, bool plain) {
    size_t mapped = header->mapped_bytes, bytes = mapped, kept = 0;
    plain = plain && load_relaxed(&options.decay_ms) && part_is_usable(header, OS_PAGE_BYTES);
    lock_take(&global.lock);
    struct huge_cached *spare = header->flags & PAGE_SPARE ? spare_of(header) : NULL;
    if (spare)
        bytes += cache_remove((int)(spare - segment_huge_cache)).bytes;
    global.huge_bytes -= (int64_t)mapped;
    add_owner(&global.used_bytes, -(int64_t)mapped);
    if (plain && bytes <= HUGE_CACHED_MAX_BYTES) {
        kept = cache_share(bytes);
        if (kept && !cache_add((struct huge_cached){(char *)header, kept, os_now_ns(), NULL}))
            kept = 0;
        segment_note_early((int64_t)(bytes - kept));
    }
    lock_release(&global.lock);
    if (kept == bytes)
        return;
    add_relaxed(&segment_returned, (int64_t)(bytes - kept));
    if (kept)
        os_unmap((char *)header + kept, bytes - kept);
    else
        huge_unmap((char *)header, bytes);
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

int64_t segment_huge_cached_resident(void) {
    struct huge_cached list[HUGE_CACHE_MAX];
    int64_t sum = 0;
    /* Other threads need the lock, and the kernel may take long to answer for a large mapping. */
    lock_take(&global.lock);
    __builtin_memcpy(list, segment_huge_cache, sizeof list);
    lock_release(&global.lock);
    for (int i = 0; i < HUGE_CACHE_MAX; i++) {
        int64_t bytes = list[i].start ? os_resident_bytes(list[i].start, list[i].bytes) : 0;
        sum += bytes > 0 ? bytes : 0; /* -1: another thread has unmapped it meanwhile */
    }
    return sum;
}

int64_t huge_cache_excess(void) {
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

void huge_cache_cut(size_t excess) {
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

bool segment_huge_shrink_to_spare(struct page *header, size_t bytes) {
    size_t offset = (size_t)(header->chunk - (char *)header);
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + offset, end = header->mapped_bytes - mapped;
    bool kept = false;
    if (offset != HUGE_HEADER_BYTES || !load_relaxed(&options.decay_ms) ||
        !part_is_usable(header, mapped))
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
