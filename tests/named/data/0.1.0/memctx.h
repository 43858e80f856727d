/* SPDX-License-Identifier: MIT */
/*
 * memctx.h - memory contexts for programs that take part: lifetimes, by name.
 *
 * A context is a place to allocate in that has a name, a parent and a policy. All that was allocated in it is freed at
 * once by memctx_reset or memctx_delete; single chunks by free, as ever. While a thread is switched to a
 * context, every malloc of that thread, of any library, goes there. `memctx dump` shows the contexts by name.
 *
 *     memctx_t request = memctx_create(NULL, "request", MEMCTX_ASET);
 *     MEMCTX_SCOPE(request) {
 *         handle(...);            // malloc, strdup, operator new: all in the context
 *     }
 *     memctx_reset(request);      // all of it is freed
 *
 * Nothing is linked: the functions are weak references, which libmemctx.so fills in when it is preloaded (memctx run).
 * Without it there are no contexts: memctx_create gives NULL, memctx_alloc is malloc, all others do nothing, in
 * a load and a compare. A program that relies on a reset to free asks memctx_is_active() first.
 *
 * Threads: a context belongs to the thread that made it, which alone allocates in it, switches to it, resets, changes and
 * deletes it, until it hands it over. Any thread may free its chunks and resize them (which then are in no context any more), but not while it is reset or
 * deleted. Not for signal handlers.
 *
 * Misuse ends the program with a line that names the context: one that was deleted, one of another thread's, the deletion
 * of the current one, a chunk that is freed twice.
 *
 * Source: PostgreSQL's memory contexts.
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

#define MEMCTX_WEAK __attribute__((weak))

/* A context. NULL is none: what is allocated there is paid for by its call path, as everywhere. Out of date
 * after its delete, which is noticed. */
typedef struct memctx_context *memctx_t;

/* How chunks stand in a context's pages. */
enum memctx_policy {
    MEMCTX_ASET, /* blocks by size; what is freed is used again at once. For most */
    MEMCTX_SLAB, /* blocks of just the sizes that are asked for. For chunks of one size, or few */
    MEMCTX_GENERATION, /* one behind the other; a page is used again when all in it is freed. For what dies in
                        * the order in which it was made */
    MEMCTX_BUMP, /* the same, and no empty page is kept. For what dies all at once: the fastest, and the smallest */
    MEMCTX_SIMPLE /* each chunk by itself, in a list. For comparison with the others */
};

/* To be called when its context is reset or deleted next, before anything is freed; the last one first. Given by the caller, who
 * keeps it until then: in the context itself, best. */
struct memctx_callback {
    void (*function)(void *argument);
    void *argument;
    struct memctx_callback *next; /* the library's */
};

/* What is alive in a context may not be more than `bytes` as requested: an allocation that would be past it calls the
 * function, if there is one, with the bytes that were asked for, and is tried again if that gives other than 0; else it fails with
 * ENOMEM. While it is called the limit has no function. Given by the caller, who keeps it. */
struct memctx_limit {
    uint64_t bytes;
    int (*function)(memctx_t context, size_t bytes, void *argument);
    void *argument;
};

/* What a context may be made with, beside its policy. All zero: nothing. */
enum memctx_flag {
    /* What is freed, and what goes with a reset, is zeroed: for keys and passwords. */
    MEMCTX_ZERO_FREED = 1,
    /* Each chunk of up to 1 MiB ends at memory that cannot be touched, and cannot be touched itself when it was freed: for finding
     * who writes there, at some us and an OS page a chunk. The program ends with a line that says by which paths it was allocated,
     * freed and touched. */
    MEMCTX_GUARDED = 2,
    /* Pages of 64 KiB, not 16: for contexts that hold much. */
    MEMCTX_LARGE_PAGES = 4
};
#define MEMCTX_FLAGS ((unsigned)MEMCTX_ZERO_FREED | MEMCTX_GUARDED | MEMCTX_LARGE_PAGES) /* all */

