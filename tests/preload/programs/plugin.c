/* SPDX-License-Identifier: MIT */
/* plugin - a library that dlopen_loop loads and unloads. It is built twice, with stack frames of
 * different sizes, so that unwind rules of one build are wrong for the other. A table stands before
 * the unwind information in one build and behind it in the other, so that only the code is at equal
 * addresses. */
#include <stdlib.h>
#include <string.h>

void *plugin_work(size_t bytes);
#if PLUGIN_FRAME_BYTES < 500
const
#endif
    char plugin_table[65536] = {1};

__attribute__((noinline)) static void *make(size_t bytes) {
    volatile char frame[PLUGIN_FRAME_BYTES];
    frame[0] = (char)bytes;
    char *block = malloc(bytes);
    memset(block, frame[0], bytes);
    return block;
}

void *plugin_work(size_t bytes) {
    char *kept = make(bytes);
    char *copy = strdup("a plugin's string");
    free(copy);
    return kept;
}
