/* SPDX-License-Identifier: MIT */
/* bound - the library that deepbind loads with RTLD_DEEPBIND: its malloc and free are those of the
 * libc that it is linked with, which stands before whatever was preloaded. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bound_exchange(char *given, size_t bytes);

/* Gives back what it got and returns what it made, in each of the ways that a library has. */
char *bound_exchange(char *given, size_t bytes) {
    static unsigned turn;
    char *made = NULL;
    size_t room = 0;

    if (turn % 3 == 0) {
        free(given);
    } else if (turn % 3 == 1) {
        free(realloc(given, malloc_usable_size(given) * 2));
    } else { /* made by the library's own, given back by libc's inside */
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
