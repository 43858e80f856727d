/* SPDX-License-Identifier: MIT */
/*
 * lively.c - obeys lines of its standard input and answers "ok". "load": main allocates 100 chunks
 * of 1000 bytes on one call path; "feed": the thread "feeder" allocates 50 chunks of 2000 bytes on
 * one call path; "drop": main frees the chunk that was allocated last; "exit N": ends with status
 * N; "again": executes itself. Before it prints "ready" it does "load" and "feed" once.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile keep;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int wanted;

__attribute__((noinline)) static void load_chunk(void) {
    keep = malloc(1000);
}

__attribute__((noinline)) static void feed_chunk(void) {
    keep = malloc(2000);
}

__attribute__((noinline)) static void load_all(void) {
    for (int i = 0; i < 100; i++)
        load_chunk();
}

static void *feeder(void *nothing) {
    pthread_setname_np(pthread_self(), "feeder");
    pthread_mutex_lock(&lock);
    for (;;) {
        while (wanted == 0)
            pthread_cond_wait(&told, &lock);
        for (int i = 0; i < 50; i++)
            feed_chunk();
        wanted = 0;
        pthread_cond_broadcast(&told);
    }
    return nothing;
}

static void feed_all(void) {
    pthread_mutex_lock(&lock);
    wanted = 1;
    pthread_cond_broadcast(&told);
    while (wanted != 0)
        pthread_cond_wait(&told, &lock);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv) {
    (void)argc;
    char line[64];
    pthread_t thread;
    setvbuf(stdin, NULL, _IONBF, 0);
    if (pthread_create(&thread, NULL, feeder, NULL) != 0)
        return 1;
    load_all();
    feed_all();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "exit ", 5) == 0)
            exit(atoi(line + 5));
        if (strcmp(line, "again\n") == 0)
            execv("/proc/self/exe", argv);
        if (strcmp(line, "load\n") == 0)
            load_all();
        if (strcmp(line, "feed\n") == 0)
            feed_all();
        if (strcmp(line, "drop\n") == 0) {
            free(keep);
            keep = NULL;
        }
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
