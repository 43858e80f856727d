/* SPDX-License-Identifier: MIT */
/* Blocks that another thread frees, threads that come and go, and allocations in destructors,
 * handlers, small stacks and forked children. */
#include "check.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static void start_and_join(void *(*run)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, argument);
    CHECK(error == 0, "no thread: %s", strerror(error));
    CHECK(pthread_join(thread, NULL) == 0, "join");
}

/* --- frees by another thread -------------------------------------------------------------- */

enum { RING = 1024 };

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned head, tail;
    unsigned char *blocks[RING];
    size_t sizes[RING];
};

static struct ring ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *consume(void *count) {
    for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
        pthread_mutex_lock(&ring.lock);
        while (ring.head == ring.tail)
            pthread_cond_wait(&ring.changed, &ring.lock);
        unsigned char *block = ring.blocks[ring.tail % RING];
        size_t size = ring.sizes[ring.tail % RING];
        ring.tail++;
        pthread_cond_signal(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
        for (size_t at = 0; at < size; at += 97)
            CHECK(block[at] == (unsigned char)size, "a block of %zu is damaged", size);
        if (i % 5 == 0) {
            block = realloc(block, size * 2 + 1);
            CHECK(block[0] == (unsigned char)size, "realloc by another thread lost the content");
        }
        errno = 77;
        free(block);
        CHECK(errno == 77, "errno is %d", errno);
    }
    return NULL;
}

/* One thread only allocates, another one only frees: freed memory must be reused, not pile up. */
static void remote_free(void) {
    enum { COUNT = 300000 };
    pthread_t consumer;
    uint64_t random = 3;
    long before = 0;
    CHECK(pthread_create(&consumer, NULL, consume, (void *)(uintptr_t)COUNT) == 0, "no thread");
    for (int i = 0; i < COUNT; i++) {
        size_t size = check_random(&random) % (i % 50 == 0 ? 50000 : 600) + 1;
        unsigned char *block = malloc(size);
        CHECK(block, "no memory");
        memset(block, (int)(size & 0xff), size);
        pthread_mutex_lock(&ring.lock);
        while (ring.head - ring.tail == RING)
            pthread_cond_wait(&ring.changed, &ring.lock);
        ring.blocks[ring.head % RING] = block;
        ring.sizes[ring.head % RING] = size;
        ring.head++;
        pthread_cond_signal(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
        if (i == COUNT / 3)
            before = rss_kib();
    }
    pthread_join(consumer, NULL);
    long grown = rss_kib() - before;
    CHECK(grown < 24 << 10, "RSS grew by %ld KiB while nothing piled up", grown);
}

static void *allocate_for_main(void *blocks) {
    for (int i = 0; i < 1000; i++)
        ((void **)blocks)[i] = memset(malloc((size_t)i * 3 + 1), 1, (size_t)i * 3 + 1);
    return NULL;
}

/* Blocks are used, reallocated and freed after the thread that allocated them has ended. */
static void free_after_thread_exit(void) {
    static void *blocks[1000];
    for (int round = 0; round < 50; round++) {
        start_and_join(allocate_for_main, blocks);
        for (int i = 0; i < 1000; i++) {
            size_t size = (size_t)i * 3 + 1;
            for (size_t at = 0; at < size; at++)
                CHECK(((char *)blocks[i])[at] == 1, "block %d damaged at %zu", i, at);
            if (i % 2)
                blocks[i] = realloc(blocks[i], size * 3);
            free(blocks[i]);
        }
    }
}

/* --- threads born and dead ---------------------------------------------------------------- */

static void *work_a_little(void *keep) {
    enum { COUNT = 100 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(malloc((size_t)i * 17 + 1), 1, (size_t)i * 17 + 1);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    if (keep)
        *(void **)keep = malloc(64);
    return NULL;
}

static void many_threads(void) {
    enum { WARM = 200, COUNT = 2000 };
    static void *kept[COUNT];
    for (int i = 0; i < WARM; i++)
        start_and_join(work_a_little, NULL);
    long before = rss_kib();
    for (int i = 0; i < COUNT; i++)
        start_and_join(work_a_little, i % 10 == 0 ? &kept[i] : NULL);
    long grown = rss_kib() - before;
    CHECK(grown < 8 << 10, "%d threads left %ld KiB behind", COUNT, grown);
    for (int i = 0; i < COUNT; i++)
        free(kept[i]);
}

static pthread_barrier_t all_alive;

/* Allocates so often that the thread gets its own heap; its first allocations come from a shared
 * one. */
static void grow_up(void) {
    for (size_t i = 0; i < 600; i++)
        free(malloc(i % 500 + 1));
}

static void *work_together(void *unused) {
    grow_up();
    work_a_little(NULL);
    pthread_barrier_wait(&all_alive);
    work_a_little(NULL);
    return unused;
}

/* Runs waves of 100 threads: each wave must reuse the memory of the last one. */
static void waves_of_threads(void) {
    enum { AT_ONCE = 100, WAVES = 20 };
    pthread_t threads[AT_ONCE];
    long before = 0;
    pthread_barrier_init(&all_alive, NULL, AT_ONCE);
    for (int wave = 0; wave < WAVES; wave++) {
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&threads[i], NULL, work_together, NULL) == 0, "no thread");
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
        if (wave == 3)
            before = rss_kib();
    }
    /* Memory of a wave is kept for the next one, and goes back to the kernel after a while. */
    long grown = rss_kib() - before;
    for (int i = 0; i < 600 && grown >= 8 << 10; i++, grown = rss_kib() - before)
        usleep(100000);
    CHECK(grown < 8 << 10, "waves of threads left %ld KiB behind", grown);
}

