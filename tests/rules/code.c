/* SPDX-License-Identifier: MIT */
/*
 * code.c - a program for rules that the command resolves. It has an inlined function (stall.h), a
 * library that is loaded from the start (elsewhere.c), and a library that it loads later, from the
 * path in its argument. After each step it prints a line and waits for a line of input.
 */
#include "elsewhere.h"
#include "stall.h"

#include <dlfcn.h>
#include <stdio.h>

static char *chunks[8];

__attribute__((noinline)) static char *market(size_t bytes) {
    char *chunk = stall_new(bytes);
    chunk[0] = 1;
    return chunk;
}

static void step(const char *line) {
    puts(line);
    fflush(stdout);
    while (getchar() != '\n' && !feof(stdin)) {
    }
}

int main(int argc, char **argv) {
    size_t count = 0;
    setvbuf(stdin, NULL, _IONBF, 0);
    chunks[count++] = elsewhere_new(3000);
    chunks[count++] = market(3000);
    step("begun");
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        char *(*later_new)(size_t) =
            library != NULL ? (char *(*)(size_t))dlsym(library, "elsewhere_new") : NULL;
        if (later_new == NULL) {
            return 2;
        }
        chunks[count++] = later_new(3000);
        step("loaded");
        chunks[count++] = later_new(3000);
        step("again");
    }
    for (size_t i = 0; i < count; i++) {
        free(chunks[i]);
    }
    return 0;
}
