/* SPDX-License-Identifier: MIT */
/*
 * plain_file.c - opens regular files only; see plain_file.h.
 *
 * O_PATH gives a descriptor of a file without opening the file. The descriptor's link in
 * /proc/self/fd leads to this very file, even if another file stands under the path by now.
 */
#include "names/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2 /* glibc before 2.32 */
#define SYS_openat2 __NR_openat2
#endif

/* The kernel gives up with EAGAIN if files are renamed while it follows a path with "..". */
#define TRIES 8

static int place_in_root(pid_t root_of, const char *path) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    char root[32];
    long place = -1;
    snprintf(root, sizeof root, "/proc/%d/root", (int)root_of);
    int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -1;
    errno = EAGAIN;
    for (int i = 0; i < TRIES && place < 0 && errno == EAGAIN; i++)
        place = syscall(SYS_openat2, directory, path, &how, sizeof how);
    /* Linux before 5.6, or a filter of system calls that does not know openat2: absolute links
     * begin at this command's root. */
    if (place < 0 && (errno == ENOSYS || errno == EPERM) && path[0] == '/')
        place = openat(directory, path + strspn(path, "/"), O_PATH | O_CLOEXEC);
    close(directory);
    return (int)place;
}

int plain_file_open(pid_t root_of, const char *path) {
    int place = root_of != 0 ? place_in_root(root_of, path) : open(path, O_PATH | O_CLOEXEC);
    int fd = -1;
    struct stat status;
    char link[32];
    if (place < 0)
        return -1;
    if (fstat(place, &status) == 0 && S_ISREG(status.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", place);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    close(place);
    return fd;
}

bool plain_file_is_harmless(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}
