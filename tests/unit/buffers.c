/* SPDX-License-Identifier: MIT */
/* Tests of src/figures/buffers.h: the control thread's mappings are kept for the next request while
 * they are small, and an answer ends where its room ends. */
#include <criterion/criterion.h>

#include "figures/buffers.h"
#include "os/os.h"

#define KIB ((size_t)1 << 10)

Test(buffers, is_kept_for_the_next_request_and_zeroed) {
    char *first = buffers_map(200 * KIB, true);
    for (size_t i = 0; i < 200 * KIB; i++)
        first[i] = 'x';
    buffers_unmap(first);
    cr_assert_eq(buffers_bytes(false), (int64_t)(200 * KIB), "kept");
    cr_assert_neq((void *)buffers_map(20 * KIB, true), (void *)first,
                  "the kept mapping is much too large for 20 KiB");
    char *second = buffers_map(150 * KIB, true);
    cr_assert_eq((void *)second, (void *)first);
    for (size_t i = 0; i < 150 * KIB; i++)
        cr_assert_eq(second[i], 0, "byte %zu", i);
    char *third = buffers_map(150 * KIB, true);
    cr_assert(third && third != second, "a mapping in use was handed out");
    buffers_unmap_kept();
    cr_assert_eq(buffers_bytes(false), (int64_t)(370 * KIB), "a mapping in use was unmapped");
}

Test(buffers, goes_back_when_nobody_asks) {
    buffers_unmap(buffers_map(200 * KIB, true));
    buffers_unmap_kept();
    cr_assert_eq(buffers_bytes(false), 0);
    buffers_unmap(buffers_map(1 << 20, true));
    cr_assert_eq(buffers_bytes(false), 0, "a MiB is too large to be kept");
}

Test(buffers, every_place_may_hold_what_is_kept) {
    void *all[BUFFERS_MAX];
    for (int i = 0; i < BUFFERS_MAX; i++)
        cr_assert(all[i] = buffers_map(4 * KIB, true));
    cr_assert(!buffers_map(4 * KIB, true), "more than BUFFERS_MAX mappings at a time");
    for (int i = 0; i < BUFFERS_MAX; i++)
        buffers_unmap(all[i]);
    /* no kept mapping is large enough, so one of them gives its place up */
    cr_assert(buffers_map(1 << 20, true), "kept mappings hold all places");
    cr_assert_eq(buffers_bytes(false), 1 << 20);
}

/* buffers_map touches every page of a zeroed buffer. If a page were first read and then written,
 * the kernel would interrupt the other threads for the change of the mapping. */
Test(buffers, is_there_before_it_is_read) {
    char *table = buffers_map(64 * KIB, true);
    cr_assert_eq(os_resident_bytes(table, 64 * KIB), (int64_t)(64 * KIB));
    char *answers = buffers_map(192 * KIB, false);
    cr_assert_eq(os_resident_bytes(answers, 192 * KIB), 0, "touched without being asked to");
}

Test(buffers, an_answer_has_an_end) {
    char room[64];
    struct answer answer = {.bytes = room, .capacity = sizeof room};
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 'x';
    char *first = answer_add(&answer, 40);
    cr_assert_eq((void *)first, (void *)room);
    cr_assert_null(answer_add(&answer, 25));
    cr_assert_eq(answer.length, 40);
    cr_assert_eq((void *)answer_add(&answer, 24), (void *)(room + 40));
    for (size_t i = 0; i < sizeof room; i++)
        cr_assert_eq(room[i], 0, "byte %zu", i);
    cr_assert_null(answer_add(&answer, 1));
}
