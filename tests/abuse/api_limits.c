/* SPDX-License-Identifier: MIT */
/* Zero sizes, impossible sizes, overflow, memory that runs out; each time errno is checked. */
#include "check.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define SENTINEL 77 /* a value of errno that no function here sets */

/* Sizes for which no function of the malloc family may return a block. */
static const size_t impossible_sizes[] = {
    PTRDIFF_MAX,
    (size_t)PTRDIFF_MAX + 1,
    (size_t)PTRDIFF_MAX + 4096,
    SIZE_MAX / 2 + 17,
    SIZE_MAX - (1 << 20),
    SIZE_MAX - 65536,
    SIZE_MAX - 4097,
    SIZE_MAX - 4096,
    SIZE_MAX - 4095,
    SIZE_MAX - 64,
    SIZE_MAX - 16,
    SIZE_MAX - 15,
    SIZE_MAX - 8,
    SIZE_MAX - 1,
    SIZE_MAX,
};
#define IMPOSSIBLE_COUNT (sizeof impossible_sizes / sizeof impossible_sizes[0])

static size_t address_space_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    CHECK(file && fscanf(file, "%lu", &pages) == 1, "no statm");
    fclose(file);
    return pages * 4096;
}

static void limit_address_space(size_t room_bytes) {
    size_t limit = address_space_bytes() + room_bytes;
    struct rlimit wanted = {.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &wanted) == 0, "setrlimit: %s", strerror(errno));
}

static void malloc_zero(void) {
    enum { COUNT = 1000 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        switch (i % 5) {
        case 0: blocks[i] = malloc(opaque(0)); break;
        case 1: blocks[i] = calloc(opaque(0), 8); break;
        case 2: blocks[i] = calloc(8, opaque(0)); break;
        case 3: blocks[i] = realloc(NULL, opaque(0)); break;
        default: blocks[i] = memalign(16, opaque(0)); break;
        }
        CHECK(blocks[i], "allocation %d of no bytes is NULL", i);
        for (int j = 0; j < i; j++)
            CHECK(blocks[i] != blocks[j], "blocks %d and %d of no bytes are one", j, i);
    }
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
}

static void free_null(void) {
    errno = SENTINEL;
    for (int i = 0; i < 1000; i++)
        free(opaque_pointer(NULL));
    CHECK(errno == SENTINEL, "errno is %d", errno);
    CHECK(malloc_usable_size(opaque_pointer(NULL)) == 0, "usable size of NULL");
}

static void expect_no_memory(void *got, const char *what, size_t size) {
    CHECK(!got, "%s(%zu) gave %p", what, size, got);
    CHECK(errno == ENOMEM, "%s(%zu): errno is %d", what, size, errno);
    errno = SENTINEL;
}

static void impossible_size(void) {
    errno = SENTINEL;
    for (size_t i = 0; i < IMPOSSIBLE_COUNT; i++) {
        size_t size = opaque(impossible_sizes[i]);
        expect_no_memory(malloc(size), "malloc", size);
        expect_no_memory(calloc(size, 1), "calloc", size);
        expect_no_memory(calloc(1, size), "calloc", size);
        expect_no_memory(realloc(NULL, size), "realloc(NULL)", size);
        expect_no_memory(reallocarray(NULL, size, 1), "reallocarray(NULL)", size);
        expect_no_memory(memalign(64, size), "memalign", size);
        expect_no_memory(memalign(4096, size), "memalign 4096", size);
        expect_no_memory(memalign(1 << 21, size), "memalign 2 MiB", size);
        expect_no_memory(aligned_alloc(64, size), "aligned_alloc", size);
        expect_no_memory(valloc(size), "valloc", size);
        expect_no_memory(pvalloc(size), "pvalloc", size);
        void *untouched = &errno;
        int error = posix_memalign(&untouched, 64, size);
        CHECK(error == ENOMEM, "posix_memalign(%zu) is %d", size, error);
        /* glibc sets errno, too */
        CHECK(errno == ENOMEM, "posix_memalign(%zu): errno is %d", size, errno);
        CHECK(untouched == &errno, "posix_memalign(%zu) wrote its result", size);
        errno = SENTINEL;
    }
}

