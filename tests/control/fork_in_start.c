/* SPDX-License-Identifier: MIT */
/* fork_in_start - a signal comes at a system call of a wait that starts the control thread, and its
 * handler forks. Does so for each of these calls, with a child for each: the parent traces the
 * child, so that the signal comes at this call. The copy that the handler makes returns from the
 * handler and restricts itself. No thread of the copy starts the control thread then, so the copy
 * must not wait for one. Prints the number of calls, and after which calls the copy waited. Exits
 * with 77 if no process can be traced. */
#include "stop_at_call.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A wait for a thread that is not there takes a hundred pauses and more. The end of the control
 * thread takes a few. */
enum { PAUSES_MOST = 50 };
/* exit statuses of a child */
enum { GOOD, WAITED, NO_COPY, NO_TRACE = 77 };

static volatile sig_atomic_t is_copy;

static void fork_here(int number) {
    int status;
    pid_t copy = fork();
    (void)number;
    if (!copy) {
        is_copy = 1;
        return;
    }
    waitpid(copy, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : NO_COPY);
}

static long pauses(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static int child_main(void) {
    signal(SIGUSR1, fork_here);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return NO_TRACE;
    raise(SIGSTOP);
    syscall(SYS_getppid); /* the parent counts the calls from here on */
    sleep(1);
    if (!is_copy)
        return NO_COPY;
    long before = pauses();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return pauses() - before > PAUSES_MOST ? WAITED : GOOD;
}

int main(void) {
    int wrong = 0;
    for (int number = 1;; number++) {
        long call;
        int status = signal_at_call(child_main, number, &call);
        if (status == NOT_TRACED) {
            fprintf(stderr, "no process can be traced\n");
            return NO_TRACE;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != GOOD) {
            printf("after call %d (%ld) the copy %s\n", number, call,
                   WIFEXITED(status) && WEXITSTATUS(status) == WAITED ? "waited" : "has ended");
            wrong++;
        }
        if (call == SYS_clock_nanosleep || call < 0) {
            printf("%d calls, %d wrong\n", number, wrong);
            break;
        }
    }
    return 0;
}
