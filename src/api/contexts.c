/* SPDX-License-Identifier: MIT */
/*
 * Named contexts of the program: the functions that memctx.h calls (memctx/weak.h), except those
 * that allocate and switch, which contexts_alloc.c has.
 *
 * A function that changes a context, or reads its figures, enters the thread's heap, as malloc
 * does. The program's callbacks run outside the allocator, because they may allocate.
 */
#include "api/contexts.h"
#include "context/tree.h"

NOINLINE struct heap *context_enter_own(void) {
    struct heap *heap;
    enum thread_access access = thread_enter_own(&heap);
    if (access == THREAD_OWN)
        return heap;
    thread_leave_any(heap, access);
    return NULL;
}

/* Like context_enter, but ends the program in the cases in which it returns NULL. */
static struct heap *must_enter(memctx_t context, const char *what) {
    struct heap *heap = context_enter();
    if (!heap)
        named_misused(what, context,
                      "is used in a signal handler, in a fork handler, or by a thread that is "
                      "ending; none of them may change a context");
    thread_settle(heap); /* a chunk whose free had to wait may be in the context */
    return heap;
}

struct named *context_enter_mine(struct heap **heap, memctx_t context, const char *what) {
    *heap = must_enter(context, what);
    struct named *named = named_mine(*heap, context, what);
    if (UNLIKELY(!named))
        thread_leave(*heap);
    return named;
}

/* Returns the context, which may belong to another thread; NULL for a member of a crowd. Ends the
 * program when the context was deleted. */
static struct named *find(memctx_t context, const char *what) {
    /* named_crowd_of is called first. If the owner lets the member grow between the two calls,
     * named_find finds the context that the member has become. */
    if (named_crowd_of(context))
        return NULL;
    struct named *named = named_find(context);
    if (!named)
        named_misused(what, context,
                      "was deleted, or its handle is invalid; a delete or reset of the parent "
                      "deletes it, too");
    return named;
}

/* The sizes of the structs of memctx.h in version 0.1.0. The functions of that version pass no
 * sizes. The numbers are written out, because the structs may grow and these sizes must not. */
enum { OPTIONS_0_1_BYTES = 24, LIMIT_0_1_BYTES = 24, STATS_0_1_BYTES = 64 };
_Static_assert(offsetof(struct memctx_options, identifier) + 8 == OPTIONS_0_1_BYTES, "0.1.0");
_Static_assert(offsetof(struct memctx_limit, argument) + 8 == LIMIT_0_1_BYTES, "0.1.0");
_Static_assert(offsetof(struct memctx_stats, children) + 4 == STATS_0_1_BYTES, "0.1.0");
_Static_assert(sizeof(struct memctx_callback) == 24, "programs pass no size: it cannot grow");
/* The library keeps a pointer to the program's struct memctx_limit. If this struct gets a further
 * field, struct named must also keep the size that the program passed. */
_Static_assert(sizeof(struct memctx_limit) == LIMIT_0_1_BYTES, "its size is not kept");

/* True if a program's struct of `bytes` bytes uses no field that this library does not know: behind
 * the first `known` bytes all bytes are zero. */
static bool asks_for_known(const void *from, size_t bytes, size_t known) {
    for (size_t i = known; i < bytes; i++)
        if (((const unsigned char *)from)[i])
            return false;
    return true;
}

/* False: the program's struct is of a version that this library cannot read. */
static bool limit_is_known(const struct memctx_limit *limit, size_t bytes) {
    return !limit || (bytes >= LIMIT_0_1_BYTES && asks_for_known(limit, bytes, sizeof *limit));
}

static memctx_t create(memctx_t parent, const char *name, enum memctx_policy policy,
                       const struct memctx_options *with) {
    struct heap *heap = memctx_version() ? context_enter() : NULL;
    if (!heap)
        return NULL;
    memctx_t made = named_create(heap, parent, name, policy, with ? with->flags : 0, !with);
    thread_leave(heap);
    if (made && with && with->identifier)
        memctx_do_identify(made, with->identifier);
    if (made && with && with->limit && memctx_do_set_limit(made, with->limit)) {
        memctx_do_delete(made);
        made = NULL;
    }
    return made;
}

EXPORT memctx_t memctx_do_create_sized(memctx_t parent, const char *name, enum memctx_policy policy,
                                       const struct memctx_options *with, size_t with_bytes,
                                       size_t limit_bytes) {
    struct memctx_options known = {0};
    if (!with)
        return create(parent, name, policy, NULL);
    if (!asks_for_known(with, with_bytes, sizeof known))
        return NULL;
    memcpy(&known, with, with_bytes < sizeof known ? with_bytes : sizeof known);
    return limit_is_known(known.limit, limit_bytes) ? create(parent, name, policy, &known) : NULL;
}

