/* SPDX-License-Identifier: MIT */
/*
 * operator new and delete, under their C++ ABI names, without linking a C++ library.
 *
 * When memory is short, the operators follow the standard ([new.delete.single]): they call the
 * new-handler as long as the program has set one, and otherwise throw std::bad_alloc through the
 * program's own C++ library. As for malloc, the call path starts at the caller of the operator.
 */
#include "api/fast.h"
#include "os/libc.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

typedef void (*handler)(void);

/* Functions of libstdc++ or libc++; NULL when the program has neither. */
extern handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* Returns a function of the program's C++ library. RTLD_DEFAULT does not find a C++ library that
 * only objects loaded with RTLD_LOCAL need (a Python extension). So the file names of the known C++
 * libraries are tried, too. NULL: no C++ library has the function. */
static COLD void *cxx_function(const char *name) {
    static const char *const files[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
    if (!os_libc.symbol)
        os_libc_init(true);
    if (!os_libc.symbol)
        return NULL;
    void *function = os_libc.symbol(RTLD_DEFAULT, name);
    for (size_t i = 0; !function && os_libc.open && i < sizeof files / sizeof files[0]; i++) {
        void *library = os_libc.open(files[i], RTLD_LAZY | RTLD_NOLOAD);
        function = library ? os_libc.symbol(library, name) : NULL;
    }
    return function;
}

static COLD bool call_new_handler(void) {
    handler (*get)(void) = _ZSt15get_new_handlerv;
    if (!get)
        get = (handler(*)(void))cxx_function("_ZSt15get_new_handlerv");
    handler current = get ? get() : NULL;
    if (current)
        current();
    return current != NULL;
}

static COLD void throw_bad_alloc(void) {
    void (*throw_it)(void) = _ZSt17__throw_bad_allocv;
    if (!throw_it)
        throw_it = (void (*)(void))cxx_function("_ZSt17__throw_bad_allocv");
    if (throw_it)
        throw_it();
    char line[] = "memctx: operator new is out of memory; without a C++ library it cannot throw\n";
    os_panic(&(struct text){.bytes = line, .length = sizeof line - 1});
}

/* Allocates for an operator new with an alignment. NULL: memory is short or, as in libstdc++, the
 * alignment is not a power of two. */
static void *allocate_aligned_new(size_t size, size_t alignment, uintptr_t frame) {
    if (!is_power_of_two(alignment))
        return NULL;
    return alignment <= 16 ? allocate_not_entered(size, ALLOCATE_PLAIN, frame)
                           : allocate_aligned(size, alignment, frame);
}

void *new_retry(size_t size, size_t alignment, uintptr_t frame) {
    for (;;) {
        if (!call_new_handler())
            throw_bad_alloc();
        void *chunk = allocate_aligned_new(size, alignment, frame);
        if (chunk)
            return chunk;
    }
}

#ifndef MEMCTX_UNIT
/* Calls the nothrow operator NAME of the program's C++ library. That operator calls the throwing
 * operator by name and catches the exception; C code cannot catch one. Called in two cases: memory
 * is short, so that the new-handler may throw, or the program has its own throwing operator. *next
 * keeps the address of the function, so that it is looked up once. */
static COLD void *call_next(const char *name, void **next, size_t size, size_t alignment,
                            const void *nothrow) {
    void *function = __atomic_load_n(next, __ATOMIC_RELAXED);
    if (!function) {
        function = os_libc.symbol ? os_libc.symbol(RTLD_NEXT, name) : NULL;
        __atomic_store_n(next, function, __ATOMIC_RELAXED);
    }
    if (!function)
        return NULL;
    return alignment == 1
               ? ((void *(*)(size_t, const void *))function)(size, nothrow)
               : ((void *(*)(size_t, size_t, const void *))function)(size, alignment, nothrow);
}

/* allocate() is inlined into each operator, so that FRAME is the operator's own frame. */
#define OPERATOR_NEW(name)                                                                         \
    EXPORT void *name(size_t size);                                                                \
    EXPORT void *name(size_t size) {                                                               \
        return allocate(size, ALLOCATE_NEW, FRAME);                                                \
    }
#define OPERATOR_NEW_ALIGNED(name)                                                                 \
    EXPORT void *name(size_t size, size_t alignment);                                              \
    EXPORT void *name(size_t size, size_t alignment) {                                             \
        void *chunk = allocate_aligned_new(size, alignment, FRAME);                                \
        return LIKELY(chunk != NULL) ? chunk : new_retry(size, alignment, FRAME);                  \
    }
#define OPERATOR_NEW_NOTHROW(name)                                                                 \
    EXPORT void *name(size_t size, const void *nothrow);                                           \
    EXPORT void *name(size_t size, const void *nothrow) {                                          \
        static void *next;                                                                         \
        void *chunk = UNLIKELY(new_is_replaced()) ? NULL : allocate(size, ALLOCATE_PLAIN, FRAME);  \
        return LIKELY(chunk != NULL) ? chunk : call_next(#name, &next, size, 1, nothrow);          \
    }
#define OPERATOR_NEW_ALIGNED_NOTHROW(name)                                                         \
    EXPORT void *name(size_t size, size_t alignment, const void *nothrow);                         \
    EXPORT void *name(size_t size, size_t alignment, const void *nothrow) {                        \
        static void *next;                                                                         \
        void *chunk =                                                                              \
            UNLIKELY(new_is_replaced()) ? NULL : allocate_aligned_new(size, alignment, FRAME);     \
        return LIKELY(chunk != NULL) ? chunk : call_next(#name, &next, size, alignment, nothrow);  \
    }

OPERATOR_NEW(_Znwm)
OPERATOR_NEW_ALIGNED(_ZnwmSt11align_val_t)

/* The hidden names mean this library's operators, also when the program has its own. */
void *new_plain(size_t size) __attribute__((alias("_Znwm")));
void *new_aligned(size_t size, size_t alignment) __attribute__((alias("_ZnwmSt11align_val_t")));

OPERATOR_NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
OPERATOR_NEW_NOTHROW(_ZnamRKSt9nothrow_t)
OPERATOR_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
OPERATOR_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

EXPORT void _ZdlPv(void *chunk);
EXPORT void _ZdlPv(void *chunk) {
    free_inline(chunk);
}

EXPORT void _ZdlPvSt11align_val_t(void *chunk, size_t alignment);
EXPORT void _ZdlPvSt11align_val_t(void *chunk, size_t alignment) {
    (void)alignment;
    free_inline(chunk);
}
#endif
