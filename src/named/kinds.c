/* SPDX-License-Identifier: MIT */
/*
 * kinds.c - the table of kinds. A kind is the contexts that have one name and one parent.
 *
 * Kinds never move and are never freed. A hash table finds them, and doubles when it is half full.
 * A doubling costs some ns for each entry, and the first touch of the new memory.
 */
#include "named/internal.h"
#include "os/meta.h"

#define KINDS_PER_BLOCK 1024U
struct kind_slot {
    uint32_t hash, number; /* hash and number of a kind; number 0: the slot is empty */
};
static struct {
    struct kind *blocks[NAMED_BLOCKS];
    struct kind_slot *table;
    uint32_t mask, count;
} kinds; /* under region_lock */

static uint32_t kind_hash(uint32_t parent, const char *name) {
    uint64_t hash = parent;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3ULL;
    return (uint32_t)hash_mix(hash, parent);
}

static struct kind *kind_at(uint32_t number) {
    return &kinds.blocks[number / KINDS_PER_BLOCK][number % KINDS_PER_BLOCK];
}

/* Returns the slot of the kind, or the empty slot where it belongs. */
static struct kind_slot *kind_slot(uint32_t parent, const char *name, uint32_t hash) {
    for (uint32_t at = hash;; at++) {
        struct kind_slot *slot = &kinds.table[at & kinds.mask];
        if (!slot->number)
            return slot;
        const struct kind *kind = slot->hash == hash ? kind_at(slot->number) : NULL;
        if (kind && kind->parent == parent && text_equal(kind->name, name))
            return slot;
    }
}

#define FIRST_KINDS 64U

static bool kinds_grow(void) {
    uint32_t old_count = kinds.table ? kinds.mask + 1 : 0;
    uint32_t count = old_count ? old_count * 2 : FIRST_KINDS;
    struct kind_slot *table = meta_alloc(count * sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < old_count; i++) {
        uint32_t at = kinds.table[i].hash;
        if (!kinds.table[i].number)
            continue;
        while (table[at & (count - 1)].number)
            at++;
        table[at & (count - 1)] = kinds.table[i];
    }
    meta_free(kinds.table, old_count * sizeof *table);
    kinds.table = table;
    kinds.mask = count - 1;
    return true;
}

/* Makes a new kind. Returns 0 if memory is short, or there are too many kinds. */
static uint32_t kind_create(uint32_t parent, const char *name) {
    uint32_t number = kinds.count + 1;
    if (number / KINDS_PER_BLOCK >= NAMED_BLOCKS)
        return 0;
    struct kind **block = &kinds.blocks[number / KINDS_PER_BLOCK];
    if (!*block && !(*block = meta_alloc(KINDS_PER_BLOCK * sizeof **block)))
        return 0;
    size_t bytes = text_length(name) + 1;
    char *copy = meta_alloc(bytes);
    if (!copy)
        return 0;
    __builtin_memcpy(copy, name, bytes);
    *kind_at(number) = (struct kind){.name = copy, .parent = parent};
    kinds.count++;
    return number;
}

struct kind *kinds_get(uint32_t parent, const char *name) {
    uint32_t hash = kind_hash(parent, name);
    struct kind_slot *slot = kinds.table ? kind_slot(parent, name, hash) : NULL;
    if (slot && slot->number) /* no memory is needed for a kind that exists */
        return kind_at(slot->number);
    if (!slot || kinds.count * 2 > kinds.mask) {
        if (!kinds_grow())
            return NULL;
        slot = kind_slot(parent, name, hash);
    }
    if (!slot->number)
        *slot = (struct kind_slot){.hash = hash, .number = kind_create(parent, name)};
    return slot->number ? kind_at(slot->number) : NULL;
}
