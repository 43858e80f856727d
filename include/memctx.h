/* SPDX-License-Identifier: MIT */
/*
 * memctx.h - named memory contexts for C programs. C++ programs include memctx.hpp.
 *
 * A context is a named place to allocate in. It has a parent and a policy. memctx_reset and
 * memctx_delete free every chunk of a context at once; free() frees one chunk, as usual. While a
 * thread is switched to a context, every malloc of that thread allocates in that context, whichever
 * library calls malloc. `memctx dump` shows contexts by name.
 *
 *     memctx_t request = memctx_create(NULL, "request", MEMCTX_ASET);
 *     MEMCTX_SCOPE(request) {
 *         handle(...);            // malloc, strdup, operator new: all allocate in the context
 *     }
 *     memctx_reset(request);      // frees all of it
 *
 * A program is not linked with the library. The functions call weak symbols (memctx/weak.h), which
 * libmemctx.so defines when it is preloaded (`memctx run`). Without the library there are no
 * contexts: memctx_create returns NULL, the functions that allocate, resize and free chunks call
 * malloc, realloc and free, and the other functions do nothing, at the price of one load and one
 * compare. If the program has a malloc of its own, such as that of a sanitizer, there are no
 * contexts either. A program that needs memctx_reset to free must ask memctx_is_active first. Code
 * that clang compiles with -fno-pie, that any compiler compiles with -fno-pie -mcmodel=large, or
 * that is linked statically, never finds the library.
 *
 * Every function accepts NULL for a context. NULL means "no context"; a function that would change
 * a context then does nothing.
 *
 * Threads: a context belongs to the thread that created it. Only the owner may allocate in the
 * context, switch to it, change it, ask for its figures, reset it or delete it. memctx_give and
 * memctx_take pass a context to another thread. Any thread may free a chunk; any thread may resize
 * a chunk, but a thread that is not the owner thereby moves the chunk out of the context. No thread
 * may free or resize a chunk while its context is being reset or deleted. Functions that any thread
 * may call say so. No function may be called from a signal handler.
 *
 * Misuse ends the program with a line on standard error that names the function and the context.
 * Misuse is: to use a deleted context, or a context of another thread; to delete or give the
 * current context of the thread, or a context above it; to reset a context above the current one;
 * to make a context the parent of itself or of its ancestor; to change or reset a context in a
 * signal handler that interrupted the allocator, or from the third round of a thread's destructors
 * of pthread keys on. A second free of a chunk ends the program, too; the line names the chunk. The
 * library does not notice a second free if the memory was allocated again meanwhile, and ignores a
 * second free of a chunk of more than 1 MiB.
 *
 * Versions: a program and a library of different versions work together. Each function passes the
 * size of the structs that the program was compiled with. New fields are only added at the end of a
 * struct, and 0 in a new field means what older versions do. A newer library writes and reads no
 * more than the program's struct has. An older library sets the fields that it does not know to 0
 * when it fills in a struct. An older library refuses a struct of the program in which such a field
 * is not 0.
 *
 * The contexts are modelled on PostgreSQL's memory contexts.
 */
#ifndef MEMCTX_H
#define MEMCTX_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. memctx_library_version returns the version of the running library. */
#define MEMCTX_VERSION_MAJOR 0
#define MEMCTX_VERSION_MINOR 2
#define MEMCTX_VERSION_PATCH 0
#define MEMCTX_VERSION_OF(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define MEMCTX_VERSION_NUMBER                                                                      \
    MEMCTX_VERSION_OF(MEMCTX_VERSION_MAJOR, MEMCTX_VERSION_MINOR, MEMCTX_VERSION_PATCH)

/* Attributes for gcc and clang. The compiler warns about a misuse that it can see. */
#define MEMCTX_NONNULL(argument) __attribute__((__nonnull__(argument)))
#define MEMCTX_MUST_USE __attribute__((__warn_unused_result__))
#define MEMCTX_NEW_CHUNK __attribute__((__malloc__, __warn_unused_result__))
#define MEMCTX_SIZE_IS(argument) __attribute__((__alloc_size__(argument)))
#define MEMCTX_ALIGNMENT_IS(argument) __attribute__((__alloc_align__(argument)))
#define MEMCTX_OLD_NAME(new_name) __attribute__((__deprecated__("use " #new_name)))
/* C89 has no keyword `inline`. */
#define MEMCTX_INLINE static __inline__
#ifdef __cplusplus
#define MEMCTX_CAST(type, value) static_cast<type>(value)
#else
#define MEMCTX_CAST(type, value) ((type)(value))
#endif

