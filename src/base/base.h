/* SPDX-License-Identifier: MIT */
/*
 * base.h - attributes, atomics and small arithmetic that every layer uses.
 *
 * Atomics: GCC's __atomic builtins, with the memory order in the name. The suffix `_owner` marks a
 * relaxed store to a field that one thread at a time writes. Other threads (a dump) may read such a
 * field at any time, without a data race.
 */
#ifndef MEMCTX_BASE_H
#define MEMCTX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* The compiler places cold functions together at the start of the code, wherever they are
 * defined. */
#define COLD __attribute__((cold, noinline))
#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))
/* Declares a variable that several files of the library use. Code reaches the variable directly,
 * not through the global offset table. */
#define INTERNAL extern __attribute__((visibility("hidden")))
#define CACHE_LINE 64
/* Places a constant that every malloc reads beside data that the loader writes at the start. A
 * forked child has that memory mapped already, so reading the constant costs the child no page
 * fault. */
#define CHILD_CONST __attribute__((section(".data.rel.ro.memctx")))
/* Places a small variable that every start of a program touches. These variables share an OS page,
 * and large tables that mostly stay untouched stand elsewhere. */
#define START_PAGE __attribute__((section(".data.memctx")))
#define OS_PAGE_BYTES 4096UL

/* In the build for tests/model only one thread runs at a time. POINT marks a place where the test
 * may let another thread go on: before each atomic operation below, and before each access by
 * load_relaxed, store_owner or add_owner, which is plain in other builds. */
#ifdef MEMCTX_MODEL
void model_point(const void *at);
#define POINT(p) model_point((const void *)(uintptr_t)(p)),
#else
#define POINT(p)
#endif
#define load_acquire(p) (POINT(p) __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define store_release(p, v) (POINT(p) __atomic_store_n((p), (v), __ATOMIC_RELEASE))
/* load_plain, load_relaxed, store_owner and add_owner are plain or volatile accesses, except under
 * the thread sanitizer. For aligned words they have the effect of relaxed atomics, but GCC makes
 * shorter code of them: add_owner is a single instruction. The compiler may merge a load_plain with
 * other loads. */
#ifdef __SANITIZE_THREAD__
#define load_plain(p) load_relaxed(p)
#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_owner(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define add_owner(p, v) store_owner((p), (__typeof__(*(p)))(load_relaxed(p) + (v)))
#else
#define load_plain(p) (*(p))
#define load_relaxed(p) (POINT(p) * (const volatile __typeof__(*(p)) *)(p))
#ifdef MEMCTX_MODEL
#define store_owner(p, v)                                                                          \
    ({                                                                                             \
        __typeof__(*(p)) stored = (v); /* computed before another thread may go on */              \
        model_point(p);                                                                            \
        *(volatile __typeof__(*(p)) *)(p) = stored;                                                \
    })
#define add_owner(p, v) store_owner((p), (__typeof__(*(p)))(load_relaxed(p) + (v)))
#else
#define store_owner(p, v) ((void)(*(volatile __typeof__(*(p)) *)(p) = (v)))
#define add_owner(p, v) ((void)(*(p) += (__typeof__(*(p)))(v)))
#endif
#endif
#define add_relaxed(p, v) (POINT(p) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
/* The thread sanitizer does not look into this function. */
#define UNSANITIZED __attribute__((no_sanitize("thread")))
/* The thread sanitizer does not understand fences. It needs none, because the accesses that these
 * fences order are atomic. */
#ifdef __SANITIZE_THREAD__
#define fence_acquire() __atomic_signal_fence(__ATOMIC_ACQUIRE)
#define fence_release() __atomic_signal_fence(__ATOMIC_RELEASE)
#else
#define fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif
/* or_release and and_release return the value before the change. */
#define or_release(p, v) (POINT(p) __atomic_fetch_or((p), (v), __ATOMIC_RELEASE))
#define and_release(p, v) (POINT(p) __atomic_fetch_and((p), (v), __ATOMIC_RELEASE))
#define exchange_relaxed(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED))
#define exchange_acquire(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE))
#define exchange_release(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE))
#define exchange_acq_rel(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL))
/* All threads see all exchange_full, add_full and load_full in one order. If two threads each write
 * a word by exchange_full or add_full and then read the other thread's word by load_full, at least
 * one of them sees the other's write. */
#define exchange_full(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define load_full(p) (POINT(p) __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define add_full(p, v) (POINT(p) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define cas(p, expected, v, weak, order)                                                           \
    (POINT(p) __atomic_compare_exchange_n((p), (expected), (v), (weak), (order), __ATOMIC_RELAXED))
/* cas_acquire never fails spuriously; cas_release and cas_acq_rel may. */
#define cas_acquire(p, expected, v) cas(p, expected, v, false, __ATOMIC_ACQUIRE)
#define cas_release(p, expected, v) cas(p, expected, v, true, __ATOMIC_RELEASE)
#define cas_acq_rel(p, expected, v) cas(p, expected, v, true, __ATOMIC_ACQ_REL)
/* Keeps the compiler from moving stores across this point. A signal handler, or a child that
 * another thread forks, may see the state between the stores. */
#define order_stores() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Rounds `value` up to a multiple of `alignment`, which is a power of two. */
INLINE uintptr_t align_up(uintptr_t value, uintptr_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

INLINE bool is_power_of_two(size_t value) {
    return value && !(value & (value - 1));
}

/* Returns a hash of two words. */
INLINE uint64_t hash_mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15ULL)) * 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

#endif
