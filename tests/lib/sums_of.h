/* SPDX-License-Identifier: MIT */
/*
 * sums_of.h - the sum of one context over all heaps, for the unit tests and the model.
 */
#ifndef TEST_SUMS_OF_H
#define TEST_SUMS_OF_H

#include "figures/sums.h"

static inline struct sum sums_of(uint32_t context) {
    struct sum sum;
    sums_begin();
    sums_read(context, &sum, NULL);
    sums_end();
    return sum;
}

#endif
