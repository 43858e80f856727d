/* SPDX-License-Identifier: MIT */
/* clock_step.c - to preload: the clock stands an hour earlier as long as the file CLOCK_STEP
 * exists. */
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