/* Handle of a context. NULL means no context: the allocation is charged to its call path. After
 * memctx_delete the handle is invalid; using it ends the program with a message. */
typedef struct memctx_context *memctx_t;

/* How a context arranges its chunks in pages. */
enum memctx_policy {
    /* Blocks by size class. A freed block is reused at once. Suits most contexts. */
    MEMCTX_ASET,
    /* Blocks of exactly the requested sizes. Suits chunks of one size, or of few sizes. */
    MEMCTX_SLAB,
    /* Chunks in the order of allocation. A page is reused when all its chunks are freed. Suits
     * chunks that die in the order in which they were allocated. */
    MEMCTX_GENERATION,
    /* Like MEMCTX_GENERATION, but the context keeps no empty page except the current one. Suits
     * chunks that all die at once. The fastest policy. Needs the least memory, except for chunks of
     * various sizes below about 150 bytes. */
    MEMCTX_BUMP,
    /* Like MEMCTX_ASET, but slower and larger: a list links all chunks. The baseline of
     * experiments, with which the other policies are compared. */
    MEMCTX_SIMPLE
};

/* A function that the library calls once, when its context is next reset or deleted, before any
 * chunk is freed. The caller owns this struct and keeps it valid until the call; a chunk of the
 * context itself is a good place. If longjmp or an exception leaves the function, the reset or
 * delete ends there: the context keeps its chunks, and the next reset or delete calls the functions
 * that were not called yet. This struct never gets further fields. */
struct memctx_callback {
    void (*function)(void *argument);
    void *argument;
    struct memctx_callback *next; /* belongs to the library */
};

/* A limit on the requested bytes that are alive in a context. When an allocation would exceed
 * `bytes`, the library calls `function` with the context and the size of the request. If the
 * function returns nonzero, the library tries the allocation once more; otherwise, or when
 * `function` is NULL, the allocation fails with ENOMEM. During the call `function` is not called
 * again, unless the function itself sets a limit. If longjmp or an exception leaves the function,
 * the limit holds, but the function is not called again until the next memctx_set_limit. The caller
 * owns this struct and keeps it valid as long as the context has the limit. */
struct memctx_limit {
    uint64_t bytes; /* 0: no limit */
    int (*function)(memctx_t context, size_t bytes, void *argument);
    void *argument;
};

/* Properties of a context beside its policy. */
enum memctx_flag {
    /* The library zeroes memory when a chunk is freed and when the context is reset. For keys and
     * passwords. */
    MEMCTX_ZERO_FREED = 1,
    /* For chunks of up to 1016 KiB whose alignment is at most 4096: the size of the chunk is
     * rounded up to a multiple of 16, and two inaccessible OS pages follow the chunk. A freed chunk
     * is inaccessible itself until 4096 other such chunks were freed. An access to inaccessible
     * memory ends the program, with a message that shows the call paths of the allocation, of the
     * free and of the access. Costs some microseconds and an OS page per chunk. A process has at
     * most 16000 such chunks, including freed chunks that are still inaccessible; further chunks
     * have no guard. */
    MEMCTX_GUARDED = 2,
    /* The context uses pages of 64 KiB instead of 16 KiB, also for chunks of less than 1 KiB. For
     * contexts that hold many pages. */
    MEMCTX_LARGE_PAGES = 4
};
/* Every flag of enum memctx_flag. */
#define MEMCTX_FLAGS (0U | MEMCTX_ZERO_FREED | MEMCTX_GUARDED | MEMCTX_LARGE_PAGES)

/* Options of memctx_create_with. All fields 0: no options. Initialise it by naming fields:
 *     struct memctx_options options = {.flags = MEMCTX_ZERO_FREED}; */
