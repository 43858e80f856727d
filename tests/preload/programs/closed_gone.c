/* SPDX-License-Identifier: MIT */
/* closed_gone DIRECTORY - closes a library, and frees so much around the loader's description of it
 * that the segment of the description goes back to the kernel. Then the program comes to new call
 * paths, and the control thread looks at the loaded objects. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../lib/repeat.h"

/* Chunks of about the size of the loader's description share pages with it. */
enum { AROUND = 60000, BYTES = 1180 };

static void *before[AROUND], *after[AROUND];

#define SITE(number)                                                                               \
    __attribute__((noinline)) static void site_##number(void) {                                    \
        char *volatile chunk = malloc(number);                                                     \
        free(chunk);                                                                               \
    }
#define CALL(number) site_##number();

TEN(SITE, 1)
TEN(SITE, 2)
TEN(SITE, 3)
TEN(SITE, 4)

int main(int argc, char **argv) {
    char path[4096];
    snprintf(path, sizeof path, "%s/plugin_a.so", argc > 1 ? argv[1] : ".");
    for (int i = 0; i < AROUND; i++)
        before[i] = malloc(BYTES);
    void *library = dlopen(path, RTLD_NOW);
    void *(*work)(size_t) = library ? (void *(*)(size_t))dlsym(library, "plugin_work") : NULL;
    if (!work) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < 8; i++)
        free(work(100));
    for (int i = 0; i < AROUND; i++)
        after[i] = malloc(BYTES);
    sleep(1);
    dlclose(library);
    for (int i = 0; i < AROUND; i++) {
        free(before[i]);
        free(after[i]);
    }
    malloc_trim(0);
    sleep(1);
    malloc_trim(0);
    TEN(CALL, 1)
    TEN(CALL, 2)
    TEN(CALL, 3)
    TEN(CALL, 4)
    sleep(2);
    puts("done");
    return 0;
}
