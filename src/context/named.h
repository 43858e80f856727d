/* SPDX-License-Identifier: MIT */
/*
 * named.h - contexts that the program makes itself: their names, their tree, whose they are.
 *
 * Each has a place in a table (128 bytes), and by that a node of the tree of contexts, under its parent's. A place that was
 * given up is used again for the next context of the same name below the same parent, so that the node keeps the history
 * of all of them, and there are as many nodes as were alive at one time. What a program holds is a place and its
 * generation, which is another one after a delete: so a handle that is out of date is told from a good one.
 *
 * Where contexts of one name below one parent are very many, each further one begins as a member of their crowd (region/member.h): a
 * hidden context, which has their node. It grows into one with a place when more is asked of it than member.h does.
 * Its handle stays, and so does its part in the list of its parent's children.
 *
 * For: lifetimes that the program knows. Cannot do: be used by two threads. A context belongs to one thread, which alone
 * allocates in it, resets and deletes it; chunks are freed and looked at by any, but not while it is reset or deleted.
 *
 * Source: PostgreSQL's memory contexts (src/backend/utils/mmgr): the tree, reset, delete, switch, callbacks, identifiers.
 *
 * Threads: the owner's heap is entered; the table and the lists of children are guarded by region_lock. What is misused
 * ends the program, with a line that names the context.
 */
#ifndef MEMCTX_NAMED_H
#define MEMCTX_NAMED_H

#include "memctx.h"
#include "region/member.h"
#include "region/named.h"

#define NAMED_PLACES_PER_BLOCK 1024U
#define NAMED_BLOCKS 1024U /* 1 M places */
#define NAMED_LEVELS 500U  /* of nodes, below the root */
#define NAMED_CROWD 255U   /* for a policy: it stands for its members, and is never alive itself */
#define NAMED_MANY 1024U   /* of a name below a parent: further ones are members */
#define NAMED_MEMBER (1U << 31) /* in a place: what is below is a member's number */

struct named {
    uint32_t generation; /* atomic; odd: alive */
    uint32_t context;    /* id of its node; 0: none yet */
    struct heap *heap;   /* the owner's */
    struct view *view;
    uint32_t parent; /* places; 0: none */
    union {
        uint32_t first_child;
        uint32_t members; /* of a crowd: how many have not grown */
    };
    uint32_t next, prev; /* not of one that has grown: see named_link */
    uint32_t made_below; /* place of the parent of its node */
    union {
        uint32_t spare; /* the next one that was given up, of its kind */
        uint32_t
            asking; /* of a crowd: its members are asked by `wanted`; there come no new ones; atomic */
    };
    uint32_t policy : 8;               /* enum memctx_policy, or NAMED_CROWD */
    uint32_t member : 24;              /* the number it had before it grew; 0: none */
    struct memctx_callback *callbacks; /* owner; the newest first */
    const char *name;                  /* for good */
    /* memctx reset --named: the control thread's last wish, and the owner's last answer to one; of a crowd how many
     * members answered that have ended since, and all of what these freed. */
    uint32_t wanted, done;            /* atomic */
    uint64_t freed;                   /* by that reset: requested bytes */
    const struct memctx_limit *limit; /* owner; NULL: none, or its function is being called */
    char identifier[32];
};
_Static_assert(sizeof(struct named) == 128, "as the header says");

INTERNAL struct named *named_blocks[NAMED_BLOCKS]; /* atomic */
INTERNAL uint32_t named_count; /* atomic: places below it were used; 0 is none */

