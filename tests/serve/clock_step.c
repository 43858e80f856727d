/* SPDX-License-Identifier: MIT */
/* clock_step.c - a library to preload: the real-time clock is an hour slow while the file
 * CLOCK_STEP exists. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    const char *file = getenv("CLOCK_STEP");
    if (result == 0 && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0)
        time->tv_sec -= 3600;
    return (int)result;
}
