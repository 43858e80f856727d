/* SPDX-License-Identifier: MIT */
/*
 * syscall.h - raw system calls on x86-64 Linux.
 *
 * Used instead of libc's wrappers because those write errno, are cancellation points, or may be
 * interposed by the program. A negative answer in -4095..-1 is an error number.
 */
#ifndef MEMCTX_SYSCALL_H
#define MEMCTX_SYSCALL_H

#include "base/base.h"
#include <sys/syscall.h>

INLINE long os_syscall(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define OS_CALL(number, a, b, c, d, e, f)                                                          \
    os_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define OS_FAILED(result) ((unsigned long)(result) >= (unsigned long)-4095L)

#endif
