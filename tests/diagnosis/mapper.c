/* SPDX-License-Identifier: MIT */
/*
 * mapper.c - takes memory of one kind at a fixed rate, mostly without malloc.
 *
 * mapper KIND BYTES_A_SECOND [FILE] prints "look" after 3 s, and ends at a line on standard input
 * or at its end. Growing kinds: maps (mappings), heap (brk), stacks (threads that wait for ever),
 * unjoined (threads that nobody joins), memfd, tmpfs. Healthy kinds: buffer (fills a private
 * mapping), cache (fills a shared one), file (reads a mapped file), sawtooth, breathing (a level at
 * random), plateau, chunk (fills one chunk of malloc).
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define STEP 65536UL
#define ROOM (512UL << 20)
#define POOL 256
#define LOOK_S 3.0
#define STACK_USED 100000

static char *pool[POOL];
static size_t pooled;
static char *room;
static int file = -1;

static void *wait_for_ever(void *argument) {
    volatile char used[STACK_USED];
    memset((void *)used, 1, sizeof used);
    for (;;)
        pause();
    return argument;
}

static void *end_at_once(void *argument) {
    volatile char used[STACK_USED];
    memset((void *)used, 1, sizeof used);
    return argument;
}

static char *map(int flags, int descriptor, size_t offset) {
    char *start = mmap(NULL, STEP, PROT_READ | PROT_WRITE, flags, descriptor, (off_t)offset);
    if (start == MAP_FAILED)
        abort();
    return memset(start, 1, STEP);
}

static char *map_private(void) {
    return map(MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void thread_start(void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        abort();
}

static void pool_set(size_t level) {
    while (pooled > level)
        munmap(pool[--pooled], STEP);
    while (pooled < level)
        pool[pooled++] = map_private();
}

/* Reads or writes the next part of the room, so that it becomes resident. */
static void fill(size_t made, bool only_read) {
    char *at = room + made % ROOM;
    if (!only_read)
        memset(at, 1, STEP);
    for (size_t i = 0; only_read && i < STEP; i += 4096)
        (void)*(volatile char *)(at + i);
}

/* Takes memory once more, and returns how many bytes. */
static size_t take(const char *kind, size_t made) {
    if (strcmp(kind, "maps") == 0 || strcmp(kind, "plateau") == 0) {
        map_private();
    } else if (strcmp(kind, "heap") == 0) {
        memset(sbrk(STEP), 1, STEP);
    } else if (strcmp(kind, "stacks") == 0) {
        thread_start(wait_for_ever);
        return STACK_USED;
    } else if (strcmp(kind, "unjoined") == 0) {
        thread_start(end_at_once);
        return STACK_USED;
    } else if (strcmp(kind, "memfd") == 0 || strcmp(kind, "tmpfs") == 0) {
        if (ftruncate(file, (off_t)(made + STEP)) != 0)
            abort();
        map(MAP_SHARED, file, made);
    } else if (strcmp(kind, "sawtooth") == 0) {
        pool_set(pooled == POOL ? 1 : pooled + 1);
    } else if (strcmp(kind, "breathing") == 0) {
        pool_set(POOL / 2 + (size_t)rand() % (POOL / 2));
    } else {
        fill(made, strcmp(kind, "file") == 0);
    }
    return STEP;
}

static char *make_room(const char *kind, const char *path) {
    int shared = MAP_SHARED | MAP_ANONYMOUS, private = MAP_PRIVATE | MAP_ANONYMOUS;
    if (strcmp(kind, "memfd") == 0)
        file = memfd_create("cache", 0);
    if (strcmp(kind, "tmpfs") == 0)
        file = open("/dev/shm", O_RDWR | O_TMPFILE, 0600);
    if (strcmp(kind, "chunk") == 0)
        return malloc(ROOM);
    if (strcmp(kind, "file") == 0)
        return mmap(NULL, ROOM, PROT_READ, MAP_SHARED, open(path, O_RDONLY), 0);
    return mmap(NULL, ROOM, PROT_READ | PROT_WRITE, strcmp(kind, "cache") == 0 ? shared : private,
                -1, 0);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    const char *kind = argv[1];
    double rate = strtod(argv[2], NULL), start = now_s(), seconds;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    size_t made = 0;
    int said = 0;
    room = make_room(kind, argc > 3 ? argv[3] : NULL);
    while (poll(&input, 1, 3) == 0) {
        seconds = now_s() - start;
        double part = 1 / ((1 + seconds) * (1 + seconds));
        double wanted = rate * (strcmp(kind, "plateau") == 0 ? 1 - part : seconds);
        while ((double)made < wanted && made < ROOM - STEP)
            made += take(kind, made);
        if (seconds > LOOK_S && !said)
            said = puts("look") && fflush(stdout) == 0;
    }
    return 0;
}