struct memctx_options {
    unsigned flags;                   /* a sum of enum memctx_flag */
    const struct memctx_limit *limit; /* NULL: none; see memctx_set_limit */
    const char *identifier;           /* NULL: none; see memctx_identify */
};

struct memctx_stats {
    uint64_t requested_bytes, chunks; /* alive */
    /* The most that was requested at a time; what other threads freed counts as there, so it may be too much where they do. */
    uint64_t peak_bytes;
    uint64_t allocs, frees;  /* ever */
    uint64_t reserved_bytes; /* of pages and large chunks */
    uint64_t free_bytes;     /* of these, not requested: free, or rounding */
    uint32_t pages, children;
};

/* --- what libmemctx.so has; use the functions below ---------------------------------------------------- */

const char *memctx_version(void) MEMCTX_WEAK;
memctx_t memctx_do_create(memctx_t parent, const char *name, enum memctx_policy policy) MEMCTX_WEAK;
memctx_t memctx_do_create_with(memctx_t parent, const char *name, enum memctx_policy policy,
                               const struct memctx_options *with) MEMCTX_WEAK;
void memctx_do_delete(memctx_t context) MEMCTX_WEAK;
void memctx_do_reset(memctx_t context) MEMCTX_WEAK;
void memctx_do_reset_children(memctx_t context) MEMCTX_WEAK;
int memctx_do_reset_requested(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_switch(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_current(void) MEMCTX_WEAK;
void *memctx_do_alloc(memctx_t context, size_t bytes) MEMCTX_WEAK;
void *memctx_do_zalloc(memctx_t context, size_t bytes) MEMCTX_WEAK;
void *memctx_do_alloc_aligned(memctx_t context, size_t alignment, size_t bytes) MEMCTX_WEAK;
memctx_t memctx_do_owner(const void *chunk) MEMCTX_WEAK;
int memctx_do_hand_over(memctx_t context) MEMCTX_WEAK;
int memctx_do_take(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_parent(memctx_t context) MEMCTX_WEAK;
void memctx_do_set_parent(memctx_t context, memctx_t parent) MEMCTX_WEAK;
int memctx_do_is_empty(memctx_t context) MEMCTX_WEAK;
const char *memctx_do_name(memctx_t context) MEMCTX_WEAK;
const char *memctx_do_identifier(memctx_t context) MEMCTX_WEAK;
void memctx_do_identify(memctx_t context, const char *identifier) MEMCTX_WEAK;
void memctx_do_call_on_reset(memctx_t context, struct memctx_callback *callback) MEMCTX_WEAK;
int memctx_do_set_limit(memctx_t context, const struct memctx_limit *limit) MEMCTX_WEAK;
void memctx_do_stats(memctx_t context, struct memctx_stats *stats) MEMCTX_WEAK;
int memctx_do_walk(memctx_t context, int (*visit)(memctx_t context, int depth, void *argument),
                   void *argument) MEMCTX_WEAK;
const char *memctx_do_check(memctx_t context) MEMCTX_WEAK;

/* --- asking --------------------------------------------------------------------------------------------- */

/* 1 when libmemctx.so is this process's allocator, else 0. memctx_version() is then its version, such as "0.1.0", and
 * NULL to call otherwise. Any thread. */
static inline int memctx_is_active(void) {
    return memctx_version != 0;
}

/* --- contexts ------------------------------------------------------------------------------------------- */

/* A new context of the calling thread's. parent: NULL, or one whose delete and reset delete this one, too. name:
 * copied; contexts of one name below one parent are one line of a dump after another has ended. NULL: out of
 * memory, or the library is not there. */
static inline memctx_t memctx_create(memctx_t parent, const char *name, enum memctx_policy policy) {
    return memctx_do_create ? memctx_do_create(parent, name, policy) : NULL;
}
/* The same with options, which need not last; NULL: none. NULL also where a flag is not known. */
static inline memctx_t memctx_create_with(memctx_t parent, const char *name,
                                          enum memctx_policy policy,
                                          const struct memctx_options *with) {
    return memctx_do_create_with ? memctx_do_create_with(parent, name, policy, with) : NULL;
}
/* Frees all that is in it, and in its children, and them. NULL: nothing is done, here and below. */
static inline void memctx_delete(memctx_t context) {
    if (context && memctx_do_delete)
        memctx_do_delete(context);
}
/* Frees all that is in it, and deletes its children. */
static inline void memctx_reset(memctx_t context) {
    if (context && memctx_do_reset)
        memctx_do_reset(context);
}
/* Resets the children, and theirs, which stay. */
static inline void memctx_reset_children(memctx_t context) {
    if (context && memctx_do_reset_children)
        memctx_do_reset_children(context);
}
/* 1: somebody asked for a reset of it by `memctx reset TARGET --named NAME`, and waits. To be asked where all that is in the
 * context may go; memctx_reset and memctx_delete answer. Any thread, a load and a compare. */
static inline int memctx_reset_requested(memctx_t context) {
    return context && memctx_do_reset_requested ? memctx_do_reset_requested(context) : 0;
}
/* What this thread allocates from now on goes there; NULL: where its call path says. The one before. What realloc resizes
 * stays in the context that it is in. */
static inline memctx_t memctx_switch(memctx_t context) {
    return memctx_do_switch ? memctx_do_switch(context) : NULL;
}
static inline memctx_t memctx_current(void) {
    return memctx_do_current ? memctx_do_current() : NULL;
}

/* The context, with all below it, is nobody's until another thread takes it: nobody allocates in it, resets or deletes it;
 * chunks are freed as ever, but not during these two calls. One of a thread that has ended may be taken, too. 0: done;
 * -1: out of memory, call it again. */
static inline int memctx_hand_over(memctx_t context) {
    return context && memctx_do_hand_over ? memctx_do_hand_over(context) : 0;
}
static inline int memctx_take(memctx_t context) {
    return context && memctx_do_take ? memctx_do_take(context) : 0;
}

/* --- chunks --------------------------------------------------------------------------------------------- */

/* As malloc, in the context; in NULL as malloc itself. */
static inline void *memctx_alloc(memctx_t context, size_t bytes) {
    return context && memctx_do_alloc ? memctx_do_alloc(context, bytes) : malloc(bytes);
}
/* The same, zeroed. */
static inline void *memctx_zalloc(memctx_t context, size_t bytes) {
    return context && memctx_do_zalloc ? memctx_do_zalloc(context, bytes) : calloc(1, bytes);
}
/* At a multiple of the alignment, which is a power of two. NULL: out of memory, or it is none. */
static inline void *memctx_alloc_aligned(memctx_t context, size_t alignment, size_t bytes) {
    return context && memctx_do_alloc_aligned ? memctx_do_alloc_aligned(context, alignment, bytes)
                                              : aligned_alloc(alignment, bytes);
}
/* A chunk stays in the context that it is in; NULL is allocated in this one. */
static inline void *memctx_realloc(memctx_t context, void *chunk, size_t bytes) {
    return chunk ? realloc(chunk, bytes) : memctx_alloc(context, bytes);
}
static inline void memctx_free(void *chunk) {
    free(chunk);
}
static inline char *memctx_strdup(memctx_t context, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = (char *)memctx_alloc(context, bytes);
    return copy ? (char *)memcpy(copy, text, bytes) : NULL;
}
/* The context that a chunk is in; NULL: none of this thread's. */
static inline memctx_t memctx_owner(const void *chunk) {
    return chunk && memctx_do_owner ? memctx_do_owner(chunk) : NULL;
}

/* --- what is known of a context ------------------------------------------------------------------------- */

static inline memctx_t memctx_parent(memctx_t context) {
    return context && memctx_do_parent ? memctx_do_parent(context) : NULL;
}
/* It is deleted with that parent from now on. A dump goes on to show it below the one that it was made below. */
static inline void memctx_set_parent(memctx_t context, memctx_t parent) {
    if (context && memctx_do_set_parent)
        memctx_do_set_parent(context, parent);
}
/* 1: no chunk is alive in it; its children's do not count. 1 for NULL. */
static inline int memctx_is_empty(memctx_t context) {
    return context && memctx_do_is_empty ? memctx_do_is_empty(context) : 1;
}
/* Valid as long as the process. "" for NULL. */
static inline const char *memctx_name(memctx_t context) {
    return context && memctx_do_name ? memctx_do_name(context) : "";
}
/* What tells it from others of its name, such as a query's text: copied, up to 31 bytes; shown in dumps. "" at first. */
static inline const char *memctx_identifier(memctx_t context) {
    return context && memctx_do_identifier ? memctx_do_identifier(context) : "";
}
/* Copied, up to 31 bytes; what a dump has behind the name. NULL: nothing. */
static inline void memctx_identify(memctx_t context, const char *identifier) {
    if (context && memctx_do_identify)
        memctx_do_identify(context, identifier);
}
static inline void memctx_call_on_reset(memctx_t context, struct memctx_callback *callback) {
    if (context && memctx_do_call_on_reset)
        memctx_do_call_on_reset(context, callback);
}
/* NULL: no limit, as at first. A context with one is slower: each allocation looks. 0, also without the library; -1: out of
 * memory, and it has the limit that it had. */
static inline int memctx_set_limit(memctx_t context, const struct memctx_limit *limit) {
    return context && memctx_do_set_limit ? memctx_do_set_limit(context, limit) : 0;
}
/* All zero without the library. */
static inline void memctx_get_stats(memctx_t context, struct memctx_stats *stats) {
    memset(stats, 0, sizeof *stats);
    if (context && memctx_do_stats)
        memctx_do_stats(context, stats);
}
/* Visits the context and all below it, parents first, until visit returns other than 0, which is then the result. It may
 * neither make nor delete contexts. */
static inline int memctx_walk(memctx_t context,
                              int (*visit)(memctx_t context, int depth, void *argument),
                              void *argument) {
    return context && memctx_do_walk ? memctx_do_walk(context, visit, argument) : 0;
}
/* NULL: its pages and chunks hang together; else what does not, in words. Takes a look at each chunk. */
static inline const char *memctx_check(memctx_t context) {
    return context && memctx_do_check ? memctx_do_check(context) : NULL;
}

/* --- scopes --------------------------------------------------------------------------------------------- */

static inline void memctx_end_scope(memctx_t *before) {
    memctx_switch(*before);
}
/* The statement that follows runs switched to the context; however it is left but by longjmp, the one before is back. */
#define MEMCTX_SCOPE_NAME(name, line) MEMCTX_SCOPE_PASTE(name, line)
#define MEMCTX_SCOPE_PASTE(name, line) name##line
#define MEMCTX_SCOPE_OF(context, before, once)                                                     \
    for (memctx_t before __attribute__((cleanup(memctx_end_scope))) = memctx_switch(context),      \
                         once = (memctx_t)(uintptr_t)1;                                            \
         once; once = NULL)
#define MEMCTX_SCOPE(context)                                                                      \
    MEMCTX_SCOPE_OF(context, MEMCTX_SCOPE_NAME(memctx_before_, __LINE__),                          \
                    MEMCTX_SCOPE_NAME(memctx_once_, __LINE__))

#ifdef __cplusplus
} /* extern "C" */

namespace memctx {

/* A context that is deleted with its object. */
class context {
  public:
    explicit context(const char *name, enum memctx_policy policy = MEMCTX_ASET,
                     memctx_t parent = nullptr, const struct memctx_options *with = nullptr)
        : handle(memctx_create_with(parent, name, policy, with)) {}
    ~context() {
        memctx_delete(handle);
    }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    operator memctx_t() const {
        return handle;
    }
    void reset() {
        memctx_reset(handle);
    }

  private:
    memctx_t handle;
};

/* As long as it lives its thread is switched to the context. */
class scope {
  public:
    explicit scope(memctx_t context) : before(memctx_switch(context)) {}
    ~scope() {
        memctx_switch(before);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    memctx_t before;
};

} // namespace memctx
#endif

#endif
