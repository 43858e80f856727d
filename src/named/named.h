/* SPDX-License-Identifier: MIT */
/*
 * named.h - contexts that the program makes itself: names, tree, owners.
 *
 * Each named context but the members of crowds (below) has a place: an entry of 128 bytes in a
 * table. The place belongs to a node of the tree of contexts, below the node of the context's
 * parent. A place that was given up is used again for the next context of the same name below the
 * same parent. The node therefore keeps the history of all these contexts, and a name below one
 * parent has as many nodes as contexts of this kind were ever alive at one time. A program's handle
 * is a place and its generation. A delete changes the generation, so a handle that is out of date
 * differs from a valid one.
 *
 * If NAMED_MANY contexts of one name are below one parent, each new one of that name begins as a
 * member of a crowd (region/member.h). A member shares the node of the crowd, which is a hidden
 * context. A member grows into a context with a place when the program asks for something that a
 * member cannot have, such as a second chunk. The handle of a grown member stays valid, and so does
 * its entry in the list of its parent's children (crowd.c).
 *
 * For: lifetimes that the program knows. Cannot do: let two threads use one context. A context
 * belongs to one thread, and only that thread allocates in the context, resets and deletes it. Any
 * thread may free and read chunks, but not while the context is reset or deleted.
 *
 * Source: PostgreSQL's memory contexts (src/backend/utils/mmgr): the tree, reset, delete, switch,
 * callbacks, identifiers.
 *
 * Threads: a function that gets a heap is called by the thread that has entered this heap.
 * region_lock guards the table and the lists of children. Misuse ends the program, with a line that
 * names the context.
 */
#ifndef MEMCTX_NAMED_H
#define MEMCTX_NAMED_H

#include "memctx.h"
#include "region/member.h"
#include "region/reset.h"

#define NAMED_PLACES_PER_BLOCK 1024U
#define NAMED_BLOCKS 1024U /* 1 M places */
#define NAMED_LEVELS 500U  /* levels of nodes below the root */
/* A value of `policy`: the place stands for a crowd, which no handle names. */
#define NAMED_CROWD 255U
/* when there are this many contexts of one name below one parent, each new one is a member */
#define NAMED_MANY 1024U
#define NAMED_MEMBER (1U << 31) /* flag in a place: the other bits are a member's number */

struct named {
    uint32_t generation; /* atomic; odd while the context is alive */
    uint32_t context;    /* id of the context's node; 0: none yet */
    struct heap *heap;   /* the heap of the thread that owns the context */
    struct view *view;   /* counters of the context in that heap */
    /* Place of the parent, or the number of a member that has not grown, with NAMED_MEMBER; 0:
     * none.
     */
    uint32_t parent;
    union {
        uint32_t first_child; /* named_link of the first child; 0: none */
        uint32_t members;     /* in a crowd: number of members that have not grown */
    };
    /* The neighbours in the parent's list of children, as numbers of named_link; 0: none. A context
     * that grew from a member keeps its neighbours in struct member. */
    uint32_t next, prev;
    /* Place of the parent at creation, 0: none. The node stays below that parent's node, although
     * memctx_set_parent changes `parent`. */
    uint32_t made_below;
    union {
        /* In a place that was given up: the next place of this name and parent that was given up;
         * 0: none. */
        uint32_t spare;
        /* In a crowd, atomic: true while `wanted` asks the members for a reset. While it is true,
         * the crowd takes no new members. */
        uint32_t asking;
    };
    uint32_t policy : 8;  /* enum memctx_policy, or NAMED_CROWD */
    uint32_t member : 24; /* the context's member number before it grew; 0: it never was a member */
    struct memctx_callback *callbacks; /* newest first; only the owner uses the list */
    const char *name;                  /* name of the context's kind; never freed */
    /* For `memctx reset --named`: `wanted` is the number of the control thread's last request, and
     * `done` is the number of the last request that the owner answered by a reset. In a crowd,
     * `done` counts the members that answered the request and then ended, and `freed` adds up the
     * bytes that these members freed. */
    uint32_t wanted, done; /* atomic */
    uint64_t freed;        /* requested bytes that the owner's answer freed */
    /* Only the owner uses the limit. NULL: there is none. While the limit's function runs, a limit
     * without a function stands here (named.c). */
    const struct memctx_limit *limit;
    char identifier[32]; /* text that tells contexts of one name apart; "": none */
};
_Static_assert(sizeof(struct named) == 128, "as the header says");

