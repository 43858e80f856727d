/* SPDX-License-Identifier: MIT */
/* Decides when a sweep is due, finds out which contexts are cold, marks them, and takes nodes out
 * of the tree; see evict.h. */
#include "context/admit.h"
#include "context/internal.h"
#include "context/tree.h"
#include "os/meta.h"

/* A unit is 1/TABLES_PARTS of the limit. When more than EVICT_PAST units are in use, the room for
 * ends of threads (tables_ends_bytes) included, a sweep evicts paths until EVICT_TO units are in
 * use, but no path that was used much (KEPT_SHARE). When more than EVICT_USED_PAST units are in use
 * without that room, it also evicts paths that were used much, until EVICT_PAST units are in use.
 * When more than EVICT_ALL_PAST units are in use, traces and tables_idle_bytes included, it also
 * evicts such paths, until EVICT_ALL_TO units are in use. */
#define EVICT_PAST 22
#define EVICT_TO 19
#define EVICT_USED_PAST 23
#define EVICT_ALL_PAST 31
#define EVICT_ALL_TO 28
#define WANTED_LEAST 64U /* calls of evict_want after which a sweep is wanted */
/* A context is cold if it was not used between two sweeps. Phases of a young process (a compiler)
 * are shorter than those of an old one (a server). So the pause between two sweeps is
 * 1/SWEEP_AGE_SHARE of the time since a sweep was first wanted. */
#define SWEEP_AGE_SHARE 64U
#define SWEEP_LEAST_NS 50000000ULL   /* the shortest pause */
#define SWEEP_MOST_NS 30000000000ULL /* the longest pause, unless SWEEP_SHARE makes it longer */
/* While the tables are within their limit, the pause is at least this many times the length of the
 * last sweep. */
#define SWEEP_SHARE 20U
/* a cold subtree with at least this many contexts is marked whole: its sites come below its
 * parent */
#define TOGETHER 8U
/* A context stays if one heap made more than 1/HISTORY_SHARE of all allocations, or of their bytes,
 * in the context, unless the tables are above their limit. */
#define HISTORY_SHARE 1024U
/* A cold context in which more than 1/KEPT_SHARE of all allocations were made is evicted only when
 * new paths have hardly any room, because the eviction would take these allocations from their
 * path. */
#define KEPT_SHARE 32768U
/* A context with more than KEPT_TIMES times as many allocations goes only if the tables are above
 * their limit, or if hardly any new path gets room (WAITING_EIGHTHS_ALL). */
#define KEPT_TIMES 2U
/* Each sweep in a new phase frees EVICT_FOR_PHASE units of the limit. A phase is new if more than
 * 1/WAITING_SHARE of the allocations since the last sweep had to wait, see ask_for_new_phase. */
#define WAITING_SHARE 4U
#define WAITING_EIGHTHS_ALL 7U
#define EVICT_FOR_PHASE 2
/* the bytes that come free with one context: its view and its node */
#define CONTEXT_BYTES (int64_t)(sizeof(struct view) + TREE_NODE_COUNTED)

uint32_t sweeps_over_limit;

static struct {
    uint32_t wanted; /* atomic: calls of evict_want since the last sweep */
    /* atomic: since when the next sweep has been wanted; 0: no sweep is wanted */
    uint64_t since_ns;
    uint64_t next_ns;  /* atomic: the next sweep begins no earlier than at this time */
    uint64_t begun_ns; /* atomic: when a sweep was wanted for the first time */
    /* The fields below are under heap_global.lock. */
    /* For each block of nodes the allocations of its contexts at the last sweep, modulo 2^16. The
     * budget counts them with the nodes. NULL: there was no memory, or the block has no node. */
    uint16_t *seen[TREE_BLOCKS];
    uint32_t seen_count;  /* contexts with lower ids have an entry in `seen` */
    bool leaving;         /* some node is TREE_LEAVING */
    unsigned idle_sweeps; /* sweeps in a row that freed nothing, with tables above their limit */
    bool old;   /* the table of children has replaced older ones, which tree_free_old may free */
    bool alone; /* atomic: a thread of the program made the last sweep */
    uint64_t allocs, requested_cum_bytes; /* sums over all contexts, at the last sweep */
} state;

