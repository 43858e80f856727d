/* SPDX-License-Identifier: MIT */
/*
 * operator new and delete, under their C++ ABI names, without linking a C++ library.
 *
 * On failure they do as the standard says ([new.delete.single]): call the new-handler while there
 * is one, else throw std::bad_alloc through the program's own C++ library. Each is an entry like
 * malloc: the site is the caller of operator new.
 */
#ifndef MEMCTX_UNIT
#include "api/thread.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

typedef void (*handler)(void);

/* Of libstdc++ or libc++, when the program has one. */
extern handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static COLD bool call_new_handler(void) {
    handler (*get)(void) = _ZSt15get_new_handlerv;
    if (!get)
        get = (handler(*)(void))dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
    handler current = get ? get() : NULL;
    if (current)
        current();
    return current != NULL;
}

static COLD void throw_bad_alloc(void) {
    void (*throw_it)(void) = _ZSt17__throw_bad_allocv;
    if (!throw_it)
        throw_it = (void (*)(void))dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv");
    if (throw_it)
        throw_it();
    char line[] = "memctx: operator new is out of memory, and no C++ library is there to throw\n";
    os_panic(&(struct text){.bytes = line, .length = sizeof line - 1});
}

/* libstdc++ refuses alignments that are no power of two. */
static void *allocate(size_t size, size_t alignment, uintptr_t frame) {
    return is_power_of_two(alignment) ? new_allocate(size, alignment, frame) : NULL;
}

/* Out of memory in a nothrow operator: a new-handler may throw, and C cannot catch. The program's C++
 * library can: its operator of the same name calls our throwing one. */
static COLD void *fail_quietly(const char *name, size_t size, size_t alignment,
                               const void *nothrow) {
    void *next = dlsym(RTLD_NEXT, name);
    if (!next)
        return NULL;
    return alignment == 1
               ? ((void *(*)(size_t, const void *))next)(size, nothrow)
               : ((void *(*)(size_t, size_t, const void *))next)(size, alignment, nothrow);
}

#define FRAME ((uintptr_t)__builtin_frame_address(0))
/* Inlined into each operator, so that its frame is the one that counts. */
#define OPERATOR_NEW(name, parameters, alignment)                                                  \
    EXPORT void *name parameters;                                                                  \
    EXPORT void *name parameters {                                                                 \
        void *chunk;                                                                               \
        while (UNLIKELY(!(chunk = allocate(size, alignment, FRAME))))                              \
            if (!call_new_handler())                                                               \
                throw_bad_alloc();                                                                 \
        return chunk;                                                                              \
    }
#define OPERATOR_NEW_NOTHROW(name, parameters, alignment)                                          \
    EXPORT void *name parameters;                                                                  \
    EXPORT void *name parameters {                                                                 \
        void *chunk = allocate(size, alignment, FRAME);                                            \
        return LIKELY(chunk != NULL) ? chunk : fail_quietly(#name, size, alignment, nothrow);      \
    }
#define NOTHROW const void *nothrow __attribute__((unused))

OPERATOR_NEW(_Znwm, (size_t size), 1)
OPERATOR_NEW(_Znam, (size_t size), 1)
OPERATOR_NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), alignment)
OPERATOR_NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), alignment)
OPERATOR_NEW_NOTHROW(_ZnwmRKSt9nothrow_t, (size_t size, NOTHROW), 1)
OPERATOR_NEW_NOTHROW(_ZnamRKSt9nothrow_t, (size_t size, NOTHROW), 1)
OPERATOR_NEW_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, NOTHROW),
                     alignment)
OPERATOR_NEW_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, NOTHROW),
                     alignment)

#define UNUSED_SIZE size_t size __attribute__((unused))
#define UNUSED_ALIGNMENT size_t alignment __attribute__((unused))
#define OPERATOR_DELETE(name, ...)                                                                 \
    EXPORT void name(void *chunk, ##__VA_ARGS__);                                                  \
    EXPORT void name(void *chunk, ##__VA_ARGS__) {                                                 \
        free(chunk);                                                                               \
    }

OPERATOR_DELETE(_ZdlPv)
OPERATOR_DELETE(_ZdaPv)
OPERATOR_DELETE(_ZdlPvm, UNUSED_SIZE)
OPERATOR_DELETE(_ZdaPvm, UNUSED_SIZE)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t, NOTHROW)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t, NOTHROW)
OPERATOR_DELETE(_ZdlPvSt11align_val_t, UNUSED_ALIGNMENT)
OPERATOR_DELETE(_ZdaPvSt11align_val_t, UNUSED_ALIGNMENT)
OPERATOR_DELETE(_ZdlPvmSt11align_val_t, UNUSED_SIZE, UNUSED_ALIGNMENT)
OPERATOR_DELETE(_ZdaPvmSt11align_val_t, UNUSED_SIZE, UNUSED_ALIGNMENT)
OPERATOR_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, UNUSED_ALIGNMENT, NOTHROW)
OPERATOR_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, UNUSED_ALIGNMENT, NOTHROW)
#endif
