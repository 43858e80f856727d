/* SPDX-License-Identifier: MIT */
/* Finds the view that pays for a walked stack, and lets paths wait for their nodes; see admit.h. */
#include "context/admit.h"
#include "base/options.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/prefix.h"
#include "context/replay.h"
#include "context/tree.h"
#include "os/meta.h"
#include "path/functions.h"
#include "region/heap.h"

/* The number of elements of `sightings` is the greatest power of two that takes at most
 * 1/SIGHTINGS_SHARE of the limit, between these bounds. */
#define SIGHTINGS_SHARE 64
#define SIGHTINGS_LEAST 4096U
#define SIGHTINGS_MOST 65536U
#define SIGHTINGS_OF_PATH 4U /* number of elements that count one path */
/* all counts are halved after this many sightings of paths for each element */
#define SIGHTINGS_LAST 2U
/* A folded path may have FOLDED_DEPTH_TIMES times as many nodes as MEMCTX_DEPTH says, for two
 * reasons. The stack of a folded path is walked to its end in any case. And paths that begin at the
 * root share their outer nodes, while paths that begin at [truncated] hardly share any. */
#define FOLDED_DEPTH_TIMES 4U
/* A site below an ancestor that is n nodes deep is made only while n/DEPTH_PARTS of the limit are
 * free within TABLES_OTHERS. */
#define DEPTH_PARTS 256
#define WATCH_EVERY 32U /* one in this many waiting paths is searched for functions that recur */
/* sizes of the table of known views (struct known), and when the table grows; see look_at_known */
#define KNOWN_LOOK_EVERY 4096U
#define KNOWN_MISSES 8U
#define KNOWN_TIMES 8U
#define KNOWN_GROWN 512U
#define KNOWN_MOST (KNOWN_GROWN * KNOWN_TIMES)
/* a thread adds this many allocations of waiting paths at once to admit_waited */
#define WAITED_TOLD_EVERY 32U
#define LIMIT_LOOK_EVERY 64U /* walks of a thread between two computations of the limit */

/* Counts how often each waiting path was seen lately. SIGHTINGS_OF_PATH elements, which the path's
 * hash chooses, count a path. The least of them is the path's weight, because other paths that
 * share an element can only make its count too great. All threads share the elements. If two
 * threads write one element at one time, a sighting is lost, and a path is admitted later. */
static uint8_t *sightings;       /* atomic, as is each element */
static uint32_t sightings_count; /* number of elements; set before `sightings` */
static uint32_t sightings_made;  /* atomic: sightings since the counts were last halved */
uint64_t admit_waited, admit_looked_up;
bool admit_any_waited;

/* --- paths that have to wait ----------------------------------------------------------------- */

static bool make_sightings(void) {
    if (load_acquire(&sightings))
        return true;
    uint32_t count = SIGHTINGS_MOST, none = 0;
    while (count > SIGHTINGS_LEAST && count > tables_limit_bytes() / SIGHTINGS_SHARE)
        count /= 2;
    if (!cas_acq_rel(&sightings_count, &none, count))
        count = none; /* the number that another thread has chosen */
    uint8_t *made = meta_alloc(count), *there = NULL;
    if (!made)
        return false;
    if (cas_acq_rel(&sightings, &there, made))
        tables_add(count);
    else
        meta_free(made, count);
    return true;
}

static bool make_admission(struct paths *paths) {
    if (paths->admission)
        return true;
    if (!make_sightings())
        return false;
    struct admission *made = meta_alloc(sizeof *made); /* part of TABLES_HEAP_BYTES */
    if (made) {
        made->known = made->first;
        made->known_count = KNOWN_FIRST;
    }
    paths->admission = made;
    return made;
}

/* Returns the bytes of the larger table of known views; 0: there is none. */
static size_t known_bytes(const struct admission *admission) {
    return admission->known_count == KNOWN_FIRST ? 0
                                                 : admission->known_count * sizeof(struct known);
}

