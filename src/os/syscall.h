/* SPDX-License-Identifier: MIT */
/*
 * syscall.h - raw system calls on x86-64 Linux.
 *
 * The library does not use libc's wrappers because they write errno, are cancellation points, and
 * may be interposed by the program. A result in -4095..-1 is a negated error number.
 */
#ifndef MEMCTX_SYSCALL_H
#define MEMCTX_SYSCALL_H

#include "os/fault.h"

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

#ifdef MEMCTX_FAULTS
INLINE long os_call(long number, long a, long b, long c, long d, long e, long f) {
    long refused = os_fault_call(number);
    return refused ? refused : os_syscall(number, a, b, c, d, e, f);
}
#elif defined MEMCTX_MODEL
/* In this build the scheduler of tests/model lets threads wait and wakes them, and it keeps the
 * clock. */
long model_futex(const void *word, long operation, uint32_t value);
uint64_t model_now_ns(void);
INLINE long os_call(long number, long a, long b, long c, long d, long e, long f) {
    return number == SYS_futex ? model_futex((const void *)a, b, (uint32_t)c)
                               : os_syscall(number, a, b, c, d, e, f);
}
#else
#define os_call os_syscall
#endif
#define OS_CALL(number, a, b, c, d, e, f)                                                          \
    os_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define OS_FAILED(result) ((unsigned long)(result) >= (unsigned long)-4095L)

#endif
