/* SPDX-License-Identifier: MIT */
/* The content of blocks: zeroes after calloc, the old bytes after realloc; all bytes up to the
 * usable size can be used. */
#include "check.h"

#include "../lib/filter.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* numbers that the headers of older systems do not define */
#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL */
#define USER_MODE_ONLY 1  /* UFFD_USER_MODE_ONLY */

static void fill(unsigned char *block, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i++)
        block[i] = (unsigned char)((i * 0x9e3779b97f4a7c15u + seed) >> 56);
}

static void expect_filled(const unsigned char *block, size_t size, uint64_t seed,
                          const char *what) {
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == (unsigned char)((i * 0x9e3779b97f4a7c15u + seed) >> 56),
              "%s: byte %zu of %zu is %d", what, i, size, block[i]);
}

static void expect_zero(const unsigned char *block, size_t size, const char *what) {
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, block + i, 8);
        CHECK(word == 0, "%s: not zero near byte %zu of %zu", what, i, size);
    }
    for (; i < size; i++)
        CHECK(block[i] == 0, "%s: byte %zu of %zu is %d", what, i, size, block[i]);
}

/* --- calloc ------------------------------------------------------------------------------ */

/* Frees blocks of about this size that are not zero, so that the next calloc reuses their
 * memory. */
static void leave_dirt(size_t size, int count) {
    void *blocks[64];
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i], "no memory");
        memset(blocks[i], 0xff, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

static void calloc_dirty_small(void) {
    for (size_t size = 1; size < 70000; size += size < 600 ? 1 : size / 5 + 3) {
        void *blocks[64];
        leave_dirt(size, 64);
        for (int i = 0; i < 64; i++) {
            blocks[i] = calloc(i % 2 ? size : 1, i % 2 ? 1 : size);
            CHECK(blocks[i], "no memory");
            expect_zero(blocks[i], size, "calloc of dirty memory");
            memset(blocks[i], 0xee, size);
        }
        for (int i = 0; i < 64; i++)
            free(blocks[i]);
    }
}

static void calloc_dirty_large(void) {
    for (size_t size = 70000; size < 40 << 20; size = size * 3 / 2 + 4097) {
        int count = size < 2 << 20 ? 8 : 2;
        leave_dirt(size, count);
        unsigned char *blocks[8];
        for (int i = 0; i < count; i++) {
            blocks[i] = calloc(1, size - (size_t)i);
            CHECK(blocks[i], "no memory");
            expect_zero(blocks[i], size - (size_t)i, "calloc of dirty large memory");
        }
        for (int i = 0; i < count; i++)
            free(blocks[i]);
    }
    leave_dirt(200 << 20, 1);
    unsigned char *huge = calloc(200 << 10, 1 << 10);
    CHECK(huge, "no memory");
    expect_zero(huge, 200 << 20, "calloc of 200 MiB");
    free(huge);
}

/* realloc makes a large block smaller; its former tail is not zero, so calloc must clear that
 * memory. */
static void calloc_after_realloc(void) {
    for (size_t size = 64 << 10; size <= 16 << 20; size *= 2)
        for (int part = 1; part <= 3; part++) {
            unsigned char *block = malloc(size);
            memset(block, 0xdd, size);
            block = realloc(block, size / 4 * (size_t)part + 5);
            unsigned char *clean = calloc(1, size / 2);
            expect_zero(clean, size / 2, "calloc beside a shrunk block");
            memset(clean, 0xcc, size / 2);
            block = realloc(block, size * 2);
            unsigned char *second = calloc(1, size);
            expect_zero(second, size, "calloc beside a grown block");
            free(block);
            free(clean);
            unsigned char *third = calloc(1, size * 2);
            expect_zero(third, size * 2, "calloc after both were freed");
            free(second);
            free(third);
        }
}

static void *calloc_thread(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    unsigned char *blocks[32] = {NULL};
    for (int i = 0; i < 20000; i++) {
        size_t slot = check_random(&random) % 32;
        size_t size = check_random(&random) % (i % 100 == 0 ? 300000 : 3000);
        if (i % 3 == 0) {
            free(blocks[slot]);
            blocks[slot] = malloc(size);
        } else {
            free(blocks[slot]);
            blocks[slot] = calloc(1, size);
            expect_zero(blocks[slot], size, "calloc in a thread");
        }
        memset(blocks[slot], 0xbb, size);
    }
    for (int i = 0; i < 32; i++)
        free(blocks[i]);
    return NULL;
}

static void calloc_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, calloc_thread, (void *)(i + 1)) == 0, "thread");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* --- realloc ----------------------------------------------------------------------------- */

