/* SPDX-License-Identifier: MIT */
/* thread_figures born|late - prints two numbers: the resident anonymous memory in KiB after a few
 * threads have ended, and after many more. born: after 1 000 threads, and after 10 000 more, 100 at
 * a time, that allocate, hand chunks on and end. late: after 20 threads, and after 2 000 more,
 * whose first allocation is in a key destructor. Both numbers are read after some seconds of rest,
 * in which empty memory goes back to the kernel. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BORN = 10000,
    BORN_BEFORE = 1000,
    AT_ONCE = 100,
    LATE = 2000,
    LATE_BEFORE = 20,
    BLOCKS = 100,
    ENTRIES = 400,
    SETTLE_S = 3
};

static pthread_key_t key;
static pthread_barrier_t all_there;
static _Atomic(char *) handed[BLOCKS];

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Reads the anonymous part only: the kernel maps and drops pages of files as it likes. */
static long anonymous_kib(void) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && value < 0 && fgets(line, sizeof line, file)) {
        sscanf(line, "Anonymous: %ld", &value);
    }
    if (!file || value < 0) {
        die("no resident size");
    }
    fclose(file);
    return value;
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    char *blocks[BLOCKS] = {NULL};
    for (int i = 0; i < ENTRIES; i++) { /* enough allocations for a heap of its own */
        free(blocks[0]);
        blocks[0] = malloc(1);
    }
    /* all 100 threads are alive at once, so that each round needs 100 heaps */
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 1000; i++) {
        unsigned slot = (unsigned)rand_r(&seed) % BLOCKS;
        free(blocks[slot]);
        blocks[slot] = malloc((size_t)rand_r(&seed) % (i % 20 ? 500 : 30000) + 1);
        blocks[slot][0] = 1;
        if (i % 10 == 0) {
            blocks[slot] =
                __atomic_exchange_n((char **)&handed[slot], blocks[slot], __ATOMIC_ACQ_REL);
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void bear(int count) {
    pthread_t threads[AT_ONCE];
    for (int done = 0; done < count; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (pthread_create(&threads[i], NULL, work, (void *)(size_t)(done + i + 1)) != 0) {
                die("no thread");
            }
        }
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(__atomic_exchange_n((char **)&handed[i], NULL, __ATOMIC_ACQ_REL));
    }
}

static void allocate_late(void *argument) {
    char *block = malloc(100), *more = malloc(5000);
    (void)argument;
    memset(block, 1, 100);
    memset(more, 1, 5000);
    free(block);
    free(more);
}

static void *only_set_key(void *argument) {
    pthread_setspecific(key, "first");
    return argument;
}

static void be_late(int count) {
    pthread_t thread;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&thread, NULL, only_set_key, NULL) != 0) {
            die("no thread");
        }
        pthread_join(thread, NULL);
    }
}

int main(int count, char **arguments) {
    int late = count > 1 && strcmp(arguments[1], "late") == 0;
    pthread_key_create(&key, allocate_late);
    pthread_barrier_init(&all_there, NULL, AT_ONCE);
    (late ? be_late : bear)(late ? LATE_BEFORE : BORN_BEFORE);
    sleep(SETTLE_S);
    long before = anonymous_kib();
    (late ? be_late : bear)(late ? LATE : BORN);
    sleep(SETTLE_S);
    printf("%ld %ld\n", before, anonymous_kib());
    return 0;
}
