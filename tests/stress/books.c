/* SPDX-License-Identifier: MIT */
/*
 * books - the stress program. It counts all its allocations itself, in its books.
 *
 * Worker slots allocate, reallocate and free along 2 404 call paths, hand chunks to each other and
 * free chunks of other slots. Each slot is served by a chain of threads: a thread starts its
 * successor and ends. Every chunk has a pattern that is checked at each use. Between rounds all
 * threads stand still: the program writes its books to a file and CHECKPOINT to stdout, and the
 * suite compares the books with `memctx dump`. The suite answers with a line: "go", "fork" (a child
 * goes on with all chunks; the parent waits for it) or "load-fork" (the program forks in the middle
 * of the next round, so the child's books may miss operations that were under way). The end of
 * stdin ends the program. In the books, realloc frees the old chunk and allocates the new one on
 * its own path. The program's other memory is static, so the books account for the whole heap.
 *
 * --crowd N: in each round N guests, more threads, begin beside the slots. All are alive at one
 * time. They leave chunks to the guests of the next round and to the slots. Afterwards main frees
 * all chunks of most guests, so that most of their heaps hold nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/line.h"
#include "chunks.h"

enum { SLOTS_MAX = 16, RECORDS_PER_SLOT = 1500, HANDLER_CHUNKS = 6 };
enum { GUESTS_MAX = 3000, RECORDS_PER_GUEST = 12, OPS_PER_GUEST = 1200 };
enum { OF_SLOTS = SLOTS_MAX * RECORDS_PER_SLOT + EXCHANGE };
enum { RECORDS = OF_SLOTS + GUESTS_MAX * RECORDS_PER_GUEST };
#define FOR_EVER UINT64_MAX

struct slot { /* used only by its present thread, and between rounds by main */
    uint64_t random;
    uint32_t own[RECORDS_PER_SLOT];
    uint64_t ops_left; /* operations left in this round */
    _Atomic int tid;   /* the thread that pester() sends signals to; 0: none */
};

struct guest { /* used only by its present thread, and between rounds by main */
    uint64_t random;
    uint32_t own[RECORDS_PER_GUEST];
};

struct settings {
    uint64_t seed, ops, rounds;
    unsigned slots, crowd;
    uint64_t life; /* number of operations after which a thread ends */
    bool forks, vforks, signals;
    const char *books_path;
};

static struct record records[RECORDS];
static struct slot slots[SLOTS_MAX];
static struct guest guests[GUESTS_MAX];
static struct settings settings = {
    .seed = 1, .ops = 100000, .rounds = 3, .slots = 4, .life = FOR_EVER, .books_path = NULL};
static pthread_barrier_t *round_end; /* a forked child makes a new one */
static pthread_barrier_t crowd_is_there, crowd_leaves;
static _Atomic int handlers_off; /* 1 while all threads stand still */
static _Atomic uint64_t handled_signals;

static __thread struct record handler_chunks[HANDLER_CHUNKS];
static __thread uint64_t handler_random;

/* --- operations of a slot ------------------------------------------------------------------ */

static void child_of_worker(struct slot *slot) {
    alarm(240); /* kills a child that hangs; the parent sees the signal */
    for (int i = 0; i < 200; i++) {
        uint32_t index = slot->own[next_random(&slot->random) % RECORDS_PER_SLOT];
        if (index == NO_RECORD)
            continue;
        if (records[index].pointer)
            record_free(&records[index]);
        else
            record_alloc(&records[index], &slot->random);
    }
    _exit(0);
}

static void fork_from_worker(struct slot *slot) {
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        child_of_worker(slot);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || status != 0)
        die("a forked child failed", NULL);
}

