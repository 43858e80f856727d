/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - the functions of higher layers that region calls.
 *
 * The region layer finds misuse of chunks, limits that are passed and threads that end. Call paths
 * and named contexts belong to the layers context and named, which are built on region. Calls from
 * region to these layers therefore go through one struct of functions. The layer named sets this
 * struct (named_set_hooks) when the process's first thread enters the allocator. Before that there
 * is neither a call path nor a named context, so each call does nothing.
 *
 * Threads: any. The pointer is set once, to a constant.
 */
#ifndef MEMCTX_REGION_HOOKS_H
#define MEMCTX_REGION_HOOKS_H

#include "base/base.h"

struct heap;
struct terms;

struct region_hooks {
    /* Prints two call paths. The first one allocated the chunk; it is left out if `context` is
     * REGION_NO_CONTEXT. The second one is the path of the present call, which misused the chunk
     * or, if `found`, noticed an earlier misuse. */
    void (*explain_misuse)(uint32_t context, bool found);
    /* Prints the path that allocated a guarded chunk, the `count` addresses of the path that freed
     * the chunk, and the path of the present call, which misuses the chunk. */
    void (*explain_guarded)(uint32_t context, const uintptr_t *freed_by, unsigned count);
    /* Stores the return addresses of the call path that begins at a frame of the library, at most
     * `max`. Returns the number of addresses stored. */
    unsigned (*callers)(uintptr_t frame, uintptr_t *addresses, unsigned max);
    /* Prints that the limit of a rule with TERMS_WARN is exceeded, and the path of `context`. */
    void (*tell_limit)(const struct terms *terms, uint32_t context);
    /* The heap's thread has ended: its named contexts belong to nobody now, so that any thread can
     * take them. */
    void (*leave_named)(struct heap *heap);
};

INTERNAL const struct region_hooks *region_hooks; /* atomic; NULL: not set yet */

#define REGION_HOOK(name, ...)                                                                     \
    ({                                                                                             \
        const struct region_hooks *hooks = load_acquire(&region_hooks);                            \
        hooks ? hooks->name(__VA_ARGS__) : (__typeof__(hooks->name(__VA_ARGS__)))0;                \
    })

#endif
