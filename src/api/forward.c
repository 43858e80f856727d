/* SPDX-License-Identifier: MIT */
/*
 * The functions that only pass a call on to another function of the malloc family, or to another
 * operator new or delete.
 *
 * In glibc, reallocarray calls realloc. In libstdc++, operator delete with a size calls operator
 * delete without a size. If the program defines the called function, the call goes to the program's
 * function. The calls in this file do the same, because a program may define only realloc, or only
 * operator new(size_t) and operator delete(void *). The Makefile gives this file two flags. With
 * -fsemantic-interposition, each call goes to the function to which the loader bound the name. With
 * -foptimize-sibling-calls, each call is a jump, so that the call path starts at the caller of the
 * function here.
 */
#include "api/fast.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/names.h"

EXPORT void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

#ifndef MEMCTX_UNIT
EXPORT void *__libc_reallocarray(void *old, size_t count, size_t size) ALIAS(reallocarray);

void *_Znwm(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
void _ZdlPv(void *chunk);
void _ZdlPvSt11align_val_t(void *chunk, size_t alignment);

EXPORT void *_Znam(size_t size);
EXPORT void *_Znam(size_t size) {
    return _Znwm(size);
}

EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment);
EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment) {
    return _ZnwmSt11align_val_t(size, alignment);
}

/* True if NAME is bound to a function of the program, not to this library's function, which has the
 * hidden name OWN. Without the empty assembly, the compiler would assume that both are equal. */
#define IS_REPLACED(name, own)                                                                     \
    ({                                                                                             \
        __typeof__(&(name)) found = (name);                                                        \
        __asm__("" : "+r"(found));                                                                 \
        found != (own);                                                                            \
    })

extern __typeof__(_Znam) new_array __attribute__((alias("_Znam"), visibility("hidden")));
extern __typeof__(_ZnamSt11align_val_t) new_array_aligned
    __attribute__((alias("_ZnamSt11align_val_t"), visibility("hidden")));

bool new_is_replaced(void) {
    return IS_REPLACED(_Znwm, new_plain) || IS_REPLACED(_ZnwmSt11align_val_t, new_aligned) ||
           IS_REPLACED(_Znam, new_array) || IS_REPLACED(_ZnamSt11align_val_t, new_array_aligned);
}

#define NOTHROW const void *nothrow __attribute__((unused))
#define UNUSED_SIZE size_t size __attribute__((unused))
#define DELETE_BY(other, name, ...)                                                                \
    EXPORT void name(void *chunk, ##__VA_ARGS__);                                                  \
    EXPORT void name(void *chunk, ##__VA_ARGS__) {                                                 \
        other(chunk);                                                                              \
    }
#define DELETE_ALIGNED_BY(other, name, ...)                                                        \
    EXPORT void name(void *chunk, __VA_ARGS__);                                                    \
    EXPORT void name(void *chunk, __VA_ARGS__) {                                                   \
        other(chunk, alignment);                                                                   \
    }

DELETE_BY(_ZdlPv, _ZdaPv)
DELETE_BY(_ZdlPv, _ZdlPvm, UNUSED_SIZE)
DELETE_BY(_ZdaPv, _ZdaPvm, UNUSED_SIZE)
DELETE_BY(_ZdlPv, _ZdlPvRKSt9nothrow_t, NOTHROW)
DELETE_BY(_ZdaPv, _ZdaPvRKSt9nothrow_t, NOTHROW)
DELETE_ALIGNED_BY(_ZdlPvSt11align_val_t, _ZdaPvSt11align_val_t, size_t alignment)
DELETE_ALIGNED_BY(_ZdlPvSt11align_val_t, _ZdlPvmSt11align_val_t, UNUSED_SIZE, size_t alignment)
DELETE_ALIGNED_BY(_ZdaPvSt11align_val_t, _ZdaPvmSt11align_val_t, UNUSED_SIZE, size_t alignment)
DELETE_ALIGNED_BY(_ZdlPvSt11align_val_t, _ZdlPvSt11align_val_tRKSt9nothrow_t, size_t alignment,
                  NOTHROW)
DELETE_ALIGNED_BY(_ZdaPvSt11align_val_t, _ZdaPvSt11align_val_tRKSt9nothrow_t, size_t alignment,
                  NOTHROW)
#endif