void admit_forget_known(struct paths *paths) {
    struct admission *admission = paths->admission;
    if (admission)
        __builtin_memset(admission->known, 0, admission->known_count * sizeof *admission->known);
}

bool admit_shrink(struct paths *paths) {
    struct admission *admission = paths->admission;
    size_t bytes = admission ? known_bytes(admission) : 0;
    if (!bytes)
        return false;
    meta_free(admission->known, bytes);
    tables_add_traces(-(int64_t)bytes);
    admission->known = admission->first;
    admission->known_count = KNOWN_FIRST;
    admit_forget_known(paths);
    return true;
}

/* Called after every KNOWN_LOOK_EVERY allocations of waiting paths. If more than one in
 * KNOWN_MISSES of them found no entry, and the part of the budget that traces may use has room,
 * makes the table of known views larger: KNOWN_GROWN entries first, then KNOWN_TIMES times as many.
 */
static NOINLINE void look_at_known(struct admission *admission) {
    bool small = admission->known_missed > KNOWN_LOOK_EVERY / KNOWN_MISSES;
    uint32_t count =
        admission->known_count == KNOWN_FIRST ? KNOWN_GROWN : admission->known_count * KNOWN_TIMES;
    size_t had = known_bytes(admission), bytes = count * sizeof *admission->known;
    admission->known_missed = 0;
    if (!small || count > KNOWN_MOST || !tables_take((int64_t)(bytes - had), TABLES_TRACE))
        return;
    struct known *made = meta_alloc(bytes);
    if (!made) {
        tables_add_traces(-(int64_t)(bytes - had));
        return;
    }
    if (had)
        meta_free(admission->known, had);
    admission->known = made;
    admission->known_count = count;
}

void admit_end(struct paths *paths) {
    admit_shrink(paths);
    meta_free(paths->admission, sizeof *paths->admission);
    paths->admission = NULL;
    admit_forget(paths);
}

/* After many sightings, halves all counts, so that they tell what was seen lately. If two threads
 * call this function at one time, one of the calls may not count; the halving then comes later. */
static void wear_sightings(void) {
    uint32_t made = load_relaxed(&sightings_made) + 1;
    bool many = made >= sightings_count * SIGHTINGS_LAST;
    store_owner(&sightings_made, many ? 0 : made);
    for (uint32_t i = 0; many && i < sightings_count; i++)
        store_owner(&sightings[i], load_relaxed(&sightings[i]) >> 1);
}

/* Counts a sighting of a path. Returns the path's weight. */
static uint32_t sight(uint32_t hash) {
    uint64_t bits = (hash ^ (uint64_t)hash << 32) * 0x9e3779b97f4a7c15ULL;
    uint8_t *of_path[SIGHTINGS_OF_PATH], counts[SIGHTINGS_OF_PATH];
    uint32_t least = UINT8_MAX;
    bits ^= bits >> 29;
    bits *= 0xbf58476d1ce4e5b9ULL;
    for (unsigned i = 0; i < SIGHTINGS_OF_PATH; i++, bits >>= 16) {
        of_path[i] = &sightings[bits & (sightings_count - 1)];
        counts[i] = load_relaxed(of_path[i]);
        least = counts[i] < least ? counts[i] : least;
    }
    /* All counts are written, because the processor cannot predict which of them is the least. */
    for (unsigned i = 0; i < SIGHTINGS_OF_PATH && least < UINT8_MAX; i++)
        store_owner(of_path[i], (uint8_t)(counts[i] + (counts[i] == least)));
    return least + 1;
}

