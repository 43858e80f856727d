/* SPDX-License-Identifier: MIT */
/*
 * levels - a recursion that allocates on every level while threads end, a library is reloaded,
 * signals come and children are forked.
 *
 * Eight functions call each other at random and keep a chunk now and then; one of them calls the
 * next through the library whose file is in LEVELS_LIBRARY. Options, NAME=NUMBER:
 *   walks      recursions in each round
 *   rounds, seed
 *   threads    threads in each round; each makes all walks and ends (0: main walks)
 *   reload=N   the library is closed and loaded again every N walks of main
 *   signals=1  a handler that allocates, every two milliseconds
 *   forks=N    children in each round, which walk, free all their chunks and end
 *   trees=N    instead of walks: N trees from each of two callers, whose calls below are equal;
 *              then single allocations from either of the two callers
 *   mixed=1    every other branch of a tree has one caller more, so each stack is another one
 *   callers=1  a walk of main has 41 more callers between main and the recursion
 * The program stands still before the first round and after each round.
 */
#include "signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum {
    LEVELS = 8,
    DEEPEST = 14,
    SLOTS = 64,
    THREADS_MAX = 16,
    SITE_PLUG = LEVELS,
    SITE_HANDLER,
    SITE_BRANCH
};
enum { PHASE_WALK, PHASE_HANDLER, PHASE_LEFT, PHASE_RIGHT };
enum { TREE_LEVELS = 16, TWIGS = 100 };

struct walker {
    uint64_t state;
    struct books books;
    struct chunk chunks[SLOTS];
};

static struct settings {
    uint64_t walks, rounds, seed, threads, reload, signals, forks, trees, mixed, callers;
} settings = {.walks = 2000, .rounds = 3, .seed = 1};

static struct walker walkers[THREADS_MAX];
static struct books handler_books;
static void *library;
static void *(*plug_step)(void (*next)(void *, unsigned), void *, unsigned, unsigned);

static void level(struct walker *walker, unsigned levels);

static void keep(struct walker *walker, void *pointer, uint32_t bytes, uint16_t site) {
    struct chunk *place = &walker->chunks[draw(&walker->state) % SLOTS];
    chunk_free(&walker->books, place);
    *place = (struct chunk){pointer, bytes, PHASE_WALK, site};
    book_made(&walker->books, place);
}

static uint32_t draw_bytes(struct walker *walker) {
    return 16 + (uint32_t)(draw(&walker->state) % 200);
}

#define LEVEL(number)                                                                              \
    static FRAME void level_##number(struct walker *walker, unsigned levels) {                     \
        if (draw(&walker->state) % 2) {                                                            \
            uint32_t bytes = draw_bytes(walker);                                                   \
            keep(walker, malloc(bytes), bytes, number);                                            \
        }                                                                                          \
        if (levels > 0 && draw(&walker->state) % 8)                                                \
            level(walker, levels - 1);                                                             \
        __asm__ volatile("# or");                                                                  \
        if (levels > 1 && draw(&walker->state) % 8 == 0)                                           \
            level(walker, levels - 2);                                                             \
        __asm__ volatile("# level" #number);                                                       \
    }
LEVEL(0)
LEVEL(1)
LEVEL(2)
LEVEL(3)
LEVEL(4)
LEVEL(5)
LEVEL(6)

static void back_from_plug(void *walker, unsigned levels);

/* Calls the next level through the library, which allocates, too, and has a frame on the path. */
static FRAME void level_7(struct walker *walker, unsigned levels) {
    uint32_t bytes = draw_bytes(walker);
    keep(walker, malloc(bytes), bytes, LEVELS - 1);
    bytes = draw_bytes(walker);
    if (levels > 0 && plug_step) {
        void *pointer = plug_step(back_from_plug, walker, levels - 1, bytes);
        keep(walker, pointer, bytes, SITE_PLUG);
    }
    __asm__ volatile("# level7");
}

static void (*const levels_list[LEVELS])(struct walker *, unsigned) = {
    level_0, level_1, level_2, level_3, level_4, level_5, level_6, level_7};

static __attribute__((always_inline)) inline void level(struct walker *walker, unsigned levels) {
    levels_list[draw(&walker->state) % LEVELS](walker, levels);
}

static FRAME void back_from_plug(void *walker, unsigned levels) {
    level(walker, levels);
    __asm__ volatile("# back");
}

static FRAME void handler_site(struct chunk *place, uint32_t bytes) {
    chunk_free(&handler_books, place);
    *place = (struct chunk){malloc(bytes), bytes, PHASE_HANDLER, SITE_HANDLER};
    book_made(&handler_books, place);
}

static void load(void) {
    const char *name = getenv("LEVELS_LIBRARY");
    if (library && dlclose(library))
        die("no dlclose");
    library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *step = library ? dlsym(library, "plug_step") : NULL;
    if (name && !step)
        die("no library");
    memcpy(&plug_step, &step, sizeof step);
}

static FRAME void phase_walk(struct walker *walker) {
    level(walker, 3 + (unsigned)(draw(&walker->state) % (DEEPEST - 2)));
    __asm__ volatile("# walk");
}

/* --- callers: more than MEMCTX_DEPTH functions that do not recur ------------------------------ */

#define CALLER(this, next)                                                                         \
    static FRAME void caller_##this(struct walker * walker) {                                      \
        caller_##next(walker);                                                                     \
        __asm__ volatile("# caller" #this);                                                        \
    }
