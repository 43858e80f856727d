/* SPDX-License-Identifier: MIT */
/*
 * server.c - a server that frees each request by one reset.
 *
 * The program reads a question from each line and prints the question backwards. The function that
 * answers frees nothing: all that it allocates is in the context "request", which is reset before
 * the next request.
 *
 *     cc -I/usr/local/include server.c -o server
 *     printf 'abc\nrats live\n' | memctx run -- ./server
 *
 * Without memctx the program prints the same answers, and the memory of all requests stays.
 */
#include <memctx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This function does not use memctx.h: malloc and strdup allocate in the thread's current context.
 */
static char *answer(const char *question) {
    char *text = strdup(question);
    size_t length = text ? strlen(text) : 0;
    char *reversed = malloc(length + 1);
    if (!text || !reversed)
        return NULL;
    for (size_t i = 0; i < length; i++)
        reversed[i] = text[length - 1 - i];
    reversed[length] = '\0';
    return reversed;
}

static void print_statistics(memctx_t request) {
    struct memctx_stats stats;
    memctx_get_stats(request, &stats);
    fprintf(stderr, "allocated %llu chunks, freed %llu, alive %llu\n",
            (unsigned long long)stats.allocs, (unsigned long long)stats.frees,
            (unsigned long long)stats.chunks);
}

int main(void) {
    char line[1000];
    /* Bump suits chunks that are all freed by one reset: they stand one behind the other, and the
     * reset frees whole pages. */
    memctx_t request = memctx_create(NULL, "request", MEMCTX_BUMP);
    while (fgets(line, sizeof line, stdin)) {
        char *text = NULL;
        line[strcspn(line, "\n")] = '\0';
        MEMCTX_SCOPE(request) {
            text = answer(line);
        }
        /* Outside the scope, because stdio keeps the buffer that it allocates with the first line.
         */
        puts(text ? text : "out of memory");
        memctx_reset(request); /* frees all that this request allocated; text is gone */
    }
    print_statistics(request);
    memctx_delete(request);
    return 0;
}
