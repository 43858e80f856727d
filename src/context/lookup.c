/* SPDX-License-Identifier: MIT */
/* Finds the view that pays when the first guess failed: searches the traces, replays a change of
 * the stack, or walks the stack; see lookup.h. */
#include "context/lookup.h"
#include "context/evict.h"
#include "context/tree.h"
#include "context/verify.h"
#include "path/oracle.h"

struct view *context_view_fixed(struct heap *heap, uint32_t fixed_context) {
    /* The first view pays for everything that cannot be charged elsewhere, so it is made first. */
    if (heap->view_count <= 1 && !heap_view_within(heap, TREE_UNKNOWN, TABLES_UNCOUNTED))
        return NULL;
    return heap_view_within(heap, fixed_context, TABLES_UNCOUNTED);
}

/* Compares the path of every Nth look-up with a fresh walk by libunwind. N is MEMCTX_VERIFY. */
static void verify(struct heap *heap, const struct view *view) {
    struct paths *paths = paths_of(heap);
    if (paths->verify_left > 1) {
        paths->verify_left--;
        return;
    }
    paths->verify_left = (uint32_t)load_relaxed(&options.verify);
    /* The shared heap serves signal handlers too, and a handler may have interrupted libunwind. */
    if (!oracle_is_loaded() || heap->state == HEAP_SHARED || view->context < TREE_FIXED_COUNT ||
        tree_is_named(view->context))
        return;
    verify_path(view->context, (unsigned)load_relaxed(&options.depth), paths->fold_epoch);
}

/* after this many walks, a stack that was too deep is walked to its end once more */
#define DEEP_AGAIN_EVERY 4096U

/* Walks the stack and returns the view that pays for it. Sets *wanted to the number of frames that
 * the walk had to find, and *kind to the kind of trace that may lead to the view. */
INLINE struct view *walk(struct heap *heap, uintptr_t frame, unsigned depth, size_t size,
                         unsigned *wanted, enum trace_kind *kind) {
    struct paths *paths = paths_of(heap);
    struct stack *stack = &paths->stack;
    *wanted = admit_walk_depth(paths, frame, depth);
    stack_walk(stack, frame, *wanted);
    if (UNLIKELY(*wanted != depth) && stack->end == STACK_OPEN)
        paths->deep_sp = frame;
    else if (UNLIKELY(paths->deep_sp) && !(paths->missed % DEEP_AGAIN_EVERY))
        paths->deep_sp = 0;
    store_owner(&paths->missed, paths->missed + 1);
    if (stack->count > stack->kept + CACHE_NEAR_FRAMES)
        add_owner(&paths->walked_far, 1);
    evict_look_begins(heap);
    struct view *view = admit_view(heap, depth, *wanted, size, kind);
    evict_look_ends(heap);
    if (UNLIKELY(stack->astray))
        stack->end = STACK_BROKEN; /* the next walk goes over no frame of this one */
    if (UNLIKELY(stack->end == STACK_BROKEN)) {
        admit_forget(paths);
        *kind = TRACE_NONE;
    }
    return view;
}

/* For look-ups that use the table of traces: walks the stack, and puts the path into the table at
 * the place that `hash` gives. */
static struct view *walk_to_keep(struct heap *heap, uintptr_t frame, unsigned depth, size_t size,
                                 uint64_t hash) {
    struct paths *paths = paths_of(heap);
    unsigned wanted;
    enum trace_kind kind;
    struct view *view = walk(heap, frame, depth, size, &wanted, &kind);
    if (paths->quiet) {
        paths->quiet--;
    } else if (kind != TRACE_NONE && heap->state != HEAP_SHARED && LIKELY(paths->traces != NULL)) {
        /* The shared heap keeps no trace, because the heap serves many stacks. `traces` is NULL if
         * the look-up gave them back. */
        cache_learn_hints(paths);
        if (view && view->context != TREE_UNKNOWN)
            cache_keep(paths, hash, view, wanted, kind);
    }
    return view;
}