static void realloc_impossible_size(void) {
    static const size_t old_sizes[] = {1, 24, 100, 5000, 40000, 300000, 5 << 20};
    for (size_t o = 0; o < sizeof old_sizes / sizeof old_sizes[0]; o++) {
        size_t old_size = old_sizes[o];
        unsigned char *block = malloc(old_size);
        memset(block, 0x5a, old_size);
        size_t usable = malloc_usable_size(block);
        errno = SENTINEL;
        for (size_t i = 0; i < IMPOSSIBLE_COUNT; i++) {
            size_t size = opaque(impossible_sizes[i]);
            expect_no_memory(realloc(block, size), "realloc", size);
            expect_no_memory(reallocarray(block, size, 1), "reallocarray", size);
        }
        expect_no_memory(reallocarray(block, SIZE_MAX / 2, 3), "reallocarray", 3);
        CHECK(malloc_usable_size(block) == usable, "usable size changed by a failed realloc");
        for (size_t i = 0; i < old_size; i++)
            CHECK(block[i] == 0x5a, "byte %zu of %zu changed by a failed realloc", i, old_size);
        free(block);
    }
}

static void calloc_overflow(void) {
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX / 2 + 1, 2},
        {(size_t)1 << 32, (size_t)1 << 32},
        {SIZE_MAX, SIZE_MAX},
        {((size_t)1 << 32) + 1, ((size_t)1 << 32) - 1},
        {SIZE_MAX / 16 + 1, 16},
        {(size_t)1 << 63, 2},
        {(size_t)1 << 33, ((size_t)1 << 31) + 1},
    };
    errno = SENTINEL;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        size_t count = opaque(pairs[i][0]), size = opaque(pairs[i][1]);
        expect_no_memory(calloc(count, size), "calloc", count);
        expect_no_memory(reallocarray(NULL, count, size), "reallocarray", count);
    }
}

static void reallocarray_overflow(void) {
    char *block = strdup("content that stays");
    errno = SENTINEL;
    expect_no_memory(reallocarray(block, opaque(SIZE_MAX / 4), 8), "reallocarray", 8);
    expect_no_memory(reallocarray(block, opaque((size_t)1 << 32), (size_t)1 << 32), "reallocarray",
                     32);
    CHECK(strcmp(block, "content that stays") == 0, "the old block is damaged");
    char *grown = reallocarray(block, 1000, 10);
    CHECK(grown && strcmp(grown, "content that stays") == 0, "reallocarray lost the content");
    CHECK(malloc_usable_size(grown) >= 10000, "usable %zu", malloc_usable_size(grown));
    free(grown);
}

/* realloc(p, 0) frees the block and returns NULL, as in glibc. It must not change errno. */
static void realloc_to_zero(void) {
    for (size_t size = 1; size < 4 << 20; size = size * 2 + 1) {
        void *block = malloc(size);
        memset(block, 1, size);
        errno = SENTINEL;
        CHECK(!realloc(block, opaque(0)), "realloc(p, 0) of %zu bytes is not NULL", size);
        CHECK(errno == SENTINEL, "errno is %d", errno);
        block = malloc(size);
        CHECK(!reallocarray(block, opaque(0), 8), "reallocarray(p, 0, 8) is not NULL");
    }
    limit_address_space((size_t)1 << 30);
    for (int i = 0; i < 4096; i++) { /* would be 16 GiB if realloc did not free */
        char *block = malloc(4 << 20);
        CHECK(block, "round %d: no memory, so realloc(p, 0) frees nothing", i);
        CHECK(!realloc(block, opaque(0)), "round %d: not NULL", i);
    }
}

/* A call that succeeds must not change errno; free must never change it. */
static void errno_preserved(void) {
    enum { COUNT = 64 };
    void *blocks[COUNT];
    uint64_t random = 42;
    errno = SENTINEL;
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < COUNT; i++) {
            size_t size = check_random(&random) % (1u << (check_random(&random) % 23));
            switch (i % 4) {
            case 0: blocks[i] = malloc(size); break;
            case 1: blocks[i] = calloc(1, size); break;
            case 2: blocks[i] = memalign(64, size); break;
            default: blocks[i] = realloc(malloc(10), size + 1); break;
            }
            CHECK(errno == SENTINEL, "an allocation of %zu bytes set errno to %d", size, errno);
            CHECK(blocks[i], "no memory");
        }
        for (int i = 0; i < COUNT; i++) {
            free(blocks[i]);
            CHECK(errno == SENTINEL, "free set errno to %d", errno);
        }
    }
    errno = 0;
    free(malloc(100 << 20));
    CHECK(errno == 0, "free of a huge block set errno to %d", errno);
}

/* free must not change errno even if munmap or madvise fails inside of it: madvise fails in locked
 * memory. */
