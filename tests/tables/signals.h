/* SPDX-License-Identifier: MIT */
/*
 * signals.h - a signal handler that allocates, every two milliseconds, in the function handler_site
 * of the program that includes this file.
 */
#ifndef TABLES_SIGNALS_H
#define TABLES_SIGNALS_H

#include "books.h"

#include <signal.h>
#include <sys/time.h>

static struct chunk handler_chunks[8];

/* Replaces the chunk in the place by a new one of `bytes` bytes, and books that. */
static FRAME void handler_site(struct chunk *place, uint32_t bytes);

static void on_signal(int number) {
    static unsigned turn;
    int saved_errno = errno;
    turn++;
    handler_site(&handler_chunks[turn % 8], 40 + turn % 200);
    errno = saved_errno;
    (void)number;
}

static void start_signals(bool on) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval tick = {{0, on ? 2000 : 0}, {0, on ? 2000 : 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
}

#endif
