/* SPDX-License-Identifier: MIT */
/* unseen_user.c - after a line on standard input, gives up root by system call instructions of its
 * own, which no library sees, and polls for the end of the input. With the word "capabilities" it
 * gives up all capabilities except number 5, and stays root. */
#include <poll.h>
#include <stdbool.h>
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

/* Returns whether the thread has given up its rights. */
static bool give_up(bool capabilities) {
    static const unsigned header[2] = {0x20080522, 0}, sets[6] = {1 << 5, 1 << 5};
    if (capabilities)
        return !call(SYS_capset, (long)header, (long)sets, 0);
    return !call(SYS_setgroups, 0, 0, 0) && !call(SYS_setresgid, NOBODY, NOBODY, NOBODY) &&
           !call(SYS_setresuid, NOBODY, NOBODY, NOBODY);
}

int main(int count, char **words) {
    char line[8];
    (void)words;
    free(malloc(100));
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || !give_up(count > 1))
        return 1;
    puts("done");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (!poll(&input, 1, 50)) {
    }
    return 0;
}
