/* SPDX-License-Identifier: MIT */
/* fork_after_thread.c - a process that has had a second thread, which allocated, forks children
 * that allocate and end. It prints how many of the children got a control thread in their first 5
 * ms. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 20, KEPT = 100 };

static void *kept[KEPT];

static void *allocate(void *unused) {
    for (int i = 0; i < 10000; i++)
        free(malloc(100 + (size_t)(i % 50)));
    return unused;
}

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns 1 if the process has got a thread within 5 ms of `since_us`, else 0. */
static int child(long since_us) {
    struct stat tasks;
    /* Nothing is freed, so some of these allocations need a new page. Only such an allocation may
     * start the control thread. */
    for (int i = 0; i < KEPT; i++)
        kept[i] = malloc(1000);
    if (stat("/proc/self/task", &tasks))
        return 2;
    return tasks.st_nlink > 2 + 1 && now_us() - since_us < 5000;
}

int main(void) {
    pthread_t thread;
    int with_thread = 0;
    if (pthread_create(&thread, NULL, allocate, NULL) || pthread_join(thread, NULL))
        return 3;
    for (int i = 0; i < CHILDREN; i++) {
        long since_us = now_us();
        pid_t pid = fork();
        if (!pid)
            _exit(child(since_us));
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            return 4;
        with_thread += WEXITSTATUS(status);
    }
    printf("%d\n", with_thread);
    return 0;
}
