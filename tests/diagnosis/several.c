/* SPDX-License-Identifier: MIT */
/* several.c - memory of two findings: a mapping of the program's own, and pages that are nearly
 * empty. Prints "look" when both are there, and waits for a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED_BYTES (80UL << 20)
#define CHUNKS 120000
#define STAYS 60 /* one chunk in so many stays */

static char *chunks[CHUNKS];

__attribute__((noinline)) static char *session_new(void) {
    char *session = malloc(400);
    memset(session, 1, 400);
    return session;
}

int main(void) {
    char line[64];
    char *mapped =
        mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return 1;
    memset(mapped, 1, MAPPED_BYTES);
    for (int i = 0; i < CHUNKS; i++)
        chunks[i] = session_new();
    for (int i = 0; i < CHUNKS; i++)
        if (i % STAYS != 0)
            free(chunks[i]);
    puts("look");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) == NULL;
}
