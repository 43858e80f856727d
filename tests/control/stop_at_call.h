/* SPDX-License-Identifier: MIT */
/* Lets the parent stop a child at a chosen system call. The child calls getppid by the system call
 * before the calls that count. */
#ifndef MEMCTX_TESTS_CONTROL_STOP_AT_CALL_H
#define MEMCTX_TESTS_CONTROL_STOP_AT_CALL_H

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* what signal_at_call returns if no process can be traced; no status of waitpid is negative */
#define NOT_TRACED (-1)

/* Forks a child that calls child_main, traces it from its SIGSTOP on, and sends it SIGUSR1 at its
 * system call `number`. Sets *call to that call. Returns the child's status at its end. */
static inline int signal_at_call(int (*child_main)(void), int number, long *call) {
    int status;
    pid_t child = fork();
    if (!child)
        _exit(child_main());
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status))
        return NOT_TRACED;
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    *call = run_to_call(child, number);
    syscall(SYS_tgkill, child, child, SIGUSR1);
    do
        status = run_on(child, PTRACE_CONT);
    while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1);
    ptrace(PTRACE_DETACH, child, NULL, (void *)(long)SIGUSR1);
    waitpid(child, &status, 0);
    return status;
}

#endif
