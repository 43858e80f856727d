/* SPDX-License-Identifier: MIT */
/*
 * stages.c - two threads whose memory changes from stage to stage. Each line on standard input
 * begins a stage. fill() is called from two places; shrink() frees the chunks of load().
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define KEPT 64
#define CHUNK_BYTES (64U << 10)

static void *kept[KEPT], *loaded[KEPT];
static unsigned kept_count;
static pthread_barrier_t turn;

__attribute__((noinline, noipa)) static void *fill(size_t bytes) {
    char *chunk = malloc(bytes);
    chunk[0] = 'x';
    return chunk;
}

__attribute__((noinline, noipa)) static void load(void) {
    for (unsigned i = 0; i < 32; i++) {
        loaded[i] = fill(CHUNK_BYTES);
        ((char *)loaded[i])[1] = 'x';
    }
}

__attribute__((noinline, noipa)) static void grow(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        kept[kept_count] = fill(CHUNK_BYTES);
        ((char *)kept[kept_count++])[1] = 'x';
    }
}

__attribute__((noinline, noipa)) static void shrink(void) {
    for (unsigned i = 0; i < 16; i++)
        free(loaded[i]);
}

static void *run_loader(void *unused) {
    load();
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn); /* nobody else comes to this barrier, so the thread never ends */
    return unused;
}

int main(void) {
    pthread_t loader;
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&loader, NULL, run_loader, NULL);
    pthread_setname_np(loader, "loader");
    pthread_barrier_wait(&turn);
    puts("ready");
    fflush(stdout);
    for (unsigned stage = 1; getchar() != EOF; stage++) {
        if (stage <= 3)
            grow(4 * stage);
        if (stage == 3)
            shrink();
        puts("ready");
        fflush(stdout);
    }
    return 0;
}
