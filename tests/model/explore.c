/* SPDX-License-Identifier: MIT */
/* explore.c - the scheduler of the threads of a scenario, the enumeration of their orders, and the
 * command line; see explore.h. */
#include "explore.h"

#include "os/syscall.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    POINTS_MAX = 20000,
    WORDS = 1 << 17,
    EXECUTION_LIMIT_S = 20,
    FOUND_STATUS = 3,
    SCOUTS = 200
};
#define TIMEOUT_NS 400000000U /* the clock advances by this much when a wait times out */

struct point {
    uint8_t at;      /* the thread that reached the point */
    uint8_t enabled; /* bit mask: the threads that could go on */
    uint8_t running; /* bit mask: the threads that could go on without a time-out */
    uint8_t chosen;  /* the thread that went on */
};

/* Memory shared by the process that enumerates orders and the process that executes one. */
static struct shared {
    struct point points[POINTS_MAX];
    uint32_t count;  /* number of points that this execution has reached */
    uint32_t forced; /* the choices at this many first points are given */
    struct word {
        uintptr_t address;
        uint8_t users;   /* mask of the threads that used the word in any execution */
        bool is_counted; /* accesses to the word are points */
    } words[WORDS];
    uint32_t words_used;
    bool more_shared; /* a word that is not counted was used by a second thread */
    char found[512];
} * shared;

static const struct scenario *scenario;
static uint64_t random_state;  /* 0: orders are enumerated, not drawn */
static uint32_t random_chance; /* a drawn order has a preemption at one of this many points */
static uint64_t now_ns;

static struct {
    uint32_t go; /* a futex; 1: this thread may run */
    bool finished, timed_out;
    const void *waits_for;
} threads[MODEL_THREADS_MAX];
static __thread int self = -1;

void model_found(const char *text) {
    snprintf(shared->found, sizeof shared->found, "%s", text);
    _exit(FOUND_STATUS);
}

uint64_t model_now_ns(void) {
    return now_ns;
}

void model_time_passes(uint64_t ns) {
    now_ns += ns;
}

/* --- who goes on ---------------------------------------------------------------------------- */

static unsigned enabled_threads(void) {
    unsigned enabled = 0;
    for (unsigned i = 0; i < scenario->threads; i++) {
        if (!threads[i].finished && (!threads[i].waits_for || scenario->timeouts))
            enabled |= 1U << i;
    }
    return enabled;
}

static bool runs(unsigned id) { /* the thread can run without a time-out */
    return !threads[id].finished && !threads[id].waits_for;
}

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Returns the thread that goes on without a preemption: the thread `at` if it can run, else the
 * first that can, else the first whose wait can time out. */
static unsigned first_choice(unsigned enabled, unsigned at) {
    if (runs(at))
        return at;
    for (unsigned i = 0; i < scenario->threads; i++) {
        if (runs(i))
            return i;
    }
    return (unsigned)__builtin_ctz(enabled);
}

static unsigned choose(unsigned enabled, unsigned at) {
    uint32_t place = shared->count;
    if (place >= POINTS_MAX)
        model_found("the execution does not end");
    unsigned chosen = first_choice(enabled, at);
    if (place < shared->forced) {
        chosen = shared->points[place].chosen;
        if (!(enabled >> chosen & 1))
            model_found("the scenario is not deterministic");
    } else if (random_state && (!runs(at) || draw() % random_chance == 0)) {
        do
            chosen = (unsigned)(draw() % scenario->threads);
        while (!(enabled >> chosen & 1));
    }
    uint8_t running = 0;
    for (unsigned i = 0; i < scenario->threads; i++)
        running |= (uint8_t)(runs(i) << i);
    shared->points[place] = (struct point){(uint8_t)at, (uint8_t)enabled, running, (uint8_t)chosen};
    shared->count++;
    return chosen;
}

