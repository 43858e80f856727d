/* SPDX-License-Identifier: MIT */
/*
 * growing.c - a program for the live page. It prints "ready" and holds 4 MiB in hold_rows() and
 * 1 MiB in grow_cache(). It obeys the lines on its standard input and answers each with "done":
 *   grow N       allocates N more chunks of 64 KiB in grow_cache()
 *   named NAME   makes a context of this name with 1 MiB
 * The end of standard input ends the program.
 */
#include <memctx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)
#define NOINLINE __attribute__((noinline, noipa))

/* A list of all chunks; the first bytes of a chunk point to the one before it. */
static void *kept;

NOINLINE static void keep(void *chunk) {
    if (!chunk)
        exit(1);
    memset(chunk, 1, CHUNK);
    *(void **)chunk = kept;
    kept = chunk;
}

NOINLINE static void hold_rows(int count) {
    for (int i = 0; i < count; i++)
        keep(malloc(CHUNK));
}

NOINLINE static void grow_cache(int count) {
    for (int i = 0; i < count; i++)
        keep(malloc(CHUNK));
}

int main(void) {
    char line[256];
    hold_rows(64);
    grow_cache(16);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "grow ", 5) == 0)
            grow_cache(atoi(line + 5));
        else if (strncmp(line, "named ", 6) == 0) {
            memctx_t context = memctx_create(NULL, line + 6, MEMCTX_ASET);
            if (!context || !memctx_alloc(context, (size_t)1 << 20))
                return 1;
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
