/* SPDX-License-Identifier: MIT */
/* filtering GROUP -- PROGRAM ARGUMENT... - runs the program under a seccomp filter that kills it at
 * the system calls of a group, as service managers do. GROUP is network (systemd's @network-io),
 * clone (new threads and processes), barrier (membarrier), mincore, or nothing (only acct, which
 * no program here calls). */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/filter.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int network[] = {SYS_socket,     SYS_socketpair, SYS_connect,  SYS_bind,
                              SYS_listen,     SYS_accept,     SYS_accept4,  SYS_sendto,
                              SYS_recvfrom,   SYS_sendmsg,    SYS_recvmsg,  SYS_shutdown,
                              SYS_getsockopt, SYS_setsockopt, SYS_sendmmsg, SYS_recvmmsg};
static const int processes[] = {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork};
static const int barrier[] = {SYS_membarrier};
static const int residency[] = {SYS_mincore};
static const int nothing[] = {SYS_acct};
static const struct group {
    const char *name;
    const int *calls;
    size_t count;
} groups[] = {{"network", network, COUNT(network)},
              {"clone", processes, COUNT(processes)},
              {"barrier", barrier, COUNT(barrier)},
              {"mincore", residency, COUNT(residency)},
              {"nothing", nothing, COUNT(nothing)}};

int main(int argc, char **argv) {
    struct sock_filter code[64] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    size_t length = 1;
    if (argc < 4 || strcmp(argv[2], "--") != 0)
        return 2;
    const struct group *group = groups;
    while (group < groups + COUNT(groups) && strcmp(argv[1], group->name) != 0)
        group++;
    if (group == groups + COUNT(groups)) {
        fprintf(stderr, "filtering: no group is called %s\n", argv[1]);
        return 2;
    }
    for (size_t i = 0; i < group->count; i++) {
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                      (unsigned)group->calls[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (filter_install(code, length) != 0) {
        perror("filtering");
        return 2;
    }
    execvp(argv[3], argv + 3);
    perror("filtering");
    return 2;
}
