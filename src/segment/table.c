/* SPDX-License-Identifier: MIT */
/*
 * The table of segments: which parts of the address space are segments of the library.
 *
 * For: every free, which has to recognise a pointer of the library before it reads any memory
 * there; and dumps, which visit all segments. Also maps the memory for segments and huge chunks,
 * because a segment needs a place in the table. Cannot do: make or unmap segments; segment.c and
 * huge.c do.
 */
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global

struct segment_leaf *segment_root[1U << SEGMENT_ROOT_BITS];
struct segment_leaf segment_near;
uintptr_t segment_near_first FORK_PAGE;

/* Number of segments that the near leaf covers from the first segment upwards. The number is small,
 * because the kernel places new mappings below older ones. */
#define NEAR_ABOVE (SEGMENT_LEAF_COUNT / 8)

bool segment_map_test_by_root(enum segment_map map, uintptr_t number) {
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
    /* The other flag is clear: the owner of the memory has either a segment or a huge chunk there.
     */
    store_release(map_flags((uintptr_t)segment >> SEGMENT_SHIFT), set ? (uint8_t)map : 0);
}

#define FLAGS_AT_ONCE 32U
_Static_assert(!(SEGMENT_LEAF_COUNT % FLAGS_AT_ONCE), "no flags are left");

/* True if one of the next FLAGS_AT_ONCE segments is in the table. Nearly all flags of a leaf are 0,
 * so they are tested word by word. */
static bool any_of_flags(const uint8_t *flags) {
    typedef uint64_t flags_word __attribute__((may_alias));
    const flags_word *words = (const flags_word *)(const void *)flags;
    uint64_t any = 0;
    for (unsigned i = 0; i < FLAGS_AT_ONCE / sizeof *words; i++)
        any |= load_relaxed(&words[i]);
    return any;
}

/* Visits the segments of a leaf, from segment number `from` on. `first` is the number of the leaf's
 * first segment. False: `visit` returned false. */
static bool each_of_leaf(const struct segment_leaf *leaf, uintptr_t first, uintptr_t from,
                         bool (*visit)(struct segment *, bool, void *), void *context) {
    for (uintptr_t i = from > first ? from - first : 0; leaf && i < SEGMENT_LEAF_COUNT; i++) {
        if (!(i % FLAGS_AT_ONCE) && !any_of_flags(&leaf->flags[i])) {
            i += FLAGS_AT_ONCE - 1;
            continue;
        }
        uint8_t flags = load_acquire(&leaf->flags[i]);
        struct segment *segment = (struct segment *)((first + i) << SEGMENT_SHIFT);
        if (flags && segment && !visit(segment, flags & SEGMENT_HUGE, context))
            return false;
    }
    return true;
}

void segment_each_of_map(uint64_t from, bool (*visit)(struct segment *, bool, void *),
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
    segment_each_of_map(place, visit, context);
    lock_release(&global.unmap_lock);
    segment_unmap_deferred();
    segment_release_empty();
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
