/* SPDX-License-Identifier: MIT */
/*
 * phases - a program that runs on: one phase after the other, each with call paths that no other
 * phase uses. Six levels of eight functions make 262 144 paths; no function recurs.
 *
 * Options, NAME=NUMBER:
 *   phases   number of phases, at most 6     seconds  duration of a phase
 *   paths    number of paths of a phase      ring     live chunks of each thread
 *   threads  number of threads, each of which does the same work
 *   seed
 * In each phase a path of twelve functions, hot_K_01 to hot_K_12, makes one of 50 allocations. The
 * program stands still before the first phase and after each phase.
 */
#include "books.h"

#include <pthread.h>

enum { PHASES_MAX = 6, LEVELS = 6, THREADS_MAX = 16, RING_MAX = 1 << 16, SITE_HOT = 8 };

static struct settings {
    uint64_t phases, seconds, paths, ring, threads, seed;
} settings = {.phases = 3, .seconds = 4, .paths = 30000, .ring = 512, .threads = 1, .seed = 1};

struct thread {
    pthread_t id;
    uint64_t state;
    struct books books;
    struct chunk *place;
    struct chunk ring[RING_MAX];
    uint16_t phase;
};
static struct thread threads[THREADS_MAX];
static struct books books;
static int64_t phase_ends_ns;

/* --- paths ------------------------------------------------------------------------------------ */

static __attribute__((always_inline)) inline void take(struct thread *thread, unsigned site) {
    uint32_t bytes = 16 + (uint32_t)(draw(&thread->state) % 200);
    *thread->place = (struct chunk){malloc(bytes), bytes, thread->phase, (uint16_t)site};
    book_made(&thread->books, thread->place);
}

#define SITE(number)                                                                               \
    static FRAME void site_##number(struct thread *thread, uint32_t path) {                        \
        (void)path;                                                                                \
        take(thread, number);                                                                      \
        __asm__ volatile("# site" #number);                                                        \
    }
#define EIGHT(each, ...)                                                                           \
    each(0, __VA_ARGS__) each(1, __VA_ARGS__) each(2, __VA_ARGS__) each(3, __VA_ARGS__)            \
        each(4, __VA_ARGS__) each(5, __VA_ARGS__) each(6, __VA_ARGS__) each(7, __VA_ARGS__)
SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)
static void (*const level_6[])(struct thread *, uint32_t) = {site_0, site_1, site_2, site_3,
                                                             site_4, site_5, site_6, site_7};
#define STEP(number, level, next)                                                                  \
    static FRAME void step_##level##number(struct thread *thread, uint32_t path) {                 \
        next[path >> 3 & 7](thread, path >> 3);                                                    \
        __asm__ volatile("# step" #level #number);                                                 \
    }