/* The findings of a sweep about a context. */
struct found {
    uint16_t allocs; /* number of allocations so far, modulo 2^16 */
    uint8_t flags;   /* enum found_flags */
    uint8_t below;   /* number of contexts with views in its subtree, at most UINT8_MAX */
    uint32_t most;   /* the most allocations of one context in its subtree, at most UINT32_MAX */
};

enum found_flags {
    FOUND_VIEW = 1, /* some heap has a view of the context */
    /* This context or one below it must stay: it has a view that is not at rest, or allocated since
     * the last sweep, or made more than 1/HISTORY_SHARE of all allocations, or is pinned. */
    FOUND_WARM = 2,
    FOUND_CHILD = 4,   /* a child of the node stays, or a folded node's loop ends at this node */
    FOUND_LEAVING = 8, /* a child of the node leaves; the node is not removed before that child */
    FOUND_GONE = 16,   /* there is no node with this id */
    /* mark_single may mark the context as cold: FOUND_NEAR if it is near to the root, else
     * FOUND_FAR */
    FOUND_FAR = 32,
    FOUND_NEAR = 64,
};

static int64_t tables_in_use(void) {
    return load_relaxed(&tables_used_bytes) + load_relaxed(&tables_trace_bytes);
}

/* True when the tables count as above their limit: more than half of tables_reserve is used up. The
 * cause is a limit that has fallen, because the program freed much or threads ended, or many
 * requests that cannot be refused. Any thread, without a lock. */
static bool tables_are_over(void) {
    tables_limit_bytes(); /* computes tables_limit_known */
    int64_t limit = load_relaxed(&tables_limit_known);
    return tables_in_use() > limit - tables_reserve(limit) / 2;
}

#define IDLE_SWEEPS 16U /* number of sweeps in a row that free nothing before pauses grow */
#define IDLE_DOUBLED 5U /* number of times that such a pause doubles at most: 1.6 s */

/* Returns the ns to wait after a sweep that took `took_ns`. While the tables are above their limit,
 * the pause is as short as possible. But some tables never shrink. So after IDLE_SWEEPS sweeps in a
 * row that freed nothing, each further one doubles the pause. */
static uint64_t pause_after(uint64_t now, uint64_t took_ns) {
    uint64_t age = now - load_relaxed(&state.begun_ns), pause = age / SWEEP_AGE_SHARE;
    if (tables_are_over()) {
        unsigned idle = load_relaxed(&state.idle_sweeps);
        unsigned doubled = idle < IDLE_SWEEPS ? 0 : idle - IDLE_SWEEPS;
        pause = SWEEP_LEAST_NS << (doubled < IDLE_DOUBLED ? doubled : IDLE_DOUBLED);
        return pause > took_ns ? pause : took_ns;
    }
    pause = pause < SWEEP_LEAST_NS ? SWEEP_LEAST_NS : pause;
    pause = pause > SWEEP_MOST_NS ? SWEEP_MOST_NS : pause;
    return pause > took_ns * SWEEP_SHARE ? pause : took_ns * SWEEP_SHARE;
}

void evict_want(void) {
    if (add_relaxed(&state.wanted, 1) < WANTED_LEAST)
        return;
    uint64_t now = os_now_ns(), since = load_relaxed(&state.since_ns);
    if (!since) {
        store_owner(&state.since_ns, now);
        if (!load_relaxed(&state.begun_ns))
            store_owner(&state.begun_ns, now);
        return;
    }
    /* A thread of the program sweeps only if such a thread made the last sweep, too, or if the
     * control thread has let a whole pause go by since the sweep was wanted. */
    if (now > load_relaxed(&state.next_ns) &&
        (load_relaxed(&state.alone) || now > since + pause_after(now, 0)))
        store_owner(&evict_alone, 1);
}