static const size_t jumps[] = {
    1,      7,      8,      15,     16,      17,      24,      32,      48,      100,    127,
    128,    129,    500,    1000,   1024,    2000,    4095,    4096,    4097,    8191,   8192,
    12000,  16384,  16385,  30000,  32768,   32769,   65535,   65536,   65537,   100000, 131072,
    131073, 200000, 262145, 500000, 1048576, 1048577, 2097152, 2097153, 3000000,
};
#define JUMP_COUNT (sizeof jumps / sizeof jumps[0])

static void realloc_every_jump(void) {
    for (size_t i = 0; i < JUMP_COUNT; i++)
        for (size_t j = 0; j < JUMP_COUNT; j++) {
            unsigned char *block = malloc(jumps[i]);
            void *neighbour = malloc(jumps[i]); /* keeps the block from growing in place */
            fill(block, jumps[i], i * 1000 + j);
            block = realloc(block, jumps[j]);
            CHECK(block, "no memory");
            size_t kept = jumps[i] < jumps[j] ? jumps[i] : jumps[j];
            expect_filled(block, kept, i * 1000 + j, "realloc");
            CHECK(malloc_usable_size(block) >= jumps[j], "realloc to %zu has %zu usable", jumps[j],
                  malloc_usable_size(block));
            memset(block, 1, malloc_usable_size(block));
            free(neighbour);
            free(block);
        }
}

/* Reallocates one block to random sizes; its content must survive each step. */
static void realloc_walk(void) {
    uint64_t random = 99;
    unsigned char *block = NULL;
    size_t size = 0;
    for (int i = 0; i < 3000; i++) {
        size_t limit = (size_t)1 << (check_random(&random) % 21 + 1);
        size_t wanted = check_random(&random) % limit + 1;
        block = i % 7 == 0 ? reallocarray(block, 1, wanted) : realloc(block, wanted);
        CHECK(block, "no memory");
        expect_filled(block, size < wanted ? size : wanted, 5, "realloc walk");
        fill(block, wanted, 5);
        size = wanted;
    }
    free(block);
}

static long peak_rss_kib(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    long peak = -1;
    CHECK(file, "no status");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &peak) == 1)
            break;
    fclose(file);
    return peak;
}

/* Huge blocks grow by mremap, so the resident set must never hold a second copy. */
static void realloc_huge(void) {
    size_t size = 96u << 20;
    unsigned char *block = malloc(size);
    CHECK(block, "no memory");
    for (size_t i = 0; i < size; i += 4096)
        block[i] = (unsigned char)(i >> 12);
    long before = peak_rss_kib();
    for (int step = 1; step <= 8; step++) {
        void *in_the_way = malloc(1 << 20);
        size_t grown_size = size + ((size_t)step << 23) + 12345;
        block = realloc(block, grown_size);
        CHECK(block, "no memory");
        CHECK(malloc_usable_size(block) >= grown_size, "it did not grow");
        block[grown_size - 1] = 1;
        for (size_t i = 0; i < size; i += 4096)
            CHECK(block[i] == (unsigned char)(i >> 12), "OS page %zu lost", i / 4096);
        free(in_the_way);
    }
    for (int step = 1; step <= 8; step++) {
        block = realloc(block, size - ((size_t)step << 22));
        CHECK(block, "no memory");
        for (size_t i = 0; i < size - ((size_t)step << 22); i += 4096)
            CHECK(block[i] == (unsigned char)(i >> 12), "OS page %zu lost in shrinking", i / 4096);
    }
    long grown = peak_rss_kib() - before;
    CHECK(grown < 48 << 10, "growing a block of 96 MiB took %ld KiB more", grown);
    free(block);
}

