/* SPDX-License-Identifier: MIT */
/*
 * thread.h - starts the control thread, a thread that libc does not know of.
 *
 * When a program makes its second thread, libc changes to code for several threads, for good: each
 * getc and putc takes a lock, each mutex and each copy of a shared_ptr takes an atomic operation. A
 * program that copies shared_ptrs then took three times as long, and one that writes bytes by putc
 * seven times. So the control thread is not made by pthread_create, but by libc's clone, which
 * changes nothing in libc.
 *
 * What the thread needs of libc, it gets from os_thread_start: memory at the thread pointer in
 * which the few fields that libc's functions read are right, and memory below for thread-local
 * variables. The thread makes system calls by number. Of libc it may call memcpy and the like, and,
 * before glibc 2.35, dl_iterate_phdr (path/loaded.c). libc's setuid and the like do not change the
 * thread's user; the thread makes the same system calls itself (api/users.c).
 *
 * Threads: os_thread_start and os_thread_join under a lock of the caller.
 */
#ifndef MEMCTX_OS_THREAD_H
#define MEMCTX_OS_THREAD_H

#include "base/base.h"

struct os_thread {
    uint32_t *alive; /* atomic: the thread's id; the kernel writes 0 when the thread has ended */
    uint32_t id;
};

/* Starts a thread that runs `run` on the stack [stack, stack + bytes), with all signals blocked,
 * and ends when `run` returns. The upper end of the stack holds the thread's variables, which are
 * zeroed; if that leaves too little of the stack, a mapping holds them. False: the kernel refuses
 * the thread or the mapping, and errno says why. */
bool os_thread_start(struct os_thread *thread, char *stack, size_t bytes, int (*run)(void *));
/* Returns when the thread has ended and its stack is free, or if this process has no such thread.
 */
void os_thread_join(const struct os_thread *thread);
/* Called by the new thread, which has inherited scheduling from the thread that started it. Gives
 * up a real-time policy, a real-time I/O class, a nice value below 0 and a timer slack below the
 * kernel's default, and takes the processors of the program's first thread. */
void os_thread_take_ordinary_place(void);

#endif