/* --- pthread keys ------------------------------------------------------------------------- */

static pthread_key_t key, late_key;
static int destructor_runs;

/* glibc runs destructors of keys in rounds. This destructor sets its key again, so that it runs in
 * each round. In the last round all other libraries have freed their state of this
 * thread. */
static void destroy_and_allocate(void *value) {
    uintptr_t round = (uintptr_t)value;
    void *block = calloc(1, 1000 * round);
    CHECK(block, "no memory in a key's destructor");
    void *more = realloc(malloc(30), 3000);
    CHECK(more, "no memory in a key's destructor");
    free(more);
    free(block);
    __atomic_add_fetch(&destructor_runs, 1, __ATOMIC_RELAXED);
    if (round < 4)
        pthread_setspecific(key, (void *)(round + 1));
}

static void *only_set_key(void *unused) {
    pthread_setspecific(key, (void *)1);
    grow_up();
    return unused;
}

static void key_destructor_first(void) {
    enum { WARM = 100, COUNT = 2000 };
    CHECK(pthread_key_create(&key, destroy_and_allocate) == 0, "no key");
    for (int i = 0; i < WARM; i++)
        start_and_join(only_set_key, NULL);
    long before = rss_kib();
    for (int i = 0; i < COUNT; i++)
        start_and_join(only_set_key, NULL);
    CHECK(destructor_runs == (WARM + COUNT) * 4, "%d destructors ran", destructor_runs);
    long grown = rss_kib() - before;
    CHECK(grown < 8 << 10, "%d threads that allocate at their end left %ld KiB behind", COUNT,
          grown);
}

static void free_late(void *block) {
    free(block);
}

static void *allocate_and_leave_to_key(void *unused) {
    pthread_setspecific(late_key, malloc(5000));
    work_a_little(NULL);
    return unused;
}

/* The program takes all 1024 pthread keys before the library can take one. */
static void keys_exhausted(void) {
    pthread_key_t keys[PTHREAD_KEYS_MAX];
    int count = 0;
    CHECK(pthread_key_create(&late_key, free_late) == 0, "no key");
    while (count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0)
        count++;
    CHECK(count > 900, "only %d keys", count);
    for (int i = 0; i < 50; i++)
        start_and_join(allocate_and_leave_to_key, NULL);
    long before = rss_kib();
    for (int i = 0; i < 1000; i++)
        start_and_join(allocate_and_leave_to_key, NULL);
    CHECK(rss_kib() - before < 8 << 10, "1000 threads left %ld KiB behind", rss_kib() - before);
}

/* --- small, foreign and switched stacks --------------------------------------------------- */

static void tiny_stack(void) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, 16384) == 0, "no stack of 16 KiB");
    for (int i = 0; i < 100; i++) {
        int error = pthread_create(&thread, &attr, work_a_little, NULL);
        CHECK(error == 0, "no thread with a stack of 16 KiB: %s", strerror(error));
        pthread_join(thread, NULL);
    }
}

static ucontext_t main_context, fiber_context;
static int fiber_rounds;

static void fiber_body(void) {
    for (int i = 0; i < 1000; i++) {
        void *block = memset(malloc(300), 1, 300);
        swapcontext(&fiber_context, &main_context);
        free(block);
        fiber_rounds++;
    }
}

static void fiber(void) {
    size_t stack_bytes = 64 << 10;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    getcontext(&fiber_context);
    fiber_context.uc_stack.ss_sp = stack;
    fiber_context.uc_stack.ss_size = stack_bytes;
    fiber_context.uc_link = &main_context;
    makecontext(&fiber_context, fiber_body, 0);
    for (int i = 0; i <= 1000; i++) {
        void *block = malloc(200);
        swapcontext(&main_context, &fiber_context);
        free(block);
    }
    CHECK(fiber_rounds == 1000, "%d rounds", fiber_rounds);
    munmap(stack, stack_bytes);
}

