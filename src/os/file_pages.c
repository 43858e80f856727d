/* SPDX-License-Identifier: MIT */
/* Takes OS pages of mapped files out of the process's resident set. */
#include "os/os.h"
#include "os/syscall.h"

#include <fcntl.h>
#include <sys/mman.h>

#define ENTRIES_AT_ONCE 256UL
/* bits of an entry of /proc/PID/pagemap: the OS page is the file's, and not a copy that the process
 * has changed; the OS page is mapped */
#define ENTRY_OF_FILE (1UL << 61)
#define ENTRY_PRESENT (1UL << 63)

/* Drops the OS pages from `at` on whose entries say that they are the file's. */
static void drop_part(uintptr_t at, const uint64_t *entries, size_t count) {
    const uint64_t wanted = ENTRY_OF_FILE | ENTRY_PRESENT;
    for (size_t i = 0, run; i < count; i += run + 1) {
        for (run = 0; i + run < count && (entries[i + run] & wanted) == wanted; run++) {
        }
        if (run)
            OS_CALL(SYS_madvise, at + i * OS_PAGE_BYTES, run * OS_PAGE_BYTES, MADV_DONTNEED, 0, 0,
                    0);
    }
}

bool os_drop_file_pages(uintptr_t start, uintptr_t end) {
    uint64_t entries[ENTRIES_AT_ONCE] = {0};
    long fd = OS_CALL(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd))
        return false;
    for (size_t count; start < end; start += count * OS_PAGE_BYTES) {
        count = (end - start) / OS_PAGE_BYTES;
        if (count > ENTRIES_AT_ONCE)
            count = ENTRIES_AT_ONCE;
        long got = OS_CALL(SYS_pread64, fd, entries, count * sizeof *entries,
                           start / OS_PAGE_BYTES * sizeof *entries, 0, 0);
        if (got != (long)(count * sizeof *entries))
            break;
        drop_part(start, entries, count);
    }
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return true;
}
