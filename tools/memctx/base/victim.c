/* SPDX-License-Identifier: MIT */
/* victim.c - writes this process's oom_score_adj. */
#include "base/victim.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void victim_offer(void) {
    int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score < 0)
        return;
    if (write(score, "1000", 4) < 0)
        errno = 0; /* if the file cannot be written, the kernel chooses its victim as usual */
    close(score);
}