static void wait_for_go(void) {
    while (!__atomic_exchange_n(&threads[self].go, 0, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &threads[self].go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void give_go(unsigned id) {
    if (threads[id].waits_for) {
        threads[id].timed_out = true;
        threads[id].waits_for = NULL;
        now_ns += TIMEOUT_NS;
    }
    __atomic_store_n(&threads[id].go, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &threads[id].go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Lets the scheduler choose the thread that goes on. Another one is chosen if the calling thread
 * waits or has ended. */
static void switch_point(void) {
    unsigned at = (unsigned)self, enabled = enabled_threads();
    bool ended = threads[at].finished;
    if (!enabled) {
        for (unsigned i = 0; i < scenario->threads; i++) {
            if (!threads[i].finished)
                model_found("deadlock: all that have not ended wait");
        }
        return;
    }
    unsigned chosen = choose(enabled, at);
    if (chosen != at || !runs(at)) {
        give_go(chosen);
        if (!ended)
            wait_for_go();
    }
}

static struct word *word_of(const void *at) {
    uintptr_t address = (uintptr_t)at;
    uint32_t place = (uint32_t)(hash_mix(address, 1) % WORDS);
    while (shared->words[place].address && shared->words[place].address != address)
        place = (place + 1) % WORDS;
    if (!shared->words[place].address) {
        if (++shared->words_used > WORDS / 2)
            model_found("too many words");
        shared->words[place].address = address;
    }
    return &shared->words[place];
}

void model_point(const void *at) {
    if (self < 0)
        return;
    struct word *word = word_of(at);
    word->users |= (uint8_t)(1U << self);
    shared->more_shared |= !word->is_counted && word->users & (word->users - 1);
    if (random_state ? word->users & (word->users - 1) : word->is_counted)
        switch_point();
}

long model_futex(const void *word, long operation, uint32_t value) {
    if (self < 0)
        return 0;
    model_point(word);
    if (operation == FUTEX_WAKE_PRIVATE) {
        for (unsigned i = 0; i < scenario->threads; i++) {
            if (threads[i].waits_for == word) {
                threads[i].waits_for = NULL;
                return 1;
            }
        }
        return 0;
    }
    if (__atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE) != value)
        return -EAGAIN;
    threads[self].timed_out = false;
    threads[self].waits_for = word;
    switch_point();
    return threads[self].timed_out ? -ETIMEDOUT : 0;
}

/* --- one execution -------------------------------------------------------------------------- */

static void *run_thread(void *argument) {
    self = (int)(intptr_t)argument;
    wait_for_go();
    scenario->thread((unsigned)self);
    threads[self].finished = true;
    switch_point();
    return NULL;
}

__attribute__((noreturn)) static void execute(void) {
    pthread_t handles[MODEL_THREADS_MAX];
    alarm(EXECUTION_LIMIT_S);
    now_ns = 1000000000U;
    scenario->setup();
    for (unsigned i = 0; i < scenario->threads; i++) {
        if (pthread_create(&handles[i], NULL, run_thread, (void *)(intptr_t)i) != 0)
            model_found("no thread");
    }
    give_go(0);
    for (unsigned i = 0; i < scenario->threads; i++)
        pthread_join(handles[i], NULL);
    scenario->check();
    _exit(0);
}

/* Runs the scenario once in a child process. False: it ended with a finding, whose text is in
 * shared->found. */
static bool run_once(void) {
    int status = 0;
    shared->count = 0;
    shared->found[0] = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        execute();
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("model");
        exit(2);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        snprintf(shared->found, sizeof shared->found, "signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (!shared->found[0])
        snprintf(shared->found, sizeof shared->found, "exit status %d", WEXITSTATUS(status));
    return false;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* A choice is a preemption if the thread could have gone on, or if a wait times out although some
 * thread could run. */
static bool is_preemption(const struct point *point, unsigned chosen) {
    bool goes_on = point->running >> point->at & 1;
    return (goes_on && chosen != point->at) || (point->running && !(point->running >> chosen & 1));
}

static unsigned preemptions(uint32_t before) {
    unsigned count = 0;
    for (uint32_t i = 0; i < before; i++)
        count += is_preemption(&shared->points[i], shared->points[i].chosen);
    return count;
}

/* Returns the next choice at a point, -1: none is left. `first`, which costs no preemption, is
 * tried first, the other threads in the order of their numbers. */
static int next_choice(const struct point *point, unsigned first) {
    unsigned from = point->chosen == first ? 0 : point->chosen + 1U;
    for (unsigned i = from; i < MODEL_THREADS_MAX; i++) {
        if (i != first && point->enabled >> i & 1)
            return (int)i;
    }
    return -1;
}

/* Changes the last choice that can be changed within the bound and forces all choices up to that
 * point. False: all orders were run. */
static bool next_order(unsigned bound) {
    static uint8_t firsts[POINTS_MAX]; /* the choice at each point when it was first reached */
    static uint32_t known;
    if (shared->forced == 0)
        known = 0;
    for (; known < shared->count; known++)
        firsts[known] = shared->points[known].chosen;
    unsigned before = preemptions(known);
    for (; known > 0; known--) {
        struct point *last = &shared->points[known - 1];
        int choice;
        before -= is_preemption(last, last->chosen);
        while ((choice = next_choice(last, firsts[known - 1])) >= 0) {
            last->chosen = (uint8_t)choice;
            if (before + is_preemption(last, last->chosen) <= bound) {
                shared->forced = known;
                return true;
            }
        }
    }
    return false;
}

/* From now on, accesses to words that more than one thread has used are points. True: there are new
 * ones. */
static bool count_more_words(void) {
    bool more = false;
    for (unsigned i = 0; shared->more_shared && i < WORDS; i++) {
        struct word *word = &shared->words[i];
        if (!word->is_counted && word->users & (word->users - 1))
            more = word->is_counted = true;
    }
    shared->more_shared = false;
    return more;
}

static bool draw_orders(uint64_t seed, uint64_t count) {
    shared->forced = 0;
    for (uint64_t i = seed; i < seed + count; i++) {
        random_state = hash_mix(i + 1, 7) | 1;
        random_chance = 2U << i % 7;
        if (!run_once()) {
            printf("    drawn with seed %" PRIu64 "\n", i);
            return false;
        }
    }
    return true;
}

/* Runs all orders without a preemption, then all with at most one, and so on up to `bound`. */
static bool explore(unsigned bound, uint64_t limit, uint64_t *orders) {
    *orders = 0;
    if (!draw_orders(1, SCOUTS)) /* random orders find most of the shared words */
        return false;
    count_more_words();
    random_state = 0;
    for (unsigned allowed = 0; allowed <= bound; allowed++) {
        shared->forced = 0;
        for (;;) {
            bool good = run_once();
            ++*orders;
            if (!good)
                return false;
            if (*orders >= limit)
                return true;
            if (count_more_words())
                shared->forced = 0; /* starts the enumeration again, with more points */
            else if (!next_order(allowed))
                break;
        }
    }
    return true;
}

static void print_order(void) {
    printf("    ");
    for (uint32_t i = 0, run = 0; i < shared->count; i++, run++) {
        bool last = i + 1 == shared->count;
        if (last || shared->points[i + 1].chosen != shared->points[i].chosen) {
            printf("%u*%" PRIu32 "%s", shared->points[i].chosen, run + 1, last ? "\n" : ",");
            run = UINT32_MAX;
        }
    }
}

/* Reads an order in the form of print_order: "0*17,1*3" is 17 points of thread 0, then 3 of thread
 * 1. */
static void read_order(const char *text) {
    unsigned id;
    uint32_t times;
    int length;
    shared->forced = 0;
    while (sscanf(text, "%u*%" SCNu32 "%n", &id, &times, &length) == 2) {
        while (times-- && shared->forced < POINTS_MAX)
            shared->points[shared->forced++].chosen = (uint8_t)id;
        text += length;
        text += *text == ',';
    }
}

static int run_scenario(unsigned bound, uint64_t limit, uint64_t seed, uint64_t drawn,
                        const char *order) {
    uint64_t orders = 0;
    memset(shared->words, 0, sizeof shared->words);
    shared->words_used = 0;
    bool good;
    if (order) {
        do
            shared->forced = 0;
        while (run_once() && count_more_words());
        read_order(order);
        good = run_once();
    } else {
        good = explore(bound, limit, &orders);
        good = good && draw_orders(seed, drawn);
    }
    if (good) {
        printf("ok %s # %" PRIu64 " orders with up to %u preemptions%s, %" PRIu64 " drawn\n",
               scenario->name, orders, bound, orders >= limit ? " (not all)" : "", drawn);
        return 0;
    }
    printf("not ok %s\n    %s, in the order\n", scenario->name, shared->found);
    print_order();
    return 1;
}

static void usage(void) {
    fputs("usage: model [--preemptions N] [--limit ORDERS] [--seed N] [--drawn ORDERS]\n"
          "             [--order 0*N,1*N,...] [--list] [SCENARIO...]\n"
          "All orders with up to N preemptions (2), at most ORDERS of them (1000000), then ORDERS\n"
          "drawn from seeds from N on (2000 from 1). --order runs one, as a finding prints it.\n",
          stderr);
    exit(2);
}

static uint64_t number_of(const char *text) {
    char *end;
    uint64_t number = text ? strtoull(text, &end, 10) : 0;
    if (!text || end == text || *end)
        usage();
    return number;
}

int model_main(int argc, char **argv, const struct scenario *scenarios, unsigned count) {
    uint64_t bound = 2, limit = 1000000, seed = 1, drawn = 2000;
    const char *order = NULL;
    int i = 1, failed = 0, passed = 0;
    for (; i < argc && !strncmp(argv[i], "--", 2); i += 2) {
        if (!strcmp(argv[i], "--list")) {
            for (unsigned s = 0; s < count; s++)
                puts(scenarios[s].name);
            return 0;
        }
        const char *value = argv[i + 1]; /* argv ends with NULL */
        if (!strcmp(argv[i], "--preemptions"))
            bound = number_of(value);
        else if (!strcmp(argv[i], "--limit"))
            limit = number_of(value);
        else if (!strcmp(argv[i], "--seed"))
            seed = number_of(value);
        else if (!strcmp(argv[i], "--drawn"))
            drawn = number_of(value);
        else if (!strcmp(argv[i], "--order") && value)
            order = value;
        else
            usage();
    }
    for (int w = i; w < argc; w++) {
        bool known = false;
        for (unsigned s = 0; s < count; s++)
            known |= !strcmp(argv[w], scenarios[s].name);
        if (!known) {
            fprintf(stderr, "model: no scenario is called %s; --list prints them all\n", argv[w]);
            return 2;
        }
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("model");
        return 2;
    }
    for (unsigned s = 0; s < count; s++) {
        bool wanted = i >= argc;
        for (int w = i; w < argc; w++)
            wanted |= !strcmp(argv[w], scenarios[s].name);
        if (!wanted)
            continue;
        scenario = &scenarios[s];
        int bad = run_scenario((unsigned)bound, limit, seed, drawn, order);
        failed += bad;
        passed += !bad;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
