/* SPDX-License-Identifier: MIT */
/* Tests of how the command counts the OS pages of a process that are in memory
 * (tools/memctx/target/residency.c). The process is the test itself. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "target/residency.h"

#define KI 1024

/* What the command asks the kernel by PAGEMAP_SCAN: the fields of struct pm_scan_arg. */
struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
static struct {
    unsigned calls;
    uint64_t most_pages, most_span; /* that one call may look at */
    unsigned interrupted;           /* so many next calls fail with EINTR */
    bool is_old;                    /* the kernel refuses the kinds that Linux 6.15 does not know */
} asked;

/* Stands in for libc's function in this program. */
int ioctl(int file, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    const struct scan_request *scan = argument;
    if (request == _IOWR('f', 16, struct scan_request)) {
        uint64_t pages = scan->max_pages ? scan->max_pages : UINT64_MAX;
        asked.calls++;
        asked.most_pages = pages > asked.most_pages ? pages : asked.most_pages;
        if (scan->end - scan->start > asked.most_span)
            asked.most_span = scan->end - scan->start;
        errno = asked.interrupted ? EINTR : EINVAL;
        if (asked.interrupted && asked.interrupted--)
            return -1;
        if (asked.is_old && scan->category_mask)
            return -1;
    }
    return (int)syscall(SYS_ioctl, file, request, argument);
}

static char *map(size_t bytes, int flags) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    return memory;
}

static struct residency_count count_of(struct residency *residency, const volatile char *memory,
                                       size_t bytes) {
    return residency_of(residency, (uintptr_t)memory, (uintptr_t)memory + bytes);
}

/* The kernel holds the lock of the address space during a call, and the process may wait. */
Test(residency, one_call_looks_at_few_pages) {
    size_t bytes = 1UL << 35, written = 64 << 20;
    struct residency residency;
    char *memory = map(bytes, MAP_PRIVATE | MAP_NORESERVE);
    memset(memory, 1, written);
    cr_assert(residency_open(&residency, getpid()));
    if (!residency.scans)
        cr_skip("needs Linux 6.7");
    memset(&asked, 0, sizeof asked);
    asked.interrupted = 3;
    struct residency_count count = count_of(&residency, memory, bytes);
    cr_assert_eq(count.resident_bytes, (int64_t)written, "no piece is left out after EINTR");
    cr_assert_leq(asked.most_pages, 4096);
    cr_assert_leq(asked.most_span, 1UL << 30);
    cr_assert_geq(asked.calls, (bytes >> 30) + 3);
    residency_close(&residency);
    munmap(memory, bytes);
}

/* Linux 6.7 to 6.15 know PAGEMAP_SCAN, but not guard pages. */
Test(residency, kernels_that_do_not_tell_guard_pages_are_scanned) {
    struct residency residency;
    cr_assert(residency_open(&residency, getpid()));
    bool knows = residency.scans;
    residency_close(&residency);
    asked.is_old = true;
    cr_assert(residency_open(&residency, getpid()));
    cr_assert_eq(residency.scans, knows);
    cr_assert(!residency.tells_guards);
    uintptr_t page = (uintptr_t)&knows & ~4095UL;
    struct residency_count count = residency_of(&residency, page, page + 4 * KI);
    cr_assert_eq(count.resident_bytes, 4 * KI);
    residency_close(&residency);
}

/* Both ways to read pagemap count the OS pages that were written, and no others. */
Test(residency, pages_in_memory_are_counted) {
    size_t bytes = 64 << 20, written = 0;
    struct residency residency;
    char *memory = map(bytes, MAP_PRIVATE);
    cr_assert_eq(madvise(memory, bytes, MADV_NOHUGEPAGE), 0);
    /* many single pages at first, then 8 MiB without a gap */
    for (size_t at = 0; at < 2 * bytes / 4; at += 8 * KI, written += 4 * KI)
        memory[at] = 1;
    for (size_t at = bytes / 4 * 3; at < bytes / 8 * 7; at += 4 * KI, written += 4 * KI)
        memory[at] = 1;
    cr_assert(residency_open(&residency, getpid()));
    bool scans = residency.scans;
    for (int i = 0; i <= scans; i++) {
        residency.scans = i;
        struct residency_count count = count_of(&residency, memory, bytes);
        cr_assert_eq(count.resident_bytes, (int64_t)written, "%ld instead of %zu bytes, way %d",
                     (long)count.resident_bytes, written, i);
        cr_assert_eq(count.swap_bytes, 0);
        cr_assert_eq(count.huge_bytes, i ? 0 : 8 << 20, "an upper bound without a scan");
    }
    residency_close(&residency);
    munmap(memory, bytes);
}