struct memctx_options {
    unsigned flags;                   /* a sum of enum memctx_flag */
    const struct memctx_limit *limit; /* as for memctx_set_limit; NULL: no limit */
    const char *identifier;           /* as for memctx_set_identifier; NULL: none */
};

/* Figures of one context without its children. */
struct memctx_stats {
    uint64_t requested_bytes; /* bytes that the program requested for the live chunks */
    uint64_t chunks;          /* number of live chunks */
    /* The highest value of requested_bytes so far, also in a deleted context whose line this one
     * took over. Frees by other threads are subtracted late, so the figure may be too high if other
     * threads free chunks of the context. */
    uint64_t peak_bytes;
    /* Since the context was created. If it took over the line of a deleted context (memctx_create),
     * the counts go on from those of the deleted context. */
    uint64_t allocs, frees;
    uint64_t reserved_bytes; /* bytes of the context's pages and large chunks */
    uint64_t free_bytes;     /* reserved_bytes less requested_bytes: free blocks and rounding */
    uint32_t pages;
    uint32_t children;    /* direct children; grandchildren do not count */
    uint64_t limit_bytes; /* since 0.2.0: the limit; 0: none */
};

#include "memctx/weak.h"

/* --- the library ------------------------------------------------------------------------- */

/* Returns 1 when libmemctx.so is the allocator of this process, else 0. Any thread. */
MEMCTX_INLINE int memctx_is_active(void) {
    return memctx_version && memctx_version() != 0;
}
/* Returns the version of the running library, such as "0.2.0"; NULL when memctx_is_active returns
 * 0. The text stays valid as long as the process runs. Any thread. */
MEMCTX_INLINE const char *memctx_library_version(void) {
    return memctx_version ? memctx_version() : NULL;
}
/* Returns the version of the running library as a number that compares with
 * MEMCTX_VERSION_NUMBER; 0 without the library. Any thread. */
MEMCTX_INLINE int memctx_library_version_number(void) {
    if (memctx_do_version_number)
        return memctx_do_version_number();
    /* only version 0.1.0 lacks memctx_do_version_number */
    return memctx_version ? MEMCTX_VERSION_OF(0, 1, 0) : 0;
}

/* --- contexts ---------------------------------------------------------------------------- */

/* Creates a context that belongs to the calling thread. `parent` is NULL or a context whose reset
 * and delete also delete the new context. `parent` may belong to another thread. That thread must
 * not reset or delete `parent` before the new context is deleted. `name` is copied. If a context of
 * this name and parent was deleted before, the new context takes over the deleted one's line in
 * dumps. A program should have few names, such as "request", and tell contexts of one name apart by
 * memctx_set_identifier: each pair of a name and a parent takes memory as long as the process runs,
 * about 400 bytes if its contexts are small and have the policy MEMCTX_ASET, else 1.6 to 2.4 KiB.
 * There can be about a million such pairs. Returns NULL when memory is short, when there are too
 * many such pairs, when the library does not know the policy, or when memctx_is_active returns 0.
 */
MEMCTX_NONNULL(2)
MEMCTX_INLINE MEMCTX_MUST_USE memctx_t memctx_create(memctx_t parent, const char *name,
                                                     enum memctx_policy policy) {
    return memctx_do_create ? memctx_do_create(parent, name, policy) : NULL;
}
/* Like memctx_create, but with options. The library copies the options, but not the limit that they
 * point to. `with` may be NULL. Also returns NULL when `with` has a flag that the library does not
 * know, or when a field that the library does not know is not 0. */
MEMCTX_NONNULL(2)
MEMCTX_INLINE MEMCTX_MUST_USE memctx_t memctx_create_with(memctx_t parent, const char *name,
                                                          enum memctx_policy policy,
                                                          const struct memctx_options *with) {
    if (memctx_do_create_sized)
        return memctx_do_create_sized(parent, name, policy, with, sizeof *with,
                                      sizeof *with->limit);
    return memctx_do_create_with ? memctx_do_create_with(parent, name, policy, with) : NULL;
}
/* Runs the callbacks, frees every chunk of the context, deletes its children and the context. */
MEMCTX_INLINE void memctx_delete(memctx_t context) {
    if (context && memctx_do_delete)
        memctx_do_delete(context);
}
/* Runs the callbacks, frees every chunk of the context and deletes its children. The context
 * itself stays usable. */
