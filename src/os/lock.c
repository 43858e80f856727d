/* SPDX-License-Identifier: MIT */
/*
 * Futex locks with ranks. The lock word names the holder, so that a signal handler that forks
 * always sees whether its own thread holds a lock. Sources: the third mutex in U. Drepper, "Futexes
 * Are Tricky", and the kernel's robust futexes. Debug builds check the ranks.
 *
 * A forking thread takes locks (fork_prepare, api/init.c), so that the child finds the guarded data
 * consistent. The forking thread then waits in libc, and in the fork handlers of other libraries,
 * for locks that are not the library's. The holder of such a lock may wait for a lock of this
 * library: a deadlock, as in glibc bug 19431. The forking thread changes no guarded data meanwhile.
 * So a thread that has waited FORK_WAIT_NS takes the lock away from the forking thread. If the
 * child was copied while another thread held the lock, lock_fork_done returns false there. glibc
 * lets one thread fork at a time.
 */
#include "os/os.h"
#include "os/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

/* The stack that the library uses while it holds a lock: at most 0.75 KiB with most locks. With the
 * shared heap's lock it walks the stack, 3.3 KiB (lock_reach_for_walk); with the lock of the
 * control thread's start 1.5 KiB. (Measured by painted stacks, gcc 12.) */
#define STACK_MOST_LOCKS 1024
#define STACK_SHARED_HEAP 3584
#define STACK_CONTROL_START 2048
#define STACK_LOCK_TRY 256 /* more than lock_try uses */

/* Flags in the lock word, beside the holder. */
#define WAITED_FOR 1UL /* another thread may wait for the lock */
#define BY_FORK 2UL    /* the holder is forking and changes no guarded data */
#define NOTES (WAITED_FOR | BY_FORK)
/* How long a thread waits before it takes a lock away from a forking thread, and how long a fork in
 * a signal handler waits for a lock. */
#define FORK_WAIT_NS 300000000UL
#define WAIT_NS 100000000L /* the longest wait in one system call */

/* Bits of lock.fork, which say what a fork did with the lock. Forks nest when a signal handler
 * forks; the lowest bits belong to the innermost fork. */
#define FORK_TOOK 1U   /* the fork took the lock */
#define FORK_MARKED 2U /* the fork marked the rank in held_ranks */
#define FORK_BITS 2

/* The address of this variable identifies the thread. The address is a multiple of 8, so it has no
 * bit in common with NOTES. */
static __thread uint64_t self_mark __attribute__((tls_model("initial-exec")));

/* A bit for each rank: this thread holds a lock of that rank, or is about to take one. */
static __thread uint32_t held_ranks __attribute__((tls_model("initial-exec")));

/* Writes to the stack as deep as functions that hold a lock go. A program may recover from a stack
 * overflow by a jump out of its SIGSEGV handler. If the overflow came while a lock is held, the
 * lock would stay held for ever. With this function the overflow comes before the lock is taken. */
static NOINLINE void reach_near(void) {
    char stack[STACK_MOST_LOCKS];
    *(volatile char *)stack = 0;
}

NOINLINE void lock_reach_for_walk(void) {
    char stack[STACK_SHARED_HEAP];
    *(volatile char *)stack = 0;
}

static NOINLINE void reach_for_control(void) {
    char stack[STACK_CONTROL_START];
    *(volatile char *)(stack + STACK_CONTROL_START / 2) = 0; /* no step over a guard page */
    *(volatile char *)stack = 0;
}

NOINLINE void lock_reach_for_control(void) {
    char stack[STACK_CONTROL_START + STACK_LOCK_TRY];
    *(volatile char *)(stack + sizeof stack / 2) = 0;
    *(volatile char *)stack = 0;
}

static void rank_enter(const struct lock *lock) {
    if (!held_ranks) { /* otherwise the thread wrote to this stack before its first lock */
        if (lock->rank == RANK_CONTROL)
            reach_for_control();
        else
            reach_near();
    }
#ifdef MEMCTX_DEBUG
    if (held_ranks >> lock->rank) {
        char line[80];
        struct text text = {.bytes = line, .capacity = sizeof line};
        text_add(&text, "memctx: lock order broken: rank ");
        text_add_number(&text, lock->rank);
        text_add(&text, " wanted, held set ");
        text_add_hex(&text, held_ranks);
        text_add(&text, "\n");
        os_panic(&text);
    }
#endif
    held_ranks |= 1U << lock->rank;
}

static void rank_leave(const struct lock *lock) {
    held_ranks &= ~(1U << lock->rank);
}

bool lock_any_is_mine(void) {
    return held_ranks != 0;
}

uintptr_t lock_self(void) {
    return (uintptr_t)&self_mark;
}

static bool replace(struct lock *lock, uint64_t word, uint64_t by) {
    return cas_acquire(&lock->word, &word, by);
}

static bool take_free(struct lock *lock, uint64_t wanted) {
    return replace(lock, 0, wanted);
}