/* For look-ups that pass over the table of traces: walks the stack, and notes how the stack has
 * changed. */
static struct view *walk_to_replay(struct heap *heap, uintptr_t frame, unsigned depth,
                                   size_t size) {
    struct paths *paths = paths_of(heap);
    unsigned wanted;
    enum trace_kind kind;
    replay_before(paths);
    struct view *view = walk(heap, frame, depth, size, &wanted, &kind);
    if (view)
        replay_note(paths, view);
    return view;
}

/* There are two ways to find a path: by the table of traces, or past the table, by replays and
 * walks. After each window of look-ups, the mean ns of a look-up by the present way are estimated
 * and compared with those of the other way in its last window. The faster way is used next. The
 * other way is also tried when the ns that it could have saved at best add up to paths.patience,
 * which doubles with each such trial. */
#define WINDOW 16384U      /* look-ups */
#define WINDOW_TRIAL 4096U /* look-ups after a change of the way */
#define COST_FOUND 7U      /* ns of a right first guess whose trace is in the processor's cache */
#define COST_REPLAY 15U    /* ns of a replay that finds the view */
#define COST_SEARCH 40U    /* ns of a search of the traces */
/* After each window, window_ends adds to `hoped` the ns that the other way could have saved for a
 * mean look-up, at most HOPE_MAX. But if it could have saved more than CACHE_PATIENCE ns, all of
 * them are added: one window then leads to the first trial. */
#define HOPE_MAX 50U
#define PATIENCE_MAX (64U * CACHE_PATIENCE)
/* While some trace leads to a site, the cache is flushed when the tables have room for this many
 * bytes: the path of that trace may then get a context of its own. */
#define SITES_ROOM (16 << 10)

/* Returns the cost of a right first guess, in ns. The more traces there are, the fewer of them are
 * in the processor's caches. */
static uint32_t cost_found(const struct paths *paths) {
    uint64_t traces = paths->trace_count < 4096 ? paths->trace_count : 4096;
    uint64_t few = traces < 512 ? traces : 512;
    return COST_FOUND + (uint32_t)(few * 8 / 512 + traces * 7 / 4096);
}

/* Returns the cost of the last walk, in ns, estimated from the number of nodes that were looked up
 * and of words that were compared. */
static uint32_t cost_walk(const struct paths *paths) {
    return 50 + 25 * paths->looked_up + paths->stack.check_count;
}

static void window_begin(struct paths *paths, uint32_t window) {
    paths->seen = paths->spent = paths->found_in_window = 0;
    paths->window = window;
}

static void change_way(struct paths *paths) {
    paths->hoped = 0;
    paths->passing = !paths->passing;
    paths->walking = 0;
    if (paths->passing)
        replay_hope(paths);
    window_begin(paths, WINDOW_TRIAL);
}

static NOINLINE void window_ends(struct paths *paths) {
    add_relaxed(&admit_looked_up, paths->seen);
    uint32_t found = paths->passing ? 0 : paths->found_in_window * cost_found(paths);
    uint32_t cost = (found + paths->spent) / paths->seen, other = paths->cost[!paths->passing];
    uint32_t least = paths->passing ? COST_FOUND : COST_REPLAY;
    uint32_t hope = cost > least ? cost - least : 0;
    paths->cost[paths->passing] = cost;
    paths->hoped += hope < HOPE_MAX || hope > CACHE_PATIENCE ? hope : HOPE_MAX;
    window_begin(paths, WINDOW);
    if (UNLIKELY(paths->site_traced) && tables_have_room(SITES_ROOM, TABLES_OFTEN)) {
        paths->site_traced = false;
        cache_flush(paths);
    }
    if (other && cost > other) {
        change_way(paths);
    } else if (paths->hoped > paths->patience[paths->passing]) {
        if (paths->patience[paths->passing] < PATIENCE_MAX)
            paths->patience[paths->passing] *= 2;
        change_way(paths);
    } else if (paths->passing && paths->walking < CACHE_WALKING_LONG) {
        if (++paths->walking == CACHE_WALKING_LONG)
            cache_shrink(paths);
    }
}

