/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/serve/moments.c: which snapshots `memctx serve` keeps. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "serve/moments.h"

#define EVERY_MS 10000

static struct moments moments;
static uint64_t last_id;

static void add(int64_t ms, size_t length) {
    moments_add(&moments, ++last_id, ms, calloc(1, length), length);
}

/* Adds `count` moments, one every EVERY_MS, and thins them when there are more than MOMENTS_MAX. */
static void fill(size_t count) {
    for (size_t i = 0; i < count; i++) {
        add((int64_t)i * EVERY_MS, 10 + i % 5);
        if (moments.count > MOMENTS_MAX)
            cr_assert_neq(moments_thin(&moments), 0);
    }
}

Test(moments, are_found_by_id) {
    cr_assert_null(moments_find(&moments, 0));
    add(1, 10);
    add(2, 20);
    cr_assert_eq(moments_find(&moments, 0)->id, 2);
    cr_assert_eq(moments_find(&moments, 1)->ms, 1);
    cr_assert_null(moments_find(&moments, 3));
    cr_assert_eq(moments.bytes, 30);
    cr_assert_eq(moments_thin(&moments), 1, "the first of two goes");
    cr_assert_eq(moments_thin(&moments), 0, "the last one stays");
    cr_assert_eq(moments.bytes, 20);
    cr_assert_eq(moments_find(&moments, 0)->id, 2);
    moments_free(&moments);
    cr_assert_eq(moments.bytes, 0);
    cr_assert_null(moments_find(&moments, 2));
}

Test(moments, first_and_last_stay_and_gaps_grow_with_age) {
    const size_t made = 6 * 3600 * 1000 / EVERY_MS; /* six hours */
    fill(made);
    cr_assert_eq(moments.count, MOMENTS_MAX);
    cr_assert_eq(moments.list[0].id, 1);
    cr_assert_eq(moments.list[MOMENTS_MAX - 1].id, made);
    size_t bytes = 0;
    for (size_t i = 0; i < moments.count; i++)
        bytes += moments.list[i].length;
    cr_assert_eq(moments.bytes, bytes);
    int64_t now_ms = moments.list[MOMENTS_MAX - 1].ms, widest = 0;
    for (size_t i = 1; i < moments.count; i++) {
        int64_t gap_ms = moments.list[i].ms - moments.list[i - 1].ms;
        int64_t age_ms = now_ms - moments.list[i - 1].ms;
        cr_assert_gt(gap_ms, 0, "sorted by time");
        cr_assert_leq(gap_ms, EVERY_MS + age_ms / 8, "a gap of %ld ms at an age of %ld", gap_ms,
                      age_ms);
        widest = gap_ms > widest ? gap_ms : widest;
        if (age_ms < 10 * EVERY_MS)
            cr_assert_eq(gap_ms, EVERY_MS, "the last minutes are dense");
    }
    cr_assert_gt(widest, 10 * EVERY_MS, "old ones lie far apart");
    moments_free(&moments);
}