#define TEN_CALLERS(ten, next_ten)                                                                 \
    CALLER(ten##9, next_ten##0)                                                                    \
    CALLER(ten##8, ten##9)                                                                         \
    CALLER(ten##7, ten##8)                                                                         \
    CALLER(ten##6, ten##7)                                                                         \
    CALLER(ten##5, ten##6)                                                                         \
    CALLER(ten##4, ten##5)                                                                         \
    CALLER(ten##3, ten##4)                                                                         \
    CALLER(ten##2, ten##3)                                                                         \
    CALLER(ten##1, ten##2)                                                                         \
    CALLER(ten##0, ten##1)

static FRAME void caller_50(struct walker *walker) {
    phase_walk(walker);
    __asm__ volatile("# caller50");
}
TEN_CALLERS(4, 5)
TEN_CALLERS(3, 4)
TEN_CALLERS(2, 3)
TEN_CALLERS(1, 2)

/* --- trees: the same stack below two callers ------------------------------------------------- */

static void branch(struct walker *walker, unsigned levels, uint16_t phase);

static FRAME void bough(struct walker *walker, unsigned levels, uint16_t phase) {
    branch(walker, levels, phase);
    __asm__ volatile("# bough");
}

static FRAME void branch(struct walker *walker, unsigned levels, uint16_t phase) {
    struct chunk *place = &walker->chunks[draw(&walker->state) % SLOTS];
    chunk_free(&walker->books, place);
    *place = (struct chunk){malloc(32), 32, phase, SITE_BRANCH};
    book_made(&walker->books, place);
    if (levels > 0) {
        branch(walker, levels - 1, phase);
        __asm__ volatile("# right");
        (settings.mixed ? bough : branch)(walker, levels - 1, phase);
    }
    __asm__ volatile("# branch");
}

static FRAME void trunk(struct walker *walker, unsigned levels, uint16_t phase) {
    branch(walker, levels, phase);
    __asm__ volatile("# trunk");
}

static FRAME void tree_left(struct walker *walker, unsigned levels) {
    trunk(walker, levels, PHASE_LEFT);
    __asm__ volatile("# left");
}

static FRAME void tree_right(struct walker *walker, unsigned levels) {
    trunk(walker, levels, PHASE_RIGHT);
    __asm__ volatile("# right");
}

static void *run_thread(void *walker) {
    for (uint64_t i = 0; i < settings.walks; i++)
        phase_walk(walker);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS_MAX];
    for (uint64_t i = 0; i < settings.threads; i++)
        if (pthread_create(&threads[i], NULL, run_thread, &walkers[i]))
            die("no thread");
    for (uint64_t i = 0; i < settings.threads; i++)
        pthread_join(threads[i], NULL);
}

/* Forks a child that walks, frees all chunks that it has inherited, and ends. */
static void fork_once(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t i = 0; i < settings.walks / 4; i++)
            phase_walk(&walkers[0]);
        for (unsigned i = 0; i < SLOTS; i++)
            chunk_free(&walkers[0].books, &walkers[0].chunks[i]);
        _exit(0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        die("the child failed");
}

static void round_of_main(void) {
    if (settings.trees) {
        for (uint64_t i = 0; i < settings.trees; i++) {
            tree_left(&walkers[0], TREE_LEVELS);
            tree_right(&walkers[0], TREE_LEVELS);
            for (int twig = 0; twig < TWIGS; twig++) {
                if (draw(&walkers[0].state) % 2)
                    tree_left(&walkers[0], 0);
                else
                    tree_right(&walkers[0], 0);
            }
        }
        return;
    }
    for (uint64_t i = 0; i < settings.walks; i++) {
        if (settings.reload && i % settings.reload == settings.reload - 1)
            load();
        if (settings.forks && i % (settings.walks / settings.forks) == 0)
            fork_once();
        if (settings.callers)
            caller_10(&walkers[0]);
        else
            phase_walk(&walkers[0]);
    }
}

static void read_options(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        if (!option(argument, "walks", &settings.walks) &&
            !option(argument, "rounds", &settings.rounds) &&
            !option(argument, "seed", &settings.seed) &&
            !option(argument, "threads", &settings.threads) &&
            !option(argument, "reload", &settings.reload) &&
            !option(argument, "signals", &settings.signals) &&
            !option(argument, "forks", &settings.forks) &&
            !option(argument, "trees", &settings.trees) &&
            !option(argument, "mixed", &settings.mixed) &&
            !option(argument, "callers", &settings.callers))
            die("no such option");
    }
    if (settings.threads > THREADS_MAX)
        die("too many threads");
}

static bool stand_still(void) {
    char answer[64];
    struct books all = handler_books;
    for (unsigned i = 0; i < THREADS_MAX; i++)
        books_add(&all, &walkers[i].books);
    return stand(&all, answer, sizeof answer);
}

int main(int argc, char **argv) {
    static const char *const sites[] = {"level_0",   "level_1",      "level_2", "level_3",
                                        "level_4",   "level_5",      "level_6", "level_7",
                                        "plug_step", "handler_site", "branch"};
    memcpy(site_names, sites, sizeof sites);
    phase_names[PHASE_WALK] = "phase_walk";
    phase_names[PHASE_HANDLER] = "on_signal";
    phase_names[PHASE_LEFT] = "tree_left";
    phase_names[PHASE_RIGHT] = "tree_right";
    read_options(argc, argv);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        walkers[i].state = (settings.seed + i) * 0x9e3779b97f4a7c15U + 88172645463325252U;
    load();
    bool more = stand_still();
    for (uint64_t round = 0; more && round < settings.rounds; round++) {
        if (settings.signals)
            start_signals(true);
        if (settings.threads)
            run_threads();
        else
            round_of_main();
        if (settings.signals)
            start_signals(false);
        more = stand_still();
    }
    return 0;
}
