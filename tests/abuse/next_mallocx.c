/* SPDX-License-Identifier: MIT */
/*
 * A library with jemalloc's functions beside the malloc family. api_jemalloc.c is linked with it,
 * so that the test knows which calls reach the library behind memctx. Each chunk has a mapping of
 * its own.
 */
#include "next_mallocx.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define OS_PAGE ((size_t)4096)

/* Stands below each chunk. */
struct head {
    void *mapping;
    size_t mapped, size;
};

static int live;

static struct head *head_of(const void *chunk) {
    return (struct head *)((uintptr_t)chunk - sizeof(struct head));
}

int next_live(void) {
    return live;
}

size_t nallocx(size_t size, int flags) {
    (void)flags;
    return size;
}

void *mallocx(size_t size, int flags) {
    size_t alignment = (size_t)1 << (flags & 63);
    if (alignment < 16)
        alignment = 16;
    if (size > SIZE_MAX / 4)
        return NULL;
    size_t mapped = size + alignment + OS_PAGE;
    char *mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    uintptr_t chunk = ((uintptr_t)mapping + sizeof(struct head) + alignment - 1) & ~(alignment - 1);
    *head_of((void *)chunk) = (struct head){mapping, mapped, size};
    live++;
    return (void *)chunk;
}

size_t sallocx(const void *chunk, int flags) {
    (void)flags;
    return head_of(chunk)->size;
}

void dallocx(void *chunk, int flags) {
    (void)flags;
    live--;
    munmap(head_of(chunk)->mapping, head_of(chunk)->mapped);
}

void sdallocx(void *chunk, size_t size, int flags) {
    (void)size;
    dallocx(chunk, flags);
}

void *rallocx(void *old, size_t size, int flags) {
    size_t had = sallocx(old, flags);
    void *chunk = mallocx(size, flags);
    if (chunk) {
        memcpy(chunk, old, had < size ? had : size);
        dallocx(old, flags);
    }
    return chunk;
}

size_t xallocx(void *chunk, size_t size, size_t extra, int flags) {
    (void)size, (void)extra;
    return sallocx(chunk, flags);
}
