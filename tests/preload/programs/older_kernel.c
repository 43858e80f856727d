/* SPDX-License-Identifier: MIT */
/* older_kernel VERSION PROGRAM ARGUMENT... - runs the program under a filter that plays an older
 * kernel: system calls that are newer than this version fail with ENOSYS, newer requests of madvise
 * with EINVAL. It cannot play files in /proc that an older kernel lacks, nor flags that it ignores.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/filter.h"

#define OPENAT2 437 /* glibc before 2.32 has no SYS_openat2 */

/* The last system call and the last request of madvise that a version has. Version 4.18 is the
 * kernel of RHEL 8, 3.10 that of RHEL 7, on which containers of Debian and Ubuntu still run. */
static const struct kernel {
    const char *version;
    unsigned last_call, last_advice;
} kernels[] = {
    {"3.10", 313 /* finit_module */, 17 /* MADV_DODUMP */},
    {"4.18", 334 /* rseq */, 19 /* MADV_KEEPONFORK */},
    {"5.4", 435 /* clone3 */, 21 /* MADV_PAGEOUT */},
};

static int play(const struct kernel *kernel) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kernel->last_call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kernel->last_advice, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_install(filter, sizeof filter / sizeof *filter);
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && argc > 2; i++) {
        if (strcmp(argv[1], kernels[i].version) != 0)
            continue;
        if (play(&kernels[i]) != 0 || syscall(OPENAT2, -1, "", NULL, 0) == 0 || errno != ENOSYS ||
            madvise(NULL, 0, 25 /* MADV_COLLAPSE */) == 0) {
            fprintf(stderr, "older_kernel: the filter does not hold\n");
            return 2;
        }
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 2;
    }
    fprintf(stderr, "older_kernel VERSION PROGRAM ARGUMENT...\n");
    return 2;
}