static void slot_use_record(struct slot *slot) {
    uint64_t dice = next_random(&slot->random);
    size_t position = dice % RECORDS_PER_SLOT;
    uint32_t index = slot->own[position];
    dice >>= 32;
    if (index == NO_RECORD)
        return;
    struct record *record = &records[index];
    if (!record->pointer)
        record_alloc(record, &slot->random);
    else if (dice % 16 < 7)
        record_free(record);
    else if (dice % 16 < 10)
        record_realloc(record, &slot->random);
    else if (dice % 16 < 14)
        record_exchange(&slot->own[position], dice >> 8);
    else
        record_check(record);
}

/* The child uses the memory of its parent, and the parent's thread waits for the child's end. So
 * the child goes on in the place of that thread, and its operations are in the books. */
static int child_in_same_memory(void *argument) {
    struct slot *slot = argument;
    struct itimerval tick = {{0, 100}, {0, 100}}; /* a child has no timers of its parent */
    if (settings.signals)
        setitimer(ITIMER_REAL, &tick, NULL);
    for (int i = 0; i < 200; i++)
        slot_use_record(slot);
    return 0;
}

/* Makes such a child as vfork does, on the thread's own stack, or as posix_spawn does, on a stack
 * of its own. */
static void vfork_from_worker(struct slot *slot, bool own_stack) {
    static char stacks[SLOTS_MAX][64 << 10] __attribute__((aligned(16)));
    int status = -1;
    pid_t child = own_stack ? clone(child_in_same_memory, stacks[slot - slots + 1],
                                    CLONE_VM | CLONE_VFORK | SIGCHLD, slot)
                            : vfork();
    if (child == 0)
        _exit(child_in_same_memory(slot));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || status != 0)
        die("a child in the same memory failed", NULL);
}

static void slot_operate(struct slot *slot) {
    uint64_t dice = next_random(&slot->random) >> 32;
    if (settings.forks && dice % 8192 == 0)
        fork_from_worker(slot);
    if (settings.vforks && dice % 2048 == 1)
        vfork_from_worker(slot, dice & 2048);
    slot_use_record(slot);
}

/* --- signals ------------------------------------------------------------------------------ */

static void on_signal(int number) {
    (void)number;
    if (atomic_load(&handlers_off))
        return;
    int saved_errno = errno;
    if (!handler_random)
        handler_random = (uint64_t)gettid() + settings.seed;
    struct record *chunk = &handler_chunks[next_random(&handler_random) % HANDLER_CHUNKS];
    if (chunk->pointer)
        record_free(chunk);
    else
        record_alloc_in_handler(chunk, &handler_random);
    atomic_fetch_add(&handled_signals, 1);
    errno = saved_errno;
}

static sigset_t handler_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGUSR1);
    return set;
}

static void free_handler_chunks(void) {
    sigset_t set = handler_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* until this thread ends */
    for (int i = 0; i < HANDLER_CHUNKS; i++)
        if (handler_chunks[i].pointer)
            record_free(&handler_chunks[i]);
}

/* Sends signals to one worker after the other, because timer signals come only with the kernel's
 * tick. */
static void *pester(void *unused) {
    sigset_t set = handler_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (unsigned i = 0;; i++) {
        int tid = atomic_load(&slots[i % settings.slots].tid);
        if (tid && !atomic_load(&handlers_off))
            syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
        usleep(150);
    }
    return unused;
}

static void start_signals(void) {
    /* Handlers do not nest, so each uses its thread's handler_chunks alone. */
    struct sigaction action = {
        .sa_handler = on_signal, .sa_flags = SA_RESTART, .sa_mask = handler_signals()};
    struct itimerval tick = {{0, 2000}, {0, 2000}};
    pthread_t thread;
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    setitimer(ITIMER_PROF, &tick, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    if (pthread_create(&thread, NULL, pester, NULL))
        die("no thread", NULL);
}

/* --- rounds ------------------------------------------------------------------------------- */

static void *worker(void *argument);

static void start_thread(void *(*run)(void *), void *argument) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 << 10);
    int error = pthread_create(&thread, &attr, run, argument);
    /* threads that have ended may still hold their stacks */
    for (int i = 0; error == EAGAIN && i < 1000; i++) {
        usleep(1000);
        error = pthread_create(&thread, &attr, run, argument);
    }
    if (error)
        die("no thread", NULL);
    pthread_attr_destroy(&attr);
}

