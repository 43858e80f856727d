/* SPDX-License-Identifier: MIT */
/* passing - a library that is preloaded in front of memctx: its malloc and free count the calls and
 * pass them on to the next malloc and free. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

unsigned long passing_calls;

void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    if (next == NULL) {
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    }
    __atomic_add_fetch(&passing_calls, 1, __ATOMIC_RELAXED);
    return next(bytes);
}

void free(void *chunk) {
    static void (*next)(void *);
    if (next == NULL) {
        next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    }
    __atomic_add_fetch(&passing_calls, 1, __ATOMIC_RELAXED);
    next(chunk);
}