static bool made_history(const struct view *view) {
    return load_relaxed(&view->allocs) > state.allocs / HISTORY_SHARE ||
           load_relaxed(&view->requested_cum_bytes) > state.requested_cum_bytes / HISTORY_SHARE;
}

static uint32_t add_up_to_max(uint32_t count, uint64_t more) {
    return more < UINT32_MAX - count ? count + (uint32_t)more : UINT32_MAX;
}

/* Finds the contexts with views, and those that are warm because of their views' figures. `over`:
 * the tables are above their limit, so a context is not warm because of its part of all
 * allocations. */
static void find_views(struct found *found, uint32_t count, bool over) {
    uint64_t all_allocs = 0, all_bytes = 0;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        bool idle = visit_heap_is_idle(heap);
        for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
            const struct view *view = heap_view_at(heap, i);
            uint32_t context = load_relaxed(&view->context);
            uint64_t allocs = load_relaxed(&view->allocs);
            /* A view without figures in an idle heap keeps no node in the tree. If the node's id
             * goes to a new node, the view belongs to the new node. */
            if (!context || context >= count || (idle && !allocs && evict_is_at_rest(view)))
                continue;
            bool warm = !evict_is_at_rest(view) || (made_history(view) && !over);
            found[context].allocs += (uint16_t)allocs;
            found[context].most = add_up_to_max(found[context].most, allocs);
            found[context].flags |= FOUND_VIEW | (warm ? FOUND_WARM : 0);
            all_allocs += allocs;
            all_bytes += load_relaxed(&view->requested_cum_bytes);
        }
    }
    state.allocs = all_allocs;
    state.requested_cum_bytes = all_bytes;
}

/* True if all look-ups are over that were under way when nodes were last taken out of the tree. */
static bool looks_are_over(void) {
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t kind = load_acquire(&heap->state), looks = load_full(&heap->looks);
        if ((kind == HEAP_OWNED || kind == HEAP_SHARED) && looks % 2 && looks == heap->looks_then)
            return false;
    }
    return true;
}

/* Begins a new round, and notes which look-ups are under way. A look-up that begins later finds no
 * node that was taken out. */
static void note_looks(void) {
    exchange_full(&evict_round, evict_round + 1);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next)
        heap->looks_then = load_full(&heap->looks);
}

/* Takes a node without views and children out of its parent's list. If an earlier sweep took it out
 * and `over` is true, removes the node. `over`: no look-up knows the node's id. False: the node is
 * too new to leave. */
static bool take_out(uint32_t id, bool over) {
    if (!(tree_node(id)->flags & TREE_LEAVING)) {
        if (!tree_unlink(id))
            return false;
        state.leaving = true;
    } else if (over) {
        tree_remove(id);
    } else {
        state.leaving = true;
    }
    return true;
}

/* True if the context had made `allocs` allocations at the last sweep (modulo 65 536). Since that
 * sweep the context has made no allocation, or a multiple of 65 536. */
static bool was_seen(uint32_t id, uint16_t allocs) {
    const uint16_t *seen = state.seen[id / TREE_NODES_PER_BLOCK];
    return id < state.seen_count && seen && seen[id % TREE_NODES_PER_BLOCK] == allocs;
}

/* Goes from the leaves to the root, and finds out which nodes are warm and which have children. A
 * node without views and children leaves if `take` is true and the node is not pinned. A leaving
 * node that got a view or a child meanwhile, or is pinned now, comes back. `over`: no look-up knows
 * the ids of nodes that left before. `now`: also contexts that allocated since the last sweep may
 * be cold. */