/* A thread serves its slot for `life` operations and then starts its successor. At the end of the
 * round it tells main instead. */
static void *worker(void *argument) {
    struct slot *slot = argument;
    sigset_t set = handler_signals();
    /* inherited: the predecessor blocked the signals at its end */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    atomic_store(&slot->tid, gettid());
    for (uint64_t done = 0; slot->ops_left > 0 && done < settings.life; done++) {
        slot->ops_left--;
        slot_operate(slot);
    }
    atomic_store(&slot->tid, 0);
    free_handler_chunks();
    if (slot->ops_left > 0)
        start_thread(worker, slot);
    else
        pthread_barrier_wait(round_end);
    return NULL;
}

/* Writes the books and tells the suite that all threads stand still. False: stdin has ended. */
static bool checkpoint(char *answer, size_t answer_bytes) {
    books_write(settings.books_path);
    printf("CHECKPOINT %d %lu\n", (int)getpid(), (unsigned long)handled_signals);
    fflush(stdout);
    return line_read(answer, answer_bytes);
}

static void round_start(void) {
    for (unsigned i = 0; i < settings.slots; i++)
        slots[i].ops_left = settings.ops / settings.rounds / settings.slots;
    atomic_store(&handlers_off, 0);
    for (unsigned i = 0; i < settings.slots; i++)
        start_thread(worker, &slots[i]);
}

/* --- the crowd ---------------------------------------------------------------------------- */

static void guest_operate(struct guest *guest) {
    uint64_t dice = next_random(&guest->random);
    uint32_t *place = &guest->own[dice % RECORDS_PER_GUEST];
    dice >>= 32;
    if (*place != NO_RECORD && dice % 8 && records[*place].pointer)
        record_free(&records[*place]);
    else if (*place != NO_RECORD && dice % 8)
        record_alloc(&records[*place], &guest->random);
    else
        record_exchange(place, dice >> 8);
}

static void *visit(void *argument) {
    struct guest *guest = argument;
    for (int i = 0; i < OPS_PER_GUEST; i++) {
        if (i == OPS_PER_GUEST / 8 * 7)
            pthread_barrier_wait(&crowd_is_there);
        guest_operate(guest);
    }
    pthread_barrier_wait(&crowd_leaves);
    return NULL;
}

static void free_chunks_of_guests(void) {
    for (unsigned i = 0; i < settings.crowd; i++)
        for (int j = 0; i % 16 && j < RECORDS_PER_GUEST; j++)
            if (guests[i].own[j] != NO_RECORD && records[guests[i].own[j]].pointer)
                record_free(&records[guests[i].own[j]]);
}

static void receive_crowd(void) {
    for (unsigned i = 0; i < settings.crowd; i++)
        start_thread(visit, &guests[i]);
    if (settings.crowd)
        pthread_barrier_wait(&crowd_leaves);
    free_chunks_of_guests();
}

static void round_wait(void) {
    pthread_barrier_wait(round_end);
    atomic_store(&handlers_off, 1);
    if (settings.signals)
        usleep(20000); /* waits for handlers that have already checked handlers_off */
}

/* Allocates for a while: a forked child gets its control socket only when it allocates. */
static void become_visible(void) {
    for (int i = 0; i < 60; i++) {
        usleep(1000);
        for (size_t size = 8; size < 200000; size = size * 3 / 2 + 8)
            free(malloc(size));
    }
}

static void child_goes_on(void) {
    static pthread_barrier_t barrier;
    become_visible();
    pthread_barrier_init(&barrier, NULL, settings.slots + 1);
    round_end = &barrier; /* threads of the parent wait at the old barrier */
    for (unsigned i = 0; i < settings.slots; i++)
        atomic_store(&slots[i].tid, 0);
}

