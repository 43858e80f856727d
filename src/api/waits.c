/* SPDX-License-Identifier: MIT */
/*
 * The functions in which a program may wait long. The program calls them in place of libc's, so
 * that the control thread starts even in a program that never allocates again.
 *
 * Each function passes its arguments on to the function that the program would call without this
 * library, by a jump: no frame of this library is on the stack while the program waits. So the wait
 * is a cancellation point, ends with EINTR, and tells the remaining time, like a wait in libc's
 * function.
 *
 * While no control thread runs and one may start (control_waiting), a call that may wait for LONG_S
 * seconds or more starts the thread first. In a process that has lived for OLD_AFTER_MS, a call
 * that may wait for a shorter time starts the thread, too, because an event loop may wait in short
 * pieces. A call whose time-out is 0 never starts the thread. A process that has lived for less
 * than START_AFTER_MS may end soon. In such a young process some functions first wait for
 * START_AFTER_MS only, and start no thread if an event comes in this time: poll, epoll_wait,
 * epoll_pwait and sigsuspend; select, pselect and ppoll if the call has no time-out.
 *
 * These functions, unlike malloc, may be called in a signal handler that interrupted any function
 * of libc, and the start of the thread takes no lock of libc. The thread does not start in a vfork
 * child, nor on an alternate stack.
 */
#include "control/control.h"
#include "os/libc.h"
#include "path/rebind.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#ifndef MEMCTX_UNIT
#define LONG_S 1
#define SETS_BITS 1024U /* FD_SETSIZE; select_first refuses larger sets */
/* After TRIES_MAX tries before short waits that did not start the control thread, the process does
 * not try before a short wait any more: an event loop may wait many thousand times a second. Tries
 * before long waits are counted apart, with the same bound. */
#define TRIES_MAX 64U

/* How the caller of a function says how long the function may wait. */
enum time_out {
    ANY_TIME,       /* no bound */
    MASKED,         /* no bound, with a mask of signals: sigsuspend */
    SECONDS,        /* an unsigned number */
    MICROSECONDS,   /* an unsigned number */
    MILLISECONDS,   /* an int; negative: no bound */
    SPAN,           /* a struct timespec or timeval; an error if NULL */
    SPAN_OR_NONE,   /* a struct timespec or timeval; NULL: no bound */
    SPAN_OR_MOMENT, /* a struct timespec; with TIMER_ABSTIME a moment; an error if NULL */
};

/* X(name of the function, form of its time-out, number of the argument that has it) */
#define WAITS(X)                                                                                   \
    X(sleep, SECONDS, 0)                                                                           \
    X(usleep, MICROSECONDS, 0)                                                                     \
    X(nanosleep, SPAN, 0)                                                                          \
    X(clock_nanosleep, SPAN_OR_MOMENT, 2)                                                          \
    X(thrd_sleep, SPAN, 0)                                                                         \
    X(pause, ANY_TIME, 0)                                                                          \
    X(sigsuspend, MASKED, 0)                                                                       \
    X(sigwait, ANY_TIME, 0)                                                                        \
    X(sigwaitinfo, ANY_TIME, 0)                                                                    \
    X(sigtimedwait, SPAN_OR_NONE, 2)                                                               \
    X(poll, MILLISECONDS, 2)                                                                       \
    X(ppoll, SPAN_OR_NONE, 2)                                                                      \
    X(__poll_chk, MILLISECONDS, 2)                                                                 \
    X(__ppoll_chk, SPAN_OR_NONE, 2)                                                                \
    X(select, SPAN_OR_NONE, 4)                                                                     \
    X(pselect, SPAN_OR_NONE, 4)                                                                    \
    X(epoll_wait, MILLISECONDS, 3)                                                                 \
    X(epoll_pwait, MILLISECONDS, 3)                                                                \
    X(accept, ANY_TIME, 0)                                                                         \
    X(accept4, ANY_TIME, 0)

enum {
#define X(name, time_out, place) WAIT_##name,
    WAITS(X)
#undef X
};
static const struct {
    char name[16];
    uint8_t time_out, place;
} waits[] = {
#define X(name, time_out, place) {#name, time_out, place},
    WAITS(X)
#undef X
};
/* For each entry of `waits`, the address of the function that the program would call without this
 * library; 0 until the first call. Each word is atomic. */
static uintptr_t wait_next[sizeof waits / sizeof waits[0]] START_PAGE __attribute__((used));
static uint32_t tries[2]; /* atomic: tries before short waits, and before long waits */

