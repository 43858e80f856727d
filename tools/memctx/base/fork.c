/* SPDX-License-Identifier: MIT */
/* fork.c - binds a forked child to its parent, closes and limits its descriptors. */
#include "base/fork.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range /* the kernel's headers are older than 5.9 */
#define SYS_close_range 436
#endif

/* greatest number of descriptors that are closed one by one */
#define FDS_MAX 65536

static struct rlimit limit_before; /* rlim_max 0: not raised */

void fork_raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit_before = limit;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void fork_restore_limit(void) {
    if (limit_before.rlim_max > 0)
        setrlimit(RLIMIT_NOFILE, &limit_before);
}

void fork_follow(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

void fork_bound_time(unsigned cpu_s) {
    struct rlimit cpu;
    struct rusage used;
    if (getrlimit(RLIMIT_CPU, &cpu) != 0 || getrusage(RUSAGE_SELF, &used) != 0)
        return;
    rlim_t end = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec + cpu_s;
    if (cpu.rlim_max == RLIM_INFINITY || end < cpu.rlim_max) {
        cpu.rlim_cur = end;
        setrlimit(RLIMIT_CPU, &cpu);
    }
}

FILE *fork_bounded(pid_t parent, unsigned cpu_s, int fd) {
    struct rlimit no_core = {0, 0};
    sigset_t signals;
    fork_follow(parent);
    setrlimit(RLIMIT_CORE, &no_core);
    /* SIGXCPU, which the kernel sends at the limit, must end this process even if the caller of the
     * command ignores or blocks it. */
    signal(SIGXCPU, SIG_DFL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGXCPU);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    fork_bound_time(cpu_s);
    FILE *answer = fdopen(fd, "w");
    if (!answer)
        _exit(1);
    return answer;
}

void fork_close_from(int first) {
    struct rlimit limit;
    /* by its number, because glibc has a function for this call only from 2.34 on */
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    /* Kernels before 5.9 do not know the call, and some seccomp filters refuse it. */
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > FDS_MAX)
        limit.rlim_cur = FDS_MAX;
    for (int fd = first; fd < (int)limit.rlim_cur; fd++)
        close(fd);
}
