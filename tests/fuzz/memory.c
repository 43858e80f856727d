/* SPDX-License-Identifier: MIT */
/* Replaces the command's memory functions (cli.h). The command never frees, because it soon ends;
 * here all memory is freed after each input. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

static void **kept;
static size_t count, room;

static void *keep(void *memory) {
    if (!memory)
        abort();
    if (count == room) {
        room = room ? room * 2 : 1024;
        kept = realloc(kept, room * sizeof *kept);
    }
    return kept[count++] = memory;
}

void fuzz_forget(void) {
    while (count)
        free(kept[--count]);
}

void fuzz_free(void *memory) {
    (void)memory; /* fuzz_forget frees it */
}

void *cli_alloc(size_t number, size_t size_bytes) {
    return keep(calloc(number ? number : 1, size_bytes));
}

void *cli_grow(void *array, size_t number, size_t size_bytes) {
    for (size_t i = count; array && i-- > 0;)
        if (kept[i] == array)
            return kept[i] = realloc(array, number * size_bytes);
    return keep(realloc(NULL, number * size_bytes));
}

char *cli_copy(const char *text) {
    return keep(strdup(text));
}

char *cli_format(const char *format, ...) {
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        abort();
    va_end(arguments);
    return keep(text);
}