/* When a large block shrinks, the memory of its tail must go back to the kernel. */
static void realloc_shrink_returns(void) {
    size_t size = 64u << 20;
    char *block = malloc(size);
    memset(block, 1, size);
    long before = rss_kib();
    block = realloc(block, 1 << 20);
    CHECK(block && block[(1 << 20) - 1] == 1, "content lost");
    malloc_trim(0);
    long returned = before - rss_kib();
    CHECK(returned > 48 << 10, "shrinking 64 MiB to 1 MiB returned %ld KiB", returned);
    free(block);
}

/* --- protected OS pages ------------------------------------------------------------------ */

/* Does to an OS page of a chunk what a program may have done before it frees the chunk. */
static void spoil(unsigned char *page, int way, int file) {
    int refused = 0;
    switch (way) {
    case 0: refused = mprotect(page, 4096, PROT_NONE); break;
    case 1: refused = mprotect(page, 4096, PROT_READ); break;
    case 2: refused = munmap(page, 4096); break;
    case 3: refused = madvise(page, 4096, MADV_DONTFORK); break;
    default:
        refused =
            mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED;
    }
    CHECK(!refused, "way %d: the kernel refused", way);
}

/* glibc unmaps each freed chunk of 32 MiB or more, so a program may free such a chunk while OS
 * pages of it are inaccessible, read-only, unmapped, not copied to children, or those of a file. A
 * later chunk must have none of these. The same holds for the end that a realloc cuts off. */
static void protected_large(void) {
    size_t size = 40u << 20;
    void *live = malloc(size * 16); /* the more bytes are live, the more freed ones are kept */
    int file = memfd_create("file", 0), status = 0;
    char byte = 0;
    CHECK(file >= 0 && !ftruncate(file, 4096), "no file");
    for (int round = 0; round < 20; round++) {
        unsigned char *block = malloc(size);
        CHECK(block, "no memory");
        memset(block, 1, 1 << 20);
        size_t at = round % 2 ? size / 2 + 4096 : 4096;
        spoil((unsigned char *)(((uintptr_t)block + at) & ~(uintptr_t)4095), round % 5, file);
        if (round >= 10 && round % 2)
            block = realloc(block, size / 2);
        free(block);
        block = malloc(size);
        CHECK(block, "no memory");
        memset(block, 2, size);
        if (round % 5 == 3) {
            pid_t child = fork();
            if (!child) {
                memset(block, 3, size);
                _exit(0);
            }
            CHECK(waitpid(child, &status, 0) == child && !status, "round %d: %x", round, status);
        }
        free(block);
    }
    CHECK(pread(file, &byte, 1, 0) == 1 && !byte, "malloc's memory is that of a file");
    close(file);
    free(live);
}

/* Returns the KiB that the process has locked in memory; -1: the kernel does not tell. */
static long locked_kib(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status, "no status");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "VmLck:", 6))
            kib = strtol(line + 6, NULL, 10);
    fclose(status);
    return kib;
}

/* Registers the range with a new userfaultfd. An access to an OS page of it that is not there then
 * raises SIGBUS. False: the kernel gives no userfaultfd to this process. */
