/* SPDX-License-Identifier: MIT */
/*
 * Futex locks with ranks, whose word tells the holder, so that there is no moment at which a signal handler that
 * forks finds a lock held and does not see that it is its own thread that holds it. After U. Drepper, "Futexes
 * Are Tricky" (the third mutex there), and the kernel's robust futexes. Ranks are checked in debug builds.
 *
 * A forking thread takes the locks, so that the child finds what they guard whole, and then waits in libc and in others'
 * handlers for locks that are not ours. Who holds one of those may wait for one of ours (glibc bug 19431 is such a
 * circle). Nothing is changed under the locks meanwhile: so who has waited long enough takes the lock from the
 * forking thread, and the child is told if it was copied while that one held it.
 */
#include "os/os.h"
#include "os/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

#define WAITED_FOR 1UL /* in the word, beside the holder */
#define FORK_WAIT_NS 100000000L
#define FORK_WAITS 3

enum { FORK_NONE, FORK_TAKEN, FORK_MINE_BEFORE, FORK_NOT_TAKEN };

/* Its address has no bit in common with WAITED_FOR. */
static __thread uint64_t self_mark __attribute__((tls_model("initial-exec")));

static __thread uint32_t held_ranks __attribute__((tls_model("initial-exec")));

static void rank_enter(const struct lock *lock) {
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

static uint64_t self_word(void) {
    return (uintptr_t)&self_mark;
}

static bool take_free(struct lock *lock, uint64_t wanted) {
    uint64_t expected = 0;
    return __atomic_compare_exchange_n(&lock->word, &expected, wanted, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

bool lock_try(struct lock *lock) {
    if (load_relaxed(&lock->word))
        return false;
    rank_enter(lock); /* first, so that a signal handler never sees the lock held and no mark */
    order_stores();
    if (take_free(lock, self_word()))
        return true;
    rank_leave(lock);
    return false;
}

/* While the word is that, as far as its lower half tells. False: that long. */
static bool wait_while(struct lock *lock, uint64_t word) {
    struct timespec limit = {.tv_nsec = FORK_WAIT_NS};
    return OS_CALL(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, (uint32_t)word, &limit, 0, 0) !=
           -ETIMEDOUT;
}

static bool is_kept_by_fork(struct lock *lock, uint64_t word) {
    return load_relaxed(&lock->word) == word && load_relaxed(&lock->fork) == FORK_TAKEN;
}

void lock_take(struct lock *lock) {
    uint64_t self = self_word() | WAITED_FOR; /* there may be others that wait */
    rank_enter(lock);
    order_stores();
    if (take_free(lock, self_word()))
        return;
    for (int spin = 0; spin < 100 && load_relaxed(&lock->word); spin++)
        __builtin_ia32_pause();
    for (int waits = 0; !take_free(lock, self);) {
        uint64_t word = load_relaxed(&lock->word);
        if (!word || (!(word & WAITED_FOR) && !cas_release(&lock->word, &word, word | WAITED_FOR)))
            continue;
        word |= WAITED_FOR;
        if (waits) /* waits itself while the kernel copies the forking process, which may take seconds */
            OS_CALL(SYS_madvise, (uintptr_t)lock & ~(OS_PAGE_BYTES - 1), OS_PAGE_BYTES, MADV_NORMAL,
                    0, 0, 0);
        if (waits == FORK_WAITS && is_kept_by_fork(lock, word) &&
            __atomic_compare_exchange_n(&lock->word, &word, self, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return;
        bool woken = wait_while(lock, word);
        waits = woken || !is_kept_by_fork(lock, word) ? 0 : waits < FORK_WAITS ? waits + 1 : waits;
    }
}

void lock_release(struct lock *lock) {
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) & WAITED_FOR)
        OS_CALL(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    order_stores();
    rank_leave(lock);
}

bool lock_is_mine(const struct lock *lock) {
    return (load_relaxed(&lock->word) & ~WAITED_FOR) == self_word();
}

void lock_reset(struct lock *lock) {
    rank_leave(lock);
    store_release(&lock->word, 0);
}

/* --- fork ---------------------------------------------------------------------------------- */

/* Who interrupted the holder of a later lock must not wait for ever for who waits for that one. */
static bool take_soon(struct lock *lock, bool interrupted) {
    for (int waits = 0; !take_free(lock, self_word() | WAITED_FOR);) {
        uint64_t word = load_relaxed(&lock->word);
        if (waits == FORK_WAITS && interrupted)
            return false;
        if (!word || (!(word & WAITED_FOR) && !cas_release(&lock->word, &word, word | WAITED_FOR)))
            continue;
        if (!wait_while(lock, word | WAITED_FOR))
            waits++;
    }
    return true;
}

void lock_fork_prepare(struct lock *lock, bool interrupted) {
    if (lock_is_mine(lock)) { /* the same thread goes on in the child and releases it there */
        store_owner(&lock->fork, FORK_MINE_BEFORE);
        return;
    }
    bool taken = take_free(lock, self_word()) || take_soon(lock, interrupted);
    if (taken)
        held_ranks |= 1U << lock->rank;
    store_release(&lock->fork, taken ? FORK_TAKEN : FORK_NOT_TAKEN);
}

bool lock_fork_done(struct lock *lock, bool child) {
    unsigned how = lock->fork;
    bool mine = lock_is_mine(lock);
    store_owner(&lock->fork, FORK_NONE);
    order_stores();
    if (how == FORK_MINE_BEFORE)
        return true;
    bool whole = mine || !load_relaxed(&lock->word);
    if (child)
        lock_reset(lock);
    else if (mine)
        lock_release(lock);
    else if (how == FORK_TAKEN)
        rank_leave(lock);
    return whole;
}
