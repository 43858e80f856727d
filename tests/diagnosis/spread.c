/* SPDX-License-Identifier: MIT */
/*
 * spread.c - growth over 300 call paths, each of which makes few chunks. `leak`: keeps the chunks
 * of handlers_run. `main`: likewise, but main calls the handlers. `replaced`: half of the paths
 * hold more chunks, the other half in the next round. `full`: grows in two rounds only. `bursts`:
 * each path makes many chunks in one round and none in the others. `phases`: in each round two
 * other paths make many chunks. `little`: as `leak`, but each path keeps many chunks of few bytes.
 * `line`: four call places of one function, in one line, keep many chunks. `unrolled`: each round
 * has its own call place in one line, as in a loop that the compiler unrolled. `tasks`: one thread
 * makes tasks, another thread a buffer for each. `unlike`: the other thread makes other numbers of
 * buffers. `served`: `serve` keeps large chunks in two paths, and calls handlers_run. Each prints
 * "look" four times, and waits for a line each time.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/repeat.h"
#include "looks.h"

#define HANDLERS 300
#define EACH 3 /* chunks of each call path in a round */
#define BYTES 1500

#define BURST 40  /* chunks that a path makes at once */
#define PHASE 900 /* chunks that a path makes at once in `phases` */

#define LITTLE 20 /* chunks that a path makes at once in `little` */
#define LITTLE_BYTES 60

static char *kept[HANDLERS * LITTLE * 4];
static size_t count, bytes = BYTES;
static int each = EACH;

/* Each handler calls malloc itself, so each is a call path. */
#define HANDLER(number)                                                                            \
    __attribute__((noinline)) static void *handler_##number(void) {                                \
        char *chunk = malloc(bytes + number % 7);                                                  \
        memset(chunk, number % 100, bytes);                                                        \
        return chunk;                                                                              \
    }
#define NAME(number) handler_##number,
HUNDRED(HANDLER, 1)
HUNDRED(HANDLER, 2)
HUNDRED(HANDLER, 3)
static void *(*const handlers[])(void) = {HUNDRED(NAME, 1) HUNDRED(NAME, 2) HUNDRED(NAME, 3)};

__attribute__((noinline)) static void handlers_run(void) {
    for (int i = 0; i < HANDLERS; i++)
        for (int k = 0; k < each; k++)
            kept[count++] = handlers[i]();
    __asm__ volatile("");
}

/* Replaces all chunks: every second path holds three times as many as the others, in turns. */
__attribute__((noinline)) static void handlers_swap(int round) {
    while (count > 0)
        free(kept[--count]);
    for (int i = 0; i < HANDLERS; i++)
        for (int k = 0; k < (i % 2 == round % 2 ? 3 : 1) * EACH; k++)
            kept[count++] = handlers[i]();
    __asm__ volatile("");
}

/* In each round another quarter of the paths makes BURST chunks. */
__attribute__((noinline)) static void handlers_burst(int round) {
    for (int i = round; i < HANDLERS; i += 4)
        for (int k = 0; k < BURST; k++)
            kept[count++] = handlers[i]();
    __asm__ volatile("");
}

/* In each round two other paths make PHASE chunks. */
__attribute__((noinline)) static void parts_load(int round) {
    for (int i = 2 * round; i < 2 * round + 2; i++)
        for (int k = 0; k < PHASE; k++)
            kept[count++] = handlers[i]();
    __asm__ volatile("");
}

__attribute__((noinline)) static char *request_keep(void) {
    char *request = malloc(45000);
    memset(request, 'r', 45000);
    return request;
}

__attribute__((noinline)) static char *reply_keep(void) {
    char *reply = malloc(46000);
    memset(reply, 'a', 46000);
    return reply;
}

__attribute__((noinline)) static void serve(void) {
    for (int k = 0; k < 64; k++) {
        kept[count++] = request_keep();
        kept[count++] = reply_keep();
    }
    handlers_run();
    __asm__ volatile("");
}

__attribute__((noinline)) static char *filled(char *chunk) {
    return memset(chunk, 'l', 45000);
}

#define KEEP_LARGE kept[count++] = filled(malloc(45000))

__attribute__((noinline)) static void line_keep(void) {
    for (int k = 0; k < 64; k++)
        KEEP_LARGE, KEEP_LARGE, KEEP_LARGE, KEEP_LARGE;
    __asm__ volatile("");
}

__attribute__((noinline)) static void stage_keep(void) {
    for (int k = 0; k < 64; k++)
        kept[count++] = request_keep();
    __asm__ volatile("");
}

#define STAGE stage_keep(), look()

__attribute__((noinline)) static void unrolled(void) {
    STAGE, STAGE, STAGE, STAGE;
}

static sem_t begin, end;
static int buffers;

__attribute__((noinline)) static void task_spawn(void) {
    kept[count++] = filled(malloc(50000));
    __asm__ volatile("");
}

__attribute__((noinline)) static void buffer_open(void) {
    static size_t last = HANDLERS * LITTLE * 4;
    kept[--last] = memset(malloc(3000), 'b', 3000);
    __asm__ volatile("");
}

static void *run_tasks(void *argument) {
    for (;;) {
        sem_wait(&begin);
        for (int i = 0; i < buffers; i++)
            buffer_open();
        sem_post(&end);
    }
    return argument;
}

static void tasks(int unlike) {
    pthread_t thread;
    sem_init(&begin, 0, 0);
    sem_init(&end, 0, 0);
    pthread_create(&thread, NULL, run_tasks, NULL);
    for (int round = 0; round < 4; round++) {
        int made = 400 + 200 * (round % 2);
        for (int i = 0; i < made; i++)
            task_spawn();
        buffers = unlike ? 500 + 40 * round : made;
        sem_post(&begin);
        sem_wait(&end);
        look();
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "little") == 0) {
        bytes = LITTLE_BYTES;
        each = LITTLE;
    }
    if (strcmp(what, "unrolled") == 0) {
        unrolled();
        return 0;
    }
    if (strcmp(what, "tasks") == 0 || strcmp(what, "unlike") == 0) {
        tasks(strcmp(what, "unlike") == 0);
        return 0;
    }
    for (int round = 0; round < 4; round++) {
        if (strcmp(what, "main") == 0) {
            for (int i = 0; i < HANDLERS; i++)
                for (int k = 0; k < EACH; k++)
                    kept[count++] = handlers[i]();
        } else if (strcmp(what, "replaced") == 0) {
            handlers_swap(round);
        } else if (strcmp(what, "line") == 0) {
            line_keep();
        } else if (strcmp(what, "bursts") == 0) {
            handlers_burst(round);
        } else if (strcmp(what, "phases") == 0) {
            parts_load(round);
        } else if (strcmp(what, "served") == 0) {
            serve();
        } else if (strcmp(what, "full") != 0 || round <= 1) {
            handlers_run();
        }
        look();
    }
    return 0;
}