bool lock_try(struct lock *lock) {
    if (load_relaxed(&lock->word))
        return false;
    /* The rank is marked before the lock is taken: a signal handler must never find that its thread
     * holds the lock without the rank's bit in held_ranks. */
    rank_enter(lock);
    order_stores();
    if (take_free(lock, lock_self()))
        return true;
    rank_leave(lock);
    return false;
}

/* Waits up to WAIT_NS while the lower half of the lock word equals that of `word`. True: the lock
 * was released, or the word has changed. */
static bool wait_while(struct lock *lock, uint64_t word) {
    struct timespec limit = {.tv_nsec = WAIT_NS};
    long result = OS_CALL(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, (uint32_t)word, &limit, 0, 0);
    return result != -ETIMEDOUT && result != -EINTR;
}

/* Sets WAITED_FOR in the lock word and returns the word; 0: the lock is free, or the word changed
 * meanwhile. */
static uint64_t note_waiting(struct lock *lock) {
    uint64_t word = load_relaxed(&lock->word);
    if (word && !(word & WAITED_FOR) && !cas_release(&lock->word, &word, word | WAITED_FOR))
        return 0;
    return word ? word | WAITED_FOR : 0;
}

void lock_take(struct lock *lock) {
    /* the lock word that this thread sets if it had to wait: other threads may wait, too */
    uint64_t self = lock_self() | WAITED_FOR;
    /* when this thread first saw that a forking thread holds the lock; 0: no forking thread holds
     * it */
    uint64_t since = 0;
    rank_enter(lock);
    order_stores();
    for (int spin = 0; spin < 100; spin++) {
        if (!load_relaxed(&lock->word) && take_free(lock, lock_self()))
            return;
        __builtin_ia32_pause();
    }
    while (!take_free(lock, self)) {
        uint64_t word = note_waiting(lock);
        if (!word)
            continue;
        if (!(word & BY_FORK)) {
            since = 0;
        } else if (!since) {
            since = os_now_exact_ns();
        } else if (os_now_exact_ns() - since >= FORK_WAIT_NS) {
            /* madvise changes nothing here, but it waits while the kernel copies the forking
             * process, which may take seconds. */
            OS_CALL(SYS_madvise, (uintptr_t)lock & ~(OS_PAGE_BYTES - 1), OS_PAGE_BYTES, MADV_NORMAL,
                    0, 0, 0);
            if (replace(lock, word, self))
                return;
        }
        if (wait_while(lock, word))
            since = 0;
    }
}

void lock_release(struct lock *lock) {
    if (exchange_release(&lock->word, 0) & WAITED_FOR)
        OS_CALL(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    order_stores();
    rank_leave(lock);
}

bool lock_is_mine(const struct lock *lock) {
    return (load_relaxed(&lock->word) & ~NOTES) == lock_self();
}

void lock_reset(struct lock *lock) {
    if (lock_is_mine(lock))
        rank_leave(lock);
    store_release(&lock->word, 0);
}

/* --- fork ---------------------------------------------------------------------------------- */

/* Takes a lock for a fork. `interrupted`: a signal handler forks, and the interrupted thread may
 * hold a lock of a later rank. The holder of this lock may wait for that later lock for ever. So
 * with `interrupted`, this function gives up after FORK_WAIT_NS and returns false. */
static bool take_for_fork(struct lock *lock, bool interrupted) {
    uint64_t began = 0;
    if (take_free(lock, lock_self() | BY_FORK))
        return true;
    while (!take_free(lock, lock_self() | BY_FORK | WAITED_FOR)) {
        uint64_t word = note_waiting(lock), now = os_now_exact_ns();
        began = began ? began : now;
        if (interrupted && now - began >= FORK_WAIT_NS)
            return false;
        if (word)
            wait_while(lock, word);
    }
    return true;
}

void lock_fork_prepare(struct lock *lock, bool interrupted) {
    uint32_t did = 0, rank = 1U << lock->rank;
    /* If this thread holds the lock already, it forks in a signal handler. Then its copy in the
     * child goes on after the handler, and releases the lock there. */
    if (!lock_is_mine(lock)) {
        if (!(held_ranks & rank)) /* the bit is set already if the signal interrupted lock_take */
            did = FORK_MARKED;
        held_ranks |= rank;
        order_stores();
        if (take_for_fork(lock, interrupted))
            did |= FORK_TOOK;
    }
    lock->fork = lock->fork << FORK_BITS | did;
}

bool lock_fork_done(struct lock *lock, bool child) {
    uint32_t did = lock->fork;
    /* True if no other thread is changing the guarded data. */
    bool whole = lock_is_mine(lock) || !load_relaxed(&lock->word);
    lock->fork = did >> FORK_BITS;
    if (did & FORK_TOOK) { /* releases the lock, unless another thread took it away */
        uint64_t word = load_relaxed(&lock->word);
        while ((word & ~NOTES) == lock_self() && !cas_release(&lock->word, &word, 0)) {
        }
        if ((word & ~NOTES) == lock_self() && word & WAITED_FOR && !child)
            OS_CALL(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
    if (child && !whole) /* the holder does not exist in the child */
        store_release(&lock->word, 0);
    order_stores();
    if (did & FORK_MARKED)
        rank_leave(lock);
    return whole;
}