static void look_at_nodes(struct found *found, uint32_t count, bool take, bool over, bool now) {
    state.leaving = false;
    for (uint32_t id = TREE_FIXED_COUNT; id < count; id++)
        if (tree_is_gone(id))
            found[id].flags |= FOUND_GONE;
        else if (tree_node(id)->flags & TREE_FOLDED && tree_loop(id) < count)
            found[tree_loop(id)].flags |= FOUND_CHILD; /* a node that ends a loop stays */
    /* A child has a greater id than its parent, so all children come before their parent. */
    for (uint32_t id = count; id-- > TREE_FIXED_COUNT;) {
        if (found[id].flags & FOUND_GONE)
            continue;
        struct tree_node *node = tree_node(id);
        struct found *here = &found[id], *parent = &found[node->parent];
        bool pinned = evict_is_pinned(id), empty = !(here->flags & (FOUND_VIEW | FOUND_CHILD));
        bool may_go = over && !(here->flags & FOUND_LEAVING);
        /* 1. The node is not needed: it leaves its parent's list, or, if it has left before and no
         * look-up knows its id, it is removed. Its parent does not count it as a child. */
        if (empty && !pinned && (take || node->flags & TREE_LEAVING) && take_out(id, may_go)) {
            if (tree_is_gone(id))
                here->flags |= FOUND_GONE;
            else
                parent->flags |= FOUND_LEAVING;
            continue;
        }
        /* 2. The node is needed again: it comes back into its parent's list. */
        if (node->flags & TREE_LEAVING) {
            if (tree_link(id))
                tree_flag(id, TREE_LATE); /* paths through the node may have waited meanwhile */
            else
                state.leaving = true;
        }
        /* 3. A context that allocated since the last sweep is warm, and so is a pinned node. */
        if (pinned || (!now && !was_seen(id, here->allocs)))
            here->flags |= here->flags & FOUND_VIEW || pinned ? FOUND_WARM : 0;
        /* 4. The parent adds up its subtree: contexts, warmth, the most allocations. */
        unsigned below = here->below + (here->flags & FOUND_VIEW ? 1U : 0U);
        here->below = (uint8_t)(below < UINT8_MAX ? below : UINT8_MAX);
        below += parent->below;
        parent->below = (uint8_t)(below < UINT8_MAX ? below : UINT8_MAX);
        parent->flags |= FOUND_CHILD | (here->flags & FOUND_WARM);
        parent->most = parent->most > here->most ? parent->most : here->most;
    }
}

#define SEEN_BYTES (TREE_NODES_PER_BLOCK * sizeof(uint16_t))

/* Keeps the counts of allocations of a block's nodes, with which the next sweep sees which paths
 * were used in between. Without memory, the next sweep takes all of these paths for used. */
static void keep_seen_of_block(const struct found *found, uint32_t count, uint32_t first) {
    uint16_t **seen = &state.seen[first / TREE_NODES_PER_BLOCK];
    uint32_t end = first + TREE_NODES_PER_BLOCK < count ? first + TREE_NODES_PER_BLOCK : count;
    bool any = false;
    for (uint32_t id = first; id < end && !any; id++)
        any = !(found[id].flags & FOUND_GONE);
    if (!any) {
        meta_free(*seen, SEEN_BYTES);
        *seen = NULL;
    } else if (*seen || (*seen = meta_alloc(SEEN_BYTES))) {
        for (uint32_t id = first; id < end; id++)
            (*seen)[id - first] = found[id].allocs;
    }
}

static void keep_seen(const struct found *found, uint32_t count) {
    for (uint32_t first = 0; first < count; first += TREE_NODES_PER_BLOCK)
        keep_seen_of_block(found, count, first);
    state.seen_count = count;
}

/* Gives the memory of state.seen back. While the tables are above their limit, each context without
 * a live chunk is cold, so state.seen is not needed. */
static void forget_seen(void) {
    for (uint32_t first = 0; first < state.seen_count; first += TREE_NODES_PER_BLOCK) {
        meta_free(state.seen[first / TREE_NODES_PER_BLOCK], SEEN_BYTES);
        state.seen[first / TREE_NODES_PER_BLOCK] = NULL;
    }
    state.seen_count = 0;
}

/* True if the context is a site below [other callers] of the process. No place further out tells
 * figures by site, so the figures of such a context would lose their site if it were evicted. */
