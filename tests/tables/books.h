/* SPDX-License-Identifier: MIT */
/*
 * books.h - exact books of a test program's live chunks, and how the program talks to the suite.
 *
 * A book counts the chunks of one pair of phase and site: the function below main that led to the
 * allocation, and the function that called malloc. The program stands still: it prints all its
 * books, then STAND and its process id, and waits for a line of standard input. Functions of this
 * file do not allocate, so from the first STAND to the last the books tell all changes of the heap.
 */
#ifndef TABLES_BOOKS_H
#define TABLES_BOOKS_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../lib/line.h"

/* For functions that must have a frame on the stack: neither inlined nor cloned. */
#define FRAME __attribute__((noinline, noclone))

enum { BOOK_PHASES = 12, BOOK_SITES = 24 };

struct book {
    int64_t live_bytes, live_chunks, allocs, frees;
};

struct books {
    struct book entries[BOOK_PHASES][BOOK_SITES];
};

struct chunk {
    void *pointer;
    uint32_t bytes;
    uint16_t phase, site;
};

static const char *phase_names[BOOK_PHASES], *site_names[BOOK_SITES];

static inline void die(const char *what) {
    if (write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
        _exit(4);
    _exit(3);
}

static inline void book_made(struct books *books, const struct chunk *chunk) {
    struct book *book = &books->entries[chunk->phase][chunk->site];
    if (!chunk->pointer)
        die("no memory");
    book->live_bytes += chunk->bytes;
    book->live_chunks++;
    book->allocs++;
}

static inline void chunk_free(struct books *books, struct chunk *chunk) {
    struct book *book = &books->entries[chunk->phase][chunk->site];
    if (!chunk->pointer)
        return;
    book->live_bytes -= chunk->bytes;
    book->live_chunks--;
    book->frees++;
    free(chunk->pointer);
    chunk->pointer = NULL;
}

static inline void books_add(struct books *sum, const struct books *part) {
    for (int phase = 0; phase < BOOK_PHASES; phase++)
        for (int site = 0; site < BOOK_SITES; site++) {
            struct book *to = &sum->entries[phase][site];
            const struct book *from = &part->entries[phase][site];
            to->live_bytes += from->live_bytes;
            to->live_chunks += from->live_chunks;
            to->allocs += from->allocs;
            to->frees += from->frees;
        }
}

static inline void say(const char *line) {
    size_t length = strlen(line);
    while (length > 0) {
        ssize_t done = write(1, line, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            die("cannot write to standard output");
        line += done;
        length -= (size_t)done;
    }
}

static inline void books_say(const struct books *books) {
    char line[200];
    for (int phase = 0; phase < BOOK_PHASES; phase++)
        for (int site = 0; site < BOOK_SITES; site++) {
            const struct book *book = &books->entries[phase][site];
            if (!book->allocs)
                continue;
            snprintf(line, sizeof line, "BOOK %s %s %ld %ld %ld %ld\n", phase_names[phase],
                     site_names[site], (long)book->live_bytes, (long)book->live_chunks,
                     (long)book->allocs, (long)book->frees);
            say(line);
        }
}

/* Prints the books and STAND and waits for the answer, which it returns without newline. False:
 * standard input has ended. The call of poll starts the control thread in a forked child that did
 * its work in less than 20 ms and therefore has none yet. */
static inline bool stand(const struct books *books, char *answer, size_t answer_bytes) {
    char line[64];
    books_say(books);
    snprintf(line, sizeof line, "STAND %d\n", (int)getpid());
    say(line);
    poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, -1);
    return line_read(answer, answer_bytes);
}

static inline uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* True if the argument is NAME=NUMBER; then stores NUMBER. */
static inline bool option(const char *argument, const char *name, uint64_t *number) {
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=')
        return false;
    *number = strtoull(argument + length + 1, NULL, 10);
    return true;
}

static inline int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#endif
