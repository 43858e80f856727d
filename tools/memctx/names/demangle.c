/* SPDX-License-Identifier: MIT */
/* demangle.c - readable C++ and Rust names, by libiberty. */
#include "names/demangle.h"

#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

/* Longer names stay mangled: nested templates make the readable form grow exponentially. */
#define MANGLED_MAX_BYTES 4096

char *demangle_name(const char *name) {
    if ((strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0 &&
         strncmp(name, "__Z", 3) != 0) ||
        strlen(name) > MANGLED_MAX_BYTES)
        return NULL;
    return cplus_demangle(name, DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI);
}
