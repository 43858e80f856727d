/* SPDX-License-Identifier: MIT */
/* share.c - hash tables of the texts, names and frames that already have a number. */
#include "snapshot/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

#define MULTIPLIER 0x9e3779b97f4a7c15U

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * MULTIPLIER;
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(const void *bytes, size_t length) {
    const char *at = bytes;
    uint64_t hash = length, word = 0;
    for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, at, length);
    return mix(hash, word);
}

typedef bool (*share_equal)(const struct share *share, uint32_t number, const void *key);

static void grow_set(struct share_set *set) {
    struct share_set old = *set;
    set->capacity = old.capacity > 0 ? 2 * old.capacity : 1024;
    set->slots = cli_alloc(set->capacity, sizeof *set->slots);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].number != 0) {
            size_t at = old.slots[i].hash & (set->capacity - 1);
            while (set->slots[at].number != 0)
                at = (at + 1) & (set->capacity - 1);
            set->slots[at] = old.slots[i];
        }
    }
    free(old.slots);
}

/* Returns the number plus 1 of the element of the set that equals the key. If there is none, gives
 * the key the next number and sets *added. */
static uint32_t find(const struct share *share, struct share_set *set, uint64_t hash64,
                     share_equal equal, const void *key, bool *added) {
    uint32_t hash = (uint32_t)(hash64 >> 32);
    if (2 * (size_t)set->count >= set->capacity)
        grow_set(set);
    size_t at = hash & (set->capacity - 1);
    for (; set->slots[at].number != 0; at = (at + 1) & (set->capacity - 1)) {
        if (set->slots[at].hash == hash && equal(share, set->slots[at].number - 1, key)) {
            *added = false;
            return set->slots[at].number;
        }
    }
    set->slots[at] = (struct share_slot){hash, ++set->count};
    *added = true;
    return set->count;
}

/* Returns the array with room for one more element than `count`. */
static void *room(void *array, size_t count, size_t *capacity, size_t size_bytes) {
    if (count < *capacity)
        return array;
    *capacity = 2 * *capacity + 256;
    return cli_grow(array, *capacity, size_bytes);
}

static bool equal_text(const struct share *share, uint32_t number, const void *key) {
    return strcmp(share->texts[number], key) == 0;
}

uint32_t share_text(struct share *share, const char *text) {
    bool added;
    if (!text)
        return 0;
    uint32_t number =
        find(share, &share->text_set, hash_bytes(text, strlen(text)), equal_text, text, &added);
    if (added) {
        share->texts = room(share->texts, number, &share->text_capacity, sizeof *share->texts);
        share->texts[number - 1] = text;
    }
    return number;
}

static bool equal_list(const struct share *share, uint32_t number, const void *key) {
    const struct share_list *one = &share->lists[number], *other = key;
    for (uint32_t i = 0; i < one->count && one->count == other->count; i++) {
        const struct share_function *left = &share->functions[one->first + i],
                                    *right = &share->functions[other->first + i];
        if (left->name != right->name || left->file != right->file || left->line != right->line)
            return false;
    }
    return one->count == other->count;
}

/* Returns the number plus 1 of a list of functions. Copies the functions to the end of
 * share->functions to compare them; the copies are kept only if the list is new. */
static uint32_t find_list(struct share *share, const struct model_names *names) {
    struct share_list list = {(uint32_t)share->function_count, names->count};
    uint64_t hash = names->count;
    bool added;
    for (uint32_t i = 0; i < names->count; i++) {
        const struct model_function *from = &names->functions[i];
        share->functions = room(share->functions, list.first + i, &share->function_capacity,
                                sizeof *share->functions);
        struct share_function *function = &share->functions[list.first + i];
        *function = (struct share_function){share_text(share, from->name),
                                            share_text(share, from->file), from->line};
        hash = mix(mix(hash, function->name), function->file);
        hash = mix(hash, (uint64_t)function->line);
    }
    uint32_t number = find(share, &share->list_set, hash, equal_list, &list, &added);
    if (added) {
        share->lists = room(share->lists, number, &share->list_capacity, sizeof *share->lists);
        share->lists[number - 1] = list;
        share->function_count += names->count;
    }
    return number;
}

uint32_t share_names(struct share *share, const struct model_names *names) {
    if (!names || names->count == 0)
        return 0;
    struct share_recent *recent =
        &share->recent[mix(0, (uint64_t)(uintptr_t)names) & (SHARE_RECENT - 1)];
    if (recent->names != names)
        *recent = (struct share_recent){names, find_list(share, names)};
    return recent->list;
}

static bool equal_frame(const struct share *share, uint32_t number, const void *key) {
    const struct share_frame *one = &share->frames[number], *other = key;
    return one->address == other->address && one->module == other->module &&
           one->list == other->list;
}

uint32_t share_frame(struct share *share, uint64_t address, uint32_t module, uint32_t list) {
    struct share_frame frame = {address, module, list};
    bool added;
    uint64_t hash = mix(mix(address, module), list);
    uint32_t number = find(share, &share->frame_set, hash, equal_frame, &frame, &added);
    if (added) {
        share->frames = room(share->frames, number, &share->frame_capacity, sizeof *share->frames);
        share->frames[number - 1] = frame;
    }
    return number;
}

void share_begin(struct share *share) {
    *share = (struct share){0};
    share->recent = cli_alloc(SHARE_RECENT, sizeof *share->recent);
}

void share_end(struct share *share) {
    free(share->text_set.slots);
    free(share->list_set.slots);
    free(share->frame_set.slots);
    free(share->texts);
    free(share->functions);
    free(share->lists);
    free(share->frames);
    free(share->recent);
}
