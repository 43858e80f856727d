/* SPDX-License-Identifier: MIT */
/*
 * residency.h - counts the OS pages of another process that are in memory, and lets it run
 * meanwhile.
 *
 * The kernel shows the same figures in /proc/PID/smaps. But for each mapping there, the kernel
 * holds the lock of the process's address space while it looks at all OS pages of the mapping. The
 * allocator's segments are one mapping. If they hold 5 GB, every mmap of the process, and the page
 * faults behind it, wait for half a second. Here the lock is held for at most SCAN_PAGES pages at a
 * time.
 */
#ifndef MEMCTX_RESIDENCY_H
#define MEMCTX_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct residency {
    int pagemap;       /* descriptor of /proc/PID/pagemap */
    bool scans;        /* the kernel knows PAGEMAP_SCAN, since Linux 6.7 */
    bool tells_guards; /* the kernel's answer tells guard pages apart, since Linux 6.16 */
};

struct residency_count {
    int64_t resident_bytes;
    int64_t swap_bytes;
    /* Bytes in huge pages, part of resident_bytes. Before Linux 6.7 an upper bound: aligned ranges
     * of 2 MiB that are resident as a whole. */
    int64_t huge_bytes;
};

/* False: this user may not read the file. */
bool residency_open(struct residency *residency, pid_t pid);
void residency_close(struct residency *residency);
/* Counts the OS pages from `start` to before `end`. A range that the process unmaps meanwhile
 * counts as not resident. */
struct residency_count residency_of(const struct residency *residency, uint64_t start,
                                    uint64_t end);
/* True if there is a guard page at this address. glibc 2.42 makes one at the lower end of each
 * thread's stack, inside the stack's mapping. The kernel tells it since Linux 6.15. */
bool residency_has_guard(const struct residency *residency, uint64_t address);

#endif
