/* SPDX-License-Identifier: MIT */
/*
 * What stays resident after chunks of mixed lifetimes were freed. The argument names the shape:
 *   cells    2 M chunks of 48 bytes, 90 % freed at random; then chunks of 64 bytes with half as
 *            many bytes as were freed
 *   buffers  600 buffers of 100 to 200 kB, each replaced by one of a third of its size, five times;
 *            a small chunk beside each stays
 *   swapped  like buffers, then all buffers are freed
 *   queue    one thread allocates 1 M chunks, another one keeps each tenth; then half of these are
 *            freed
 *   all      1 M chunks of 16 to 512 bytes, all freed; `live` is their size before
 * Prints the live bytes and the resident bytes after 1.5 s of light work, in which an allocator can
 * give memory back: `live N resident N`.
 */
#include "common.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

struct entry {
    unsigned char *chunk;
    size_t bytes;
};

static size_t live_bytes;

/* The tables are from mmap and are unmapped before the measurement. */
static struct entry *table_new(size_t count) {
    struct entry *table = mmap(NULL, count * sizeof *table, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (table == MAP_FAILED) {
        exit(1);
    }
    return table;
}

static void table_drop(struct entry *table, size_t count) {
    munmap(table, count * sizeof *table);
}

static NOINLINE void fill(struct entry *entry, size_t bytes) {
    *entry = (struct entry){check_chunk(malloc(bytes), bytes), bytes};
    memset(entry->chunk, 7, bytes);
    live_bytes += bytes;
}

static void drop(struct entry *entry) {
    check_tag(entry->chunk, entry->bytes, 7);
    free(entry->chunk);
    entry->chunk = NULL;
    live_bytes -= entry->bytes;
}

static void cells(void) {
    enum { CELLS = 2000000 };
    struct random random = {.state = 48};
    struct entry *table = table_new(CELLS);
    size_t freed = 0;

    for (size_t i = 0; i < CELLS; i++) {
        fill(&table[i], 48);
    }
    for (size_t i = 0; i < CELLS; i++) {
        if (random_below(&random, 10) != 0) {
            drop(&table[i]);
            freed += 48;
        }
    }
    for (size_t i = 0; i < CELLS && freed / 2 >= 64; i++) {
        if (table[i].chunk == NULL) {
            fill(&table[i], 64);
            freed -= (size_t)2 * 64;
        }
    }
    table_drop(table, CELLS);
}

static void buffers(int swapped) {
    enum { BUFFERS = 600 };
    struct random random = {.state = 100};
    struct entry *large = table_new(BUFFERS), *small = table_new(BUFFERS);

    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < BUFFERS; i++) {
            struct entry before = large[i];

            fill(&large[i], 100000 + random_below(&random, 100000));
            if (before.chunk != NULL) {
                drop(&before);
            }
            if (round == 0) {
                fill(&small[i], 16 + random_below(&random, 200));
            }
        }
        for (size_t i = 0; i < BUFFERS; i++) {
            struct entry whole = large[i];

            fill(&large[i], whole.bytes / 3);
            drop(&whole);
        }
    }
    for (size_t i = 0; swapped && i < BUFFERS; i++) {
        drop(&large[i]);
    }
    table_drop(large, BUFFERS);
    table_drop(small, BUFFERS);
}

enum { MESSAGES = 1000000, QUEUE = 1024 };
static struct entry queue[QUEUE];
static size_t filled, taken;
static struct entry *kept;

static void *take(void *nothing) {
    size_t mine = 0;

    for (size_t i = 0; i < MESSAGES; i++) {
        while (__atomic_load_n(&filled, __ATOMIC_ACQUIRE) == i) {
        }
        struct entry entry = queue[i % QUEUE];
        __atomic_store_n(&taken, i + 1, __ATOMIC_RELEASE);
        if (i % 10 == 0) {
            kept[mine++] = entry;
        } else {
            free(entry.chunk);
        }
    }
    return nothing;
}

static void pass_on(void) {
    struct random random = {.state = 5};
    pthread_t thread;

    kept = table_new(MESSAGES / 10);
    if (pthread_create(&thread, NULL, take, NULL) != 0) {
        exit(1);
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t bytes = 16 + random_below(&random, 497);
        while (i - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) >= QUEUE) {
        }
        fill(&queue[i % QUEUE], bytes);
        live_bytes -= i % 10 == 0 ? 0 : bytes;
        __atomic_store_n(&filled, i + 1, __ATOMIC_RELEASE);
    }
    pthread_join(thread, NULL);
    for (size_t i = 0; i < MESSAGES / 10; i += 2) {
        drop(&kept[i]);
    }
    table_drop(kept, MESSAGES / 10);
}

/* Returns the bytes that were live before all chunks were freed. */
static size_t all(void) {
    enum { CHUNKS = 1000000 };
    struct random random = {.state = 6};
    struct entry *table = table_new(CHUNKS);

    for (size_t i = 0; i < CHUNKS; i++) {
        fill(&table[i], 16 + random_below(&random, 497));
    }
    size_t was = live_bytes;
    for (size_t i = 0; i < CHUNKS; i++) {
        drop(&table[i]);
    }
    table_drop(table, CHUNKS);
    return was;
}

int main(int argc, char **argv) {
    const char *shape = argc == 2 ? argv[1] : "";
    size_t live_before = 0; /* of shape all */

    if (strcmp(shape, "cells") == 0) {
        cells();
    } else if (strcmp(shape, "buffers") == 0 || strcmp(shape, "swapped") == 0) {
        buffers(shape[0] == 's');
    } else if (strcmp(shape, "queue") == 0) {
        pass_on();
    } else if (strcmp(shape, "all") == 0) {
        live_before = all();
    } else {
        fprintf(stderr, "usage: leftover cells|buffers|swapped|queue|all\n");
        return 2;
    }
    for (int i = 0; i < 30; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        free(check_chunk(malloc(64), 64));
    }
    printf("live %zu resident %ld\n", live_before != 0 ? live_before : live_bytes,
           resident_bytes());
    return 0;
}