static void errno_free_locked(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && errno != EPERM && errno != ENOMEM)
        CHECK(0, "mlockall: %s", strerror(errno));
    void *blocks[64];
    for (int round = 0; round < 20; round++) {
        int count = 0;
        for (; count < 64; count++) {
            blocks[count] = malloc(opaque(32768)); /* may fail: RLIMIT_MEMLOCK is small */
            if (!blocks[count])
                break;
            memset(blocks[count], 1, 32768);
        }
        errno = SENTINEL;
        for (int i = 0; i < count; i++)
            free(blocks[i]);
        CHECK(errno == SENTINEL, "free set errno to %d", errno);
        malloc_trim(0);
        for (int i = 0; i < count; i++) { /* calloc must zero what madvise could not discard */
            unsigned char *zeroed = calloc(1, opaque(32768));
            for (size_t k = 0; zeroed && k < 32768; k++)
                CHECK(!zeroed[k], "calloc of locked memory: byte %zu is %d", k, zeroed[k]);
            blocks[i] = zeroed;
        }
        for (int i = 0; i < count; i++)
            free(blocks[i]);
    }
}

/* --- memory that runs out ---------------------------------------------------------------- */

struct chained_block {
    struct chained_block *next;
};

/* Allocates blocks of one size until malloc returns NULL. Returns the blocks as a list. */
static struct chained_block *exhaust(size_t size) {
    struct chained_block *list = NULL;
    for (;;) {
        errno = SENTINEL;
        struct chained_block *block = malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM, "out of memory at %zu bytes: errno is %d", size, errno);
            return list;
        }
        block->next = list;
        list = block;
    }
}

static void chain_free(struct chained_block *list) {
    while (list) {
        struct chained_block *next = list->next;
        free(list);
        list = next;
    }
}

static void out_of_memory(void) {
    static const size_t larger[] = {8000, 200000, 3 << 20}, smaller[] = {1000, 100, 20000};
    char *old = malloc(3000), *shrinking[3];
    memset(old, 'o', 3000);
    for (int i = 0; i < 3; i++)
        shrinking[i] = memset(malloc(larger[i]), 's', larger[i]);
    limit_address_space(64 << 20);
    for (int round = 0; round < 3; round++) {
        struct chained_block *lists[] = {exhaust(8 << 20), exhaust(1 << 20), exhaust(65536),
                                         exhaust(4096),    exhaust(512),     exhaust(64),
                                         exhaust(16)};
        errno = SENTINEL;
        expect_no_memory(malloc(1 << 20), "malloc", 1 << 20);
        expect_no_memory(calloc(1024, 1024), "calloc", 1 << 20);
        expect_no_memory(realloc(old, 1 << 20), "realloc", 1 << 20);
        expect_no_memory(reallocarray(old, 1024, 1024), "reallocarray", 1 << 20);
        expect_no_memory(memalign(8192, 1 << 20), "memalign", 1 << 20);
        expect_no_memory(aligned_alloc(64, 1 << 20), "aligned_alloc", 1 << 20);
        expect_no_memory(valloc(1 << 20), "valloc", 1 << 20);
        expect_no_memory(pvalloc(1 << 20), "pvalloc", 1 << 20);
        void *untouched = &lists;
        CHECK(posix_memalign(&untouched, 64, 1 << 20) == ENOMEM && untouched == &lists,
              "posix_memalign out of memory");
        for (int i = 0; i < 3000; i++)
            CHECK(old[i] == 'o', "the old block is damaged at %d", i);
        shrinking[round] = realloc(shrinking[round], opaque(smaller[round]));
        CHECK(shrinking[round], "no smaller block instead of one of %zu bytes", larger[round]);
        for (size_t i = 0; i < smaller[round]; i++)
            CHECK(shrinking[round][i] == 's', "the smaller block is damaged at %zu", i);
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
            chain_free(lists[i]);
        void *again = malloc(1 << 20);
        CHECK(again, "round %d: freed memory does not come back", round);
        free(again);
    }
    free(old);
    for (int i = 0; i < 3; i++)
        free(shrinking[i]);
}

/* Grows a chunk where the limit leaves no room for the old and the new size together. With
 * MEMCTX_CHECK each realloc copies. */
static void growth_under_limit(void) {
    enum { OLD = 100 << 20, NEW = 140 << 20 };
    if (getenv("MEMCTX_CHECK"))
        return;
    char *grown = malloc(opaque(OLD));
    for (size_t i = 0; i < OLD; i += 4096)
        grown[i] = (char)(i >> 12);
    limit_address_space(64 << 20);
    for (int round = 0; round < 2; round++) {
        grown = realloc(grown, opaque(NEW));
        CHECK(grown, "round %d: 100 MiB do not grow to 140 MiB", round);
        for (size_t i = 0; i < OLD; i += 4096)
            CHECK(grown[i] == (char)(i >> 12), "round %d: damaged at %zu", round, i);
        memset(grown + OLD, round, NEW - OLD);
        grown = realloc(grown, opaque(OLD));
        CHECK(grown, "round %d: 140 MiB do not shrink", round);
    }
    free(grown);
    grown = malloc(opaque(NEW));
    CHECK(grown, "the memory does not come back");
    free(grown);
}

