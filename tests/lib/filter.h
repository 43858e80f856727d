/* SPDX-License-Identifier: MIT */
/* filter.h - filters of system calls (seccomp) that a test program sets for itself. They hold for
 * the programs that it executes, too, and cannot be taken back. Both functions return 0, or -1 with
 * errno set. */
#ifndef TEST_FILTER_H
#define TEST_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

/* Sets a filter of `length` instructions for this thread. */
static inline int filter_install(struct sock_filter *filter, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, 2, &program, 0, 0);
}

/* Sets a filter that does not make the system call `number`. Instead, the call fails with `error`,
 * or succeeds and does nothing if `error` is 0. All other calls are made. */
static inline int filter_answer(unsigned number, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_install(filter, sizeof filter / sizeof *filter);
}

#endif
