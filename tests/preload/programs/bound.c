/* SPDX-License-Identifier: MIT */
/* bound - the library that deepbind loads with RTLD_DEEPBIND: its symbols are looked up in libc
 * first, so it uses libc's malloc and free instead of preloaded ones. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bound_exchange(char *given, size_t bytes);

/* Frees the chunk that the caller made and returns a new one. Each turn takes another way to free
 * and to allocate. */
char *bound_exchange(char *given, size_t bytes) {
    static unsigned turn;
    char *made = NULL;
    size_t room = 0;

    if (turn % 3 == 0) {
        free(given);
    } else if (turn % 3 == 1) {
        free(realloc(given, malloc_usable_size(given) * 2));
    } else { /* libc allocates the buffer of open_memstream, this library frees it */
        FILE *stream = open_memstream(&made, &room);

        if (stream == NULL) {
            return NULL;
        }
        fputs(given, stream);
        fclose(stream);
        free(made);
        free(given);
    }
    switch (turn++ % 6) {
    case 0: made = malloc(bytes); break;
    case 1: made = calloc(1, bytes); break;
    case 2: made = aligned_alloc(64, (bytes + 63) / 64 * 64); break;
    case 3: made = posix_memalign((void **)&made, 256, bytes) == 0 ? made : NULL; break;
    case 4: made = strdup("by libc's strdup"); return made;
    default: made = reallocarray(NULL, bytes, 1); break;
    }
    if (made != NULL) {
        snprintf(made, bytes, "%zu bytes", bytes);
    }
    return made;
}
