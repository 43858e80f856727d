/* SPDX-License-Identifier: MIT */
/*
 * A young process that forks again and again, and allocates in between, until it has a second
 * thread, the control thread. It prints "never" if it has none after 30 s, else "started", with
 * "between two forks" if the thread came within 0.9 s although all forks were less than 20 ms
 * apart.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool has_thread(void) {
    struct stat tasks;
    if (stat("/proc/self/task", &tasks))
        exit(3);
    return tasks.st_nlink > 2 + 1;
}

static double now_s(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double age_s(void) {
    char line[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long ticks = 0;
    if (!file || !fgets(line, sizeof line, file) ||
        sscanf(strrchr(line, ')') + 2,
               "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        exit(3);
    fclose(file);
    return now_s(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static void *kept[1 << 16];

int main(void) {
    double pause = age_s(), forked = now_s(CLOCK_MONOTONIC);
    bool early = false;
    size_t count = 0;
    while (!has_thread() && age_s() < 30) {
        double since = now_s(CLOCK_MONOTONIC) - forked;
        pause = since > pause ? since : pause;
        forked = now_s(CLOCK_MONOTONIC);
        pid_t child = fork();
        if (!child)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            return 4;
        /* nothing is freed, so many of these allocations take the slow path */
        kept[count++ % (1 << 16)] = malloc(1000);
        since = now_s(CLOCK_MONOTONIC) - forked;
        pause = since > pause ? since : pause;
        early = has_thread() && pause < 0.02 && age_s() < 0.9;
    }
    printf("%s%s\n", has_thread() ? "started" : "never", early ? " between two forks" : "");
    return 0;
}