/* Returns the weight that a path needs to be admitted, for an allocation of `size` bytes. */
static uint32_t weight_wanted(size_t size) {
    int64_t live = segment_used_bytes() - load_relaxed(&heap_global.own_free);
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS + 1;
    int64_t left =
        (TABLES_ADMITTED * part - load_relaxed(&tables_used_bytes) - tables_ends_bytes()) / part;
    unsigned steps = left >= ADMIT_STEPS ? 0 : (unsigned)(ADMIT_STEPS - (left > 0 ? left : 0));
    live = live > ADMIT_LIVE_LEAST ? live : ADMIT_LIVE_LEAST;
    if ((int64_t)size >= live / ADMIT_LIVE_SHARE)
        return 1;
    /* While there is room, an allocation also admits its path at once if its share of the live
     * bytes is greater than the share of the limit that the path takes. */
    if (size >= ADMIT_LARGE && !tables_are_past(TABLES_ADMITTED) &&
        (int64_t)size * (load_relaxed(&tables_limit_known) / ADMIT_PATH_BYTES) >= live)
        return 1;
    return ADMIT_WEIGHT << steps;
}

/* Returns the view of the site below `ancestor` that has the stack's innermost `count` frames.
 * Makes the site if it is missing and `may_make` is true. NULL: the site is missing, and may not be
 * made or finds no room; or the view finds no room. */
static struct view *site_of_frames(const struct admit *admit, uint32_t ancestor, unsigned count,
                                   bool may_make, enum tables_share share) {
    const struct stack *stack = admit->stack;
    bool has = ancestor == TREE_ROOT || load_relaxed(&tree_node(ancestor)->flags) & TREE_HAS_OTHERS;
    if (!has && !may_make)
        return NULL;
    uint32_t node = tree_others(ancestor, share);
    if (count > stack->count)
        count = stack->count;
    if (count > admit->depth)
        count = admit->depth;
    for (unsigned i = stack->count - count; node && i < stack->count; i++) {
        struct tree_frame frame = prefix_frame(&stack->frames[i]);
        node = may_make ? tree_child(node, frame, share) : tree_find(node, frame);
    }
    return node ? heap_view_within(admit->heap, node, share) : NULL;
}

static struct view *site_below(const struct admit *admit, uint32_t ancestor, bool may_make,
                               enum tables_share share) {
    return site_of_frames(admit, ancestor, SITE_FRAMES, may_make, share);
}

/* If requests for `share` fail only because traces take the room, gives back the traces of this
 * thread. True: memory came free. */
static NOINLINE bool give_back_traces(struct paths *paths, enum tables_share share) {
    bool had = paths->replays;
    if (!tables_are_crowded(0) || tables_are_past(share))
        return false;
    replay_end(paths);
    had |= admit_shrink(paths);
    return cache_give_back_traces(paths) || had;
}

/* Returns the view of the path's site below the ancestor, or below the next node further out that
 * has such a site or may get one. The less room is left, the nearer to the root a node has to be to
 * get a site, so the figures of the outermost ancestors stay exact longest. */
static struct view *find_site(const struct admit *admit, uint32_t ancestor) {
    int64_t limit = load_relaxed(&tables_limit_known);
    int64_t left = limit / TABLES_PARTS * TABLES_OTHERS - load_relaxed(&tables_used_bytes);
    struct view *view;
    int64_t depth = 0;
    for (uint32_t at = ancestor; at != TREE_ROOT; at = tree_node(at)->parent)
        depth++;
    for (uint32_t at = ancestor; at != TREE_ROOT; at = tree_node(at)->parent, depth--) {
        bool near = depth <= NEAR_ROOT;
        enum tables_share share = near ? TABLES_NEAR : TABLES_OTHERS;
        bool may_make = (near || left > depth * (limit / DEPTH_PARTS)) && !tree_ids_are_past(share);
        view = site_below(admit, at, may_make, share);
        if (UNLIKELY(!view) && may_make && give_back_traces(admit->paths, share))
            view = site_below(admit, at, true, share);
        if (view)
            return view;
        tree_flag(at, TREE_PARTIAL);
    }
    view = site_below(admit, TREE_ROOT, true, TABLES_SITE);
    if (UNLIKELY(!view) && give_back_traces(admit->paths, TABLES_SITE))
        view = site_below(admit, TREE_ROOT, true, TABLES_SITE);
    if (UNLIKELY(!view))
        view = site_of_frames(admit, TREE_ROOT, 1, true, TABLES_STACK);
    return view ? view : context_view_fixed(admit->heap, TREE_OTHERS);
}

