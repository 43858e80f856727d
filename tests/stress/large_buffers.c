/* SPDX-License-Identifier: MIT */
/* large_buffers STEPS - four threads allocate, resize, zero, hand over and free buffers of 1 to 20
 * MiB and fork, so that freed mappings are joined, moved and given back all the time. At every 64
 * KiB a buffer holds its name combined with the offset, which each use of the buffer checks. Prints
 * "ok" and waits for a line; after the line "again" it does all that once more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, SLOTS = 40, STRIDE = 64 << 10, LEAST = 1 << 20, SPREAD = 19 << 20 };

struct buffer { /* the head of each buffer */
    uint64_t name;
    size_t bytes;
};
static struct buffer *_Atomic slots[SLOTS];
static long steps;

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static void sign(struct buffer *buffer, size_t from, size_t bytes) {
    char *start = (char *)buffer;
    buffer->bytes = bytes;
    for (size_t at = (from + STRIDE) / STRIDE * STRIDE; at + 8 <= bytes; at += STRIDE)
        memcpy(start + at, &(uint64_t){buffer->name ^ at}, 8);
}

static void check(const struct buffer *buffer, size_t bytes) {
    const char *start = (const char *)buffer;
    for (size_t at = STRIDE; at + 8 <= bytes; at += STRIDE)
        if (memcmp(start + at, &(uint64_t){buffer->name ^ at}, 8) != 0)
            die("a buffer has other contents than it was given");
}

static struct buffer *fresh(uint64_t name, size_t bytes, int zeroed) {
    struct buffer *buffer = zeroed ? calloc(1, bytes) : malloc(bytes);
    if (!buffer)
        die("no memory");
    for (size_t at = 0; zeroed && at < bytes; at += STRIDE / 16)
        if (((char *)buffer)[at])
            die("calloc gave bytes that are not zero");
    buffer->name = name;
    sign(buffer, 0, bytes);
    return buffer;
}

static struct buffer *resized(struct buffer *buffer, size_t bytes) {
    size_t had = buffer->bytes;
    if (!(buffer = realloc(buffer, bytes)))
        die("no memory");
    check(buffer, had < bytes ? had : bytes);
    sign(buffer, had < bytes ? had : bytes, bytes);
    return buffer;
}

static void fork_with(struct buffer *buffer, size_t bytes) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        check(buffer, buffer->bytes);
        free(fresh(1, bytes, 0));
        free(buffer);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        die("a child failed");
}

static void *work(void *number) {
    uint64_t random = (uint64_t)(uintptr_t)number * 7919, name = (uint64_t)(uintptr_t)number << 40;
    for (long step = 0; step < steps; step++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        size_t bytes = LEAST + (size_t)(random >> 40) % SPREAD, slot = random >> 33 & 1023;
        struct buffer *buffer = atomic_exchange(&slots[slot % SLOTS], NULL);
        if (buffer) {
            check(buffer, buffer->bytes);
            if (random >> 20 & 3) {
                free(buffer);
                buffer = NULL;
            } else if (random >> 22 & 15) {
                buffer = resized(buffer, bytes);
            } else {
                fork_with(buffer, bytes);
            }
        }
        if (!buffer)
            buffer = fresh(++name << 1, bytes, (random >> 26 & 7) == 0);
        free(atomic_exchange(&slots[slot % SLOTS], buffer));
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            die("no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free(atomic_exchange(&slots[i], NULL));
}

int main(int argc, char **argv) {
    char line[16];
    steps = argc > 1 ? atol(argv[1]) : 500;
    do {
        run_threads();
        puts("ok");
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin) && strcmp(line, "again\n") == 0);
    return 0;
}