EXPORT memctx_t memctx_do_create_with(memctx_t parent, const char *name, enum memctx_policy policy,
                                      const struct memctx_options *with) {
    return memctx_do_create_sized(parent, name, policy, with, OPTIONS_0_1_BYTES, LIMIT_0_1_BYTES);
}

EXPORT memctx_t memctx_do_create(memctx_t parent, const char *name, enum memctx_policy policy) {
    return create(parent, name, policy, NULL);
}

static void call_back(memctx_t context, const char *what) {
    struct named *named;
    while ((named = find(context, what)) && named->callbacks) {
        struct memctx_callback *callback = named->callbacks;
        named->callbacks = callback->next; /* before the call, which may add another callback */
        callback->function(callback->argument);
    }
}

/* Frees the chunk of a member of a crowd. If `ends` is true, also ends the member. Returns false
 * when the context is no member of a crowd, or when `memctx reset` asked the crowd for a reset: the
 * member must then grow into a context of its own, because only such a context can answer the
 * request. `anyhow`: frees the chunk in spite of such a request, because there is no memory to grow
 * the member. */
static bool free_of_member(memctx_t context, const char *what, bool ends, bool anyhow) {
    struct heap *heap = must_enter(context, what);
    struct named *crowd = named_my_crowd(heap, context, what);
    bool may = crowd && (anyhow || !load_relaxed(&crowd->asking));
    uint64_t chunk = may ? load_acquire(&named_member(context)->chunk) : 0;
    if (chunk && member_state(chunk) == MEMBER_HAS)
        region_free(heap, member_address(chunk));
    if (may && ends)
        named_end_member(crowd, context);
    thread_leave(heap);
    return may;
}

/* Frees all chunks of the context, and answers a reset that `memctx reset --named` asked for
 * (named.wanted). A member of a crowd grows if only a grown context can answer. If there is no
 * memory for the growth, only the member's chunk is freed. */
static void free_all(memctx_t context, const char *what) {
    if (free_of_member(context, what, false, false))
        return;
    struct heap *heap;
    struct named *named = context_enter_mine(&heap, context, what);
    if (!named) {
        free_of_member(context, what, false, true);
        return;
    }
    uint32_t wanted = load_acquire(&named->wanted);
    uint64_t freed = region_reset(heap, named->view).bytes;
    if (named->done != wanted) {
        named->freed = freed;
        store_release(&named->done, wanted);
    }
    thread_leave(heap);
}

static memctx_t first_child(memctx_t context, const char *what) {
    find(context, what);
    return named_first_child(context);
}

static memctx_t next_child(memctx_t context, const char *what) {
    find(context, what);
    return named_next(context);
}

/* Returns the context at which a walk over `context` and the contexts below it starts. The walk
 * visits children before their parents. The walk uses no recursion, because a chain of contexts may
 * have any length. */
static memctx_t lowest(memctx_t context, const char *what) {
    for (memctx_t child; (child = first_child(context, what));)
        context = child;
    return context;
}

static memctx_t parent_of(memctx_t context, const char *what) {
    find(context, what);
    return named_parent(context);
}

/* Returns the context that the walk visits after `context`. `top` is the last context of the walk.
 * NULL: the walk is over. */
static memctx_t after(memctx_t context, memctx_t top, const char *what) {
    memctx_t next = context == top ? NULL : next_child(context, what);
    if (next)
        return lowest(next, what);
    return context == top ? NULL : parent_of(context, what);
}

static void check_mine(memctx_t context, const char *what) {
    struct heap *heap = must_enter(context, what);
    if (!named_my_crowd(heap, context, what))
        named_mine(heap, context, what);
    thread_leave(heap);
}

/* Frees the chunks of a context without children, and ends the context. A member that should grow
 * first, but gets no memory for it, ends without growing. */
static void end(memctx_t context, const char *what) {
    struct heap *heap;
    if (free_of_member(context, what, true, false))
        return;
    free_all(context, what);
    struct named *named = context_enter_mine(&heap, context, what);
    if (!named) {
        free_of_member(context, what, true, true);
        return;
    }
    if (context_switched(heap) == named->view)
        named_misused(what, context,
                      "is the current context of its thread; call memctx_switch first");
    named_end(heap, named);
    thread_leave(heap);
}