/* Aligned ranges of 2 MiB that belong to a file are no huge pages of the program. */
Test(residency, memory_of_a_file_is_no_huge_page) {
    size_t bytes = 8 << 20;
    struct residency residency;
    char *memory = map(bytes, MAP_SHARED);
    memset(memory, 1, bytes);
    cr_assert(residency_open(&residency, getpid()));
    bool scans = residency.scans;
    for (int i = 0; i <= scans; i++) {
        residency.scans = i;
        struct residency_count count = count_of(&residency, memory, bytes);
        cr_assert_eq(count.resident_bytes, (int64_t)bytes, "way %d", i);
        cr_assert_eq(count.huge_bytes, 0, "way %d", i);
    }
    residency_close(&residency);
    munmap(memory, bytes);
}

/* The page of zeros, which all processes share, is no memory of this process. */
Test(residency, pages_of_zeros_are_not_resident) {
    size_t bytes = 8 << 20, half = bytes / 2;
    volatile char *memory = map(bytes, MAP_PRIVATE);
    struct residency residency;
    cr_assert_eq(madvise((void *)memory, half, MADV_NOHUGEPAGE), 0);
    /* the kernel may map the huge page of zeros here */
    madvise((void *)(memory + half), half, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4 * KI)
        (void)memory[at];
    memory[half / 2] = 1;
    cr_assert(residency_open(&residency, getpid()));
    if (!residency.scans)
        cr_skip("needs Linux 6.7");
    struct residency_count count = count_of(&residency, memory, bytes);
    cr_assert_eq(count.resident_bytes, 4 * KI);
    cr_assert_eq(count.huge_bytes, 0);
    residency_close(&residency);
    munmap((void *)memory, bytes);
}

/* A guard page is neither in memory nor swapped. */
Test(residency, guard_pages_are_not_swapped) {
    size_t bytes = 8 << 20;
    int major, minor;
    struct utsname kernel;
    struct residency residency;
    cr_assert(!uname(&kernel) && sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
    if (major < 6 || (major == 6 && minor < 16))
        cr_skip("needs Linux 6.16");
    char *memory = map(bytes, MAP_PRIVATE);
    if (madvise(memory, bytes / 2, 102 /* MADV_GUARD_INSTALL */))
        cr_skip("no guard pages here");
    memory[bytes / 2] = 1;
    cr_assert(residency_open(&residency, getpid()));
    bool scans = residency.scans;
    for (int i = 0; i <= scans; i++) {
        residency.scans = i;
        struct residency_count count = count_of(&residency, memory, bytes);
        cr_assert_eq(count.swap_bytes, 0, "%ld, way %d", (long)count.swap_bytes, i);
        cr_assert_gt(count.resident_bytes, 0);
    }
    residency_close(&residency);
    munmap(memory, bytes);
}

/* The reader pauses for the processor time that it takes, and not for each of 10 000 mappings. */
Test(residency, many_small_mappings_need_few_pauses) {
    enum { MAPPINGS = 10000 };
    struct rusage before, after;
    struct residency residency;
    char *memory = map(4 * KI, MAP_PRIVATE);
    memory[0] = 1;
    cr_assert(residency_open(&residency, getpid()));
    bool scans = residency.scans;
    for (int i = 0; i <= scans; i++) {
        residency.scans = i;
        getrusage(RUSAGE_THREAD, &before);
        for (int k = 0; k < MAPPINGS; k++)
            count_of(&residency, memory, 4 * KI);
        getrusage(RUSAGE_THREAD, &after);
        cr_assert_lt(after.ru_nvcsw - before.ru_nvcsw, MAPPINGS / 2, "%ld pauses, way %d",
                     after.ru_nvcsw - before.ru_nvcsw, i);
        /* 20 000 system calls take more than the 0.5 ms after which the reader pauses */
        cr_assert_gt(after.ru_nvcsw, before.ru_nvcsw, "no pause, way %d", i);
    }
    residency_close(&residency);
    munmap(memory, 4 * KI);
}