/* True if the view is that of a site with all its frames. False for [other callers] of the process,
 * and for a site with the innermost frame alone although the stack has several. */
static bool is_whole_site(const struct view *view, const struct stack *stack) {
    uint32_t id = view->context;
    return id != TREE_OTHERS && (stack->count == 1 || tree_node(id)->parent != TREE_OTHERS);
}

/* Returns the view that pays for a path that is not admitted. */
static struct view *view_of_site(const struct admit *admit, uint32_t ancestor) {
    const struct stack *stack = admit->stack;
    struct admission *admission = admit->paths->admission;
    uintptr_t site = stack->frames[stack->count - 1].address;
    uintptr_t caller = stack->count > 1 ? stack->frames[stack->count - 2].address : 0;
    uint32_t hash = (uint32_t)(hash_mix(site ^ caller << 9, ancestor) >> 16);
    if (!(++admission->waited % WAITED_TOLD_EVERY))
        add_relaxed(&admit_waited, WAITED_TOLD_EVERY);
    if (!(admission->waited % KNOWN_LOOK_EVERY))
        look_at_known(admission);
    struct known *known = &admission->known[(uint64_t)hash * admission->known_count >> 32];
    if (known->site == site && known->caller == caller && known->ancestor == ancestor)
        return known->view;
    admission->known_missed++;
    struct view *view = find_site(admit, ancestor); /* may call admit_shrink */
    known = &admission->known[(uint64_t)hash * admission->known_count >> 32];
    *known = (struct known){view, site, caller, ancestor};
    /* If the path got no site with all its frames, the next allocation looks for one again: there
     * may be room by then. */
    if (UNLIKELY(!view) || UNLIKELY(!is_whole_site(view, stack)))
        known->site = 0;
    return view;
}

/* True if a rule applies to a frame that is not in the tree yet. */
static NOINLINE bool is_wanted(const struct admit *admit) {
    const struct stack *stack = admit->stack;
    for (unsigned i = admit->begin; i < stack->count; i++)
        if ((!stack->frames[i].length || stack->frames[i].node & PREFIX_WAITS) &&
            tree_wanted(prefix_frame(&stack->frames[i])))
            return true;
    return false;
}

/* to get a node by extend_tree, a frame needs this many times the weight that a path needs */
#define EXTEND_WEIGHTS 4

/* Gives a node to the outermost frame whose path is not in the tree, if waiting paths that contain
 * the frame were seen often enough. So the tree shows the callers even of paths that are never
 * admitted. */
static void extend_tree(const struct admit *admit, uint32_t weight) {
    struct paths *paths = admit->paths;
    const struct stack_frame *frame = &admit->stack->frames[paths->first_cold];
    /* In a path that begins at [truncated], a node further out may be missing. */
    if (paths->first_cold >= admit->stack->count || !frame->length || frame->length > admit->depth)
        return;
    bool near = frame->length <= NEAR_ROOT;
    uint32_t wanted = near ? ADMIT_WEIGHT : EXTEND_WEIGHTS * weight;
    if (sight(~frame->hash) < (wanted < ADMIT_WEIGHT_MOST ? wanted : ADMIT_WEIGHT_MOST))
        return;
    uint32_t child = tree_child(prefix_ancestor(frame->node), prefix_frame(frame),
                                near ? TABLES_NEAR : TABLES_ADMITTED);
    if (child)
        tree_flag(child, TREE_LATE);
}

/* Returns the share of the budget for a path that was seen `seen` times lately. */
static enum tables_share share_of(uint32_t seen, uint32_t wanted_weight) {
    return wanted_weight == 1 ? TABLES_LARGE : seen >= ADMIT_OFTEN ? TABLES_OFTEN : TABLES_ADMITTED;
}

