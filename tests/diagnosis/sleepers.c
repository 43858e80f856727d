/* SPDX-License-Identifier: MIT */
/*
 * sleepers.c - threads whose load is over: each allocates chunks of many sizes, frees all but a
 * few, and sleeps. "sleepers N" starts N threads and prints "look" when they sleep. After a line
 * they do the work once more, and it prints "look" again. It exits with 1 if a chunk has another
 * content than was written. "sleepers N back" frees the chunks in the opposite order,
 * "sleepers N shuffled" frees small chunks in an order that neither their addresses nor their sizes
 * have.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MOST 64
#define ROWS 3000
#define NOTES 10
#define SHUFFLE 1237 /* has no divisor in common with ROWS */

static pthread_barrier_t barrier;
static char *notes[THREADS_MOST][2 * NOTES];
static int frees_back, shuffles;

__attribute__((noinline)) static char *row_make(size_t bytes) {
    char *row = malloc(bytes);
    if (!row)
        exit(1);
    memset(row, (int)(bytes % 100), bytes);
    return row;
}

__attribute__((noinline)) static char *note_keep(size_t bytes) {
    char *note = malloc(bytes);
    if (!note)
        exit(1);
    memset(note, 7, bytes);
    return note;
}

static size_t row_bytes(size_t i) {
    return 16 + i * 37 % (shuffles ? 1000 : 9000);
}

static void *work(void *argument) {
    char **own = argument, *rows[ROWS];
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < ROWS; i++) {
            rows[i] = row_make(row_bytes(i));
            if (i % (ROWS / NOTES) == 0)
                own[round * NOTES + i / (ROWS / NOTES)] = note_keep(96);
        }
        for (size_t k = 0; k < ROWS; k++) {
            size_t i = frees_back ? ROWS - 1 - k : shuffles ? k * SHUFFLE % ROWS : k;
            if (rows[i][0] != (char)(row_bytes(i) % 100) ||
                rows[i][row_bytes(i) - 1] != (char)(row_bytes(i) % 100))
                exit(1);
            free(rows[i]);
        }
        pthread_barrier_wait(&barrier); /* main prints "look" */
        pthread_barrier_wait(&barrier); /* main has read a line */
    }
    for (size_t i = 0; i < (size_t)2 * NOTES; i++)
        if (own[i][0] != 7 || own[i][95] != 7)
            exit(1);
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t threads[THREADS_MOST];
    if (count < 1 || count > THREADS_MOST)
        return 2;
    frees_back = argc > 2 && strcmp(argv[2], "back") == 0;
    shuffles = argc > 2 && strcmp(argv[2], "shuffled") == 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, notes[i]) != 0)
            return 1;
    for (int round = 0; round < 2; round++) {
        pthread_barrier_wait(&barrier);
        puts("look");
        fflush(stdout);
        getchar();
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