static pthread_barrier_t gate;

static void *first_allocation_without_memory(void *unused) {
    (void)unused;
    pthread_barrier_wait(&gate); /* the thread exists */
    pthread_barrier_wait(&gate); /* memory has run out */
    errno = SENTINEL;
    void *block = malloc(opaque(256 << 20));
    CHECK(!block && errno == ENOMEM, "%p, errno %d", block, errno);
    /* waits until all threads have tried: a thread that ends gives its stack back */
    pthread_barrier_wait(&gate);
    /* the first allocations come from the shared heap, later ones from the thread's own */
    for (int i = 0; i < 1000; i++) {
        errno = SENTINEL;
        block = malloc(opaque(100)); /* may succeed if a little memory is left; must not crash */
        CHECK(block || errno == ENOMEM, "errno is %d", errno);
        free(block);
    }
    return NULL;
}

/* Memory runs out while 50 threads make their first allocation, more than an allocator keeps memory
 * ready for. */
static void out_of_memory_new_thread(void) {
    enum { THREADS = 50 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, first_allocation_without_memory, NULL) == 0,
              "no thread");
    pthread_barrier_wait(&gate);
    limit_address_space(32 << 20);
    struct chained_block *lists[] = {exhaust(4 << 20), exhaust(65536), exhaust(512), exhaust(16)};
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "thread %d did not end", i);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        chain_free(lists[i]);
}

/* The program executes itself again with 32 MiB of address space; it must start and allocate. */
static void small_address_space(void) {
    if (getenv("CHECK_LIMITED")) {
        char *block = malloc(100000);
        CHECK(block, "no 100 kB under a limit of 32 MiB");
        memset(block, 1, 100000);
        free(block);
        return;
    }
    struct rlimit wanted = {.rlim_cur = 32u << 20, .rlim_max = RLIM_INFINITY};
    setenv("CHECK_LIMITED", "1", 1);
    CHECK(setrlimit(RLIMIT_AS, &wanted) == 0, "setrlimit: %s", strerror(errno));
    execl("/proc/self/exe", "api_limits", "small-address-space", (char *)NULL);
    CHECK(0, "exec: %s", strerror(errno));
}

static bool kernel_guesses(void) {
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    int mode = -1;
    bool read = file && fscanf(file, "%d", &mode) == 1;
    if (file)
        fclose(file);
    return read && mode == 0;
}

/* A block that is larger than memory and swap together must be refused at once if the kernel
 * overcommits heuristically. A program that got such a block would be killed when it writes to
 * it. */
static void more_than_the_machine(void) {
    struct sysinfo machine;
    CHECK(sysinfo(&machine) == 0, "sysinfo: %s", strerror(errno));
    size_t bytes = opaque(2 * (machine.totalram + machine.totalswap) * machine.mem_unit);
    size_t small_bytes[] = {100, 3 << 20, 300 << 20};
    if (!kernel_guesses())
        return;
    void *block = NULL;
    errno = SENTINEL;
    CHECK(!malloc(bytes) && errno == ENOMEM, "malloc: errno %d", errno);
    errno = SENTINEL;
    CHECK(!calloc(1, bytes) && errno == ENOMEM, "calloc: errno %d", errno);
    errno = SENTINEL;
    CHECK(!aligned_alloc(1 << 20, bytes) && errno == ENOMEM, "aligned_alloc: errno %d", errno);
    CHECK(posix_memalign(&block, 1UL << 40, 8) == ENOMEM, "posix_memalign to 1 TiB");
    for (size_t i = 0; i < sizeof small_bytes / sizeof *small_bytes; i++) {
        block = malloc(small_bytes[i]);
        CHECK(block, "no block of %zu bytes", small_bytes[i]);
        memset(block, 7, 100);
        errno = SENTINEL;
        CHECK(!realloc(block, bytes) && errno == ENOMEM, "realloc: errno %d", errno);
        CHECK(((char *)block)[99] == 7, "the block lost its content");
        free(block);
    }
}

CHECK_MAIN({"malloc-zero", malloc_zero}, {"free-null", free_null},
           {"impossible-size", impossible_size},
           {"realloc-impossible-size", realloc_impossible_size},
           {"calloc-overflow", calloc_overflow}, {"reallocarray-overflow", reallocarray_overflow},
           {"realloc-to-zero", realloc_to_zero}, {"errno-preserved", errno_preserved},
           {"errno-free-locked", errno_free_locked}, {"out-of-memory", out_of_memory},
           {"growth-under-limit", growth_under_limit},
           {"out-of-memory-new-thread", out_of_memory_new_thread},
           {"small-address-space", small_address_space},
           {"more-than-the-machine", more_than_the_machine})
