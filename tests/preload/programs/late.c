/* SPDX-License-Identifier: MIT */
/* late - a library that is preloaded in front of memctx: its malloc passes calls on, but works only
 * after its constructor, which runs after memctx's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*next)(size_t);

__attribute__((constructor)) static void find_next(void) {
    next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

void *malloc(size_t bytes) {
    return next(bytes);
}
