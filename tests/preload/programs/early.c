/* SPDX-License-Identifier: MIT */
/* early - allocates before any constructor has run, in the resolver of an indirect function (IFUNC)
 * too, then in threads, one after the other. earlier.c has taken pthread keys before the library
 * could take one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *earlier_kept[];

static char *first; /* allocated before any constructor, resized in main */

static void before_constructors(void) {
    for (size_t size = 1; size < 100000; size += 997) {
        char *volatile block = malloc(size);
        free(block);
    }
    first = strdup("first");
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(void) = before_constructors;

static char *resolved; /* allocated by the resolver */

static size_t count_characters(void) {
    return resolved ? strlen(resolved) : 0;
}

/* The loader calls this before it has written the thread-local variables. */
__attribute__((used)) static size_t (*resolve_count(void))(void) {
    for (size_t size = 1; size < 100000; size += 997) {
        char *volatile block = malloc(size);
        free(block);
    }
    resolved = malloc(9);
    memcpy(resolved, "resolved", 9);
    return count_characters;
}

static size_t count_indirectly(void) __attribute__((ifunc("resolve_count")));

static void *work(void *argument) {
    char *block = malloc(10000);
    memset(block, 1, 10000);
    free(block);
    *(void **)argument = strdup("what a thread leaves");
    return argument;
}

int main(void) {
    size_t characters = strlen(first) + count_indirectly();
    first = realloc(first, 500);
    free(resolved);
    for (int i = 0; i < 320; i++) {
        pthread_t thread;
        char *left = NULL;
        if (pthread_create(&thread, NULL, work, &left) != 0 || pthread_join(thread, NULL) != 0) {
            return 1;
        }
        characters += strlen(left);
        free(left);
    }
    for (int i = 0; i < 5; i++) {
        free(earlier_kept[i]);
    }
    printf("%zu characters\n", characters);
    return 0;
}
