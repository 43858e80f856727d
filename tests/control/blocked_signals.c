/* SPDX-License-Identifier: MIT */
/* blocked_signals.c - a thread blocks signals 32 and 33 by the system call, as glibc's thread for
 * timers blocks signal 32, and signal 32 is sent to it. Then the thread allocates until the control
 * thread runs. The signal must stay pending: its delivery would end the process. Afterwards setgid
 * must end, because every other thread answers signal 33. Prints "pending", then "end". */
#include "control_threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void *work(void *needed) {
    uint64_t libcs = 3UL << (32 - 1), pending = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &libcs, NULL, 8);
    syscall(SYS_tgkill, getpid(), gettid(), 32);
    for (int i = 0; i < 3000 && control_threads() < (needed ? 1 : 0); i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    syscall(SYS_rt_sigpending, &pending, 8);
    puts(pending & libcs ? "pending" : "not pending");
    /* takes the signal, so that nothing is pending when the thread ends */
    syscall(SYS_rt_sigtimedwait, &libcs, NULL, NULL, 8);
    return needed && !control_threads() ? "the control thread has not started" : NULL;
}

/* With an argument, the thread waits for a control thread. */
int main(int argc, char **argv) {
    pthread_t thread;
    void *error;
    (void)argv;
    if (pthread_create(&thread, NULL, work, argc > 1 ? argv : NULL))
        return 1;
    if (pthread_join(thread, &error) || error) {
        puts(error ? (char *)error : "no thread to join");
        return 1;
    }
    if (setgid(getgid()))
        return 1;
    puts("end");
    return 0;
}