INLINE uint64_t searched(const struct paths *paths) {
    return paths->guessed + paths->replayed;
}

/* Counts look-ups in the present window. When the window is full, window_ends judges whether the
 * way of looking up pays. `seen` look-ups were made since the last call. `found` of these look-ups
 * were right first guesses; all other look-ups together cost `spent` ns. */
INLINE void judge(struct paths *paths, uint32_t seen, uint32_t found, uint32_t spent) {
    paths->seen += seen;
    paths->found_in_window += found;
    paths->spent += spent;
    if (UNLIKELY(paths->seen >= paths->window))
        window_ends(paths);
}

/* True while the thread is switched to a named context, which pays for all of its allocations. */
static bool is_switched(const struct paths *paths) {
    return paths->fixed && tree_is_named(paths->fixed->context);
}

/* Chooses the fast way of the next allocations: the table of traces, or replays (past the table).
 * With depth 0, or while the thread is switched to a named context, one view pays for all
 * allocations, without a look-up. */
static void ways_open(struct paths *paths) {
    bool check = options.check;
    bool fixed = UNLIKELY(!load_relaxed(&options.depth)) || UNLIKELY(is_switched(paths));
    /* With MEMCTX_VERIFY or MEMCTX_CHECK every allocation is to be looked up. */
    uint32_t fast = load_relaxed(&options.verify) <= 0 && !fixed && !check ? paths->generation : 0;
    store_owner(&paths->fast_generation, paths->passing || !paths->traces ? 0 : fast);
    store_owner(&paths->replay_generation, paths->passing ? fast : 0);
    store_owner(&paths->fixed_generation, fixed && paths->fixed && !check ? paths->generation : 0);
}

/* Closes the fast ways, so that the next allocation is looked up and timed. */
void context_time_next(struct paths *paths) {
    paths->timing = true;
    store_owner(&paths->fast_generation, 0);
    store_owner(&paths->replay_generation, 0);
    store_owner(&paths->fixed_generation, 0);
}

INLINE bool traces_are_wanted(const struct paths *paths) {
    return UNLIKELY(load_relaxed(&tables_want_traces)) &&
           (paths->trace_room > CACHE_TRACES_FIRST || replay_is_grown(paths));
}

/* Finds the view by a replay, or else walks the stack. Judges whether replaying pays. */
INLINE struct view *look_up_replayed(struct heap *heap, uintptr_t frame, unsigned depth,
                                     size_t size) {
    struct paths *paths = paths_of(heap);
    struct view *view = replay(paths, frame);
    uint32_t cost = COST_REPLAY;
    if (view) {
        store_owner(&paths->replayed, paths->replayed + 1);
    } else {
        view = walk_to_replay(heap, frame, depth, size);
        cost = cost_walk(paths);
    }
    judge(paths, 1, 0, cost);
    return view;
}

/* Finds the view among the traces, or else walks the stack and keeps the walk as a trace. Judges
 * whether searching the traces pays. */
INLINE struct view *look_up_traced(struct heap *heap, uintptr_t frame, unsigned depth,
                                   size_t size) {
    struct paths *paths = paths_of(heap);
    uint64_t hash;
    uint32_t found = paths->found, cost = COST_SEARCH;
    struct view *view = NULL;
    /* With MEMCTX_VERIFY, context_view_searched makes no guess, and guesses are to be compared. */
    if (UNLIKELY(load_relaxed(&options.verify) > 0) && paths->fold_epoch)
        view = cache_guess_folded(paths, frame);
    if (!view)
        view = cache_search(paths, frame, &hash);
    if (!view) {
        view = walk_to_keep(heap, frame, depth, size, hash);
        cost = COST_SEARCH + cost_walk(paths);
    }
    paths->found = 0;
    judge(paths, found + 1, found, cost);
    return view;
}