static jmp_buf jump_home;

__attribute__((noinline)) static void allocate_deep(int depth) {
    free(malloc((size_t)depth + 1));
    if (depth == 0)
        longjmp(jump_home, 1);
    if (depth > 0)
        allocate_deep(depth - 1);
    __asm__ volatile(""); /* no tail call: the stack must grow */
}

static void longjmp_out(void) {
    for (volatile int i = 0; i < 2000; i++)
        if (!setjmp(jump_home))
            allocate_deep(i % 100);
}

static sigjmp_buf overflow_home;
static void *overflow_blocks[100000];
static int overflow_count;

static void jump_from_overflow(int number) {
    siglongjmp(overflow_home, number);
}

__attribute__((noinline)) static void allocate_until_overflow(size_t depth) {
    enum { ROOM = sizeof overflow_blocks / sizeof overflow_blocks[0] };
    CHECK(overflow_count < ROOM, "no overflow of the stack");
    void *block = malloc(depth % 200 + 16);
    overflow_blocks[overflow_count++] = block;
    free(realloc(malloc(depth % 50 + 1), depth % 3000 + 1));
    if (opaque(depth) < ROOM)
        allocate_until_overflow(depth + 1);
    __asm__ volatile(""); /* no tail call: the stack must grow */
}

static int count_mappings(void) {
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* The stack overflows inside malloc, and the program jumps out of its handler, as interpreters do.
 * Afterwards this thread and a new one allocate as before. */
static void *overflow_often(void *unused) {
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = jump_from_overflow, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&other, NULL) == 0, "sigaltstack");
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    int before = count_mappings();
    for (volatile size_t i = 0; i < 40; i++) {
        if (sigsetjmp(overflow_home, 1) == 0)
            allocate_until_overflow(i);
        signal(SIGSEGV, SIG_DFL);
        while (overflow_count > 0)
            free(overflow_blocks[--overflow_count]);
        work_a_little(NULL);
        int more = count_mappings() - before;
        CHECK(more < 300, "%d more mappings after %zu overflows", more, (size_t)i + 1);
        start_and_join(work_a_little, NULL);
        sigaction(SIGSEGV, &action, NULL);
    }
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, NULL);
    return unused;
}

static void stack_overflow(void) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, 256 << 10) == 0, "no stack of 256 KiB");
    CHECK(pthread_create(&thread, &attr, overflow_often, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static volatile sig_atomic_t handled;

static void allocate_in_handler(int number) {
    (void)number;
    void *block = memset(malloc(700), 1, 700);
    free(block);
    handled++;
}

/* The handler may allocate, because raise() is not called inside malloc. */
static void signal_on_other_stack(void) {
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&other, NULL) == 0, "sigaltstack");
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    for (int i = 0; i < 2000; i++) {
        void *block = malloc(100);
        raise(SIGUSR1);
        free(block);
    }
    CHECK(handled == 2000, "%d signals", (int)handled);
}

/* --- processes ---------------------------------------------------------------------------- */

static void expect_child_ok(pid_t child) {
    int status;
    CHECK(child > 0, "no child: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with 0x%x", status);
}

static void fork_child_allocates(void) {
    void *before = memset(malloc(100), 9, 100);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 100; j++)
                work_a_little(NULL);
            start_and_join(work_a_little, NULL);
            free(before);
            _exit(0);
        }
        expect_child_ok(child);
    }
    CHECK(*(char *)before == 9, "a child changed its parent's memory");
    free(before);
}

