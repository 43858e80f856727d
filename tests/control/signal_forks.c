/* SPDX-License-Identifier: MIT */
/* signal_forks.c - a program with one thread that forks again and again, while a timer's handler
 * forks, too. It prints whether the handler has interrupted some of these forks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 1500, EVERY_US = 1500 };

static volatile sig_atomic_t in_fork, interrupted;

static void fork_once(void) {
    pid_t child = fork();
    if (!child)
        _exit(0);
    while (waitpid(child, NULL, 0) < 0) {
    }
}

static void handle(int number) {
    (void)number;
    interrupted += in_fork;
    fork_once();
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, EVERY_US}, {0, EVERY_US}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < FORKS; i++) {
        in_fork = 1;
        fork_once();
        in_fork = 0;
        free(malloc(100));
    }
    puts(interrupted ? "interrupted" : "never");
    return 0;
}
