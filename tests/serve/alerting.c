/* SPDX-License-Identifier: MIT */
/* alerting.c - a program for the alerts of examples/prometheus: keep_rows leaves nearly empty pages
 * behind, and leak_sessions grows until stdin ends. Prints "ready". */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 20000, ROW_BYTES = 1000, KEPT = 50, SESSION_BYTES = 20000, PAUSE_MS = 20 };

__attribute__((noinline)) static char *keep_rows(void) {
    return memset(malloc(ROW_BYTES), 1, ROW_BYTES);
}

__attribute__((noinline)) static char *leak_sessions(void) {
    return memset(malloc(SESSION_BYTES), 1, SESSION_BYTES);
}

int main(void) {
    static char *rows[ROWS], *volatile last;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int i = 0; i < ROWS; i++)
        rows[i] = keep_rows();
    for (int i = 0; i < ROWS; i++)
        if (i % KEPT)
            free(rows[i]);
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, PAUSE_MS) == 0)
        last = leak_sessions();
    return last == NULL;
}