static NOINLINE struct view *look_up(struct heap *heap, uintptr_t frame, size_t size) {
    struct paths *paths = paths_of(heap);
    uint32_t generation = load_acquire(&unwind_rules_generation);
    evict_look(heap);
    if (UNLIKELY(traces_are_wanted(paths))) {
        store_owner(&tables_want_traces, false);
        if (replay_is_grown(paths))
            replay_end(paths);
        cache_shrink(paths);
        admit_shrink(paths);
    }
    if (UNLIKELY(!paths->traces) && !cache_make(paths)) {
        add_relaxed(&heap_global.lost_views, 1);
        return context_view_fixed(heap, TREE_UNKNOWN);
    }
    if (UNLIKELY(paths->generation != generation)) {
        cache_flush(paths);
        admit_forget(paths);
        admit_forget_known(paths);
        replay_forget(paths);
        paths->generation = generation;
    }
    struct view *view;
    if (UNLIKELY(is_switched(paths))) {
        paths->timing = false;
        ways_open(paths);
        return paths->fixed;
    }
    /* read once: `memctx set` may change the depth meanwhile */
    unsigned depth = (unsigned)load_relaxed(&options.depth);
    if (UNLIKELY(!depth)) {
        view = context_view_fixed(heap, TREE_NO_PATHS);
        if (view && view->context == TREE_NO_PATHS)
            paths->fixed = view;
        ways_open(paths);
        return view;
    }
    if (paths->passing)
        view = look_up_replayed(heap, frame, depth, size);
    else
        view = look_up_traced(heap, frame, depth, size);
    paths->timing = false;
    ways_open(paths);
    context_time_soon(heap);
    if (UNLIKELY(load_relaxed(&options.verify) > 0) && view)
        verify(heap, view);
    return view;
}

/* Looks up a path past the table of traces, when no replay found it. Does only that part of look_up
 * which is needed while the thread has a table of traces and the depth is not 0. */
static struct view *look_past(struct heap *heap, uintptr_t frame, unsigned depth, size_t size) {
    struct paths *paths = paths_of(heap);
    evict_look(heap);
    struct view *view = walk_to_replay(heap, frame, depth, size);
    judge(paths, 1, 0, cost_walk(paths));
    if (UNLIKELY(!paths->passing))
        ways_open(paths);
    context_time_soon(heap);
    return view;
}

struct context_timing context_time_begins(struct heap *heap) {
    heap_await(heap);
    struct paths *paths = paths_of(heap);
    struct context_timing timing = {
        .paths = paths, .searched = searched(paths), .walked = paths->missed};
    paths->timing = false;
    ways_open(paths);
    uint64_t before = os_now_exact_ns();
    timing.begun_ns = os_now_exact_ns();
    timing.clock_ns = (int64_t)(timing.begun_ns - before);
    return timing;
}

/* A longer time means that the thread was interrupted during the allocation; a negative one, that
 * it was interrupted between the two readings of the clock in context_time_begins. */
#define TIMED_MAX_NS 1000000

void context_time_ends(const struct context_timing *timing) {
    int64_t ns = (int64_t)(os_now_exact_ns() - timing->begun_ns) - timing->clock_ns;
    struct paths *paths = timing->paths;
    enum path_kind kind = paths->missed != timing->walked       ? PATH_WALKED
                          : searched(paths) != timing->searched ? PATH_SEARCHED
                                                                : PATH_FOUND;
    if (ns < 0 || ns > TIMED_MAX_NS)
        return;
    add_owner(&paths->timed_ns[kind], (uint64_t)ns);
    add_owner(&paths->timed_count[kind], 1);
}

#define REPLAYS_JUDGED 1024U /* replays between two calls of judge */