static void wait_for_child(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        die("the child that went on failed", NULL);
}

static void fork_and_wait(void) {
    pid_t child = fork();
    if (child < 0)
        die("fork", NULL);
    if (child == 0)
        child_goes_on();
    else
        wait_for_child(child);
}

static void run_rounds(void) {
    char answer[64];
    for (uint64_t i = 0; i < settings.rounds; i++) {
        round_start();
        receive_crowd();
        round_wait();
        if (!checkpoint(answer, sizeof answer))
            return;
        if (strcmp(answer, "fork") == 0)
            fork_and_wait();
        if (strcmp(answer, "load-fork") == 0) {
            round_start();
            usleep(30000);
            pid_t child = fork();
            if (child < 0)
                die("fork", NULL);
            if (child == 0) {
                child_goes_on();
                /* the child stands still before it does anything */
                if (!checkpoint(answer, sizeof answer))
                    return;
            } else {
                round_wait();
                wait_for_child(child);
            }
        }
    }
}

static uint64_t number_argument(char **argv, int *i) {
    if (!argv[*i + 1])
        die("an option lacks its number", NULL);
    return strtoull(argv[++*i], NULL, 10);
}

int main(int argc, char **argv) {
    static pthread_barrier_t barrier;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0)
            settings.seed = number_argument(argv, &i);
        else if (strcmp(argv[i], "--ops") == 0)
            settings.ops = number_argument(argv, &i);
        else if (strcmp(argv[i], "--rounds") == 0)
            settings.rounds = number_argument(argv, &i);
        else if (strcmp(argv[i], "--slots") == 0)
            settings.slots = (unsigned)number_argument(argv, &i);
        else if (strcmp(argv[i], "--crowd") == 0)
            settings.crowd = (unsigned)number_argument(argv, &i);
        else if (strcmp(argv[i], "--life") == 0)
            settings.life = number_argument(argv, &i);
        else if (strcmp(argv[i], "--forks") == 0)
            settings.forks = true;
        else if (strcmp(argv[i], "--vforks") == 0)
            settings.vforks = true;
        else if (strcmp(argv[i], "--signals") == 0)
            settings.signals = true;
        else
            settings.books_path = argv[i];
    }
    if (!settings.books_path || settings.slots < 1 || settings.slots > SLOTS_MAX ||
        settings.crowd > GUESTS_MAX || !settings.rounds || !settings.life) {
        fprintf(stderr,
                "usage: books [--seed N] [--ops N] [--rounds N] [--slots 1..%d]\n"
                "             [--crowd 0..%d] [--life N] [--forks] [--vforks]\n"
                "             [--signals] BOOKS-FILE\n",
                SLOTS_MAX, GUESTS_MAX);
        return 2;
    }
    for (uint32_t i = 0; i < EXCHANGE; i++)
        exchange[i] = SLOTS_MAX * RECORDS_PER_SLOT + i;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        slots[i].random = settings.seed * 1000 + i;
        for (uint32_t j = 0; j < RECORDS_PER_SLOT; j++)
            slots[i].own[j] = i * RECORDS_PER_SLOT + j;
    }
    for (uint32_t i = 0; i < settings.crowd; i++) {
        guests[i].random = settings.seed * 10000 + i;
        for (uint32_t j = 0; j < RECORDS_PER_GUEST; j++)
            guests[i].own[j] = OF_SLOTS + i * RECORDS_PER_GUEST + j;
    }
    pthread_barrier_init(&barrier, NULL, settings.slots + 1);
    round_end = &barrier;
    if (settings.crowd) {
        pthread_barrier_init(&crowd_is_there, NULL, settings.crowd);
        pthread_barrier_init(&crowd_leaves, NULL, settings.crowd + 1);
    }
    if (settings.signals)
        start_signals();
    run_rounds();
    _exit(0); /* no exit handlers: in a child forked under load a lock may be held for ever */
}
