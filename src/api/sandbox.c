/* SPDX-License-Identifier: MIT */
/*
 * prctl and syscall, which the program calls in place of libc's functions, so that the library sees
 * a process that is about to restrict its system calls.
 *
 * A program installs a filter of system calls with prctl(PR_SET_NO_NEW_PRIVS),
 * prctl(PR_SET_SECCOMP) and syscall(SYS_seccomp), directly or through libseccomp, which uses the
 * same calls. The control thread ends before the call is made, so that the filter never applies to
 * that thread. All other calls go straight to the kernel, as in libc.
 */
#include "control/control.h"
#include "os/syscall.h"

#include <errno.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#ifndef MEMCTX_UNIT
#define TEXT(x) #x
#define EXPANDED_TEXT(x) TEXT(x)

static bool is_strict(long number, const unsigned long *arguments) {
    return number == SYS_prctl
               ? arguments[0] == PR_SET_SECCOMP && arguments[1] == SECCOMP_MODE_STRICT
               : arguments[0] == SECCOMP_SET_MODE_STRICT;
}

/* A filter at address 0 is no filter: the program asks whether the kernel supports filters. */
static bool is_filter(long number, const unsigned long *arguments) {
    return number == SYS_prctl ? arguments[0] == PR_SET_SECCOMP &&
                                     arguments[1] == SECCOMP_MODE_FILTER && arguments[2]
                               : arguments[0] == SECCOMP_SET_MODE_FILTER && arguments[2];
}

/* Programs set PR_SET_NO_NEW_PRIVS before they install a filter. The flag alone forbids no system
 * call of this library. */
static bool gives_up_privileges(long number, const unsigned long *arguments) {
    return number == SYS_prctl && arguments[0] == PR_SET_NO_NEW_PRIVS && arguments[1] == 1;
}

/* Makes the system call `number`, which is SYS_prctl or SYS_seccomp. */
static long call(long number, const unsigned long *arguments) {
    uint32_t before;
    bool strict = is_strict(number, arguments);
    bool changed =
        (strict || is_filter(number, arguments) || gives_up_privileges(number, arguments)) &&
        control_restrict(strict, &before);
    long result = os_syscall(number, (long)arguments[0], (long)arguments[1], (long)arguments[2],
                             (long)arguments[3], (long)arguments[4], (long)arguments[5]);
    if (!OS_FAILED(result))
        return result;
    if (changed)
        control_unrestrict(before);
    errno = (int)-result;
    return -1;
}

/* libc declares prctl with an ellipsis; on x86-64 the arguments are in the same registers. */
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    return (int)call(SYS_prctl, (unsigned long[6]){(unsigned)option, a, b, c, d});
}

/* Takes the arguments of libc's syscall for the two system calls that `call` watches. The assembly
 * below jumps here, so the arguments are where the program put them: six in registers, the seventh
 * on the stack. */
__attribute__((used)) static long syscall_watched(long number, unsigned long a, unsigned long b,
                                                  unsigned long c, unsigned long d, unsigned long e,
                                                  unsigned long f) {
    return call(number, (unsigned long[6]){a, b, c, d, e, f});
}

/* The exported syscall. It has no stack frame, as in libc: some system calls return on another
 * stack, or twice on the present stack. */
__asm__(".pushsection .text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        ".p2align 4\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmpq $" EXPANDED_TEXT(
            __NR_prctl) ", %rdi\n"
                        "    je syscall_watched\n"
                        "    cmpq $" EXPANDED_TEXT(
                            __NR_seccomp) ", %rdi\n"
                                          "    je syscall_watched\n"
                                          "    movq %rdi, %rax\n"
                                          "    movq %rsi, %rdi\n"
                                          "    movq %rdx, %rsi\n"
                                          "    movq %rcx, %rdx\n"
                                          "    movq %r8, %r10\n"
                                          "    movq %r9, %r8\n"
                                          "    movq 8(%rsp), %r9\n"
                                          "    syscall\n"
                                          "    cmpq $-4095, %rax\n"
                                          "    jae 1f\n"
                                          "    ret\n"
                                          "1:  negl %eax\n"
                                          "    pushq %rax\n"
                                          "    .cfi_adjust_cfa_offset 8\n"
                                          "    call *__errno_location@GOTPCREL(%rip)\n"
                                          "    popq %rcx\n"
                                          "    .cfi_adjust_cfa_offset -8\n"
                                          "    movl %ecx, (%rax)\n"
                                          "    movq $-1, %rax\n"
                                          "    ret\n"
                                          "    .cfi_endproc\n"
                                          ".size syscall, .-syscall\n"
                                          ".popsection\n");
#endif