static bool is_site_of_process(uint32_t id) {
    for (unsigned i = 0; i < SITE_FRAMES && id >= TREE_FIXED_COUNT; i++)
        id = tree_node(id)->parent;
    return id == TREE_OTHERS || (id >= TREE_FIXED_COUNT && tree_node(id)->parent == TREE_OTHERS);
}

/* True if at most NEAR_ROOT nodes stand above the context. The context may be a site; then the
 * nodes above its [other callers] count. */
static bool is_near(uint32_t id) {
    uint32_t others = evict_others_above(id), at = others ? others : id;
    for (unsigned i = 0; i <= NEAR_ROOT && at >= TREE_FIXED_COUNT; i++)
        at = tree_node(at)->parent;
    return at < TREE_FIXED_COUNT;
}

/* The contexts that mark_single may mark as cold. */
struct singles {
    /* by_allocs[i]: number of such contexts with 2^i to 2^(i+1) - 1 allocations; those near to the
     * root are left out */
    int64_t by_allocs[32];
    int64_t bytes; /* bytes that come free with one context, on average, its callers' nodes too */
};

/* Finds the contexts that mark_single may mark: those with views that have no child that stays and
 * are not warm. A site below [other callers] of the process is never marked. */
static struct singles find_singles(struct found *found, uint32_t count) {
    struct singles singles = {0};
    int64_t views = 1;
    for (uint32_t id = TREE_FIXED_COUNT; id < count; id++) {
        struct found *here = &found[id];
        views += here->flags & FOUND_VIEW ? 1 : 0;
        if ((here->flags & (FOUND_VIEW | FOUND_WARM | FOUND_CHILD)) != FOUND_VIEW)
            continue;
        if (is_near(id)) {
            here->flags |= is_site_of_process(id) ? 0 : FOUND_NEAR;
            continue;
        }
        here->flags |= FOUND_FAR;
        if (here->most)
            singles.by_allocs[31 - __builtin_clz(here->most)]++;
    }
    singles.bytes = (int64_t)sizeof(struct view) + TREE_NODE_COUNTED * tree_nodes() / views;
    return singles;
}

/* Marks single contexts with at most `most` allocations as cold until their removal would free
 * *wanted bytes, and subtracts these bytes from *wanted. `which`: FOUND_FAR or FOUND_NEAR. True:
 * this call marked a context. */
static bool mark_single(const struct found *found, uint32_t count, int64_t *wanted, uint32_t most,
                        enum found_flags which) {
    bool any = false;
    for (uint32_t id = count; *wanted > 0 && id-- > TREE_FIXED_COUNT;) {
        if (!(found[id].flags & which) || found[id].most > most || tree_node(id)->flags & TREE_COLD)
            continue;
        tree_flag(id, TREE_COLD);
        any = true;
        *wanted -= CONTEXT_BYTES;
    }
    return any;
}

