/* SPDX-License-Identifier: MIT */
/* deepbind DIRECTORY - loads bound.so with RTLD_DEEPBIND and exchanges chunks with it in both
 * directions. It also takes libc's malloc and free by dlsym, frees chunks of libc's malloc, and
 * gives its own chunks to libc's free. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 6000 };

static int fail(const char *what) {
    fprintf(stderr, "deepbind: %s\n", what);
    return 1;
}

int main(int argc, char **argv) {
    char path[PATH_MAX];

    if (argc < 2) {
        return fail("no directory");
    }
    snprintf(path, sizeof path, "%s/bound.so", argv[1]);
    void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL || libc == NULL) {
        return fail(dlerror());
    }
    char *(*exchange)(char *, size_t) = (char *(*)(char *, size_t))dlsym(library, "bound_exchange");
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    void (*release)(void *) = (void (*)(void *))dlsym(libc, "free");
    if (exchange == NULL || allocate == NULL || release == NULL) {
        return fail(dlerror());
    }
    size_t characters = 0;
    for (size_t i = 0; i < TURNS; i++) {
        char *got = exchange(strdup("of the program"), 32 + i % 5000);
        if (got == NULL) {
            return fail("no chunk");
        }
        characters += strlen(got);
        free(got);
        free(allocate(40 + i % 200));
        release(malloc(40 + i % 200));
    }
    printf("%zu characters\n", characters);
    return 0;
}
