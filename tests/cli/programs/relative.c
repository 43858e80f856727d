/* SPDX-License-Identifier: MIT */
/* relative.c - with PART, a library that allocates; else a program that uses two such libraries, by
 * relative paths. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef PART
#define NAME(part) NAME_OF(part)
#define NAME_OF(part) part##_allocate

void *NAME(PART)(size_t bytes);

__attribute__((noinline, noipa)) void *NAME(PART)(size_t bytes) {
    char *block = malloc(bytes);
    if (block)
        block[0] = 1;
    return block;
}
#else
void *near_allocate(size_t bytes);

int main(void) {
    void *plugin = dlopen("./plugin.so", RTLD_NOW);
    void *(*allocate)(size_t) = plugin ? dlsym(plugin, "plugin_allocate") : NULL;
    if (!allocate || chdir("/") != 0)
        return 1;
    void *volatile keep[] = {near_allocate(1111), allocate(2222)};
    puts("ready");
    fflush(stdout);
    while (keep[0] && keep[1])
        pause();
}
#endif
