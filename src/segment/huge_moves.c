/* SPDX-License-Identifier: MIT */
/* huge_moves.c - extends, moves and unmaps the mappings of huge chunks; see huge.h. */
#include <errno.h>

#include "segment/huge.h"

#define global segment_global
/* greatest number of cuts in all mappings: the kernel allows a process some 65 000 areas */
#define CUTS_ALL 4096

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

void huge_unmap_lock_release(void) {
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

static int64_t cuts_of_all; /* atomic: number of cuts of all mappings */

struct huge_cuts *huge_cuts_of(void *start) {
    return (struct huge_cuts *)(void *)((char *)start + sizeof(struct page));
}

/* Returns the start of the area that holds the byte before `end`, as an offset in the mapping. */
static size_t area_before(const struct huge_cuts *cuts, size_t end) {
    uint32_t i = cuts->count;
    while (i && (size_t)cuts->at[i - 1] * OS_PAGE_BYTES >= end)
        i--;
    return i ? (size_t)cuts->at[i - 1] * OS_PAGE_BYTES : 0;
}

char *huge_area_ends(const struct page *header, const char *address) {
    const struct huge_cuts *cuts = huge_cuts_of((char *)(uintptr_t)header);
    for (uint32_t i = 0; i < cuts->count; i++)
        if ((const char *)header + (size_t)cuts->at[i] * OS_PAGE_BYTES > address)
            return (char *)(uintptr_t)header + (size_t)cuts->at[i] * OS_PAGE_BYTES;
    return (char *)UINTPTR_MAX;
}

void huge_cuts_drop(struct huge_cuts *cuts, size_t bytes) {
    uint32_t before = cuts->count;
    while (cuts->count && (size_t)cuts->at[cuts->count - 1] * OS_PAGE_BYTES >= bytes)
        cuts->count--;
    if (before != cuts->count)
        add_relaxed(&cuts_of_all, (int64_t)cuts->count - (int64_t)before);
}

int huge_resize_in_place(char *start, size_t old_bytes, size_t bytes) {
    struct huge_cuts *cuts = huge_cuts_of(start);
    huge_cuts_drop(cuts, old_bytes); /* cuts of a spare end that has gone back to the kernel */
    size_t last = area_before(cuts, old_bytes < bytes ? old_bytes : bytes);
    int error;
    if (old_bytes > bytes && last != area_before(cuts, old_bytes))
        os_unmap(start + bytes, old_bytes - bytes);
    else if ((error = os_resize_in_place(start + last, old_bytes - last, bytes - last)) != 0)
        return error;
    huge_cuts_drop(cuts, bytes);
    return 0;
}

/* Moves one area to an offset in the target. The area replaces the OS pages that the target has
 * there. False: the kernel refused, and the area is where it was. */
static bool move_area(struct huge_move *move, char *area, size_t bytes, size_t offset) {
    if (os_move(area, bytes, move->target + offset, bytes))
        return true;
    move->hole = offset;
    move->beyond = offset + bytes;
    return false;
}

size_t huge_move_whole(struct huge_move *move, char *from, size_t bytes) {
    struct huge_cuts cuts = *huge_cuts_of(from);
    while (bytes) {
        size_t first = area_before(&cuts, bytes);
        if (!move_area(move, from + first, bytes - first, first))
            break;
        bytes = first;
    }
    return bytes;
}

void huge_cut_add(struct huge_cuts *cuts, size_t offset) {
    cuts->at[cuts->count++] = (uint32_t)(offset / OS_PAGE_BYTES);
    add_relaxed(&cuts_of_all, 1);
}

size_t huge_move_part(struct huge_move *move, char *from, size_t begin, size_t end, size_t offset) {
    struct huge_cuts cuts = *huge_cuts_of(from), *to = huge_cuts_of(move->target);
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
        huge_cut_add(to, offset + (firsts[i] - begin));
    return left;
}

bool huge_move_area(struct huge_move *move, char *area, size_t bytes, size_t offset) {
    struct huge_cuts *to = huge_cuts_of(move->target);
    if (to->count + 2 > CUTS_MAX || load_relaxed(&cuts_of_all) >= CUTS_ALL ||
        !move_area(move, area, bytes, offset))
        return false;
    huge_cut_add(to, offset);
    return true;
}

void huge_unmap(char *start, size_t bytes) {
    huge_cuts_drop(huge_cuts_of(start), 0);
    store_owner(&((struct page *)start)->mapped_bytes, bytes);
    unmap_or_defer((struct page *)start);
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
    huge_cuts_of(to)->count = 0;
}

bool huge_move_to(char *start, size_t bytes, char *target, size_t mapped) {
    if (huge_cuts_of(start)->count) {
        copy_whole(start, bytes < mapped ? bytes : mapped, target);
        huge_unmap(start, bytes);
        return true;
    }
    /* Moving unmaps the old range, which a running dump may read. So during a dump the move fails,
     * and the caller copies the chunk. */
    if (!lock_try(&global.unmap_lock)) {
        os_unmap(target, mapped);
        return false;
    }
    bool moved = os_move(start, bytes, target, mapped);
    huge_unmap_lock_release();
    /* If the kernel refused, another thread may have mapped memory at `target`: do not unmap it. */
    return moved;
}

char *huge_grow_elsewhere(char *start, size_t bytes, size_t mapped) {
    size_t padded = mapped + SEGMENT_BYTES - OS_PAGE_BYTES;
    if (padded < mapped || huge_cuts_of(start)->count || !lock_try(&global.unmap_lock))
        return NULL;
    char *moved = os_grow_elsewhere(start, bytes, padded);
    huge_unmap_lock_release();
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
