/* SPDX-License-Identifier: MIT */
/* demangle.c - readable C++ and Rust names, by libiberty. */
#include "names/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#define MANGLED_MAX_BYTES 4096
/* Each level of nested templates may double the readable form, so a mangled name of 500 bytes may
 * stand for 500 MB. */
#define READABLE_MAX_BYTES 65536

struct readable {
    size_t length;
    jmp_buf too_long;
    char text[READABLE_MAX_BYTES];
};

/* libiberty has no other way to end early. Its C++ part allocates nothing meanwhile. Its Rust part
 * may leave one identifier allocated. */
static void add_part(const char *part, size_t length, void *argument) {
    struct readable *readable = argument;
    if (length > READABLE_MAX_BYTES - readable->length)
        longjmp(readable->too_long, 1);
    memcpy(readable->text + readable->length, part, length);
    readable->length += length;
}

static bool demangle(const char *name, struct readable *readable) {
    const int options = DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI;
    readable->length = 0;
    if (setjmp(readable->too_long) != 0)
        return false;
    if (rust_demangle_callback(name, options, add_part, readable))
        return true;
    readable->length = 0;
    return cplus_demangle_v3_callback(name, options, add_part, readable);
}

char *demangle_name(const char *name) {
    struct readable readable;
    if ((strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0 &&
         strncmp(name, "__Z", 3) != 0) ||
        strlen(name) > MANGLED_MAX_BYTES)
        return NULL;
    return demangle(name, &readable) ? strndup(readable.text, readable.length) : NULL;
}