MEMCTX_INLINE void memctx_reset(memctx_t context) {
    if (context && memctx_do_reset)
        memctx_do_reset(context);
}
/* Runs the callbacks and frees every chunk of each context below `context`. `context` itself is not
 * reset, and no context is deleted. */
MEMCTX_INLINE void memctx_reset_children(memctx_t context) {
    if (context && memctx_do_reset_children)
        memctx_do_reset_children(context);
}
/* Returns 1 when somebody asked for a reset of this context with `memctx reset TARGET --named NAME`
 * and waits for it, else 0. A program calls this function at points where it no longer needs the
 * context's chunks. On 1 the program calls memctx_reset or memctx_delete, which answers the
 * request. Costs a few loads and compares. Any thread. */
MEMCTX_INLINE int memctx_reset_requested(memctx_t context) {
    return context && memctx_do_reset_requested ? memctx_do_reset_requested(context) : 0;
}
/* Makes the context current: from now on this thread allocates in the context. NULL: allocations go
 * to their call paths again. A realloc leaves a chunk in the chunk's context. Returns the previous
 * context. MEMCTX_SCOPE switches back by itself. */
MEMCTX_INLINE memctx_t memctx_switch(memctx_t context) {
    return memctx_do_switch ? memctx_do_switch(context) : NULL;
}
/* Returns the current context of the calling thread; NULL: none. Any thread. */
MEMCTX_INLINE memctx_t memctx_current(void) {
    return memctx_do_current ? memctx_do_current() : NULL;
}

/* Gives up the context and every context below it, so that another thread can take them. Until
 * another thread takes the contexts, they have no owner. Chunks may still be freed, except during
 * the calls of memctx_give and memctx_take. The contexts of a thread that ended have no owner
 * either. Returns 0 on success; -1 when memory is short and some contexts were not given: call
 * again. */
MEMCTX_INLINE MEMCTX_MUST_USE int memctx_give(memctx_t context) {
    return context && memctx_do_hand_over ? memctx_do_hand_over(context) : 0;
}
/* Makes the calling thread the owner of the context and of every context below it. None of these
 * contexts may have an owner. Returns 0 on success; -1 when memory is short and some contexts were
 * not taken: call again. */
MEMCTX_INLINE MEMCTX_MUST_USE int memctx_take(memctx_t context) {
    return context && memctx_do_take ? memctx_do_take(context) : 0;
}

/* --- chunks ------------------------------------------------------------------------------ */

/* Allocates as malloc does, in the context; without a context calls malloc. Returns NULL with errno
 * ENOMEM when memory is short or the context's limit is reached. */
MEMCTX_SIZE_IS(2)
MEMCTX_INLINE MEMCTX_NEW_CHUNK void *memctx_alloc(memctx_t context, size_t bytes) {
    return context && memctx_do_alloc ? memctx_do_alloc(context, bytes) : malloc(bytes);
}
/* Like memctx_alloc, but the chunk is zeroed. */
MEMCTX_SIZE_IS(2)
MEMCTX_INLINE MEMCTX_NEW_CHUNK void *memctx_zalloc(memctx_t context, size_t bytes) {
    return context && memctx_do_zalloc ? memctx_do_zalloc(context, bytes) : calloc(1, bytes);
}
/* The function aligned_alloc of libc, which stdlib.h does not declare for C89 and C99. */
MEMCTX_SIZE_IS(2)
MEMCTX_ALIGNMENT_IS(1)
MEMCTX_NEW_CHUNK void *memctx_libc_aligned_alloc(size_t alignment,
                                                 size_t bytes) __asm__("aligned_alloc");
/* Like memctx_alloc, but the address is a multiple of `alignment`. If that is not a power of two,
 * returns NULL with errno EINVAL. Without the library, and with `context` NULL, does what
 * aligned_alloc does. */