static void delete_below(memctx_t context, const char *what) {
    for (memctx_t at = lowest(context, what); at != context; at = lowest(at, what)) {
        memctx_t parent = parent_of(at, what);
        check_mine(at, what);
        call_back(at, what);
        if (first_child(at, what)) /* the callback created a child */
            continue;
        end(at, what);
        at = parent;
    }
}

/* Prepares a reset or a delete of `context`: deletes every context below it, and runs the callbacks
 * of all these contexts and of `context`. Repeats that while callbacks create children. */
static void prepare(memctx_t context, const char *what) {
    check_mine(context, what);
    do {
        delete_below(context, what);
        call_back(context, what);
    } while (first_child(context, what));
}

static void reset(memctx_t context, const char *what) {
    prepare(context, what);
    free_all(context, what);
}

EXPORT void memctx_do_reset(memctx_t context) {
    reset(context, "memctx_reset");
}

EXPORT void memctx_do_delete(memctx_t context) {
    static const char what[] = "memctx_delete";
    prepare(context, what);
    end(context, what);
}

EXPORT int memctx_do_reset_requested(memctx_t context) {
    const struct named *crowd = named_crowd_of(context);
    if (crowd)
        return load_relaxed(&crowd->asking) != 0;
    const struct named *named = find(context, "memctx_reset_requested");
    return named && load_relaxed(&named->wanted) != load_relaxed(&named->done);
}

EXPORT void memctx_do_reset_children(memctx_t context) {
    static const char what[] = "memctx_reset_children";
    check_mine(context, what);
    for (memctx_t at = lowest(context, what); at != context; at = after(at, context, what)) {
        call_back(at, what);
        free_all(at, what);
    }
}

/* Calls `move`, which is named_give or named_take, for one context. A member of a crowd grows
 * first, except when this thread takes a member that it owns already. Returns false if memory is
 * short, or if context_enter returns NULL for a take. */
static bool move_one(memctx_t context, const char *what,
                     bool (*move)(struct heap *heap, struct named *named)) {
    struct heap *heap;
    struct named *named = find(context, what);
    if (move == named_give) {
        if (named && named_is_nobodys(named)) /* an earlier memctx_give has given this context */
            return true;
        named = context_enter_mine(&heap, context, what);
        if (!named)
            return false;
        if (context_switched(heap) == named->view)
            named_misused(what, context,
                          "is the current context of its thread; call memctx_switch first");
    } else if (!(heap = context_enter())) {
        return false;
    } else if (!named) {
        const struct named *crowd = named_crowd_of(context);
        bool mine = crowd && crowd->heap == heap;
        named = mine ? NULL : named_grow_of_nobody(context);
        if (!named) {
            thread_leave(heap);
            return mine;
        }
    }
    bool moved = move(heap, named);
    thread_leave(heap);
    return moved;
}

/* Calls `move` for the context and every context below it. */
static bool move_all(memctx_t context, const char *what,
                     bool (*move)(struct heap *heap, struct named *named)) {
    bool all = true;
    for (memctx_t at = lowest(context, what); at; at = after(at, context, what))
        all &= move_one(at, what, move);
    return all;
}

EXPORT int memctx_do_hand_over(memctx_t context) {
    return move_all(context, "memctx_give", named_give) ? 0 : -1;
}

EXPORT int memctx_do_take(memctx_t context) {
    return move_all(context, "memctx_take", named_take) ? 0 : -1;
}

EXPORT memctx_t memctx_do_parent(memctx_t context) {
    return parent_of(context, "memctx_parent");
}

static uint32_t place_of(const struct named *named) {
    return (uint32_t)tree_node(named->context)->address;
}

EXPORT void memctx_do_set_parent(memctx_t context, memctx_t parent) {
    static const char what[] = "memctx_set_parent";
    struct heap *heap;
    const struct named *named = context_enter_mine(&heap, context, what);
    if (!named)
        return;
    const struct named *above = parent ? named_mine(heap, parent, what) : NULL;
    if (above || !parent)
        named_set_parent(place_of(named), above ? place_of(above) : 0);
    thread_leave(heap);
}

EXPORT int memctx_do_is_empty(memctx_t context) {
    struct heap *heap = must_enter(context, "memctx_is_empty");
    if (named_my_crowd(heap, context, "memctx_is_empty")) {
        uint64_t chunk = load_acquire(&named_member(context)->chunk);
        thread_leave(heap);
        return !chunk || member_state(chunk) == MEMBER_HAD;
    }
    struct named *named = named_mine(heap, context, "memctx_is_empty");
    uint64_t chunks = region_alive(heap, named->view).chunks;
    thread_leave(heap);
    return !chunks;
}