static bool watch_faults(void *start, size_t bytes) {
    int watcher = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
    struct uffdio_register wanted = {.range = {(uintptr_t)start, bytes},
                                     .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (watcher < 0)
        return false;
    CHECK(!ioctl(watcher, UFFDIO_API, &api) && !ioctl(watcher, UFFDIO_REGISTER, &wanted),
          "the range cannot be registered");
    return true; /* the descriptor stays open, and with it the registration */
}

/* Frees the block and writes to the next one of its size, which ends in a signal if an OS page is
 * still marked. */
static void free_and_take_again(unsigned char *block, size_t size) {
    free(block);
    CHECK(locked_kib() == 0, "%ld KiB are locked", locked_kib());
    block = malloc(size);
    CHECK(block, "no memory");
    memset(block, 2, size);
    free(block);
}

/* As for protected_large: a program may free a chunk of 32 MiB or more while OS pages of it are
 * locked, are guards (Linux 6.13 and newer), have a protection key, or are watched by a
 * userfaultfd. A later chunk must have none of these. */
static void marked_large(void) {
    enum { LOCK, GUARD, KEY, WATCH, WAYS };
    size_t size = 40u << 20, part = 256 << 10;
    void *live = malloc(size * 16);
    int done = 0, key = pkey_alloc(0, PKEY_DISABLE_WRITE);
    for (int round = 0; round < 2 * WAYS; round++) {
        int way = round % WAYS;
        bool is_done = true;
        malloc_trim(0); /* so that no OS page of the block is there yet, as WATCH needs it */
        unsigned char *block = malloc(size);
        CHECK(block, "no memory");
        unsigned char *at = block + 4096 - (uintptr_t)block % 4096 + round / WAYS * (size / 2);
        switch (way) {
        case LOCK: is_done = !mlock(at, part); break;
        case GUARD: is_done = !madvise(at, part, GUARD_INSTALL); break;
        case KEY:
            is_done = key >= 0 && !pkey_mprotect(at, part, PROT_READ | PROT_WRITE, key);
            break;
        default: is_done = watch_faults(at, part);
        }
        done += is_done;
        free_and_take_again(block, size);
    }
    CHECK(done, "the kernel refused all ways");
    free(live);
}

/* A chunk of more bytes gets the OS pages of a freed chunk, which move to another place. From Linux
 * 6.17 on, the kernel moves the OS pages in front of those that a userfaultfd watches, and refuses
 * the others. */
static void marked_moved(void) {
    size_t size = 8u << 20;
    void *live = malloc(size * 80); /* the more bytes are live, the more freed ones are kept */
    for (int round = 0; round < 4; round++) {
        malloc_trim(0);
        unsigned char *block = malloc(size), *larger;
        CHECK(block, "no memory");
        memset(block, 1, size / 2);
        watch_faults(block + size / 2 - (uintptr_t)block % 4096, 256 << 10);
        free(block);
        CHECK(larger = malloc(2 * size + (size_t)round * size), "no memory");
        memset(larger, 2, 2 * size);
        free(larger);
    }
    free(live);
}

/* glibc also unmaps a freed chunk of less than 32 MiB, if it is larger than all chunks in mappings
 * that were freed before. */
static void marked_first(void) {
    enum { SPOILS = 5, LOCK = SPOILS, GUARD, WATCH, WAYS };
    size_t size = 1u << 20;
    int file = memfd_create("file", 0);
    CHECK(file >= 0 && !ftruncate(file, 4096), "no file");
    for (int round = 0; round < 2 * WAYS; round++) {
        int way = round % WAYS;
        size += 256 << 10; /* more than glibc keeps behind the last chunk (M_TOP_PAD) */
        if (round < WAYS)
            malloc_trim(0); /* so that no OS page of the block is there yet, as WATCH needs it */
        unsigned char *block = malloc(size);
        CHECK(block, "no memory");
        unsigned char *at = block + size / 2 - (uintptr_t)block % 4096;
        if (way < SPOILS)
            spoil(at, way, file);
        else if (way == LOCK)
            (void)!mlock(at, 4096);
        else if (way == GUARD)
            madvise(at, 4096, GUARD_INSTALL);
        else
            watch_faults(at, 256 << 10);
        free_and_take_again(block, size);
    }
    close(file);
}

/* Protects an OS page of each of several chunks, which are alive together. */
static void mark_together(size_t least, size_t step) {
    enum { COUNT = 4 };
    unsigned char *blocks[COUNT];
    size_t sizes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = least + (size_t)i * step;
        blocks[i] = i % 2 ? malloc(sizes[i]) : realloc(malloc(least * 5 / 8), sizes[i]);
        CHECK(blocks[i], "no memory");
        spoil(blocks[i] + sizes[i] / 2 - (uintptr_t)blocks[i] % 4096, 0, -1);
    }
    for (int i = COUNT; i-- > 0;)
        free_and_take_again(blocks[i], sizes[i]);
}