/* Makes the path's missing nodes and its view, as far as admit->share allows. Sets *prefix to the
 * path's prefix. NULL: there is no room. */
static struct view *view_of_path(struct admit *admit, struct prefix *prefix) {
    admit_forget(admit->paths);
    *prefix = prefix_of_stack(admit);
    return prefix->node & PREFIX_WAITS ? NULL
                                       : heap_view_within(admit->heap, prefix->node, admit->share);
}

/* Admits a path that is not in the tree, or lets it wait on. Returns the view that pays. */
static NOINLINE struct view *wait_or_admit(struct admit *admit, struct prefix prefix, size_t size,
                                           enum trace_kind *kind) {
    struct paths *paths = admit->paths;
    enum trace_kind of_path = *kind;
    *kind = TRACE_NONE;
    if (UNLIKELY(!load_relaxed(&admit_any_waited)))
        store_owner(&admit_any_waited, true);
    if (!make_admission(paths))
        return context_view_fixed(admit->heap, TREE_OTHERS);
    wear_sightings();
    uint32_t seen = sight(prefix.hash);
    if (paths->watching && !(paths->admission->waited % WATCH_EVERY))
        prefix_watch_all(admit);
    uint32_t wanted_weight = weight_wanted(size);
    extend_tree(admit, wanted_weight);
    bool wanted = UNLIKELY(tree_wanted != NULL) && is_wanted(admit);
    if (wanted || seen >= wanted_weight) {
        admit->share = wanted ? TABLES_RULE : share_of(seen, wanted_weight);
        struct view *view = view_of_path(admit, &prefix);
        if (!view && admit->share == TABLES_LARGE && give_back_traces(paths, TABLES_LARGE))
            view = view_of_path(admit, &prefix);
        /* A trace may lead to the path's site, too: otherwise every allocation would walk the stack
         * while there is no room for the path. But the path must have been seen often enough for
         * TABLES_OFTEN, because look-ups by a trace count no sightings. A large allocation alone
         * does not suffice, because a look-up by a trace does not see whether an allocation is
         * large. Such a trace is exact, because the innermost frames make the site, whether they
         * are on the folded path or not. */
        *kind = wanted || seen >= ADMIT_OFTEN ? TRACE_EXACT : TRACE_NONE;
        if (view) {
            *kind = of_path;
            return view;
        }
    }
    if (seen >= ADMIT_WEIGHT)
        evict_want();
    paths->site_traced |= *kind != TRACE_NONE;
    bool waits = prefix.node & PREFIX_WAITS; /* false: only the view found no room */
    return view_of_site(admit,
                        waits ? prefix_ancestor(prefix.node) : tree_node(prefix.node)->parent);
}

/* For a path that is in the tree, but whose view found no room. Returns the view that pays. */
static NOINLINE struct view *view_of_node(const struct admit *admit, uint32_t node, size_t size,
                                          enum trace_kind *kind) {
    enum trace_kind of_path = *kind;
    *kind = TRACE_NONE;
    tree_flag(node, TREE_LATE); /* the heap may have room for the view later */
    if (!make_admission(admit->paths))
        return context_view_fixed(admit->heap, TREE_OTHERS);
    wear_sightings();
    enum tables_share share = share_of(sight(node), weight_wanted(size));
    struct view *view =
        share == TABLES_ADMITTED ? NULL : heap_view_within(admit->heap, node, share);
    if (view) {
        *kind = of_path;
        return view;
    }
    evict_want();
    return view_of_site(admit, tree_node(node)->parent);
}

/* --- the functions of admit.h ----------------------------------------------------------------- */

/* walks between two runs of look_at_folding, if no function is folded meanwhile */
#define FOLDING_LOOK_EVERY 16U
/* new paths come fast if the tree has more than one node for this many look-ups of all threads */
#define NODE_IN_LOOK_UPS 8U