static long missing(void) {
    errno = ENOSYS;
    return -1;
}

/* True if 8 bytes can be read at an address. A program that passes a bad address must get EFAULT
 * from the wait, and no SIGSEGV from this library. The kernel takes the 8 bytes for a set of
 * signals and reads them before it refuses the unknown operation -1. */
static bool is_readable(unsigned long address) {
    return os_syscall(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EINVAL;
}

/* True if the call may wait for `seconds`. For 0 seconds: true if the call may wait at all. */
static bool may_wait(unsigned wait, const unsigned long *arguments, unsigned seconds) {
    unsigned long value = arguments[waits[wait].place];
    struct timespec now = {0};
    switch (waits[wait].time_out) {
    case ANY_TIME:
    case MASKED: return true;
    case SECONDS: return value && (uint32_t)value >= seconds;
    case MICROSECONDS: return (uint32_t)value && (uint32_t)value >= seconds * 1000000;
    case MILLISECONDS:
        return (int32_t)value < 0 || ((int32_t)value && (uint32_t)value >= seconds * 1000);
    case SPAN_OR_NONE:
        if (!value)
            return true;
        break;
    case SPAN_OR_MOMENT:
        if (arguments[1] & TIMER_ABSTIME &&
            os_syscall(SYS_clock_gettime, (long)arguments[0], (long)&now, 0, 0, 0, 0))
            return false;
        break;
    case SPAN: break;
    }
    if (!value || !is_readable(value))
        return false;
    /* span[0] is tv_sec, span[1] is tv_nsec or tv_usec */
    const volatile int64_t *span = (const volatile int64_t *)value;
    int64_t left = span[0] - now.tv_sec;
    if (seconds)
        return left >= (int64_t)seconds;
    return left > 0 || (!left && is_readable(value + 8) && span[1] > now.tv_nsec);
}

/* Returns the address of the function that the program would call without this library. */
static uintptr_t next_function(unsigned wait) {
    uintptr_t found = load_relaxed(&wait_next[wait]);
    if (!found) {
        found = rebind_next(waits[wait].name);
        found = found ? found : (uintptr_t)missing;
        store_owner(&wait_next[wait], found);
    }
    return found;
}

/* --- the first part of a wait ---------------------------------------------------------------- */

/* Calls a function with the six words that were in the argument registers. */
static int call(uintptr_t function, const unsigned long *a) {
    return ((int (*)(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                     unsigned long))function)(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Calls select or pselect with the arguments `part`. When the time is over, select has cleared the
 * sets of descriptors, so this function restores them. */
static int select_first(uintptr_t function, const unsigned long *part) {
    uint64_t sets[3][SETS_BITS / 64];
    size_t bytes = align_up((uint32_t)part[0], 64) / 8;
    if ((uint32_t)part[0] > SETS_BITS)
        return 0;
    for (int i = 0; i < 3; i++)
        if (part[1 + i] && bytes) {
            if (!is_readable(part[1 + i]) || !is_readable(part[1 + i] + bytes - 8))
                return 0;
            memcpy(sets[i], (const void *)part[1 + i], bytes);
        }
    int result = call(function, part);
    for (int i = 0; i < 3 && !result; i++)
        if (part[1 + i] && bytes)
            memcpy((void *)part[1 + i], sets[i], bytes);
    return result;
}

/* The first part of a wait for an event in a young process: waits for START_AFTER_MS in libc's
 * function. Returns 0 if no event came; `arguments` then describe the rest of the wait. Otherwise
 * returns the result of the whole wait. Functions without a first part (sleep, accept, ...) return
 * 0 at once. */
static int wait_first(unsigned wait, uintptr_t function, unsigned long *arguments) {
    struct timespec span = {.tv_nsec = START_AFTER_MS * 1000000L};
    struct timeval select_span = {.tv_usec = START_AFTER_MS * 1000L};
    unsigned place = waits[wait].place;
    unsigned long part[6];
    int result = 0;
    memcpy(part, arguments, sizeof part);
    switch (waits[wait].time_out) {
    case MILLISECONDS:
        part[place] = START_AFTER_MS;
        result = call(function, part);
        if (!result && (int32_t)arguments[place] > 0)
            arguments[place] -= START_AFTER_MS;
        return result;
    case MASKED:
        return call(next_function(WAIT_ppoll),
                    (unsigned long[6]){0, 0, (unsigned long)&span, arguments[0]});
    case SPAN_OR_NONE:
        if (arguments[place] || wait == WAIT_sigtimedwait)
            return 0;
        part[place] = wait == WAIT_select ? (unsigned long)&select_span : (unsigned long)&span;
        return wait == WAIT_select || wait == WAIT_pselect ? select_first(function, part)
                                                           : call(function, part);
    default: return 0;
    }
}

/* --- the start ------------------------------------------------------------------------------- */

static bool may_start(uint32_t *count) {
    if (load_relaxed(count) >= TRIES_MAX || !control_is_due_in_wait())
        return false;
    add_relaxed(count, 1);
    return rebind_malloc_is_ours((uintptr_t)&malloc);
}

/* Called in place of libc's function when the first part of a wait was the whole wait. Returns the
 * result, which wait_begins stored as the first argument. */
static long wait_done(long result) {
    return result;
}

/* Called before a wait if the address in wait_next is not known yet, or if the control thread may
 * have to start. Returns the address to jump to: libc's function, or wait_done if the wait is over.
 */
__attribute__((used)) static COLD uintptr_t wait_begins(unsigned wait, unsigned long *arguments) {
    int saved = errno;
    uintptr_t function = next_function(wait);
    if (!load_relaxed(&control_waiting))
        return function;
    bool is_long = may_wait(wait, arguments, LONG_S);
    if ((!is_long && !control_is_old()) || !may_start(&tries[is_long]) ||
        (!is_long && !may_wait(wait, arguments, 0)))
        return function;
    int result = control_is_young() ? wait_first(wait, function, arguments) : 0;
    if (result) {
        arguments[0] = (unsigned long)result;
        return (uintptr_t)wait_done;
    }
    /* 0: another thread has started the control thread meanwhile */
    if (load_relaxed(&control_waiting))
        control_start();
    errno = saved;
    return function;
}

/* The exported functions. They leave all arguments in their registers. */
#define X(name, time_out, place)                                                                   \
    ".globl " #name "\n"                                                                           \
    ".type " #name ", @function\n"                                                                 \
    ".p2align 4\n" #name ":\n"                                                                     \
    "    endbr64\n"                                                                                \
    "    movl $wait_number, %eax\n"                                                                \
    "    jmp wait_common\n"                                                                        \
    ".size " #name ", .-" #name "\n"                                                               \
    ".set wait_number, wait_number + 1\n"
__asm__(".pushsection .text\n"
        "    .cfi_startproc\n"
        ".set wait_number, 0\n" WAITS(X) /**/
        ".type wait_common, @function\n"
        ".p2align 4\n"
        "wait_common:\n"
        "    leaq wait_next(%rip), %r11\n"
        "    movq (%r11,%rax,8), %r11\n"
        "    testq %r11, %r11\n"
        "    je 1f\n"
        "    cmpl $0, control_waiting(%rip)\n"
        "    jne 1f\n"
        "    jmp *%r11\n"
        "1:  pushq %rbp\n" /* keeps the stack aligned */
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r9\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r8\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rcx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rdx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    movl %eax, %edi\n"
        "    movq %rsp, %rsi\n"
        /* The function may be one of a user's library, with floating-point arguments. */
        "    subq $128, %rsp\n"
        "    .cfi_adjust_cfa_offset 128\n"
        "    movups %xmm0, 0(%rsp)\n"
        "    movups %xmm1, 16(%rsp)\n"
        "    movups %xmm2, 32(%rsp)\n"
        "    movups %xmm3, 48(%rsp)\n"
        "    movups %xmm4, 64(%rsp)\n"
        "    movups %xmm5, 80(%rsp)\n"
        "    movups %xmm6, 96(%rsp)\n"
        "    movups %xmm7, 112(%rsp)\n"
        "    call wait_begins\n"
        "    movups 0(%rsp), %xmm0\n"
        "    movups 16(%rsp), %xmm1\n"
        "    movups 32(%rsp), %xmm2\n"
        "    movups 48(%rsp), %xmm3\n"
        "    movups 64(%rsp), %xmm4\n"
        "    movups 80(%rsp), %xmm5\n"
        "    movups 96(%rsp), %xmm6\n"
        "    movups 112(%rsp), %xmm7\n"
        "    addq $128, %rsp\n"
        "    .cfi_adjust_cfa_offset -128\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r8\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r9\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size wait_common, .-wait_common\n"
        ".popsection\n");
#undef X
#endif
