/* SPDX-License-Identifier: MIT */
/* stall.h - a function that is always inlined, so no symbol table has it. */
#ifndef STALL_H
#define STALL_H

#include <stdlib.h>

__attribute__((always_inline)) static inline char *stall_new(size_t bytes) {
    char *chunk = malloc(bytes);
    __asm__ volatile("" ::: "memory"); /* no tail call: the calling function needs a frame */
    return chunk;
}

#endif
