/* SPDX-License-Identifier: MIT */
/*
 * sessions.c - a program with fragmentation: sessions that live for hours stand among rows that are
 * freed early, so nearly every page has a session, and no page goes back to the kernel.
 *
 * A call path with 16 KiB alive gets pages of its own without a rule. In this program each of a
 * thousand call paths has less, so they share pages. A rule gives all sessions pages of their own:
 *
 *     cc -g sessions.c -o sessions
 *     memctx run -- ./sessions
 *     memctx run --rule 'session_new=aset' -- ./sessions
 *
 * The program prints "answered" and waits for a line, so that you can run memctx doctor meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BITS = 10, REQUESTS = 4 << BITS, ROWS = 16, CHUNK_BYTES = 200 };
static char *sessions[REQUESTS], *rows[REQUESTS][ROWS];
static int count;

static char *filled(void) {
    char *chunk = malloc(CHUNK_BYTES);
    if (!chunk)
        exit(1);
    return memset(chunk, 1, CHUNK_BYTES);
}

static __attribute__((noinline)) char *session_new(void) {
    char *session = filled();
    return session;
}

/* Makes one call path for each kind of request: each bit of kind chooses one of two calls, so a
 * thousand call paths lead to the allocations below. */
static __attribute__((noinline)) void serve(int bits, int kind, const char *what) {
    if (bits && kind & 1) {
        serve(bits - 1, kind >> 1, "one of these");
    } else if (bits) {
        serve(bits - 1, kind >> 1, "one of those");
    } else {
        for (int i = 0; i < ROWS; i++)
            rows[count][i] = filled();     /* lives until all requests are answered */
        sessions[count++] = session_new(); /* lives for hours */
    }
    __asm__ volatile("" : : "r"(what)); /* work after the calls, so that none is a tail call */
}

int main(void) {
    for (int i = 0; i < REQUESTS; i++)
        serve(BITS, i, "a request");
    for (int i = 0; i < REQUESTS; i++)
        for (int k = 0; k < ROWS; k++)
            free(rows[i][k]);
    sleep(2); /* empty pages go back to the kernel meanwhile */
    puts("answered");
    fflush(stdout);
    getchar();
    return 0;
}