INTERNAL struct named *named_blocks[NAMED_BLOCKS]; /* atomic */
/* atomic: the first place that was never used; place 0 means no context */
INTERNAL uint32_t named_count;

INLINE struct named *named_at(uint32_t place) {
    if (place >= NAMED_PLACES_PER_BLOCK * NAMED_BLOCKS)
        __builtin_unreachable(); /* else gcc 16 warns at -O3 of a place that no caller has */
    return &load_acquire(
        &named_blocks[place / NAMED_PLACES_PER_BLOCK])[place % NAMED_PLACES_PER_BLOCK];
}
INLINE uint32_t named_place(memctx_t handle) {
    return (uint32_t)(uintptr_t)handle;
}
INLINE uint32_t named_generation(memctx_t handle) {
    return (uint32_t)((uintptr_t)handle >> 32);
}
/* Returns the number that stands for a live context in its handle and in lists of children: its
 * place, or for a context that grew from a member, the member's number with NAMED_MEMBER. */
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
/* Returns the crowd of a live member that has not grown. NULL: the handle names no such member. */
struct named *named_crowd_of(memctx_t handle);
/* Returns the context that a member has grown into. NULL: the handle names no member that has
 * grown. */
struct named *named_grown(memctx_t handle);
/* Returns NULL if the context was deleted, never existed, or began as a member. */
INLINE struct named *named_find_placed(memctx_t handle) {
    uint32_t place = named_place(handle), generation = named_generation(handle);
    if (UNLIKELY(!place || place >= load_acquire(&named_count)) || UNLIKELY(!(generation & 1)))
        return NULL;
    struct named *named = named_at(place);
    return LIKELY(load_relaxed(&named->generation) == generation) ? named : NULL;
}
/* Like named_find_placed, but also finds the context that a member has grown into. Returns NULL for
 * a member that has not grown. */
INLINE struct named *named_find(memctx_t handle) {
    struct named *named = named_find_placed(handle);
    return UNLIKELY(!named) && named_place(handle) & NAMED_MEMBER ? named_grown(handle) : named;
}
/* How many bytes of a name a message shows, so that the rest of the message fits into its line. */
#define NAMED_SHOWN 100U
/* Returns the name of a named context's node, for dumps and messages. */
const char *named_name(uint32_t context);
/* Returns the placement that follows from the policy that the program gave a named context. */
enum placement named_placement(uint32_t context);

/* Ends the program with a message: `what` names the function that got the handle, `why` says what
 * is wrong with the context. */
__attribute__((noreturn, cold)) void named_misused(const char *what, memctx_t handle,
                                                   const char *why);
/* Ends the program because the context belongs to another heap. */
__attribute__((noreturn, cold)) void named_not_mine(const char *what, memctx_t handle,
                                                    const struct named *named);
/* Returns the context of the handle. Ends the program unless the context is alive and belongs to
 * the heap. A member first grows into a context; NULL: memory for the growth is short. */
struct named *named_mine_of_crowd(struct heap *heap, memctx_t handle, const char *what);
INLINE struct named *named_mine(struct heap *heap, memctx_t handle, const char *what) {
    struct named *named = named_find(handle);
    if (UNLIKELY(!named))
        return named_mine_of_crowd(heap, handle, what);
    if (UNLIKELY(named->heap != heap))
        named_not_mine(what, handle, named);
    return named;
}
/* Like named_crowd_of, but ends the program if the crowd belongs to another heap. */
struct named *named_my_crowd(const struct heap *heap, memctx_t handle, const char *what);

