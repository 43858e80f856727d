/* SPDX-License-Identifier: MIT */
/* descriptors.c - holds the library's descriptors apart from the program's; see descriptors.h. */
#include "control/descriptors.h"
#include "base/text.h"
#include "os/libc.h"
#include "os/os.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

/* size of the descriptor table if the kernel does not tell it */
#define TABLE_SIZE 65536
#define HIGH_FD 500 /* above the descriptor numbers that programs expect to get */
/* standard error; in a shared table, each descriptor of the library has a higher number */
#define LOW_FD 2

bool descriptors_are_own FORK_PAGE;

bool descriptors_hold(struct held *held, int fd) {
    struct stat status;
    held->fd = -1;
    if (fd >= 0 && !descriptors_are_own) {
        int high = -1; /* RLIMIT_NOFILE may allow only lower numbers */
        for (int from = HIGH_FD; high < 0 && from > LOW_FD; from /= 2)
            high = OS_TRY(os_fcntl(fd, F_DUPFD_CLOEXEC, from));
        os_close(fd);
        fd = high;
    }
    if (fd < 0)
        return false;
    if (OS_TRY(os_fstat(fd, &status))) {
        os_close(fd);
        return false;
    }
    *held = (struct held){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
    return true;
}

bool descriptors_is_held(const struct held *held) {
    struct stat status;
    return held->fd >= 0 &&
           (descriptors_are_own || (!OS_TRY(os_fstat(held->fd, &status)) &&
                                    status.st_dev == held->device && status.st_ino == held->inode));
}

void descriptors_let_go(struct held *held) {
    if (descriptors_is_held(held))
        os_close(held->fd);
    held->fd = -1;
}

/* Takes the size of a descriptor table from a line of /proc/PID/status. */
static void take_size(void *size, const char *line) {
    static const char name[] = "FDSize:\t";
    if (!__builtin_strncmp(line, name, sizeof name - 1))
        text_to_number(line + sizeof name - 1, size);
}

/* Closes all descriptors from `first` on. The program may have lowered RLIMIT_NOFILE after it
 * opened descriptors with higher numbers, so the size of the table counts. */
static void close_from(int first) {
    int64_t size = TABLE_SIZE;
    if (!OS_TRY(os_close_range((unsigned)first, ~0U, 0)))
        return;
    os_read_lines("/proc/thread-self/status", take_size, &size);
    for (int fd = first; fd < size; fd++)
        os_close(fd);
}

/* Makes a new table without the descriptors from `first` on. Docker's profile for containers allows
 * close_range, which Linux has from 5.9 on, and forbids unshare. False: neither is possible. */
static bool leave_table(int first) {
    if (!OS_TRY(os_close_range((unsigned)first, ~0U, OS_CLOSE_UNSHARED)))
        return true;
    if (OS_TRY(os_unshare(CLONE_FILES)))
        return false;
    os_close(0); /* so that a descriptor is left for close_from */
    os_close(1);
    close_from(first);
    return true;
}

void descriptors_leave_table(bool errors) {
    descriptors_are_own = leave_table(errors ? LOW_FD + 1 : 0);
    if (descriptors_are_own && errors) {
        os_close(0);
        os_close(1);
    }
}
