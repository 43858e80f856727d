/* SPDX-License-Identifier: MIT */
/*
 * history.c - programs for the marks of MEMCTX_MARKS: `late` leaks evenly from 0.7 s on, `cache`
 * fills a table and then replaces entries, `reserves` leaks chunks of which it touches one OS page
 * of sixteen, `work` keeps nothing. Each prints "look" after 2 s, and goes on until a line comes.
 * The number of chunks depends on the clock.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BYTES 500
#define RECORDS_A_SECOND 8000 /* 3.8 MiB/s */
#define RESERVED_BYTES 65536
#define RESERVED_A_SECOND 200 /* 12.5 MiB/s, of which 0.8 MiB/s are resident */
#define LEAK_FROM_S 0.7
#define LOOK_AT_S 2.0
#define SLOTS 20000

static void **kept, *slots[SLOTS];

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) static void record_keep(size_t bytes) {
    void **record = malloc(bytes);
    memset(record, 1, bytes);
    *record = kept;
    kept = record;
}

__attribute__((noinline)) static void room_reserve(void) {
    void **room = malloc(RESERVED_BYTES);
    *room = kept;
    kept = room;
}

__attribute__((noinline)) static void slot_fill(void) {
    size_t slot = (size_t)rand() % SLOTS;
    free(slots[slot]);
    slots[slot] = malloc(RECORD_BYTES);
    memset(slots[slot], 1, RECORD_BYTES);
}

__attribute__((noinline)) static void request_work(void) {
    void *parts[64];
    for (size_t i = 0; i < 64; i++)
        parts[i] = malloc(100 + 50 * i);
    for (size_t i = 0; i < 64; i++)
        free(parts[i]);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    double start = now_s();
    size_t made = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    bool said = false;
    for (double t = 0; poll(&input, 1, 5) == 0; t = now_s() - start) {
        request_work();
        if (strcmp(what, "late") == 0)
            for (; t > LEAK_FROM_S && (double)made < (t - LEAK_FROM_S) * RECORDS_A_SECOND; made++)
                record_keep(RECORD_BYTES);
        if (strcmp(what, "reserves") == 0)
            for (; (double)made < t * RESERVED_A_SECOND; made++)
                room_reserve();
        if (strcmp(what, "cache") == 0)
            for (; (double)made < t * 60000; made++)
                slot_fill();
        if (t > LOOK_AT_S && !said)
            said = write(1, "look\n", 5) == 5;
    }
    return 0;
}