/* Finds the view for a look-up that passes over the table of traces. */
static NOINLINE struct view *view_past(struct heap *heap, uintptr_t frame, size_t size) {
    struct paths *paths = paths_of(heap);
    struct view *view = replay(paths, frame);
    /* read once: `memctx set` may change the depth meanwhile */
    unsigned depth = (unsigned)load_relaxed(&options.depth);
    if (!view)
        return UNLIKELY(!paths->traces) || UNLIKELY(!depth) || UNLIKELY(traces_are_wanted(paths))
                   ? look_up(heap, frame, size)
                   : look_past(heap, frame, depth, size);
    store_owner(&paths->replayed, paths->replayed + 1);
    if (UNLIKELY(!(paths->replayed % REPLAYS_JUDGED))) {
        judge(paths, REPLAYS_JUDGED, 0, REPLAYS_JUDGED * COST_REPLAY);
        ways_open(paths);
    }
    return view;
}

NOINLINE struct view *context_view_searched(struct heap *heap, uintptr_t frame, size_t size) {
    heap_await(heap);
    struct paths *paths = paths_of(heap);
    uint32_t generation = load_relaxed(&unwind_rules_generation);
    if (load_plain(&paths->replay_generation) == generation)
        return view_past(heap, frame, size);
    struct view *view = NULL;
    if (paths->fold_epoch && load_plain(&paths->fast_generation) == generation)
        view = cache_guess_folded(paths, frame);
    return view ? view : look_up(heap, frame, size);
}

void context_switch(struct heap *heap, struct view *view) {
    heap_await(heap);
    struct paths *paths = paths_of(heap);
    paths->fixed = view;
    ways_open(paths);
}

struct view *context_switched(struct heap *heap) {
    struct paths *paths = paths_of(heap);
    return is_switched(paths) ? paths->fixed : NULL;
}

void context_fork_child(struct heap *heap) {
    tree_fork_child();
    if (heap)
        paths_of(heap)->quiet = CACHE_QUIET;
}

void context_thread_changes(struct heap *heap) {
    heap_await(heap);
    struct paths *paths = paths_of(heap);
    paths->stack.count = 0;
    paths->stack.low = paths->stack.high = 0;
    paths->deep_sp = 0;
    admit_forget(paths);
}

/* This many parked heaps keep their first tables, so that new threads which adopt them need not
 * make any. */
#define PARKED_READY 8U
/* The least limit of the tables with which parked heaps keep their first tables. These tables take
 * at most an eighth of this limit. A smaller limit has no room for them. */
#define PARKED_READY_LIMIT_MIN (1L << 20)

static bool may_park_ready(void) {
    return load_relaxed(&heap_global.parked) < PARKED_READY &&
           load_relaxed(&tables_limit_known) >= PARKED_READY_LIMIT_MIN;
}

void context_forget(struct heap *heap) {
    heap_await(heap);
    paths_of(heap)->fixed = NULL;
    cache_end(paths_of(heap), !may_park_ready());
    admit_end(paths_of(heap));
    replay_end(paths_of(heap));
    heap->kept_bytes = paths_of(heap)->traces ? TABLES_PARKED_READY_BYTES : TABLES_PARKED_BYTES;
}

struct lookup_counts context_counts(void) {
    struct lookup_counts sum = {0};
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        const struct paths *paths = paths_of(heap);
        sum.guessed += load_relaxed(&paths->guessed);
        sum.replayed += load_relaxed(&paths->replayed);
        sum.missed += load_relaxed(&paths->missed);
        sum.flushed += load_relaxed(&paths->flushed);
        sum.walked_far += load_relaxed(&paths->walked_far);
        for (int kind = 0; kind < PATH_KINDS; kind++) {
            sum.timed_ns[kind] += load_relaxed(&paths->timed_ns[kind]);
            sum.timed_count[kind] += load_relaxed(&paths->timed_count[kind]);
        }
        sum.traces += load_relaxed(&paths->trace_count);
        sum.trace_bytes += load_relaxed(&paths->trace_bytes);
    }
    return sum;
}
