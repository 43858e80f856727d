/* SPDX-License-Identifier: MIT */
/* Functions that report and tune (mallinfo, malloc_info, mallopt), and functions that only some C
 * libraries have. */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* mallinfo is deprecated, but must work */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void mallinfo_grows(void) {
    enum { BLOCK = 3000, COUNT = 2000 };
    static void *blocks[COUNT];
    struct mallinfo2 before = mallinfo2();
    struct mallinfo old_before = mallinfo();
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
    struct mallinfo2 during = mallinfo2();
    struct mallinfo old_during = mallinfo();
    CHECK(during.uordblks >= before.uordblks + (size_t)BLOCK * COUNT,
          "uordblks went from %zu to %zu", before.uordblks, during.uordblks);
    CHECK(during.uordblks < before.uordblks + (size_t)BLOCK * COUNT * 2, "uordblks went to %zu",
          during.uordblks);
    CHECK(during.arena + during.hblkhd >= during.uordblks, "arena %zu + hblkhd %zu < uordblks %zu",
          during.arena, during.hblkhd, during.uordblks);
    CHECK(old_during.uordblks - old_before.uordblks >= BLOCK * COUNT, "mallinfo went from %d to %d",
          old_before.uordblks, old_during.uordblks);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks < before.uordblks + (size_t)BLOCK * COUNT / 4,
          "uordblks is %zu after all was freed, %zu before", after.uordblks, before.uordblks);
}

static void mallinfo_large(void) {
    struct mallinfo2 before = mallinfo2();
    char *block = malloc(40 << 20);
    struct mallinfo2 during = mallinfo2();
    size_t grown = during.uordblks + during.hblkhd - before.uordblks - before.hblkhd;
    CHECK(grown >= 40 << 20, "a block of 40 MiB shows as %zu bytes", grown);
    free(block);
}

/* Prints the XML of malloc_info; the suite parses it. */
static void malloc_info_xml(void) {
    void *live = malloc(5000);
    CHECK(malloc_info(0, stdout) == 0, "malloc_info failed: %s", strerror(errno));
    free(live);
}

static void malloc_info_options(void) {
    CHECK(malloc_info(1, stdout) == EINVAL, "options other than 0 are not refused");
}

/* malloc_stats prints on standard error, as glibc does; the suite checks the lines. */
static void malloc_stats_text(void) {
    void *live = malloc(5000);
    malloc_stats();
    free(live);
}

static void mallopt_answers(void) {
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1, "M_MMAP_THRESHOLD");
    CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1, "M_TRIM_THRESHOLD");
    CHECK(mallopt(M_ARENA_MAX, 2) == 1, "M_ARENA_MAX");
    CHECK(mallopt(M_TOP_PAD, 1 << 16) == 1, "M_TOP_PAD");
    CHECK(mallopt(M_MXFAST, 160) == 1, "M_MXFAST");
    CHECK(mallopt(M_MXFAST, 161) == 0, "M_MXFAST beyond its limit");
    CHECK(mallopt(M_MXFAST, -1) == 0, "M_MXFAST below 0");
    int unknown = mallopt(12345, 1); /* glibc returns 1 for unknown parameters */
    CHECK(unknown == 0 || unknown == 1, "unknown parameter: %d", unknown);
    free(malloc(3 << 20));
}

/* With M_PERTURB glibc fills blocks. A library that ignores M_PERTURB must still zero the blocks of
 * calloc. */
static void mallopt_perturb(void) {
    CHECK(mallopt(M_PERTURB, 0x55) == 1, "M_PERTURB");
    for (size_t size = 1; size < 100000; size = size * 2 + 1) {
        free(malloc(size));
        unsigned char *block = calloc(1, size);
        for (size_t i = 0; i < size; i++)
            CHECK(block[i] == 0, "byte %zu of %zu", i, size);
        free(block);
    }
}

static void trim_returns_memory(void) {
    enum { BLOCK = 2000, COUNT = 20000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
    long full = rss_kib();
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1, "malloc_trim is %d", trimmed);
    long returned = full - rss_kib();
    CHECK(returned > 36 << 10, "38 MiB freed and trimmed: %ld KiB came back", returned);
    CHECK(malloc_trim(SIZE_MAX) >= 0, "malloc_trim(-1)");
    CHECK(malloc_trim(1 << 20) >= 0, "malloc_trim(1 MiB)");
    void *again = memset(malloc(BLOCK), 1, BLOCK);
    free(again);
}

enum { ROW = 200, ROWS = 200000 };
static char *rows[ROWS];

static void make_rows(void) {
    for (int i = 0; i < ROWS; i++)
        rows[i] = memset(malloc(ROW), 1, ROW);
}