MEMCTX_SIZE_IS(3)
MEMCTX_ALIGNMENT_IS(2)
MEMCTX_INLINE MEMCTX_NEW_CHUNK void *memctx_alloc_aligned(memctx_t context, size_t alignment,
                                                          size_t bytes) {
    return context && memctx_do_alloc_aligned ? memctx_do_alloc_aligned(context, alignment, bytes)
                                              : memctx_libc_aligned_alloc(alignment, bytes);
}
/* Resizes a chunk as realloc does. A chunk in a context of this thread stays in that context,
 * whatever `context` says; a chunk in a context of another thread leaves that context. When `chunk`
 * is NULL, allocates in `context`. Returns NULL with errno ENOMEM, and leaves the chunk as it is,
 * when memory is short or the context's limit is reached. Any thread, if `chunk` is not NULL. */
MEMCTX_SIZE_IS(3)
MEMCTX_INLINE MEMCTX_MUST_USE void *memctx_realloc(memctx_t context, void *chunk, size_t bytes) {
    return chunk ? realloc(chunk, bytes) : memctx_alloc(context, bytes);
}
/* Frees a chunk of any context or of none; the same as free. Any thread. */
MEMCTX_INLINE void memctx_free(void *chunk) {
    free(chunk);
}
/* Copies a text into a new chunk of the context. Returns NULL when memory is short or the context's
 * limit is reached. */
MEMCTX_NONNULL(2)
MEMCTX_INLINE MEMCTX_NEW_CHUNK char *memctx_strdup(memctx_t context, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = MEMCTX_CAST(char *, memctx_alloc(context, bytes));
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}
/* Returns the context that a live chunk is in; NULL when the chunk is in no context, or in a
 * context of another thread. Any thread. */
MEMCTX_INLINE memctx_t memctx_owner(const void *chunk) {
    return chunk && memctx_do_owner ? memctx_do_owner(chunk) : NULL;
}

/* --- properties -------------------------------------------------------------------------- */

/* Returns the parent; NULL: none. Any thread. */
MEMCTX_INLINE memctx_t memctx_parent(memctx_t context) {
    return context && memctx_do_parent ? memctx_do_parent(context) : NULL;
}
/* From now on the context is deleted with `parent`, which may be NULL. `parent` must belong to the
 * calling thread, too, and must not be the context itself or a context below it. Dumps still show
 * the context below its first parent. Does nothing if memory is short, which can happen only in a
 * program with more than a thousand contexts of one name. */
MEMCTX_INLINE void memctx_set_parent(memctx_t context, memctx_t parent) {
    if (context && memctx_do_set_parent)
        memctx_do_set_parent(context, parent);
}
/* Returns the name, which stays valid as long as the process runs; "" for NULL. Any thread. */
MEMCTX_INLINE const char *memctx_name(memctx_t context) {
    return context && memctx_do_name ? memctx_do_name(context) : "";
}
/* Returns the identifier, which stays valid until the next memctx_set_identifier or memctx_delete;
 * "" when there is none. Any thread, but not while the owner changes or deletes the context. */
MEMCTX_INLINE const char *memctx_identifier(memctx_t context) {
    return context && memctx_do_identifier ? memctx_do_identifier(context) : "";
}
/* Sets a text that dumps show after the name, such as a query's text, so that contexts of one name
 * can be told apart. The library copies at most the first 31 bytes, and cuts no UTF-8 character in
 * two. NULL: none. Does nothing if memory is short, which can happen only in a program with more
 * than a thousand contexts of one name. */
MEMCTX_INLINE void memctx_set_identifier(memctx_t context, const char *identifier) {
    if (context && memctx_do_identify)
        memctx_do_identify(context, identifier);
}
/* Adds a callback for the next reset or delete. Callbacks run in reverse order of their adding. A
 * callback may allocate and may use contexts. When memory is short, the library may fail to add
 * the callback; then the callback never runs. This happens only if the program has more than a
 * thousand contexts with the name of this context. */
MEMCTX_NONNULL(2)
MEMCTX_INLINE void memctx_add_callback(memctx_t context, struct memctx_callback *callback) {
    if (context && memctx_do_call_on_reset)
        memctx_do_call_on_reset(context, callback);
}
/* Sets the limit; NULL removes it. A new context has no limit. Allocations in a context with a
 * limit take a slower path, because each allocation is compared with the limit. Returns 0 on
 * success, and without the library. On -1 the context keeps its old limit: memory is short, or a
 * field of `limit` that the library does not know is not 0. */