static bool paths_come_fast(void) {
    return (tables_are_past(TABLES_FOLD) || tree_ids_are_past(TABLES_FOLD)) &&
           (tables_are_past(TABLES_FOLD_ANYWAY) || tree_ids_are_past(TABLES_FOLD_ANYWAY) ||
            tree_count() > load_relaxed(&admit_looked_up) / NODE_IN_LOOK_UPS);
}

/* Every FOLDING_LOOK_EVERY walks, or when function_epoch has changed: updates whether the thread
 * looks for functions that recur, and which functions the thread folds. */
static void look_at_folding(struct paths *paths) {
    if (LIKELY(paths->missed % FOLDING_LOOK_EVERY) &&
        LIKELY(load_acquire(&function_epoch) == paths->fold_epoch))
        return;
    if (!(paths->missed % LIMIT_LOOK_EVERY)) {
        tables_limit_bytes(); /* computes tables_limit_known */
        if (UNLIKELY(tables_are_past(TABLES_MUST)))
            evict_want();
    }
    bool watching = load_relaxed(&options.fold) == FOLD_AUTO &&
                    (load_relaxed(&function_epoch) || paths_come_fast());
    uint32_t epoch = watching ? load_acquire(&function_epoch) : 0;
    if (LIKELY(watching == paths->watching) && LIKELY(epoch == paths->fold_epoch))
        return;
    if (epoch != paths->fold_epoch)
        cache_flush(paths);
    paths->watching = watching;
    paths->fold_epoch = epoch;
    admit_forget(paths);
    replay_forget(paths);
}

unsigned admit_walk_depth(struct paths *paths, uintptr_t frame, unsigned depth) {
    look_at_folding(paths);
    if (LIKELY(!paths->fold_epoch) || (paths->deep_sp && frame <= paths->deep_sp))
        return depth;
    return STACK_DEPTH_MAX;
}

static unsigned folded_depth(unsigned depth) {
    return depth < MEMCTX_DEPTH_MAX / FOLDED_DEPTH_TIMES ? depth * FOLDED_DEPTH_TIMES
                                                         : MEMCTX_DEPTH_MAX;
}

struct view *admit_view(struct heap *heap, unsigned depth, unsigned walked, size_t size,
                        enum trace_kind *kind) {
    struct paths *paths = paths_of(heap);
    struct stack *stack = &paths->stack;
    struct admit admit = {.heap = heap,
                          .paths = paths,
                          .stack = stack,
                          .depth = depth,
                          .folding = paths->fold_epoch && make_admission(paths),
                          .table_clears = load_acquire(&tree_table_clears),
                          .share = TABLES_PATH};
    /* The path is anchored only if this walk checked all frames. It checked the `walked` innermost
     * ones; an earlier walk found the others, which may have changed since. */
    admit.anchored = stack->end != STACK_OPEN &&
                     (stack->count <= depth || (admit.folding && walked == STACK_DEPTH_MAX &&
                                                stack->count <= STACK_DEPTH_MAX));
    if (admit.folding && admit.anchored)
        admit.depth = folded_depth(depth);
    struct prefix prefix = prefix_of_stack(&admit);
    *kind = admit.folding ? TRACE_FOLDED : TRACE_EXACT;
    if (UNLIKELY(prefix.node & PREFIX_WAITS))
        return wait_or_admit(&admit, prefix, size, kind);
    struct view *view = NULL;
    if (LIKELY(heap->slots != NULL)) {
        uint32_t index = heap->slots[prefix.node & heap->slot_mask];
        view = heap_view_at(heap, index);
        if (LIKELY(index) && LIKELY(view->context == prefix.node))
            return view;
    }
    view = heap_view_within(heap, prefix.node, TABLES_ADMITTED);
    return LIKELY(view != NULL) ? view : view_of_node(&admit, prefix.node, size, kind);
}
