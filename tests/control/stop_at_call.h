/* SPDX-License-Identifier: MIT */
/* Lets the parent stop a child at a chosen system call. The child calls getppid by the system call
 * before the calls that count. */
#ifndef MEMCTX_TESTS_CONTROL_STOP_AT_CALL_H
#define MEMCTX_TESTS_CONTROL_STOP_AT_CALL_H

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

/* Lets the child run to its next stop, and returns the child's status. */
static int run_on(pid_t child, enum __ptrace_request how) {
    int status = 0;
    ptrace(how, child, NULL, NULL);
    waitpid(child, &status, 0);
    return status;
}

/* Lets the child run to the call with this number, from 1 on, and returns the kernel's number of
 * the call. */
static long run_to_call(pid_t child, int number) {
    int status, counted = -1; /* -1: the child has not begun to wait */
    struct user_regs_struct registers = {0};
    for (int entry = 1;; entry = !entry) {
        do
            status = run_on(child, PTRACE_SYSCALL);
        while (WIFSTOPPED(status) && WSTOPSIG(status) != (SIGTRAP | 0x80));
        if (!WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, child, NULL, &registers))
            return -1;
        if (!entry)
            continue;
        if (counted >= 0 || registers.orig_rax == SYS_getppid)
            counted++;
        if (counted == number)
            return (long)registers.orig_rax;
    }
}

#endif
