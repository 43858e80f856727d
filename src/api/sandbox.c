/* SPDX-License-Identifier: MIT */
/*
 * prctl and syscall, which the program calls in place of libc's functions, so that the library sees
 * a process that is about to restrict its system calls, to enter a namespace, or to change the
 * privileges of one thread (namespaces.c).
 *
 * A program installs a filter of system calls with prctl(PR_SET_NO_NEW_PRIVS),
 * prctl(PR_SET_SECCOMP) and syscall(SYS_seccomp), directly or through libseccomp, which uses the
 * same calls. The control thread ends before the call is made, so that the filter never applies to
 * that thread. This file passes each call on to the function that the program would call without
 * this library: libc's, or that of another preloaded library, which may answer the call itself.
 * This file makes no system call by an instruction of its own, because a program may tell the
 * kernel that only libc's code makes system calls (PR_SET_SYSCALL_USER_DISPATCH).
 */
#include "api/namespaces.h"
#include "base/options.h"
#include "control/control.h"
#include "path/rebind.h"

#include <errno.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#ifndef MEMCTX_UNIT
#define TEXT(x) #x
#define EXPANDED_TEXT(x) TEXT(x)
#define WATCH(number) "    cmpq $" EXPANDED_TEXT(number) ", %rdi\n    je syscall_watched\n"
/* the watched numbers below unshare's */
#define WATCH_LOW WATCH(__NR_capset) WATCH(__NR_prctl)

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
 * call of this library. Some programs, such as haproxy, set it and install none; for these the user
 * sets MEMCTX_CONTROL=always. */
static bool gives_up_privileges(long number, const unsigned long *arguments) {
    return number == SYS_prctl && arguments[0] == PR_SET_NO_NEW_PRIVS && arguments[1] == 1 &&
           options.control != CONTROL_ALWAYS;
}

/* After prctl(PR_SET_TSC, PR_TSC_SIGSEGV), the instruction that reads the processor's time-stamp
 * counter raises SIGSEGV, also in functions that read the clock. */
static bool forbids_counter(long number, const unsigned long *arguments) {
    return number == SYS_prctl && arguments[0] == PR_SET_TSC && arguments[1] == PR_TSC_SIGSEGV;
}

/* The addresses of the functions that the program would call without this library; 0 until the
 * first call. Each word is atomic. */
static uintptr_t prctl_next START_PAGE;
static uintptr_t syscall_next START_PAGE __attribute__((used));

static long missing(void) {
    errno = ENOSYS;
    return -1;
}

static uintptr_t next_function(uintptr_t *next, const char *name) {
    uintptr_t found = load_relaxed(next);
    if (!found) {
        found = rebind_next(name);
        found = found ? found : (uintptr_t)missing;
        store_owner(next, found);
    }
    return found;
}

static int call_prctl(const unsigned long *a) {
    int (*next)(int, ...) = (int (*)(int, ...))next_function(&prctl_next, "prctl");
    return next((int)a[0], a[1], a[2], a[3], a[4]);
}

__attribute__((used)) static uintptr_t find_syscall(void) {
    return next_function(&syscall_next, "syscall");
}

static long call_syscall(long number, const unsigned long *a) {
    long (*next)(long, ...) = (long (*)(long, ...))find_syscall();
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Makes the system call `number`, which is SYS_prctl or SYS_seccomp, by libc's prctl if `by_name`
 * is true, else by libc's syscall. */
static long call(long number, const unsigned long *arguments, bool by_name) {
    uint32_t before;
    bool strict = is_strict(number, arguments);
    bool changed =
        (strict || is_filter(number, arguments) || gives_up_privileges(number, arguments)) &&
        control_restrict(strict, &before);
    if (UNLIKELY(forbids_counter(number, arguments)))
        store_release(&os_counter_forbidden, true);
    bool paused = namespaces_change_thread(number, arguments[0]) && control_pause();
    long result = by_name ? call_prctl(arguments) : call_syscall(number, arguments);
    if (result == -1 && changed) {
        int error = errno;
        control_unrestrict(before);
        errno = error;
    }
    if (paused)
        control_resume();
    return result;
}

/* libc declares prctl with an ellipsis; on x86-64 the arguments are in the same registers. */
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    return (int)call(SYS_prctl, (unsigned long[6]){(unsigned)option, a, b, c, d}, true);
}

/* Makes setns, unshare or capset by libc's syscall, without the control thread if the kernel wants
 * one thread, or the call changes one thread alone (namespaces.c). */
static long call_without_thread(long number, const unsigned long *arguments) {
    bool alone = number == SYS_setns     ? namespaces_enter_alone((int)arguments[1])
                 : number == SYS_unshare ? namespaces_unshare_alone((int)arguments[0])
                                         : namespaces_change_thread(number, 0);
    bool paused = alone && control_pause();
    long result = call_syscall(number, arguments);
    if (paused)
        control_resume();
    return result;
}

/* Takes the arguments of libc's syscall for the five system calls that this library watches. The
 * assembly below jumps here, so the arguments are where the program put them: six in registers, the
 * seventh on the stack. */
__attribute__((used)) static long syscall_watched(long number, unsigned long a, unsigned long b,
                                                  unsigned long c, unsigned long d, unsigned long e,
                                                  unsigned long f) {
    unsigned long arguments[6] = {a, b, c, d, e, f};
    return number == SYS_prctl || number == SYS_seccomp ? call(number, arguments, false)
                                                        : call_without_thread(number, arguments);
}

/* The exported syscall jumps to the next function, with all arguments where they are. It leaves no
 * stack frame, because some system calls return on another stack, or twice on the present stack.
 * The watched numbers after unshare's are greater than that one. */
__asm__(".pushsection .text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        ".p2align 4\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n" WATCH_LOW WATCH(__NR_unshare) "    jb 2f\n" WATCH(__NR_setns)
            WATCH(__NR_seccomp) "2:  movq syscall_next(%rip), %r11\n"
                                "    testq %r11, %r11\n"
                                "    je 1f\n"
                                "    jmp *%r11\n"
                                "1:  pushq %rdi\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    pushq %rsi\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    pushq %rdx\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    pushq %rcx\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    pushq %r8\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    pushq %r9\n"
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    subq $8, %rsp\n" /* aligns the stack */
                                "    .cfi_adjust_cfa_offset 8\n"
                                "    call find_syscall\n"
                                "    addq $8, %rsp\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %r9\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %r8\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %rcx\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %rdx\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %rsi\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    popq %rdi\n"
                                "    .cfi_adjust_cfa_offset -8\n"
                                "    movq %rax, %r11\n"
                                "    xorl %eax, %eax\n" /* no vector arguments */
                                "    jmp *%r11\n"
                                "    .cfi_endproc\n"
                                ".size syscall, .-syscall\n"
                                ".popsection\n");
#endif