/* Makes a context. The caller has entered its heap. `plain`: the program has given no options, so
 * the context may begin as a member of a crowd. Returns NULL if memory is short, if `name` is NULL,
 * or if the policy or a flag is unknown. */
memctx_t named_create(struct heap *heap, memctx_t parent, const char *name,
                      enum memctx_policy policy, unsigned flags, bool plain);
/* Ends a context that has no children and was reset. Its place is free afterwards. */
void named_end(struct heap *heap, struct named *named);
/* Allocates the member's first chunk, on the account of the crowd's view. NULL: the member has
 * to grow, or there is no memory. */
void *named_alloc_in_member(struct heap *heap, struct view *crowd, uint32_t number, size_t size,
                            bool *fresh);
/* Ends a member that has not grown and was reset. */
void named_end_member(struct named *crowd, memctx_t handle);
/* Makes the context belong to no thread: the shared heap takes it. The contexts below it keep their
 * owners. Returns false if memory is short. */
bool named_give(struct heap *heap, struct named *named);
/* True when the shared heap has the context, so that no thread owns it. */
INLINE bool named_is_nobodys(const struct named *named) {
    return load_relaxed(&load_acquire(&named->heap)->state) == HEAP_SHARED;
}
/* Gives a context of no thread, or of a thread that ended, to this heap; changes nothing if the
 * context belongs to this heap already. Returns false if memory is short. Ends the program if the
 * context belongs to another running thread. */
bool named_take(struct heap *heap, struct named *named);
/* Grows a member of a crowd that belongs to no thread, so that the member can be taken. Returns
 * NULL if memory is short. Ends the program if the crowd belongs to a running thread. */
struct named *named_grow_of_nobody(memctx_t handle);
/* Moves a context below another parent. `parent` 0: the context gets no parent. Ends the program if
 * the new parent is the context itself or below it. */
void named_set_parent(uint32_t place, uint32_t parent);
/* Returns the handle of the chunk's context. NULL: the chunk is in no named context, or in a
 * context of another thread. */
memctx_t named_owner(struct heap *heap, const void *chunk);
/* Asks the owners of all contexts that have the name for a reset. False: no context has it.
 * named_answers tells how many contexts the last request for the name asked, how many of them were
 * reset since, and how many bytes these resets freed. named_end_old_requests lets crowds take new
 * members again when neither function was called for a minute. Control thread only. */
bool named_ask_reset(const char *name);
struct named_answers {
    uint32_t asked, done;
    uint64_t freed_bytes;
} named_answers(const char *name);
void named_end_old_requests(void);
/* Calls the limit function of a context when an allocation exceeds the limit. The caller has not
 * entered its heap. True means that the program made room, so the allocation is tried again. */
bool named_limit_reached(uint32_t context, size_t bytes);
/* Returns the view that pays for a chunk after a realloc, in a program with named contexts. A chunk
 * of a named context stays in that context, so that the chunk lives as long as the context. While
 * the thread is switched to a named context, a chunk of no named context stays with its call path's
 * view. NULL: the view of the path that resizes the chunk pays. */
struct view *context_view_kept(struct heap *heap, const void *chunk);
memctx_t named_first_child(memctx_t handle); /* NULL: none */
memctx_t named_next(memctx_t handle); /* the next child of this context's parent; NULL: none */
memctx_t named_parent(memctx_t handle);
/* Returns the number of direct children. Other threads may create and delete children meanwhile. */
uint32_t named_count_children(const struct named *named);
/* Sets region_hooks (region/hooks.h), the functions of higher layers that region calls for a
 * misused chunk, a limit that is passed, and the end of a thread. Called before a thread takes a
 * heap. */
void named_set_hooks(void);
/* Makes the named contexts of a heap belong to no thread, because the heap's thread ended. Region
 * calls this through region/hooks.h. */
void named_leave(struct heap *heap);

#endif