/* The child of vfork runs in its parent's memory and must not damage the parent's blocks. */
static void vfork_shares(void) {
    void *volatile kept = malloc(100);
    for (int i = 0; i < 200; i++) {
        pid_t child = vfork();
        if (child == 0) { /* programs allocate before exec; the blocks stay in the parent's heap */
            char *block = malloc(300 + (size_t)i * 100);
            void *freed = malloc(70);
            free(freed);
            if (!block)
                _exit(126);
            memset(block, 1, 300);
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        expect_child_ok(child);
        work_a_little(NULL);
    }
    free(kept);
}

static volatile int stop_forking_load;

static void *load_forever(void *argument) {
    uint64_t random = (uintptr_t)argument;
    void *blocks[64] = {NULL};
    while (!stop_forking_load) {
        size_t slot = check_random(&random) % 64;
        free(blocks[slot]);
        blocks[slot] = malloc(check_random(&random) % 40000);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

/* fork copies the process while other threads are inside malloc; malloc must work in the child. */
static void fork_under_load(void) {
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, load_forever, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(120); /* kills a child that hangs; then the parent fails the test */
            for (int j = 0; j < 10; j++)
                work_a_little(NULL);
            if (i % 20 == 0)
                start_and_join(work_a_little, NULL);
            _exit(0);
        }
        expect_child_ok(child);
    }
    stop_forking_load = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* --- threads that allocate little, so they still use the shared heap ------------------------- */

enum { YOUNG_BLOCKS = 40, STARTERS = 3 };

static volatile sig_atomic_t stop_young;
static _Atomic(unsigned char *) handed_on;

static void *wait_with_block(void *barrier) {
    void *volatile block = malloc(30);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    free(block);
    return NULL;
}

static void mask_profiling(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

/* Allocates and checks blocks. The first one is left to the next thread, which frees it. */
static void *live_briefly(void *argument) {
    mask_profiling(SIG_UNBLOCK);
    uint64_t random = (uintptr_t)argument;
    unsigned char *blocks[YOUNG_BLOCKS];
    size_t sizes[YOUNG_BLOCKS];
    for (int i = 0; i < YOUNG_BLOCKS; i++) {
        sizes[i] = 1 + check_random(&random) % 500;
        blocks[i] = malloc(sizes[i]);
        memset(blocks[i], i, sizes[i]);
    }
    for (int i = 0; i < YOUNG_BLOCKS; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            CHECK(blocks[i][at] == i, "block %d of %zu is damaged at %zu", i, sizes[i], at);
    for (int i = 1; i < YOUNG_BLOCKS; i++)
        free(blocks[i]);
    free(atomic_exchange(&handed_on, blocks[0]));
    return NULL;
}

static void *start_young(void *argument) {
    for (uintptr_t i = (uintptr_t)argument; !stop_young; i += STARTERS)
        start_and_join(live_briefly, (void *)i);
    return NULL;
}

static void allocate_a_little(int number) {
    int saved = errno;
    void *volatile block = malloc((size_t)number * 10);
    free(block);
    errno = saved;
}

/* At the same time, threads start, signal handlers allocate in them, and children are forked. */
static void young_threads(void) {
    pthread_t waiting[12], starters[STARTERS];
    pthread_barrier_t barrier;
    struct sigaction action = {.sa_handler = allocate_a_little, .sa_flags = SA_RESTART};
    struct itimerval often = {{.tv_usec = 500}, {.tv_usec = 500}}, never = {{0}, {0}};
    mask_profiling(SIG_BLOCK); /* a signal would make fork start again */
    pthread_barrier_init(&barrier, NULL, 13);
    for (int i = 0; i < 12; i++)
        CHECK(pthread_create(&waiting[i], NULL, wait_with_block, &barrier) == 0, "no thread");
    pthread_barrier_wait(&barrier);
    for (uintptr_t i = 0; i < STARTERS; i++)
        CHECK(pthread_create(&starters[i], NULL, start_young, (void *)(i + 1)) == 0, "no thread");
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 150; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(120);
            for (int j = 0; j < 10; j++)
                work_a_little(NULL);
            start_and_join(live_briefly, (void *)7);
            _exit(0);
        }
        expect_child_ok(child);
    }
    stop_young = 1;
    for (int i = 0; i < STARTERS; i++)
        pthread_join(starters[i], NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 12; i++)
        pthread_join(waiting[i], NULL);
    free(atomic_exchange(&handed_on, NULL));
}

/* malloc and free are no cancellation points: a cancelled thread must not end in them. */
static void *allocate_cancelled(void *argument) {
    char *volatile blocks[64] = {NULL};
    pthread_cancel(pthread_self());
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = malloc((size_t)1 << i % 27);
        blocks[i] = realloc(blocks[i], ((size_t)1 << i % 24) + i);
        free(calloc(i, 5000));
        free(aligned_alloc(4096, 4096 * i));
    }
    for (size_t i = 0; i < 64; i++)
        free(blocks[i]);
    *(int *)argument = 1;
    pthread_testcancel();
    *(int *)argument = 2;
    return NULL;
}

static void no_cancellation_point(void) {
    for (int i = 0; i < 20; i++) {
        int passed = 0;
        start_and_join(allocate_cancelled, &passed);
        CHECK(passed == 1, "the thread came to %d", passed);
    }
}

CHECK_MAIN({"remote-free", remote_free}, {"free-after-thread-exit", free_after_thread_exit},
           {"many-threads", many_threads}, {"waves-of-threads", waves_of_threads},
           {"key-destructor-first", key_destructor_first}, {"keys-exhausted", keys_exhausted},
           {"tiny-stack", tiny_stack}, {"fiber", fiber}, {"longjmp-out", longjmp_out},
           {"!stack-overflow", stack_overflow}, {"signal-on-other-stack", signal_on_other_stack},
           {"fork-child-allocates", fork_child_allocates}, {"vfork-shares", vfork_shares},
           {"fork-under-load", fork_under_load}, {"!young-threads", young_threads},
           {"no-cancellation-point", no_cancellation_point})
