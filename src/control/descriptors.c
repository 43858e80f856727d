/* SPDX-License-Identifier: MIT */
/* descriptors.c - holds the library's descriptors apart from the program's; see descriptors.h. */
#include "control/descriptors.h"
#include "os/libc.h"
#include "os/os.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define CLOSED_MAX 65536U /* greatest number of descriptors that are closed one by one */
#define HIGH_FD 500       /* above the descriptor numbers that programs expect to get */
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

/* Kernels before 5.9 and some filters of system calls do not know close_range. */
void descriptors_close_from(unsigned first) {
    if (!OS_TRY(os_close_range(first, ~0U)))
        return;
    uint64_t limit = os_descriptor_limit();
    for (unsigned fd = first; fd < (limit && limit < CLOSED_MAX ? limit : CLOSED_MAX); fd++)
        os_close((int)fd);
}
