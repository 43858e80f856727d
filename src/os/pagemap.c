/* SPDX-License-Identifier: MIT */
/* pagemap.c - reads /proc/self/pagemap: which OS pages are resident, and which are a file's. */
#include "os/os.h"
#include "os/syscall.h"

#include <fcntl.h>
#include <sys/mman.h>

#define ENTRIES_AT_ONCE 256UL
/* bits of an entry: the OS page is the file's, and not a copy that the process has changed; the OS
 * page is mapped */
#define ENTRY_OF_FILE (1UL << 61)
#define ENTRY_PRESENT (1UL << 63)

/* Uses the entries of the OS pages from `at` on. */
typedef void use_entries(uintptr_t at, const uint64_t *entries, size_t count, void *argument);

/* Passes the entries of an aligned range to `use`, some at a time. False: some cannot be read. */
static bool read_entries(uintptr_t start, size_t bytes, use_entries *use, void *argument) {
    uint64_t entries[ENTRIES_AT_ONCE] = {0};
    long got = 0, wanted = 0;
    long fd = OS_CALL(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd))
        return false;
    for (size_t left = bytes / OS_PAGE_BYTES, count; left && got == wanted; left -= count) {
        count = left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE;
        wanted = (long)(count * sizeof *entries);
        got = OS_CALL(SYS_pread64, fd, entries, wanted, start / OS_PAGE_BYTES * sizeof *entries, 0,
                      0);
        if (got == wanted)
            use(start, entries, count, argument);
        start += count * OS_PAGE_BYTES;
    }
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return got == wanted;
}

static void note_resident(uintptr_t at, const uint64_t *entries, size_t count, void *argument) {
    unsigned char **vector = argument;
    (void)at;
    for (size_t i = 0; i < count; i++)
        *(*vector)++ = (entries[i] & ENTRY_PRESENT) != 0;
}

bool os_pagemap_vector(uintptr_t start, size_t bytes, unsigned char *vector) {
    return read_entries(start, bytes, note_resident, &vector);
}

static void drop_of_file(uintptr_t at, const uint64_t *entries, size_t count, void *argument) {
    const uint64_t wanted = ENTRY_OF_FILE | ENTRY_PRESENT;
    (void)argument;
    for (size_t i = 0, run; i < count; i += run + 1) {
        for (run = 0; i + run < count && (entries[i + run] & wanted) == wanted; run++) {
        }
        if (run)
            OS_CALL(SYS_madvise, at + i * OS_PAGE_BYTES, run * OS_PAGE_BYTES, MADV_DONTNEED, 0, 0,
                    0);
    }
}

bool os_drop_file_pages(uintptr_t start, uintptr_t end) {
    return read_entries(start, end - start, drop_of_file, NULL);
}
