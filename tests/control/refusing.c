/* SPDX-License-Identifier: MIT */
/* refusing.c - "refusing CALL... -- PROGRAM ARGUMENT..." runs the program under a filter that makes
 * the named system calls fail, as containers and older kernels do: unshare with EPERM, close_range
 * and pidfd_open with ENOSYS. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/filter.h"

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        int wrong = strcmp(argv[i], "unshare") == 0       ? filter_answer(SYS_unshare, EPERM)
                    : strcmp(argv[i], "close_range") == 0 ? filter_answer(SYS_close_range, ENOSYS)
                    : strcmp(argv[i], "pidfd_open") == 0  ? filter_answer(SYS_pidfd_open, ENOSYS)
                                                          : 1;
        if (wrong) {
            fprintf(stderr, "refusing: %s: %s\n", argv[i], strerror(errno));
            return 2;
        }
    }
    if (i + 1 >= argc)
        return 2;
    execvp(argv[i + 1], argv + i + 1);
    perror("refusing");
    return 2;
}
