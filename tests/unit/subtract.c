/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/formats/subtract.c: profiles of an interval, in which the library has
 * evicted call paths and has given their ids to other paths. */
#include <criterion/criterion.h>

#include "formats/subtract.h"

#define COUNT 7

static struct model_frame root = {.kind = WIRE_KIND_ROOT, .module = WIRE_NONE};
static struct model_frame others = {
    .kind = WIRE_KIND_UNKNOWN, .module = WIRE_NONE, .label = (char *)"[other callers]"};
static struct model_frame frames[4] = {{.kind = WIRE_KIND_PATH, .address = 0x100},
                                       {.kind = WIRE_KIND_PATH, .address = 0x200},
                                       {.kind = WIRE_KIND_PATH, .address = 0x300},
                                       {.kind = WIRE_KIND_PATH, .address = 0x400}};

/* main (0x100) calls 0x200 (id 2), which calls 0x300 (id 3); 0x400 (id 4) allocates in main. */
static struct model_context old_contexts[5] = {
    {.frame = &root, .id = 0, .parent = WIRE_NONE}, {.frame = &frames[0], .id = 1, .parent = 0},
    {.frame = &frames[1], .id = 2, .parent = 1},    {.frame = &frames[2], .id = 3, .parent = 2},
    {.frame = &frames[3], .id = 4, .parent = 1},
};
static const struct model before = {.contexts = old_contexts, .context_count = 5};

/* 0x200 and the path 3 are evicted: the count of the path has moved to main > [other callers] >
 * 0x200 > 0x300. A path through 0x400 has the id 3 now, with the frame that the old one had. */
static struct model_context contexts[COUNT] = {
    {.frame = &root, .id = 0, .parent = WIRE_NONE}, {.frame = &frames[0], .id = 1, .parent = 0},
    {.frame = &frames[3], .id = 4, .parent = 1},    {.frame = &frames[2], .id = 3, .parent = 2},
    {.frame = &others, .id = 5, .parent = 1},       {.frame = &frames[1], .id = 6, .parent = 4},
    {.frame = &frames[2], .id = 7, .parent = 5},
};
static struct model_id by_id[COUNT] = {{0, 0}, {1, 1}, {3, 3}, {4, 2}, {5, 4}, {6, 5}, {7, 6}};
static const struct model now = {.contexts = contexts, .by_id = by_id, .context_count = COUNT};

static void set(int64_t *row, int64_t allocs, int64_t live) {
    row[TYPE_ALLOC_OBJECTS] = allocs;
    row[TYPE_ALLOC_SPACE] = 10 * allocs;
    row[TYPE_INUSE_OBJECTS] = live;
    row[TYPE_INUSE_SPACE] = 10 * live;
}

static void is_row(int64_t (*rows)[TYPES], size_t index, int64_t allocs, int64_t live) {
    int64_t want[TYPES] = {0};
    set(want, allocs, live);
    for (size_t k = 0; k < TYPES; k++)
        cr_assert_eq(rows[index][k], want[k], "context %zu, column %zu: %lld, not %lld", index, k,
                     (long long)rows[index][k], (long long)want[k]);
}

Test(subtract, evicted_paths_are_no_new_allocations) {
    int64_t old[5][TYPES] = {{0}}, rows[COUNT][TYPES] = {{0}};
    set(old[3], 50, 2);
    set(old[4], 7, 7);
    set(rows[2], 9, 1);
    set(rows[3], 60, 60); /* more than the other path had: the ids alone would give 10 */
    set(rows[6], 53, 0);
    subtract_rows(&now, &before, rows, (const int64_t(*)[TYPES])old);
    is_row(rows, 0, 0, 0);
    is_row(rows, 1, 0, -2); /* freed by the evicted path */
    is_row(rows, 2, 2, -6);
    is_row(rows, 3, 60, 60);
    is_row(rows, 4, 0, 0);
    is_row(rows, 5, 0, 0);
    is_row(rows, 6, 3, 0);
}

Test(subtract, a_path_without_room_for_a_site_is_found) {
    int64_t old[5][TYPES] = {{0}}, rows[COUNT][TYPES] = {{0}};
    set(old[3], 50, 0);
    set(rows[4], 51, 0); /* the figures went to [other callers] itself */
    subtract_rows(&now, &before, rows, (const int64_t(*)[TYPES])old);
    is_row(rows, 4, 1, 0);
    is_row(rows, 6, 0, 0);
}

Test(subtract, a_path_that_came_back_counts_again) {
    int64_t old[5][TYPES] = {{0}}, rows[COUNT][TYPES] = {{0}};
    struct model_context late[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        late[i] = contexts[i];
    late[5].frame = &frames[0]; /* main > [other callers] > main > 0x400 */
    late[6].frame = &frames[3];
    late[2].flags = WIRE_CONTEXT_LATE;
    set(old[4], 50, 0);
    set(rows[2], 5, 5);
    set(rows[6], 50, 0);
    struct model again = {.contexts = late, .by_id = by_id, .context_count = COUNT};
    subtract_rows(&again, &before, rows, (const int64_t(*)[TYPES])old);
    is_row(rows, 2, 5, 5);
    is_row(rows, 6, 0, 0);
}

Test(subtract, counters_that_were_reset_count_from_the_reset_on) {
    int64_t old[5][TYPES] = {{0}}, rows[COUNT][TYPES] = {{0}};
    set(old[3], 50, 0);
    set(old[4], 50, 1);
    set(rows[2], 5, 3);
    set(rows[6], 20, 0);
    subtract_rows(&now, &before, rows, (const int64_t(*)[TYPES])old);
    is_row(rows, 2, 5, 2);
    is_row(rows, 6, 20, 0);
}
