/* SPDX-License-Identifier: MIT */
/* child.c - the start and the end of every child process of the server. */
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range /* the kernel's headers are older than 5.9 */
#define SYS_close_range 436
#endif

int child_begin(int fd) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd != STDERR_FILENO + 1) {
        dup2(fd, STDERR_FILENO + 1);
        fd = STDERR_FILENO + 1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    /* by its number, because glibc has a function for this call only from 2.34 on */
    syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0);
    return fd;
}

void child_end(pid_t child) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}