#define LEVEL(level, next)                                                                         \
    EIGHT(STEP, level, next)                                                                       \
    static void (*const level_##level[])(struct thread *, uint32_t) = {                            \
        step_##level##0, step_##level##1, step_##level##2, step_##level##3,                        \
        step_##level##4, step_##level##5, step_##level##6, step_##level##7};
LEVEL(5, level_6)
LEVEL(4, level_5)
LEVEL(3, level_4)
LEVEL(2, level_3)
LEVEL(1, level_2)

#define HOT_LINK(kind, this, next)                                                                 \
    static FRAME void kind##this(struct thread * thread) {                                         \
        kind##next(thread);                                                                        \
        __asm__ volatile("# " #kind #this);                                                        \
    }
#define HOT(phase)                                                                                 \
    static FRAME void hot_##phase##_12(struct thread *thread) {                                    \
        take(thread, SITE_HOT + phase);                                                            \
        __asm__ volatile("# hot" #phase);                                                          \
    }                                                                                              \
    HOT_LINK(hot_##phase##_, 11, 12)                                                               \
    HOT_LINK(hot_##phase##_, 10, 11)                                                               \
    HOT_LINK(hot_##phase##_, 09, 10)                                                               \
    HOT_LINK(hot_##phase##_, 08, 09)                                                               \
    HOT_LINK(hot_##phase##_, 07, 08)                                                               \
    HOT_LINK(hot_##phase##_, 06, 07)                                                               \
    HOT_LINK(hot_##phase##_, 05, 06)                                                               \
    HOT_LINK(hot_##phase##_, 04, 05)                                                               \
    HOT_LINK(hot_##phase##_, 03, 04)                                                               \
    HOT_LINK(hot_##phase##_, 02, 03)                                                               \
    HOT_LINK(hot_##phase##_, 01, 02)
HOT(0)
HOT(1)
HOT(2)
HOT(3)
HOT(4)
HOT(5)

#define PHASE(number)                                                                              \
    static FRAME void phase_##number(struct thread *thread, uint32_t path, bool hot) {             \
        if (hot)                                                                                   \
            hot_##number##_01(thread);                                                             \
        else                                                                                       \
            level_1[path & 7](thread, path);                                                       \
        __asm__ volatile("# phase" #number);                                                       \
    }
PHASE(0)
PHASE(1)
PHASE(2)
PHASE(3)
PHASE(4)
PHASE(5)
static void (*const all_phases[])(struct thread *, uint32_t, bool) = {phase_0, phase_1, phase_2,
                                                                      phase_3, phase_4, phase_5};

/* --- the program ------------------------------------------------------------------------------ */

/* Returns the number of a random path of this phase. */
static uint32_t draw_path(struct thread *thread) {
    uint64_t path = draw(&thread->state) % settings.paths * 2654435761U;
    return (uint32_t)((path ^ path >> 15) * (thread->phase + 1U)) & 0x3ffff;
}

static void run_phase(struct thread *thread) {
    for (uint64_t i = 0;; i++) {
        if (i % 1024 == 0) {
            if (now_ns() >= phase_ends_ns)
                return;
            /* A phase lasts seconds, because the library sweeps once a second. The thread works for
             * about half of that time, so that other tests can work, too. */
            usleep(1000);
        }
        struct chunk *place = &thread->ring[draw(&thread->state) % settings.ring];
        chunk_free(&thread->books, place);
        thread->place = place;
        all_phases[thread->phase](thread, draw_path(thread), i % 50 == 0);
    }
}

static void *run_thread(void *argument) {
    run_phase(argument);
    return NULL;
}

static bool stand_after(void) {
    char answer[64];
    memset(&books, 0, sizeof books);
    for (uint64_t i = 0; i < settings.threads; i++)
        books_add(&books, &threads[i].books);
    return stand(&books, answer, sizeof answer);
}

int main(int argc, char **argv) {
    static char names[2][16][16];
    for (int i = 0; i < PHASES_MAX; i++) {
        snprintf(names[0][i], 16, "phase_%d", i);
        snprintf(names[1][i], 16, "hot_%d_12", i);
        phase_names[i] = names[0][i];
        site_names[SITE_HOT + i] = names[1][i];
    }
    for (int i = 0; i < SITE_HOT; i++) {
        static char sites[SITE_HOT][16];
        snprintf(sites[i], 16, "site_%d", i);
        site_names[i] = sites[i];
    }
    for (int i = 1; i < argc; i++)
        if (!option(argv[i], "phases", &settings.phases) &&
            !option(argv[i], "seconds", &settings.seconds) &&
            !option(argv[i], "paths", &settings.paths) &&
            !option(argv[i], "ring", &settings.ring) &&
            !option(argv[i], "threads", &settings.threads) &&
            !option(argv[i], "seed", &settings.seed))
            die("no such option");
    if (settings.phases > PHASES_MAX || settings.threads > THREADS_MAX || settings.ring > RING_MAX)
        die("an option is too large");
    if (!stand_after())
        return 0;
    for (unsigned phase = 0; phase < settings.phases; phase++) {
        phase_ends_ns = now_ns() + (int64_t)settings.seconds * 1000000000;
        for (uint64_t i = 0; i < settings.threads; i++) {
            threads[i].phase = (uint16_t)phase;
            threads[i].state =
                (settings.seed + i) * 0x9e3779b97f4a7c15U + phase + 88172645463325252U;
            if (i && pthread_create(&threads[i].id, NULL, run_thread, &threads[i]))
                die("no thread");
        }
        run_phase(&threads[0]);
        for (uint64_t i = 1; i < settings.threads; i++)
            pthread_join(threads[i].id, NULL);
        if (!stand_after())
            return 0;
    }
    return 0;
}
