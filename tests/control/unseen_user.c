/* SPDX-License-Identifier: MIT */
/* After a line on standard input, gives up root by system call instructions of its own, which no
 * library sees, and polls for the end of the input. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    char line[8];
    free(malloc(100));
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || call(SYS_setgroups, 0, 0, 0) ||
        call(SYS_setresgid, NOBODY, NOBODY, NOBODY) || call(SYS_setresuid, NOBODY, NOBODY, NOBODY))
        return 1;
    puts("done");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (!poll(&input, 1, 50)) {
    }
    return 0;
}
