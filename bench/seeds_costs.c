/* SPDX-License-Identifier: MIT */
/*
 * seeds_costs.c - experiments that measure what one chunk, context or call costs. columns and no-op
 * run without libmemctx.so, too.
 */
#include "seeds.h"

/* Measures the bytes that a chunk takes beyond its requested size. */
static void overhead(void) {
    enum { CHUNKS = 2000000, BYTES = 64 };
    struct memctx_stats stats;
    memctx_t context = make(NULL, "many");
    for (int i = 0; i < CHUNKS; i++) {
        take(context, BYTES);
    }
    memctx_get_stats(context, &stats);
    figure("bytes", (double)stats.reserved_bytes / CHUNKS - BYTES);
    memctx_reset(context);
    double rounded = 0;
    for (int i = 0; i < CHUNKS; i++) {
        size_t bytes = 16 * (1 + dice(7));
        take(context, bytes);
        rounded += (double)bytes;
    }
    memctx_get_stats(context, &stats);
    figure("mixed_bytes", ((double)stats.reserved_bytes - rounded) / CHUNKS);
}

/* array_agg with a million groups: a context for each, with one chunk of 100 bytes. */
static void groups(void) {
    enum { GROUPS = 1000000, BYTES = 100 };
    memctx_t parent = make(NULL, "aggregate");
    long before = rss_kib();
    for (int i = 0; i < GROUPS; i++) {
        take(make(parent, "group"), BYTES);
    }
    figure("ratio", (double)(rss_kib() - before) * 1024 / ((double)GROUPS * BYTES));
}

/* A million states in one context of the aggregate, as PostgreSQL has them now. */
static void states(void) {
    enum { GROUPS = 1000000, BYTES = 100 };
    memctx_t parent = make(NULL, "aggregate");
    long before = rss_kib();
    for (int i = 0; i < GROUPS; i++) {
        take(parent, BYTES);
    }
    figure("ratio", (double)(rss_kib() - before) * 1024 / ((double)GROUPS * BYTES));
}

/* 2000 buffers that double in turns. */
static void buffers(void) {
    enum { BUFFERS = 2000, ROUNDS = 20 };
    static char *rows[BUFFERS];
    memctx_t context = make(NULL, "buffers");
    double begin = now_ns();
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t bytes = 64; bytes <= 16384; bytes *= 2) {
            for (int i = 0; i < BUFFERS; i++) {
                rows[i] = memctx_realloc(context, bytes == 64 ? NULL : rows[i], bytes);
                memset(rows[i] + bytes / 2, 1, bytes / 2);
            }
        }
        memctx_reset(context);
    }
    figure("ns", (now_ns() - begin) / ((double)ROUNDS * BUFFERS * 9));
}

/* Measures how long the growth of the table of contexts takes for each entry, from the slowest
 * creation at each doubling. */
static void table(void) {
    enum { CONTEXTS = 300000 };
    static double took[CONTEXTS];
    double worst = 0;
    for (int i = 0; i < CONTEXTS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "context %d", i);
        double begin = now_ns();
        make(NULL, name);
        took[i] = now_ns() - begin;
    }
    /* Each range has one doubling. Small ranges are left out: in them a preemption by another
     * process would weigh too much. */
    for (int first = 32768; first * 2 < CONTEXTS; first *= 2) {
        double slowest = 0;
        int at = first;
        for (int i = first; i < first * 2; i++) {
            if (took[i] > slowest) {
                slowest = took[i];
                at = i;
            }
        }
        double each = slowest / at;
        worst = each > worst ? each : worst;
    }
    figure("ns", worst);
}

/* Columns of 120 MB are loaded, then compressed to 31 kB. Uses plain malloc, so any allocator can
 * be measured. */
static void columns(void) {
    enum { COLUMNS = 62, PIECES = 1900, PIECE = 1024, COMPRESSED = 500 };
    static char *pieces[COLUMNS][PIECES], *compressed[COLUMNS];
    memset(pieces, 1, sizeof(pieces)); /* the program's own tables are resident from now on */
    memset(compressed, 1, sizeof(compressed));
    free(malloc(PIECE));
    usleep(200000); /* by then the control thread has started */
    rss_kib();      /* the first call makes libc allocate its buffers */
    figure("before_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        for (int k = 0; k < PIECES; k++) {
            pieces[i][k] = memset(malloc(PIECE), k, PIECE);
        }
    }
    figure("loaded_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        compressed[i] = memset(malloc(COMPRESSED), i, COMPRESSED);
        for (int k = 0; k < PIECES; k++) {
            free(pieces[i][k]);
        }
    }
    figure("compressed_kB", (double)rss_kib());
    sleep(2);
    figure("after_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        free(compressed[i]);
    }
}

/* Measures the time for a chunk in turns of 64 chunks of 100 bytes: malloc and free; memctx_alloc
 * and free; memctx_alloc and one memctx_reset. */
enum { TURN = 64, TURNS = 100000 };

static double turns_of(memctx_t context, int resets) {
    char *chunks[TURN];
    double begin = 0;
    for (int i = -TURNS / 10; i < TURNS; i++) {
        if (i == 0) {
            begin = now_ns();
        }
        for (int k = 0; k < TURN; k++) {
            chunks[k] = memctx_alloc(context, 100); /* context NULL: plain malloc */
            __asm__ volatile("" : : "r"(chunks[k]) : "memory");
        }
        if (resets) {
            memctx_reset(context);
        } else {
            for (int k = 0; k < TURN; k++) {
                free(chunks[k]);
            }
        }
    }
    return (now_ns() - begin) / ((double)TURNS * TURN);
}

static void fast(void) {
    memctx_t context = make(NULL, "fast");
    figure("malloc_ns", turns_of(NULL, 0));
    figure("free_ns", turns_of(context, 0));
    figure("reset_ns", turns_of(context, 1));
}

/* Measures the reset of a million chunks with 116 MB in the second round, when the pages have been
 * used before. The figure is the time in ms for each 100 MB. */
static void reset(void) {
    enum { CHUNKS = 1000000, BYTES = 116 };
    memctx_t context = make(NULL, "million");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CHUNKS; i++) {
            take(context, BYTES);
        }
        double begin = now_ns();
        memctx_reset(context);
        if (round) {
            figure("ms", (now_ns() - begin) / 1e6 / ((double)CHUNKS * BYTES / 1e8));
        }
        usleep(300000);
    }
}

/* Measures calls without a context; the figure includes the loop. */
static void no_op(void) {
    enum { CALLS = 200000000 };
    memctx_t volatile none = NULL;
    double begin = now_ns();
    for (int i = 0; i < CALLS; i++) {
        memctx_reset(none);
        memctx_switch(none);
    }
    figure("ns", (now_ns() - begin) / CALLS / 2);
}

const struct experiment costs[] = {
    {"overhead", overhead}, {"groups", groups},   {"states", states}, {"buffers", buffers},
    {"table", table},       {"columns", columns}, {"fast", fast},     {"reset", reset},
    {"no-op", no_op},       {NULL, NULL},
};
