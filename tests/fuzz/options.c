/* SPDX-License-Identifier: MIT */
/* The options MEMCTX_* in the environment and those of `memctx set`: lines NAME=VALUE. */
#include "base/options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LINES = 8 };
    char *environment[LINES + 1] = {NULL}, said[300], *copy = malloc(size + 1);
    memcpy(copy, data, size);
    copy[size] = 0;
    char *line = copy;
    for (int i = 0; i < LINES && line; i++) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        environment[i] = line;
        struct text answer = {.bytes = said, .capacity = sizeof said};
        options_set(line, &answer);
        line = end;
    }
    struct text warnings = {.bytes = said, .capacity = sizeof said};
    options_read(environment, &warnings);
    if (warnings.length > warnings.capacity)
        abort();
    free(copy);
    return 0;
}
