/* SPDX-License-Identifier: MIT */
/*
 * many_libraries.c - with LIBRARY defined, a library whose function library_hold allocates. Without
 * it, a program that loads the files DIRECTORY/0.so to DIRECTORY/COUNT-1.so and calls the function
 * in each of them: library N allocates 1000 + N bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY

void *library_hold(size_t bytes);
void *library_hold(size_t bytes) {
    char *volatile chunk = malloc(bytes); /* the call is no tail call */
    return chunk;
}

#else

#include <dlfcn.h>
#include <unistd.h>

int main(int argc, char **argv) {
    for (int i = 0; argc == 3 && i < atoi(argv[2]); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d.so", argv[1], i);
        void *library = dlopen(path, RTLD_NOW);
        void *(*hold)(size_t) = library ? (void *(*)(size_t))dlsym(library, "library_hold") : NULL;
        if (!hold || !hold(1000 + (size_t)i)) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

#endif