/* If such chunks are alive together, glibc unmaps each of them, whichever is freed first. Its first
 * such chunks have 128 KiB. */
static void marked_together(void) {
    mark_together(256 << 10, 64 << 10);
    free(malloc(1600 << 10));
    mark_together(2048 << 10, 256 << 10);
}

/* Makes OS pages of a block read-only before it is freed: all of them, the first or the last. In
 * the last round, the first OS page is a guard (which older kernels refuse). The block is larger
 * than all freed blocks only after realloc. In glibc's heap, the chunk `beside` keeps it from
 * growing where it is. */
static void mark_ends(size_t least, size_t step) {
    for (size_t way = 0; way < 4; way++) {
        size_t size = least + way * step;
        malloc_trim(0); /* so that glibc's heap has no room for the block */
        free(malloc(size - step / 2));
        unsigned char *block = malloc(least / 4 * 3);
        void *beside = malloc(2000);
        CHECK(block && beside && (block = realloc(block, size)), "no memory");
        uintptr_t first = ((uintptr_t)block + 4095) & ~4095UL;
        uintptr_t last = (((uintptr_t)block + size) & ~4095UL) - 4096;
        uintptr_t at = way == 2 ? last : first, end = (way == 1 ? first : last) + 4096;
        if (way == 3)
            madvise((void *)first, 4096, GUARD_INSTALL);
        else
            CHECK(!mprotect((void *)at, end - at, PROT_READ), "way %zu: the kernel refused", way);
        free_and_take_again(block, size);
        free(beside);
    }
}

static void marked_ends(void) {
    mark_ends(256 << 10, 64 << 10);
    mark_ends(2048 << 10, 256 << 10);
}

/* A filter of system calls may end the process at mremap, which glibc's free does not call. */
static void free_under_filter(void) {
    void *block = malloc(256 << 10);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    CHECK(block, "no memory");
    if (filter_install(filter, sizeof filter / sizeof *filter) != 0)
        return; /* the kernel has no filters */
    free(block);
}

/* --- usable size ------------------------------------------------------------------------- */

static void usable_size(void) {
    enum { COUNT = 40 };
    for (size_t size = 0; size < 3 << 20; size += size < 5000 ? 1 : size / 3) {
        unsigned char *blocks[COUNT];
        size_t usable[COUNT];
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = malloc(size);
            CHECK(blocks[i], "no memory");
            usable[i] = malloc_usable_size(blocks[i]);
            CHECK(usable[i] >= size, "usable %zu of %zu", usable[i], size);
            /* if the last bytes belonged to a neighbour, its check would fail */
            memset(blocks[i], i, usable[i]);
        }
        for (int i = 0; i < COUNT; i++) {
            CHECK(malloc_usable_size(blocks[i]) == usable[i], "usable size is not stable");
            for (size_t at = 0; at < usable[i]; at += usable[i] < 200 ? 1 : usable[i] - 1)
                CHECK(blocks[i][at] == i, "size %zu: block %d overlaps another at %zu", size, i,
                      at);
            free(blocks[i]);
        }
    }
}

CHECK_MAIN({"calloc-dirty-small", calloc_dirty_small}, {"calloc-dirty-large", calloc_dirty_large},
           {"calloc-after-realloc", calloc_after_realloc}, {"calloc-threads", calloc_threads},
           {"realloc-every-jump", realloc_every_jump}, {"realloc-walk", realloc_walk},
           {"realloc-huge", realloc_huge}, {"realloc-shrink-returns", realloc_shrink_returns},
           {"protected-large", protected_large}, {"marked-large", marked_large},
           {"marked-first", marked_first}, {"marked-moved", marked_moved},
           {"marked-together", marked_together}, {"marked-ends", marked_ends},
           {"free-under-filter", free_under_filter}, {"usable-size", usable_size})
