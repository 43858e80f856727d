/* SPDX-License-Identifier: MIT */
/*
 * residency.c - reads /proc/PID/pagemap in pieces.
 *
 * Linux 6.7 and later answer PAGEMAP_SCAN: ranges of OS pages of one kind. Older kernels give one
 * word for each OS page of address space, also for those without memory: 2 MiB of words for 1 GiB.
 */
#include "target/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define OS_PAGE 4096U
#define HUGE_PAGE (2U << 20)
/* the most pages in memory that one call looks at; the kernel takes some 50 us for them */
#define SCAN_PAGES 4096U
/* The most address space that one call looks at. The tables of pages that were given back may still
 * be there, and the kernel reads them. */
#define SCAN_SPAN (1ULL << 30)
/* After so much processor time a pause is made, so that the scheduler seldom takes the processor
 * from this thread while the thread holds the lock. The process would wait until the thread runs
 * again. */
#define PAUSE_AFTER_NS 500000
#define PAUSE_NS 50000
#define REGIONS 512
#define WORDS 4096U

#define WORD_PRESENT (1ULL << 63)
#define WORD_SWAPPED (1ULL << 62)
#define WORD_OF_FILE (1ULL << 61)
#define WORD_GUARD (1ULL << 58)

/* The request of the kernel's <linux/fs.h>, which Linux before 6.7 lacks. */
#define SCAN_FILE (1ULL << 2)
#define SCAN_PRESENT (1ULL << 3)
#define SCAN_SWAPPED (1ULL << 4)
#define SCAN_ZERO (1ULL << 5) /* the page of zeros that all processes share */
#define SCAN_HUGE (1ULL << 6)
#define SCAN_GUARD (1ULL << 8) /* Linux 6.16 and later */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end;
    uint64_t walk_end; /* out: where the kernel stopped */
    uint64_t vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_REQUEST _IOWR('f', 16, struct scan)
_Static_assert(sizeof(struct scan) == 96, "as in the kernel");

static int scan(const struct residency *residency, struct scan *scan, struct scan_region *regions,
                size_t count) {
    scan->size = sizeof *scan;
    scan->vec = (uintptr_t)regions;
    scan->vec_len = count;
    scan->category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED;
    scan->return_mask = SCAN_PRESENT | SCAN_SWAPPED | SCAN_FILE | SCAN_ZERO | SCAN_HUGE;
    /* To the kernel, a guard page is swapped. Guard pages are left out. */
    scan->category_inverted = scan->category_mask = residency->tells_guards ? SCAN_GUARD : 0;
    return ioctl(residency->pagemap, SCAN_REQUEST, scan);
}

static int64_t thread_time_ns(void) {
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) ? 0
                                                        : now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* This thread's processor time after its last pause. A process may have 60 000 mappings that take
 * some microseconds each, so the time counts from one mapping to the next. */
static _Thread_local int64_t paused_ns;

/* Called while the lock is not held. */
static void pause_sometimes(void) {
    if (thread_time_ns() - paused_ns < PAUSE_AFTER_NS)
        return;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    paused_ns = thread_time_ns();
}

bool residency_open(struct residency *residency, pid_t pid) {
    char path[64];
    struct scan_region region;
    struct scan probe = {.start = 0, .end = OS_PAGE};
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    residency->pagemap = open(path, O_RDONLY | O_CLOEXEC);
    /* the kernel refuses a request with a kind of page that it does not know */
    residency->tells_guards = true;
    residency->tells_guards = residency->scans =
        residency->pagemap >= 0 && scan(residency, &probe, &region, 1) >= 0;
    if (!residency->scans)
        residency->scans = residency->pagemap >= 0 && scan(residency, &probe, &region, 1) >= 0;
    return residency->pagemap >= 0;
}

void residency_close(struct residency *residency) {
    if (residency->pagemap >= 0)
        close(residency->pagemap);
    residency->pagemap = -1;
}

static void add_region(struct residency_count *count, const struct scan_region *region) {
    int64_t bytes = (int64_t)(region->end - region->start);
    if (region->categories & SCAN_SWAPPED)
        count->swap_bytes += bytes;
    else if (!(region->categories & SCAN_ZERO))
        count->resident_bytes += bytes;
    if ((region->categories & (SCAN_HUGE | SCAN_ZERO | SCAN_FILE | SCAN_PRESENT)) ==
        (SCAN_HUGE | SCAN_PRESENT))
        count->huge_bytes += bytes;
}

static struct residency_count count_by_scan(const struct residency *residency, uint64_t start,
                                            uint64_t end) {
    struct residency_count count = {0};
    struct scan_region regions[REGIONS];
    while (start < end) {
        pause_sometimes();
        struct scan piece = {.start = start,
                             .end = end - start < SCAN_SPAN ? end : start + SCAN_SPAN,
                             .max_pages = SCAN_PAGES};
        int found = scan(residency, &piece, regions, REGIONS);
        if (found < 0 && errno == EINTR)
            continue;
        if (found < 0 || piece.walk_end <= start) /* the process has ended */
            break;
        for (int i = 0; i < found; i++)
            add_region(&count, &regions[i]);
        start = piece.walk_end;
    }
    return count;
}

/* The 2 MiB of address space at which count_by_words looks. */
struct block {
    uint64_t number;
    uint32_t anonymous; /* OS pages in memory that belong to no file */
};

static void add_word(struct residency_count *count, struct block *block, uint64_t address,
                     uint64_t word) {
    if ((word & (WORD_SWAPPED | WORD_GUARD)) == WORD_SWAPPED)
        count->swap_bytes += OS_PAGE;
    if (!(word & WORD_PRESENT))
        return;
    count->resident_bytes += OS_PAGE;
    if (address / HUGE_PAGE != block->number)
        *block = (struct block){.number = address / HUGE_PAGE};
    block->anonymous += !(word & WORD_OF_FILE);
    if (block->anonymous == HUGE_PAGE / OS_PAGE)
        count->huge_bytes += HUGE_PAGE;
}

static struct residency_count count_by_words(const struct residency *residency, uint64_t start,
                                             uint64_t end) {
    struct residency_count count = {0};
    struct block block = {0};
    uint64_t words[WORDS];
    while (start < end) {
        pause_sometimes();
        uint64_t left = (end - start) / OS_PAGE;
        size_t wanted = (left < WORDS ? left : WORDS) * sizeof *words;
        ssize_t got =
            pread(residency->pagemap, words, wanted, (off_t)(start / OS_PAGE * sizeof *words));
        if (got < (ssize_t)sizeof *words)
            break;
        for (size_t i = 0; i < (size_t)got / sizeof *words; i++, start += OS_PAGE)
            add_word(&count, &block, start, words[i]);
    }
    return count;
}

struct residency_count residency_of(const struct residency *residency, uint64_t start,
                                    uint64_t end) {
    return residency->scans ? count_by_scan(residency, start, end)
                            : count_by_words(residency, start, end);
}

bool residency_has_guard(const struct residency *residency, uint64_t address) {
    uint64_t word;
    return pread(residency->pagemap, &word, sizeof word,
                 (off_t)(address / OS_PAGE * sizeof word)) == sizeof word &&
           (word & WORD_GUARD) != 0;
}
