/* SPDX-License-Identifier: MIT */
/* tails_far.c - a static function with the name of a static function of tails.c. */
#include <stdlib.h>

#include "tails.h"

static char *__attribute__((noinline, noipa)) helper(size_t bytes) {
    char *chunk = malloc(bytes);
    chunk[0] = 'x';
    return chunk;
}

char *far_entry(size_t bytes) {
    return helper(bytes + 1); /* MARK far_entry */
}
