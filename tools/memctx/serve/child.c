/* SPDX-License-Identifier: MIT */
/* child.c - the start and the end of every child process of the server. */
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"

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
    fork_close_from(fd + 1);
    return fd;
}

void child_end(pid_t child) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}
