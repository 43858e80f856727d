/* SPDX-License-Identifier: MIT */
/*
 * realtime.c - an unusual thread starts the control thread, because it makes the program's first
 * allocation after the start. "realtime POLICY NICE CPU": the thread has this scheduling policy (a
 * number) and nice value, may run on the processor CPU only, and has a real-time I/O priority and a
 * timer slack of 1 ns. The program prints "ready" and waits until its stdin ends.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *run(void *argument) {
    char **words = argument;
    int policy = atoi(words[1]);
    const struct sched_param parameters = {.sched_priority = sched_get_priority_min(policy)};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)atoi(words[3]), &one);
    if (syscall(SYS_ioprio_set, 1, 0, 1 << 13 | 4) || /* the class of real time */
        prctl(PR_SET_TIMERSLACK, 1) || sched_setaffinity(0, sizeof one, &one) ||
        setpriority(PRIO_PROCESS, 0, atoi(words[2])) || sched_setscheduler(0, policy, &parameters))
        return argument;
    for (int i = 0; i < 1000; i++) {
        char *volatile chunk = malloc((size_t)i * 100);
        free(chunk);
    }
    if (write(1, "ready\n", 6) != 6)
        return argument;
    return NULL;
}

int main(int count, char **words) {
    pthread_t thread;
    void *result;
    char byte;
    if (count != 4 || pthread_create(&thread, NULL, run, words) || pthread_join(thread, &result) ||
        result)
        return 1;
    return read(0, &byte, 1) != 0;
}
