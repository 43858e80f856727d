/* SPDX-License-Identifier: MIT */
/*
 * base.h - attributes, atomics and small arithmetic that every layer uses.
 *
 * Atomics: plain C11 builtins with the order in the name. `_owner` marks a field that one thread
 * alone writes while others may read it at any time (a dump): a relaxed store, never a data race.
 */
#ifndef MEMCTX_BASE_H
#define MEMCTX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Such functions stand together at the start of the code, wherever they are written. */
#define COLD __attribute__((cold, noinline))
#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))
/* Declares a variable of the library's own: it is reached without asking the table for other modules' ones. */
#define INTERNAL extern __attribute__((visibility("hidden")))
#define CACHE_LINE 64
/* Constants that every malloc reads: with what the loader writes, which a forked child has mapped. */
#define CHILD_CONST __attribute__((section(".data.rel.ro.memctx")))
/* Small things that every start touches: in one OS page, not among tables that are large and mostly untouched. */
#define START_PAGE __attribute__((section(".data.memctx")))
#define OS_PAGE_BYTES 4096UL

/* In the build for tests/model, where one thread runs at a time, another may go on before each of these, and
 * before what is plain elsewhere. */
#ifdef MEMCTX_MODEL
void model_point(const void *at);
#define POINT(p) model_point((const void *)(uintptr_t)(p)),
#else
#define POINT(p)
#endif
#define load_acquire(p) (POINT(p) __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define store_release(p, v) (POINT(p) __atomic_store_n((p), (v), __ATOMIC_RELEASE))
/* Volatile and plain where nothing checks for data races: of aligned words it comes to the same, but GCC makes
 * shorter code of it, of add_owner a single instruction. load_plain may be merged with others. */
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
        __typeof__(*(p)) stored = (v); /* before others go on */                                   \
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
#define or_release(p, v) (POINT(p) __atomic_fetch_or((p), (v), __ATOMIC_RELEASE)) /* what it was */
#define and_release(p, v) (POINT(p) __atomic_fetch_and((p), (v), __ATOMIC_RELEASE))
#define exchange_relaxed(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED))
#define exchange_acquire(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE))
#define exchange_release(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE))
#define exchange_acq_rel(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL))
/* In one order for all threads: of two that each write one word and then read the other's, one sees what was written. */
#define exchange_full(p, v) (POINT(p) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define load_full(p) (POINT(p) __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define cas(p, expected, v, weak, order)                                                           \
    (POINT(p) __atomic_compare_exchange_n((p), (expected), (v), (weak), (order), __ATOMIC_RELAXED))
#define cas_acquire(p, expected, v) cas(p, expected, v, false, __ATOMIC_ACQUIRE) /* not by chance */
#define cas_release(p, expected, v) cas(p, expected, v, true, __ATOMIC_RELEASE)
#define cas_acq_rel(p, expected, v) cas(p, expected, v, true, __ATOMIC_ACQ_REL)
/* Keeps the compiler from moving stores across: a signal handler or a forked child of another
 * thread may see the state in between. */
#define order_stores() __atomic_signal_fence(__ATOMIC_SEQ_CST)

INLINE uintptr_t align_up(uintptr_t value, uintptr_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

INLINE bool is_power_of_two(size_t value) {
    return value && !(value & (value - 1));
}

INLINE uint64_t hash_mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15ULL)) * 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

#endif