INLINE int64_t greater(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* How many bytes evictions should free. */
struct wanted {
    int64_t bytes;
    int64_t must; /* for this part, paths that were used much go, too (KEPT_SHARE) */
    bool all;     /* for `must`, any path goes, however much it was used (KEPT_TIMES) */
};

/* Returns how many bytes evictions should free. Evictions free only nodes and views, but they also
 * make room where traces or idle memory fill the tables, and where few ids of nodes are left. */
static struct wanted bytes_wanted(void) {
    tables_limit_bytes(); /* computes tables_limit_known */
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS;
    int64_t used = load_relaxed(&tables_used_bytes);
    int64_t idle = load_relaxed(&tables_idle_bytes);
    int64_t all = used + load_relaxed(&tables_trace_bytes) + idle;
    /* Admission keeps room for the ends of threads (tables_ends_bytes), so it lets paths wait when
     * less is in use. The sweep has to count that room as used, too. */
    int64_t with_ends = used + tables_ends_bytes();
    int64_t wanted = with_ends > part * EVICT_PAST ? with_ends - part * EVICT_TO : 0;
    int64_t must = used > part * EVICT_USED_PAST ? used - part * EVICT_PAST : 0;
    /* Idle memory takes room that a new path may be unable to use: a node's id must be greater than
     * its parent's, and a view belongs to one heap. */
    if (!wanted && used + idle > part * TABLES_ADMITTED_IDLE &&
        load_relaxed(&state.wanted) >= WANTED_LEAST)
        wanted = part;
    if (all > part * EVICT_ALL_PAST)
        must = greater(must, all - part * EVICT_ALL_TO);
    uint32_t nodes = tree_nodes();
    if (nodes > TREE_IDS / TABLES_PARTS * EVICT_PAST) {
        int64_t ids = nodes - TREE_IDS / TABLES_PARTS * EVICT_TO;
        must = greater(must, ids * CONTEXT_BYTES);
    }
    return (struct wanted){.bytes = greater(wanted, must), .must = must};
}

/* Returns the least power of two, less one, such that the contexts of `singles` with at most that
 * many allocations take about `wanted` bytes. UINT32_MAX: all contexts together take less. */
static uint32_t allocs_that_free(const struct singles *singles, int64_t wanted) {
    for (unsigned i = 0; i < 31; i++)
        if ((wanted -= singles->bytes * singles->by_allocs[i]) <= 0)
            return (2U << i) - 1;
    return UINT32_MAX;
}

/* If paths that were seen ADMIT_WEIGHT times wait with more than 1/WAITING_SHARE of the allocations
 * since the last sweep (`allocs`), the program is in a new phase: contexts that an earlier phase
 * used much have to go, too. With more than WAITING_EIGHTHS_ALL eighths, all cold contexts may have
 * to go: a phase with some thousand paths uses each of them for more than KEPT_TIMES / KEPT_SHARE
 * of all allocations. */
static void ask_for_new_phase(struct wanted *wanted, uint64_t allocs) {
    if ((uint64_t)load_relaxed(&state.wanted) * WAITING_SHARE <= allocs)
        return;
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS;
    wanted->must = greater(wanted->must, part * EVICT_FOR_PHASE);
    wanted->bytes = greater(wanted->bytes, wanted->must);
    wanted->all = (uint64_t)load_relaxed(&state.wanted) * 8 > allocs * WAITING_EIGHTHS_ALL;
}

/* Chooses the contexts that the sweep may mark cold: those with at most the returned number of
 * allocations. Rarely used contexts go first. If a context with more than 1/KEPT_SHARE of all
 * allocations must go, wanted->bytes becomes wanted->must, so that few such contexts go. A context
 * with more than KEPT_TIMES times as many allocations goes only if wanted->all is set, or if the
 * tables are above their limit (`over`). */
static uint32_t choose_most(const struct singles *singles, struct wanted *wanted, bool over) {
    uint64_t kept = state.allocs / KEPT_SHARE;
    uint32_t most = over ? UINT32_MAX : allocs_that_free(singles, wanted->bytes);
    if (over || most <= kept)
        return most;
    most = wanted->must > 0 ? allocs_that_free(singles, wanted->must) : 0;
    if (most <= kept)
        return (uint32_t)kept;
    wanted->bytes = wanted->must;
    return wanted->all || most < KEPT_TIMES * kept ? most : (uint32_t)(KEPT_TIMES * kept);
}

/* Marks cold contexts until `wanted` bytes would come free: first whole subtrees, from the root on,
 * then single contexts, and last, if `near` is true, those near to the root. Takes only contexts
 * with at most `most` allocations. Unmarks contexts of an earlier sweep that are not chosen again.
 * True: some context is marked now. */
static bool mark_cold(const struct found *found, uint32_t count, int64_t wanted, uint32_t most,
                      bool near) {
    bool any = false;
    for (uint32_t id = TREE_FIXED_COUNT; id < count; id++) {
        if (found[id].flags & FOUND_GONE)
            continue;
        uint32_t parent = tree_node(id)->parent;
        bool cold = !(found[id].flags & FOUND_WARM) && found[id].most <= most;
        bool inside = cold && parent >= TREE_FIXED_COUNT && tree_node(parent)->flags & TREE_COLD;
        bool top = cold && !inside && wanted > 0 && found[id].below >= TOGETHER &&
                   parent >= TREE_FIXED_COUNT && !evict_others_above(id);
        if (!inside && !top) {
            tree_unflag(id, TREE_COLD);
            continue;
        }
        any = true;
        if (tree_node(id)->flags & TREE_COLD) /* an earlier sweep marked the node */
            continue;
        tree_flag(id, TREE_COLD);
        wanted -= found[id].flags & FOUND_VIEW ? CONTEXT_BYTES : (int64_t)sizeof(struct tree_node);
    }
    any |= mark_single(found, count, &wanted, most, FOUND_FAR);
    return (near && mark_single(found, count, &wanted, most, FOUND_NEAR)) || any;
}

/* Makes one sweep, under heap_global.lock. `may_visit`: the caller holds no other lock and owns no
 * heap. */
static void sweep(bool may_visit) {
    /* Asks first whether look-ups are over, so that the children and views that they gave to a
     * leaving node are seen below. */
    bool over = (state.leaving || state.old) && looks_are_over();
    uint32_t count = tree_count();
    struct wanted wanted = bytes_wanted();
    bool full = wanted.bytes > 0, now = tables_are_over();
    store_owner(&sweeps_over_limit, now ? sweeps_over_limit + 1 : 0);
    size_t bytes = align_up(count * sizeof(struct found), OS_PAGE_BYTES);
    struct found *found = full || state.leaving || state.old ? os_map(bytes) : NULL;
    if (!found)
        return;
    uint64_t allocs = state.allocs;
    find_views(found, count, now);
    lock_take(&tree_lock);
    if (over)
        tree_free_old();
    look_at_nodes(found, count, full, over, now);
    tree_discard();
    state.old = tree_note_old();
    struct singles singles = full ? find_singles(found, count) : (struct singles){0};
    if (full)
        ask_for_new_phase(&wanted, state.allocs - allocs);
    bool near = now || (full && allocs_that_free(&singles, wanted.bytes) == UINT32_MAX);
    uint32_t most = full ? choose_most(&singles, &wanted, now) : 0;
    bool any = mark_cold(found, count, wanted.bytes, most, near);
    lock_release(&tree_lock);
    if (now)
        forget_seen();
    else
        keep_seen(found, count);
    os_unmap(found, bytes);
    if (any || state.leaving || state.old)
        note_looks();
    if (any || now)
        visit_idle(now);
    if (now && may_visit)
        visit_sleeping(true);
    visit_forget_alive();
}

void sweep_if_wanted(bool alone) {
    uint64_t begun = os_now_exact_ns();
    if (!alone && !load_relaxed(&state.since_ns) && UNLIKELY(tables_are_over())) {
        store_owner(&state.since_ns, begun);
        store_owner(&state.next_ns, 0);
        if (!load_relaxed(&state.begun_ns))
            store_owner(&state.begun_ns, begun);
    }
    if (LIKELY(!load_relaxed(&state.since_ns)) || begun < load_relaxed(&state.next_ns) ||
        lock_any_is_mine() || !lock_try(&heap_global.lock))
        return;
    if (load_relaxed(&tree_read_until_ns) < begun) {
        int64_t before = tables_in_use();
        sweep(!alone);
        bool idle = tables_are_over() && tables_in_use() >= before;
        store_owner(&state.idle_sweeps, idle ? state.idle_sweeps + 1 : 0);
        store_owner(&state.alone, alone);
        uint64_t now = os_now_exact_ns();
        store_owner(&state.next_ns, now + pause_after(now, now - begun));
        store_owner(&state.wanted, 0);
        bool again = state.leaving || state.old || tables_are_over();
        store_owner(&state.since_ns, again ? begun : 0);
    }
    lock_release(&heap_global.lock);
}

bool evict_sweep(void) {
    sweep_if_wanted(false);
    return load_relaxed(&state.since_ns);
}
