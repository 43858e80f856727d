/* SPDX-License-Identifier: MIT */
/* signals - handlers that allocate, free and unwind: raised by the program itself, nested, on an
 * alternate stack, sent to a computing thread, and with a fork inside a handler. No signal
 * interrupts malloc, so the behaviour is defined without memctx, too. Signals to the process may
 * only be handled in the program's own threads. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int handled[65], elsewhere, children;
static atomic_bool stopping, computing;
static pthread_t main_thread;
static char *last[65];

static void handler(int number, siginfo_t *info, void *context) {
    void *frames[8];
    (void)info;
    (void)context;
    free(last[number]);
    last[number] = malloc((size_t)(100 * number + handled[number] % 50));
    memset(last[number], number, 100);
    backtrace(frames, 8);
    if (number == SIGUSR1 && handled[SIGUSR1] % 10 == 0) {
        raise(SIGUSR2); /* a handler inside of a handler */
    }
    if (number == SIGHUP) {
        pid_t pid = fork();
        if (pid == 0) {
            char *block = malloc(5000);
            memset(block, 1, 5000);
            free(block);
            _exit(7);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        children += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    handled[number]++;
}

static void elsewhere_handler(int number) {
    (void)number;
    if (!pthread_equal(pthread_self(), main_thread)) {
        atomic_fetch_add(&elsewhere, 1);
    }
    atomic_fetch_add(&handled[SIGALRM], 1);
}

static void *compute(void *argument) {
    volatile unsigned long sum = 0;
    atomic_store(&computing, true);
    while (!atomic_load(&stopping)) {
        sum = sum * 31 + 7;
    }
    return argument;
}

__attribute__((noinline)) static void raise_deep(int depth, int number) {
    volatile char frame[200];
    frame[0] = (char)depth;
    if (depth == 0) {
        raise(number);
    } else {
        raise_deep(depth - 1, number);
    }
    frame[1] = frame[0];
}

int main(void) {
    void *frames[4];
    backtrace(frames, 4); /* the first call loads libgcc_s, which a handler must not do */
    main_thread = pthread_self();
    stack_t stack = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    for (int i = 0; i < 1000; i++) {
        raise_deep(i % 30, i % 2 ? SIGUSR1 : SIGUSR2);
    }
    for (int i = 0; i < 20; i++) {
        raise_deep(i, SIGHUP);
    }

    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    while (!atomic_load(&computing)) {
        usleep(100);
    }
    for (int i = 0; i < 300; i++) {
        int before = atomic_load(&handled[SIGTERM]);
        pthread_kill(thread, SIGTERM);
        while (atomic_load(&handled[SIGTERM]) == before) {
            usleep(10);
        }
    }
    atomic_store(&stopping, true);
    pthread_join(thread, NULL);

    /* The program's only thread blocks a signal to the process: the signal must stay pending and
     * not be handled in a thread of the library. */
    struct sigaction alarm_action = {.sa_handler = elsewhere_handler};
    sigaction(SIGALRM, &alarm_action, NULL);
    sigset_t alarm_set, pending;
    sigemptyset(&alarm_set);
    sigaddset(&alarm_set, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_set, NULL);
    for (int i = 0; i < 50; i++) {
        kill(getpid(), SIGALRM);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        sigpending(&pending);
        if (!sigismember(&pending, SIGALRM)) {
            puts("a signal was taken by another thread");
            return 1;
        }
        sigprocmask(SIG_UNBLOCK, &alarm_set, NULL);
        sigprocmask(SIG_BLOCK, &alarm_set, NULL);
    }
    printf("usr1 %d usr2 %d hup %d term %d alarm %d, %d children, %d elsewhere\n", handled[SIGUSR1],
           handled[SIGUSR2], handled[SIGHUP], handled[SIGTERM], handled[SIGALRM], children,
           elsewhere);
    return 0;
}
