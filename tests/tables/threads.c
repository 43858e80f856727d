/* SPDX-License-Identifier: MIT */
/*
 * threads - very many threads with very many call paths each. Options, NAME=NUMBER:
 *   threads     number of threads             together  number of threads alive at a time
 *   paths       allocations of each thread    slots     live chunks of each thread
 *   alike=1     all threads make equal paths
 *   stdio=1     each thread prints a line, and reads one, which it keeps
 *   large=1     each thread allocates and frees 64 KiB
 *   rest=0      each thread frees all its chunks before it ends
 *   handover=1  instead: one thread makes `paths` chunks, another one frees all but every 16th
 *   exchange=1  all threads share their live chunks, so most chunks are freed by another thread
 *   seed
 * The program stands still when the last `together` threads have made all allocations and wait, and
 * again when these threads have freed all chunks but every 16th (the rest) and have ended.
 */
#include "visits.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_MAX = 8192, SLOTS_MAX = 64, HANDED_MAX = 1 << 20, LARGE_BYTES = 64 << 10 };

static struct settings {
    uint64_t threads, together, paths, slots, alike, stdio, large, handover, exchange, rest, seed;
} settings = {.threads = 100, .together = 100, .paths = 1000, .slots = 32, .rest = 1, .seed = 1};

struct worker {
    struct walk walk;
    struct books books;
    struct chunk chunks[SLOTS_MAX];
    char *line;
};

static struct worker workers[THREADS_MAX];
static struct books books;
static struct chunk handed[HANDED_MAX];
static atomic_flag handed_used[HANDED_MAX];
static _Atomic uint64_t handed_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned finished; /* protected by `lock` */
static bool may_end;      /* protected by `lock` */

static FILE *sink, *source; /* for stdio=1 */

static FRAME void use_stdio(struct worker *worker) {
    size_t room = 0;
    flockfile(source);
    rewind(source);
    if (getline(&worker->line, &room, source) < 0)
        die("no line");
    funlockfile(source);
    if (fprintf(sink, "%p %g\n", (void *)worker, (double)room) < 0)
        die("cannot print");
}

static FRAME void use_large(void) {
    char *large = malloc(LARGE_BYTES);
    if (!large)
        die("no memory");
    memset(large, 1, LARGE_BYTES);
    __asm__ volatile("" : : "r"(large) : "memory");
    free(large);
}

/* Replaces a chunk that all threads share, and that no other thread replaces at this moment. */
static __attribute__((always_inline)) inline void exchange(struct worker *worker) {
    uint64_t at = draw(&worker->walk.state) % (settings.slots * settings.together);
    while (atomic_flag_test_and_set(&handed_used[at]))
        at = (at + 1) % (settings.slots * settings.together);
    walk_once(&worker->walk, &handed[at], 0);
    atomic_flag_clear(&handed_used[at]);
}

static FRAME void work(struct worker *worker) {
    for (uint64_t i = 0; i < settings.paths; i++)
        if (settings.exchange)
            exchange(worker);
        else
            walk_once(&worker->walk, &worker->chunks[i % settings.slots], 0);
    if (settings.stdio)
        use_stdio(worker);
    if (settings.large)
        use_large();
    __asm__ volatile("# work");
}

static void wait_for_end(void) {
    pthread_mutex_lock(&lock);
    finished++;
    pthread_cond_broadcast(&changed);
    while (!may_end)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *run_worker(void *argument) {
    struct worker *worker = argument;
    work(worker);
    wait_for_end();
    for (uint64_t i = 0; i < settings.slots; i++)
        if (i % 16 != 0 || !settings.rest)
            chunk_free(&worker->books, &worker->chunks[i]);
    free(worker->line);
    return NULL;
}

static void worker_prepare(uint64_t number) {
    uint64_t seed = settings.seed + (settings.alike ? 0 : number * 7919);
    workers[number].walk = (struct walk){.state = seed * 0x9e3779b97f4a7c15U + 88172645463325252U,
                                         .bytes_least = 16,
                                         .bytes_spread = 129,
                                         .deepest = settings.alike ? 5 : 40,
                                         .books = &workers[number].books};
}

static pthread_t start(void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    if (pthread_create(&thread, &attributes, run, argument) != 0)
        die("no thread");
    pthread_attr_destroy(&attributes);
    return thread;
}

static bool stand_with_books(void) {
    static struct books sum;
    char answer[64];
    memset(&sum, 0, sizeof sum);
    for (uint64_t i = 0; i < settings.threads; i++)
        books_add(&sum, &workers[i].books);
    books_add(&sum, &books);
    return stand(&sum, answer, sizeof answer);
}

/* Waits until `count` threads have finished. */
static void wait_for(unsigned count) {
    pthread_mutex_lock(&lock);
    while (finished < count)
        pthread_cond_wait(&changed, &lock);
    finished = 0;
    pthread_mutex_unlock(&lock);
}

static void set_may_end(bool value) {
    pthread_mutex_lock(&lock);
    may_end = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Runs `count` threads. After the last batch the program stands still. False: standard input has
 * ended. */
static bool run_batch(uint64_t first, uint64_t count, bool last) {
    static pthread_t threads[THREADS_MAX];
    set_may_end(!last);
    for (uint64_t i = 0; i < count; i++) {
        worker_prepare(first + i);
        threads[i] = start(run_worker, &workers[first + i]);
    }
    wait_for((unsigned)count);
    if (last && !stand_with_books())
        return false;
    set_may_end(true);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return true;
}

/* --- one makes, another one frees ------------------------------------------------------------- */

static void *run_producer(void *argument) {
    struct worker *worker = argument;
    for (uint64_t i = 0; i < settings.paths; i++) {
        walk_once(&worker->walk, &handed[i], 0);
        atomic_store(&handed_count, i + 1);
    }
    return NULL;
}

static void *run_consumer(void *argument) {
    for (uint64_t i = 0; i < settings.paths; i++) {
        while (atomic_load(&handed_count) <= i)
            usleep(100);
        if (i % 16 != 0)
            chunk_free(&books, &handed[i]);
    }
    return argument;
}

static void hand_over(void) {
    worker_prepare(0);
    pthread_t consumer = start(run_consumer, NULL), producer = start(run_producer, &workers[0]);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!option(argv[i], "threads", &settings.threads) &&
            !option(argv[i], "together", &settings.together) &&
            !option(argv[i], "paths", &settings.paths) &&
            !option(argv[i], "slots", &settings.slots) &&
            !option(argv[i], "alike", &settings.alike) &&
            !option(argv[i], "stdio", &settings.stdio) &&
            !option(argv[i], "large", &settings.large) &&
            !option(argv[i], "handover", &settings.handover) &&
            !option(argv[i], "exchange", &settings.exchange) &&
            !option(argv[i], "rest", &settings.rest) && !option(argv[i], "seed", &settings.seed))
            die("no such option");
    if (settings.threads > THREADS_MAX || settings.slots > SLOTS_MAX || settings.paths > HANDED_MAX)
        die("too many");
    sink = fopen("/dev/null", "w");
    source = fopen("/proc/self/comm", "r");
    if (!sink || !source)
        die("no file");
    visits_name_sites();
    phase_names[0] = "work";
    if (!stand_with_books())
        return 0;
    if (settings.handover)
        hand_over();
    for (uint64_t first = 0; !settings.handover && first < settings.threads;) {
        uint64_t left = settings.threads - first;
        uint64_t count = left < settings.together ? left : settings.together;
        if (!run_batch(first, count, count == left))
            return 0;
        first += count;
    }
    stand_with_books();
    return 0;
}
