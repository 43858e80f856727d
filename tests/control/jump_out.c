/* SPDX-License-Identifier: MIT */
/* jump_out - a signal comes at a system call of a wait that starts the control thread, and its
 * handler leaves the wait by siglongjmp. Does so for each of these calls, with a child for each:
 * the parent traces the child, so that the signal comes at this call. After the jump the child must
 * be cancellable and have no mapping more, its next waits must start the control thread, and the
 * lock of the start must be free. Prints the number of calls, and what was wrong after a call.
 * Exits with 77 if no process can be traced. */
#include "control_threads.h"
#include "stop_at_call.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A child that waits longer for the lock waits for ever. */
enum { LIMIT_S = 20 };
/* exit statuses of a child */
enum { GOOD, NOT_CANCELLABLE, NO_THREAD, HAS_GROWN, NO_TRACE = 77 };
static const char *const found[] = {"good", "cannot be cancelled", "has no control thread",
                                    "has more mappings"};

static sigjmp_buf home;

static void go_home(int number) {
    siglongjmp(home, number);
}

static void do_nothing(int number) {
    (void)number;
}

/* The library takes the lock of the control thread's start around setgid. */
static void *take_lock(void *nothing) {
    (void)!setgid(getgid());
    return nothing;
}

/* Returns the OS pages of all mappings. Allocates nothing. */
static long mapped_pages(void) {
    char line[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd < 0 || read(fd, line, sizeof line - 1) <= 0)
        return -1;
    close(fd);
    return atol(line);
}

static int child_main(void) {
    int state;
    long before, after;
    pthread_t other;
    signal(SIGUSR1, go_home);
    signal(SIGALRM, do_nothing);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return NO_TRACE;
    raise(SIGSTOP);
    before = mapped_pages();
    if (!sigsetjmp(home, 1)) {
        syscall(SYS_getppid); /* the parent counts the calls from here on */
        for (;;)
            sleep(1000);
    }
    after = mapped_pages();
    if (before != after && !control_threads()) /* the control thread maps memory, too */
        return HAS_GROWN;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    if (state != PTHREAD_CANCEL_ENABLE)
        return NOT_CANCELLABLE;
    for (int i = 0; i < 300 && !control_threads(); i++) {
        ualarm(20000, 20000); /* ends the wait */
        sleep(100);
        ualarm(0, 0);
    }
    if (control_threads() != 1)
        return NO_THREAD;
    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT_S);
    return pthread_create(&other, NULL, take_lock, NULL) || pthread_join(other, NULL);
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
        int end = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (end != GOOD) {
            printf("after call %d (%ld) the process %s\n", number, call,
                   end > 0 && end <= HAS_GROWN ? found[end] : "has ended");
            wrong++;
        }
        if (call == SYS_clock_nanosleep || end < 0) { /* do not wait for the lock once more */
            printf("%d calls, %d wrong\n", number, wrong);
            break;
        }
    }
    return 0;
}