static void *free_rows(void *from) {
    for (int i = *(int *)from; i < ROWS; i++)
        if (*(int *)from == 0 || i % 50)
            free(rows[i]);
    return NULL;
}

/* In the first round another thread frees all chunks, in the second one the thread that made them
 * frees nearly all. MEMCTX_CHECK keeps its pattern in free blocks, so their OS pages stay. */
static void trim_returns_memory_in_pages(void) {
    for (int from = 0; from < (getenv("MEMCTX_CHECK") ? 1 : 2); from++) {
        pthread_t other;
        make_rows();
        long full = rss_kib();
        if (from == 0)
            CHECK(!pthread_create(&other, NULL, free_rows, &from) && !pthread_join(other, NULL),
                  "no thread");
        else
            free_rows(&from);
        malloc_trim(0);
        long returned = full - rss_kib();
        CHECK(returned > ROW * (ROWS >> 10) / 3, "%ld of %ld KiB came back, case %d", returned,
              (long)ROW * (ROWS >> 10), from);
    }
}

/* Functions of C23 that memctx has and glibc 2.36 does not. */
static void free_sized_family(void) {
    void (*free_sized)(void *, size_t) =
        (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*free_aligned_sized)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_sized && free_aligned_sized, "not exported");
    for (size_t size = 0; size < 300000; size = size * 2 + 1) {
        for (int i = 0; i < 200; i++) {
            errno = 77;
            free_sized(memset(malloc(size), 1, size), size);
            free_sized(calloc(1, size), size);
            free_aligned_sized(aligned_alloc(256, size), 256, size);
            free_aligned_sized(aligned_alloc(8192, size), 8192, size);
            CHECK(errno == 77, "errno is %d", errno);
        }
    }
    free_sized(opaque_pointer(NULL), 10);
    free_aligned_sized(opaque_pointer(NULL), 64, 10);
}

/* cfree was removed from the headers with glibc 2.26; older binaries still need this symbol
 * version. */
void old_cfree(void *block);
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");

static void cfree_of_old_binaries(void) {
    char *last = NULL;
    int reused = 0;
    for (int i = 0; i < 5000; i++) {
        char *block = memset(malloc(1000), 1, 1000);
        reused += block == last;
        last = block;
        old_cfree(block);
    }
    old_cfree(opaque_pointer(NULL));
    CHECK(reused > 0, "nothing that was freed ever came back");
}

/* All functions of the malloc family must come from the library that malloc comes from. */
static void one_library(void) {
    static const char *const names[] = {
        "malloc",
        "free",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "malloc_usable_size",
        "malloc_trim",
        "mallinfo",
        "mallinfo2",
        "malloc_info",
        "malloc_stats",
        "mallopt",
        "__libc_malloc",
        "__libc_free",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_memalign",
        "__libc_valloc",
        "__libc_pvalloc",
    };
    Dl_info first, other;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &first), "malloc is nowhere");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *address = dlsym(RTLD_DEFAULT, names[i]);
        CHECK(address, "%s is not exported", names[i]);
        CHECK(dladdr(address, &other), "%s is nowhere", names[i]);
        CHECK(other.dli_fbase == first.dli_fbase, "malloc is in %s, but %s in %s", first.dli_fname,
              names[i], other.dli_fname);
    }
}

static volatile sig_atomic_t handled, enough;

static void allocate_large(int number) {
    free(opaque_pointer(malloc((size_t)number * 20000)));
    handled++;
}

static void *send_signals(void *thread) {
    while (!enough) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        usleep(50);
    }
    return NULL;
}

/* A signal handler may allocate although it interrupts a function that looks at all memory. */
static void handler_allocates(void) {
    pthread_t self = pthread_self(), sender;
    signal(SIGUSR1, allocate_large);
    alarm(60); /* a deadlock would last for ever */
    CHECK(pthread_create(&sender, NULL, send_signals, &self) == 0, "no thread");
    while (handled < 1000) {
        free(memset(malloc(300000), 1, 300000));
        malloc_trim(0);
        for (int i = 0; i < 20; i++)
            mallinfo2();
    }
    enough = 1;
    pthread_join(sender, NULL);
}

CHECK_MAIN({"mallinfo-grows", mallinfo_grows}, {"mallinfo-large", mallinfo_large},
           {"malloc-info-xml", malloc_info_xml}, {"malloc-info-options", malloc_info_options},
           {"malloc-stats-text", malloc_stats_text}, {"mallopt-answers", mallopt_answers},
           {"mallopt-perturb", mallopt_perturb}, {"trim-returns-memory", trim_returns_memory},
           {"trim-returns-memory-in-pages", trim_returns_memory_in_pages},
           {"!free-sized-family", free_sized_family},
           {"cfree-of-old-binaries", cfree_of_old_binaries}, {"one-library", one_library},
           {"!handler-allocates", handler_allocates})
