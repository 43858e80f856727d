/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>

#include "control/control.h"
#include "os/os.h"

#define KIB ((size_t)1 << 10)

Test(control_memory, is_kept_for_the_next_request_and_zeroed) {
    char *first = control_map(300 * KIB);
    for (size_t i = 0; i < 300 * KIB; i++)
        first[i] = 'x';
    control_unmap(first);
    cr_assert_eq(control_bytes(false), (int64_t)(300 * KIB), "kept");
    cr_assert_neq((void *)control_map(20 * KIB), (void *)first, "much too large for that");
    char *second = control_map(200 * KIB);
    cr_assert_eq((void *)second, (void *)first);
    for (size_t i = 0; i < 200 * KIB; i++)
        cr_assert_eq(second[i], 0, "byte %zu", i);
    char *third = control_map(200 * KIB);
    cr_assert(third && third != second, "in use");
    control_unmap_kept();
    cr_assert_eq(control_bytes(false), (int64_t)(520 * KIB), "what is in use stays");
}

Test(control_memory, goes_back_when_nobody_asks) {
    control_unmap(control_map(1 << 20));
    control_unmap_kept();
    cr_assert_eq(control_bytes(false), 0);
    control_unmap(control_map(64 << 20));
    cr_assert_eq(control_bytes(false), 0, "so much is not kept");
}

Test(control_memory, every_place_may_hold_what_is_kept) {
    enum { MANY = 96 };
    void *all[MANY];
    for (int i = 0; i < MANY; i++)
        cr_assert(all[i] = control_map(4 * KIB));
    cr_assert(!control_map(4 * KIB), "more places than tables");
    for (int i = 0; i < MANY; i++)
        control_unmap(all[i]);
    cr_assert(control_map(1 << 20), "none of them is large enough");
    cr_assert_eq(control_bytes(false), 1 << 20);
}

/* Each page is written at once: one that is read first costs the other threads an interruption when it is written. */
Test(control_memory, is_there_before_it_is_read) {
    char *table = control_map(64 * KIB);
    cr_assert_eq(os_resident_bytes(table, 64 * KIB), (int64_t)(64 * KIB));
    struct answer answer = {0};
    answer_reserve(&answer, 1 << 20);
    cr_assert_eq(os_resident_bytes(answer.bytes, 1 << 20), 0,
                 "room that is not used is not touched");
    for (int i = 0; i < 100; i++)
        cr_assert(answer_add(&answer, 1000));
    cr_assert_eq(os_resident_bytes(answer.bytes, 1 << 20), 100 << 10);
    answer_free(&answer);
}
