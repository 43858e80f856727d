/* SPDX-License-Identifier: MIT */
/* undumpable.c - a process of which the kernel shows its user no memory map, as of one that has
 * changed its user; waits until its input ends. */
#include <stdio.h>
#include <sys/prctl.h>

int main(void) {
    prctl(PR_SET_DUMPABLE, 0);
    puts("ready");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