INLINE struct named *named_at(uint32_t place) {
    return &load_acquire(
        &named_blocks[place / NAMED_PLACES_PER_BLOCK])[place % NAMED_PLACES_PER_BLOCK];
}
INLINE uint32_t named_place(memctx_t handle) {
    return (uint32_t)(uintptr_t)handle;
}
INLINE uint32_t named_generation(memctx_t handle) {
    return (uint32_t)((uintptr_t)handle >> 32);
}
/* Of one that is alive: the place that stands in its handle, and in lists of children. */
INLINE uint32_t named_link(uint32_t place) {
    uint32_t member = place & NAMED_MEMBER ? 0 : named_at(place)->member;
    return member ? NAMED_MEMBER | member : place;
}
INLINE memctx_t named_handle(uint32_t place) {
    uint32_t link = named_link(place);
    uint32_t generation = link & NAMED_MEMBER ? member_at(link & ~NAMED_MEMBER)->generation
                                              : named_at(link)->generation;
    return (memctx_t)((uintptr_t)generation << 32 | link);
}
INLINE struct member *named_member(memctx_t handle) {
    return member_at(named_place(handle) & ~NAMED_MEMBER);
}
/* The crowd of a member that is alive and has not grown; NULL: it is none such. */
struct named *named_crowd_of(memctx_t handle);
/* Of one that has grown. */
struct named *named_grown(memctx_t handle);
/* NULL: it was deleted, or never was, or began as a member. */
INLINE struct named *named_find_placed(memctx_t handle) {
    uint32_t place = named_place(handle), generation = named_generation(handle);
    if (UNLIKELY(!place || place >= load_acquire(&named_count)) || UNLIKELY(!(generation & 1)))
        return NULL;
    struct named *named = named_at(place);
    return LIKELY(load_relaxed(&named->generation) == generation) ? named : NULL;
}
/* The same, but for members that have not grown. */
INLINE struct named *named_find(memctx_t handle) {
    struct named *named = named_find_placed(handle);
    return UNLIKELY(!named) && named_place(handle) & NAMED_MEMBER ? named_grown(handle) : named;
}
/* Of a named context's node; for dumps and messages. */
const char *named_name(uint32_t context);

/* Ends the program: `what` was done with that handle, and why it must not be. */
__attribute__((noreturn, cold)) void named_misused(const char *what, memctx_t handle,
                                                   const char *why);
/* The context, which is alive and the heap's; else the program ends. A member grows by it: NULL: out of memory. */
struct named *named_mine_further(struct heap *heap, memctx_t handle, const char *what);
INLINE struct named *named_mine(struct heap *heap, memctx_t handle, const char *what) {
    struct named *named = named_find(handle);
    if (UNLIKELY(!named))
        return named_mine_further(heap, handle, what);
    if (UNLIKELY(named->heap != heap))
        named_misused(what, handle, "belongs to another thread");
    return named;
}
/* The crowd of a member that has not grown, if it is the heap's, else the program ends; NULL: it is none. */
struct named *named_my_crowd(const struct heap *heap, memctx_t handle, const char *what);

/* By a thread whose heap is entered. */
memctx_t named_create(struct heap *heap, memctx_t parent, const char *name,
                      enum memctx_policy policy, unsigned flags,
                      bool plain); /* NULL: out of memory; plain: no more is asked of it for now */
/* It has no children, and was reset; its place is free after it. */
void named_end(struct heap *heap, struct named *named);
void named_end_member(struct named *crowd, memctx_t handle);
/* The context, without those below it, becomes nobody's: the shared heap has it. False: out of memory. */
bool named_give(struct heap *heap, struct named *named);
/* And somebody's again; also that of a thread that ended. False: out of memory. The program ends if it is somebody's. */
bool named_take(struct heap *heap, struct named *named);
/* A member of a crowd that is nobody's grows, so that it can be taken. NULL: out of memory. */
struct named *named_grow_of_nobody(memctx_t handle);
void named_set_parent(uint32_t place, uint32_t parent);
/* The handle of the context that a chunk is in; NULL: in none, or in one of another thread's. */
memctx_t named_owner(struct heap *heap, const void *chunk);
/* For the control thread: asks all contexts of that name to be reset; how many were asked last, how many have been reset since, and
 * what that freed. */
void named_ask_reset(const char *name);
struct named_answers {
    uint32_t asked, done;
    uint64_t freed_bytes;
} named_answers(const char *name);
/* For an allocation that is past the limit of the context, not entered: true: the program made room, try again. */
bool named_limit_reached(uint32_t context, size_t bytes);
/* The view of the context that the chunk is in, for a realloc: a member grows by it. NULL: it is in none of this heap's. */
struct view *named_view_of(struct heap *heap, const void *chunk);
memctx_t named_first_child(memctx_t handle); /* NULL: none */
memctx_t named_next(memctx_t handle);        /* the next child of its parent */
memctx_t named_parent(memctx_t handle);
/* The named contexts of a heap whose thread ended belong to nobody now: see region/hooks.h. */
void named_leave(struct heap *heap);

#endif