EXPORT const char *memctx_do_name(memctx_t context) {
    const struct named *crowd = named_crowd_of(context);
    const struct named *named = crowd ? crowd : find(context, "memctx_name");
    return named ? named->name : "";
}

EXPORT const char *memctx_do_identifier(memctx_t context) {
    const struct named *named = find(context, "memctx_identifier");
    return named ? named->identifier : "";
}

/* Returns a context of this thread. A member of a crowd first grows into a context of its own.
 * NULL: memory for the growth is short. */
static struct named *mine(memctx_t context, const char *what) {
    struct heap *heap;
    struct named *named = context_enter_mine(&heap, context, what);
    if (named)
        thread_leave(heap);
    return named;
}

EXPORT void memctx_do_identify(memctx_t context, const char *identifier) {
    struct named *named = mine(context, "memctx_set_identifier");
    if (!named)
        return;
    identifier = identifier ? identifier : "";
    size_t length = text_cut(identifier, sizeof named->identifier - 1);
    /* the program may pass a part of the present identifier */
    __builtin_memmove(named->identifier, identifier, length);
    named->identifier[length] = 0;
}

EXPORT void memctx_do_call_on_reset(memctx_t context, struct memctx_callback *callback) {
    struct named *named = mine(context, "memctx_add_callback");
    if (!named)
        return;
    callback->next = named->callbacks;
    named->callbacks = callback;
}

EXPORT int memctx_do_set_limit_sized(memctx_t context, const struct memctx_limit *limit,
                                     size_t limit_bytes) {
    struct heap *heap;
    if (!limit_is_known(limit, limit_bytes))
        return -1;
    struct named *named = context_enter_mine(&heap, context, "memctx_set_limit");
    if (!named)
        return -1;
    bool set = region_limit(heap, named->view, limit ? limit->bytes : 0);
    if (set)
        named->limit = limit;
    thread_leave(heap);
    return set ? 0 : -1;
}

EXPORT int memctx_do_set_limit(memctx_t context, const struct memctx_limit *limit) {
    return memctx_do_set_limit_sized(context, limit, LIMIT_0_1_BYTES);
}

/* Returns zeros for a member of a crowd when there is no memory to let it grow into a context of
 * its own. */
static struct memctx_stats stats_of(memctx_t context) {
    struct memctx_stats stats = {0};
    struct heap *heap;
    struct named *named = context_enter_mine(&heap, context, "memctx_get_stats");
    if (!named)
        return stats;
    const struct view *view = named->view;
    struct region_size size = region_size(heap, named->view);
    struct region_alive alive = region_alive(heap, named->view);
    stats = (struct memctx_stats){
        .requested_bytes = alive.bytes,
        .chunks = alive.chunks,
        .peak_bytes = (uint64_t)view->peak_bytes,
        .allocs = view->allocs,
        .frees = view->allocs - alive.chunks,
        .reserved_bytes = size.reserved_bytes,
        .pages = size.pages,
        .limit_bytes = view->region ? region_of(view->region)->limit : 0,
    };
    if (stats.reserved_bytes > stats.requested_bytes)
        stats.free_bytes = stats.reserved_bytes - stats.requested_bytes;
    stats.children = named_count_children(named);
    thread_leave(heap);
    return stats;
}

EXPORT void memctx_do_get_stats_sized(memctx_t context, struct memctx_stats *stats,
                                      size_t stats_bytes) {
    struct memctx_stats known = stats_of(context);
    size_t bytes = stats_bytes < sizeof known ? stats_bytes : sizeof known;
    memcpy(stats, &known, bytes);
    memset((char *)stats + bytes, 0, stats_bytes - bytes);
}

EXPORT void memctx_do_stats(memctx_t context, struct memctx_stats *stats) {
    memctx_do_get_stats_sized(context, stats, STATS_0_1_BYTES);
}

EXPORT int memctx_do_walk(memctx_t context,
                          int (*visit)(memctx_t context, int depth, void *argument),
                          void *argument) {
    static const char what[] = "memctx_walk";
    check_mine(context, what);
    int depth = 0;
    for (memctx_t at = context;;) {
        int result = visit(at, depth, argument);
        memctx_t next = first_child(at, what);
        depth += next != NULL;
        for (; !next && at != context; depth -= !next) {
            next = next_child(at, what);
            at = next ? at : parent_of(at, what);
        }
        if (result || !next)
            return result;
        at = next;
    }
}

EXPORT const char *memctx_do_check(memctx_t context) {
    struct heap *heap;
    struct named *named = context_enter_mine(&heap, context, "memctx_check");
    if (!named)
        return NULL;
    const char *wrong = region_named_check(heap, named->view);
    thread_leave(heap);
    return wrong;
}
