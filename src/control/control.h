/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control thread: serves a socket on which the command asks for dumps, marks,
 * resets.
 *
 * The thread is named `memctx`, and libc does not know of it (os/thread.h). It blocks all signals,
 * and its stack is small. Where the kernel allows that, it has its own descriptor table (it
 * unshares the table and closes everything in it), so the program's descriptor numbers do not
 * change. The thread never calls malloc and stops no other thread. When the thread gets no socket
 * or no directory, it prints a line only with MEMCTX_VERBOSE.
 *
 * The thread starts at once in the program that `memctx run` started, or with MEMCTX_CONTROL=eager
 * or always. Elsewhere an allocation that serve_entered (api/malloc.c) serves starts the thread, if
 * the process has lived for 20 ms or has a second thread. A call that may wait for a second or more
 * (api/waits.c) starts the thread at any age. A shorter wait starts the thread in a process that is
 * older than 0.5 s. A forked child starts its own thread in the same way; launchers (api/init.c)
 * have none.
 *
 * A process whose system calls are filtered (seccomp) has no control thread. The thread ends before
 * the process restricts itself (api/sandbox.c). The thread does not start where a filter was
 * installed before the program started, except in containers (sandbox.c) and with
 * MEMCTX_CONTROL=always. Nor does it start without /proc, which tells of filters, except with
 * MEMCTX_CONTROL=always.
 */
#ifndef MEMCTX_CONTROL_H
#define MEMCTX_CONTROL_H

#include "os/os.h"
#include <memctx/wire.h>

/* Atomic: 1 while no control thread runs and one may start, for the first time or again
 * (control_resume). */
INTERNAL uint32_t control_waiting;

/* True when the time to start the thread has come. */
bool control_is_due(void);
/* Like control_is_due, but before a wait (api/waits.c), where the age does not count. False in a
 * vfork child. */
bool control_is_due_in_wait(void);
/* True for START_AFTER_MS after the process started or was forked. */
#define START_AFTER_MS 20
bool control_is_young(void);
/* True from OLD_AFTER_MS after the process started or was forked. The start of the thread takes
 * some 0.2 ms, less than a thousandth of the time that such a process has lived. */
#define OLD_AFTER_MS 500
bool control_is_old(void);
/* Starts the thread if control_waiting is 1. If the process has no descriptor, memory or thread
 * left for it, control_is_due and control_is_due_in_wait are false for a second (permit.h), and
 * control_waiting stays 1. The caller has left the allocator, or is about to
 * wait. It may be a signal handler, but on an alternate stack, which may be small, the thread does
 * not start. A signal handler that interrupts the call may leave it by a jump. */
void control_start(void);

/* Called before a system call that the kernel allows only in a process with one thread, or that
 * changes the privileges of the calling thread alone (api/namespaces.c). Ends the control thread
 * and removes its socket; false: there is no control thread, or it cannot be ended now. If the
 * result was true, the caller calls control_resume after the system call. */
bool control_pause(void);
/* Lets the control thread start again when it is due. */
void control_resume(void);
/* Called before and after a function of libc that changes the user or the groups of all threads
 * that libc knows (initgroups: both after it). The control thread makes the system call `number`,
 * too, and has made it when control_follow_begin returns; if it cannot be woken, it makes the call
 * within a second. If it was woken, and the call fails in one of the two threads and not in the
 * other, the control thread ends, and starts again when it is due. Between the two functions no
 * control thread starts. If the caller is a signal handler, and the interrupted thread holds a lock
 * of the library, the control thread makes no call. If the control thread is root,
 * sandbox_keeps_root finds the difference later. */
struct control_follow {
    enum { CONTROL_FOLLOW_UNKNOWN, CONTROL_FOLLOW_DONE, CONTROL_FOLLOW_FAILED } result;
    bool locked;
    int cancel_state;
};
void control_follow_begin(struct control_follow *state, long number, long first, long second,
                          long third);
void control_follow_end(const struct control_follow *state, bool succeeded);
/* Set by the layer above: makes the calling thread, the control thread, use no heap of its own. */
INTERNAL void (*control_thread_begins)(void);
/* Called by the constructor. `at_once`: starts the thread now, not when it is due. `record`: the
 * value of MEMCTX_RECORD, or NULL. */
void control_init(bool at_once, const char *record);
/* Called before the process restricts its system calls. Ends the control thread and removes its
 * socket. From then on no control thread starts, neither in this process nor in forked children.
 * False: the process was already restricted at least as strictly, or this is a vfork child whose
 * parent is not restricted. If the result was true and the kernel then refuses the restriction, the
 * caller passes *before to control_unrestrict. The restriction stays if another thread has called
 * control_restrict meanwhile. */
bool control_restrict(bool strictly, uint32_t *before);
void control_unrestrict(uint32_t before);
/* Removes the socket if this process made it; notes the end in the recording; prints the statistics
 * with MEMCTX_VERBOSE=2. */
void control_exit(void);
/* Called before and after a fork. In the child there is no thread and no socket afterwards.
 * `has_heap`: the forking thread has a heap. */
void control_fork_prepare(void);
void control_fork_done(bool child, bool has_heap);

/* --- within the layer ------------------------------------------------------------------------ */

uint64_t control_uptime_ns(void);
/* Points to the time on the system's monotonic clock that uptimes are counted from (outside.c). */
INTERNAL const uint64_t *const control_start_shown;
/* With MEMCTX_VERBOSE: prints that there is no control socket, and why. */
void control_complain(const char *what, const char *detail);
/* Makes the socket again if somebody has removed its path. Lets the thread end if it is root and
 * the program has given up root unseen. Looks at most once a second. */
void control_look_at_socket(void);
/* Makes the system calls that control_follow_begin asks for. */
void control_obey(void);
/* True when the control thread has to end: another thread asks for that, or no other thread is
 * left. */
bool control_must_end(void);

#endif
