/* SPDX-License-Identifier: MIT */
/* refusing CALL... -- PROGRAM ARGUMENT... - runs the program under a filter that makes the named
 * system calls fail, as containers do: unshare with EPERM, close_range with ENOSYS. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(unsigned number, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program, 0, 0);
}

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        int wrong = strcmp(argv[i], "unshare") == 0       ? refuse(SYS_unshare, EPERM)
                    : strcmp(argv[i], "close_range") == 0 ? refuse(SYS_close_range, ENOSYS)
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
