/* SPDX-License-Identifier: MIT */
/* Tests of what the command computes from the figures of a dump (tools/memctx/model). */
#include <criterion/criterion.h>

#include "model/model.h"

/* A process that allocates 150 MB/s passes 2^50 bytes in three months. */
Test(model, figures_that_only_grow_are_not_cut) {
    const int64_t year_bytes = INT64_C(150000000) * 86400 * 365;
    cr_assert_eq(model_tame(year_bytes), year_bytes);
    cr_assert_eq(model_share(year_bytes, 3, 2), year_bytes / 2 * 3);
    cr_assert_eq(model_tame(INT64_MAX), -model_tame(-INT64_MAX));
    cr_assert(model_tame(INT64_MAX) <= INT64_MAX / 31, "a sum of 31 figures must fit");
    cr_assert_eq(model_tame(WIRE_UNKNOWN), 0);
}
