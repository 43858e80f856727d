/* SPDX-License-Identifier: MIT */
/* tails_plain.c - functions without debug information. */
#include <stdlib.h>

#include "tails.h"

static char *__attribute__((noinline, noipa)) plain_work(size_t bytes) {
    char *chunk = malloc(bytes);
    chunk[0] = 'x';
    return chunk;
}

char *plain_entry(size_t bytes) {
    return plain_work(bytes + 1);
}

char *plain_maybe(size_t bytes) {
    return plain_back(bytes + 1);
}
