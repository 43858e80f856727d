/* SPDX-License-Identifier: MIT */
/*
 * Futex locks with ranks. After U. Drepper, "Futexes Are Tricky" (the third mutex there): 0 free,
 * 1 held, 2 held with waiters. The holder is recorded for fork; ranks are checked in debug builds.
 */
#include "os/os.h"
#include "os/syscall.h"

#include <linux/futex.h>

static __thread char self_mark __attribute__((tls_model("initial-exec")));

void *os_self(void) {
    return &self_mark;
}

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

bool lock_try(struct lock *lock) {
    uint32_t expected = 0;
    if (load_relaxed(&lock->word))
        return false;
    rank_enter(lock); /* first, so that a signal handler never sees the lock held and no mark */
    order_stores();
    if (!__atomic_compare_exchange_n(&lock->word, &expected, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        rank_leave(lock);
        return false;
    }
    store_owner(&lock->holder, os_self());
    return true;
}

void lock_take(struct lock *lock) {
    rank_enter(lock);
    uint32_t expected = 0;
    if (!__atomic_compare_exchange_n(&lock->word, &expected, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        for (int spin = 0; spin < 100 && load_relaxed(&lock->word); spin++)
            __builtin_ia32_pause();
        while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE))
            OS_CALL(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, 0, 0);
    }
    store_owner(&lock->holder, os_self());
}

void lock_release(struct lock *lock) {
    store_owner(&lock->holder, NULL);
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
        OS_CALL(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    order_stores();
    rank_leave(lock);
}

bool lock_is_mine(const struct lock *lock) {
    return load_relaxed(&lock->holder) == os_self();
}

void lock_reset(struct lock *lock) {
    rank_leave(lock);
    store_owner(&lock->holder, NULL);
    store_release(&lock->word, 0);
}
