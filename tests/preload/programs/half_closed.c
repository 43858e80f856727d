/* SPDX-License-Identifier: MIT */
/* half_closed DIRECTORY - recursions come to so many call paths that the library folds their
 * functions. Meanwhile, and until main has returned, the unwind information of a loaded library
 * cannot be read, as if another thread had unmapped it, in dlclose. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 4000, DEEPEST = 12 };

static struct {
    const char *name;
    uintptr_t start;
    size_t bytes;
} frames;

/* Finds the OS pages of the library's segment with unwind information. */
static int find_frames(struct dl_phdr_info *object, size_t size, void *context) {
    const ElfW(Phdr) *segment = object->dlpi_phdr, *end = segment + object->dlpi_phnum;
    uintptr_t header = 0;
    (void)size;
    (void)context;
    if (!strstr(object->dlpi_name, frames.name))
        return 0;
    for (; segment < end; segment++)
        if (segment->p_type == PT_GNU_EH_FRAME)
            header = segment->p_vaddr;
    for (segment = object->dlpi_phdr; segment < end; segment++)
        if (segment->p_type == PT_LOAD && segment->p_flags == PF_R &&
            header - segment->p_vaddr < segment->p_filesz) {
            uintptr_t start = object->dlpi_addr + segment->p_vaddr;
            frames.start = start & ~(uintptr_t)(PAGE - 1);
            frames.bytes = start + segment->p_memsz - frames.start;
        }
    return 1;
}

/* Four calls: the return addresses of a recursion tell one call path from the other. */
__attribute__((noinline)) static void recur(unsigned ways, int left) {
    if (!left) {
        free(malloc(40));
        return;
    }
    switch (ways % 4) {
    case 0: recur(ways / 4, left - 1); break;
    case 1:
        recur(ways / 4, left - 1);
        __asm__ volatile("nop");
        break;
    case 2:
        recur(ways / 4, left - 1);
        __asm__ volatile("nop; nop");
        break;
    default:
        recur(ways / 4, left - 1);
        __asm__ volatile("nop; nop; nop");
        break;
    }
    __asm__ volatile("");
}

static void *library;
static void *(*work)(size_t);

static void close_whole(void) {
    if (mprotect((void *)frames.start, frames.bytes, PROT_READ))
        _exit(1);
    free(work(100));
    dlclose(library);
    puts("done");
}

int main(int argc, char **argv) {
    char path[4096];
    unsigned ways = 1;
    snprintf(path, sizeof path, "%s/plugin_a.so", argc > 1 ? argv[1] : ".");
    frames.name = "plugin_a.so";
    library = dlopen(path, RTLD_NOW);
    work = library ? (void *(*)(size_t))dlsym(library, "plugin_work") : NULL;
    if (!work || !dl_iterate_phdr(find_frames, NULL) || !frames.bytes) {
        fprintf(stderr, "no library with unwind information at %s\n", path);
        return 1;
    }
    free(work(100));
    if (atexit(close_whole) || mprotect((void *)frames.start, frames.bytes, PROT_NONE))
        return 1;
    for (int i = 0; i < ROUNDS; i++, ways = ways * 1664525 + 1013904223)
        recur(ways >> 8, 1 + (int)(ways >> 3) % DEEPEST);
    return 0;
}