MEMCTX_INLINE int memctx_set_limit(memctx_t context, const struct memctx_limit *limit) {
    if (context && memctx_do_set_limit_sized)
        return memctx_do_set_limit_sized(context, limit, sizeof *limit);
    return context && memctx_do_set_limit ? memctx_do_set_limit(context, limit) : 0;
}

/* --- looking ----------------------------------------------------------------------------- */

/* Returns 1 when the context has no live chunk, else 0. Children do not count. Returns 1 for NULL
 * and without the library. */
MEMCTX_INLINE int memctx_is_empty(memctx_t context) {
    return context && memctx_do_is_empty ? memctx_do_is_empty(context) : 1;
}
/* Fills in the figures of the context. All fields are 0 without the library and for NULL; a field
 * that the running library does not know is 0. All fields are also 0 if memory is short, which can
 * happen only in a program with more than a thousand contexts of one name. Counting the children
 * takes time for each child, and no context can be created or deleted meanwhile. */
MEMCTX_NONNULL(2)
MEMCTX_INLINE void memctx_get_stats(memctx_t context, struct memctx_stats *stats) {
    memset(stats, 0, sizeof *stats);
    if (context && memctx_do_get_stats_sized)
        memctx_do_get_stats_sized(context, stats, sizeof *stats);
    else if (context && memctx_do_stats)
        memctx_do_stats(context, stats);
}
/* Calls `visit` for the context and for every context below it, parents first. `depth` is 0 for
 * the context itself. Stops when visit returns nonzero, and returns that value; else returns 0.
 * Until memctx_walk returns, no thread may create or delete contexts below `context`. */
MEMCTX_INLINE int memctx_walk(memctx_t context,
                              int (*visit)(memctx_t context, int depth, void *argument),
                              void *argument) {
    return context && memctx_do_walk ? memctx_do_walk(context, visit, argument) : 0;
}
/* Checks the library's records of the context's pages and chunks against each other. Returns NULL
 * when they agree, else a text that names the first disagreement. Reads every chunk's record. */
MEMCTX_INLINE const char *memctx_check(memctx_t context) {
    return context && memctx_do_check ? memctx_do_check(context) : NULL;
}

/* --- scopes ------------------------------------------------------------------------------ */

MEMCTX_INLINE void memctx_end_scope(memctx_t *before) {
    memctx_switch(*before);
}
/* Runs the next statement switched to the context, and then switches back to the previous context.
 * return, goto and exceptions also switch back; longjmp does not. break and continue leave the
 * statement, not a loop around it. Needs C99 or C++. */
#define MEMCTX_SCOPE(context)                                                                      \
    MEMCTX_SCOPE_OF(context, MEMCTX_SCOPE_NAME(memctx_before_, __LINE__),                          \
                    MEMCTX_SCOPE_NAME(memctx_once_, __LINE__))
#define MEMCTX_SCOPE_NAME(name, line) MEMCTX_SCOPE_PASTE(name, line)
#define MEMCTX_SCOPE_PASTE(name, line) name##line
#define MEMCTX_SCOPE_OF(context, before, once)                                                     \
    for (memctx_t before                                                                           \
         __attribute__((__cleanup__(memctx_end_scope), __unused__)) = memctx_switch(context),      \
                                                       *once = &before;                            \
         once; once = NULL)

/* --- old names --------------------------------------------------------------------------- */

/* Names of version 0.1.0. They still compile, with a warning that names the new function. */
MEMCTX_OLD_NAME(memctx_give)
MEMCTX_INLINE int memctx_hand_over(memctx_t context) {
    return memctx_give(context);
}
MEMCTX_OLD_NAME(memctx_set_identifier)
MEMCTX_INLINE void memctx_identify(memctx_t context, const char *identifier) {
    memctx_set_identifier(context, identifier);
}
MEMCTX_OLD_NAME(memctx_add_callback)
MEMCTX_INLINE void memctx_call_on_reset(memctx_t context, struct memctx_callback *callback) {
    memctx_add_callback(context, callback);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
