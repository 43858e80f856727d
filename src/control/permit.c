/* SPDX-License-Identifier: MIT */
/* permit.c - tells whether the control thread may start now; see permit.h. */
#include "control/permit.h"
#include "control/control.h"
#include "control/sandbox.h"
#include "os/libc.h"

#include <signal.h>

/* After this many tries on alternate stacks no thread starts any more: the program may always run
 * on such stacks, and a try takes 30 us. */
#define TRIES_APART 64U
/* One thread examines at a time, because the program may need all its descriptors but one. A thread
 * that has not finished after this time has left by a jump, or waits for a processor. */
#define EXAMINE_NS 100000000UL
/* A try takes some 40 us. */
#define POSTPONE_NS 1000000000UL

static bool examined FORK_PAGE; /* atomic: no filter forbids the thread */
/* atomic: when a thread began to find this out; 0: no thread does so */
static uint64_t examining_ns FORK_PAGE;
/* Atomic: no try before this time. Not in FORK_PAGE, which has no room left, so a child writes it
 * only if it is set. */
static uint64_t later_ns START_PAGE;
static uint32_t tries_apart; /* atomic */

/* Tells whether a filter of system calls was there before the program started, and is not known to
 * let the thread live. Then the process is restricted from now on. */
static enum sandbox examine(void) {
    char reason[256];
    struct text why = {.bytes = reason, .capacity = sizeof reason - 1};
    enum sandbox found = sandbox_examine(&why);
    if (found != SANDBOX_FORBIDS)
        return found;
    store_release(&os_restricted, OS_RESTRICTED);
    reason[why.length] = 0;
    control_complain(reason, "");
    return found;
}

static bool is_on_alternate_stack(void) {
    stack_t stack = {.ss_flags = 0};
    os_syscall(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0);
    return stack.ss_flags & SS_ONSTACK;
}

/* True if the caller is now the thread that examines the filters. */
static bool begin_to_examine(void) {
    uint64_t since = load_relaxed(&examining_ns), now = os_now_exact_ns();
    return now - since >= EXAMINE_NS && cas_acquire(&examining_ns, &since, now);
}

bool permit_start(void) {
    if (load_full(&os_restricted))
        return false;
    bool never = load_relaxed(&tries_apart) > TRIES_APART;
    if (!never && !load_relaxed(&examined)) {
        if (!begin_to_examine())
            return false;
        enum sandbox found = examine();
        if (found == SANDBOX_LETS)
            store_owner(&examined, true);
        else if (found == SANDBOX_ASK_LATER)
            permit_postpone();
        store_release(&examining_ns, 0);
        if (found == SANDBOX_ASK_LATER)
            return false;
        never = found == SANDBOX_FORBIDS;
    }
    if (never) {
        store_release(&control_waiting, 0);
        return false;
    }
    bool apart = is_on_alternate_stack();
    if (apart)
        add_relaxed(&tries_apart, 1);
    return !apart && !load_relaxed(&os_restricted);
}

void permit_use(void) {
    store_owner(&examined, false);
}

void permit_postpone(void) {
    store_owner(&later_ns, os_now_ns() + POSTPONE_NS);
}

bool permit_is_postponed(void) {
    uint64_t later = load_relaxed(&later_ns);
    return UNLIKELY(later) && os_now_ns() < later;
}

void permit_fork_child(void) {
    store_owner(&examined, false);
    store_owner(&examining_ns, 0);
    if (UNLIKELY(load_relaxed(&later_ns)))
        store_owner(&later_ns, 0);
}
