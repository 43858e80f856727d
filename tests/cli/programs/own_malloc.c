/* SPDX-License-Identifier: MIT */
/* own_malloc.c - a program with its own allocator, which never reuses memory. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char room[1 << 20];
static size_t used;

void *malloc(size_t size);
void free(void *chunk);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);

void *malloc(size_t size) {
    char *chunk = room + used;
    used += (size + 15) / 16 * 16;
    return used <= sizeof room ? chunk : NULL;
}

void free(void *chunk) {
    (void)chunk;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size); /* the memory is zero already, as it is never reused */
}

void *realloc(void *old, size_t size) {
    void *chunk = malloc(size);
    return chunk != NULL && old != NULL ? memcpy(chunk, old, size) : chunk;
}

int main(void) {
    char *chunks[3];
    int own = 0;
    for (int i = 0; i < 3; i++) {
        chunks[i] = malloc(100);
        own += chunks[i] >= room && chunks[i] < room + sizeof room;
        free(chunks[i]);
    }
    printf("own %d\n", own);
    return 0;
}
