/* SPDX-License-Identifier: MIT */
/* wrapping - a preloaded library that stands in front of libc's syscall and prctl, as uid_wrapper
 * and libfaketime do: it answers some calls itself, and passes the others on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define PARENT 4711

long syscall(long number, ...) {
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"), words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(list, long);
    }
    va_end(list);
    return number == SYS_getppid
               ? PARENT
               : next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int prctl(int option, ...) {
    int (*next)(int, ...) = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
    unsigned long words[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        words[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    if (option == PR_GET_NAME) {
        strcpy((char *)words[0], "wrapped");
        return 0;
    }
    if (option == PR_SET_NO_NEW_PRIVS) {
        errno = EACCES;
        return -1;
    }
    return next(option, words[0], words[1], words[2], words[3]);
}
