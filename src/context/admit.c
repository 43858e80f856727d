/* SPDX-License-Identifier: MIT */
/*
 * Finds the view that pays for a walked stack; see admit.h.
 *
 * Each frame of the stack has a *place*: the node of the path up to the frame, the length of that
 * path in nodes, and a hash. A place is *cold* where the path is not in the tree (which has nothing
 * to do with TREE_COLD): the node is WAITS plus the deepest ancestor that is in the tree, and the
 * hash is that of the path. Where the path is in the tree, the hash has a bit for each folded
 * function on the path. The places of frames that a walk kept are known, so only new frames are
 * looked up.
 *
 * Folding erases loops from the path in the order in which they were made. Of a folded function
 * only its last frame stands on the path, followed by the frames that this frame called. So one
 * look from the innermost frame outwards finds the last frame of each folded function, and only
 * frames that stay on the path are looked up in the tree. The places of the other frames are not
 * known.
 */
#include "context/admit.h"
#include "base/options.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/replay.h"
#include "context/tree.h"
#include "os/meta.h"
#include "path/functions.h"
#include "region/heap.h"

#define WAITS (1U << 31)
#define SIGHTINGS 4096U
#define KNOWN 62U /* the greatest number with which struct admission fits an OS page */
/* A folded path may have FOLDED_DEPTH_TIMES as many nodes as MEMCTX_DEPTH says, for two reasons.
 * The stack of a folded path is walked to its end in any case. Paths that begin at the root share
 * their outer nodes, which paths that begin at [truncated] hardly do. */
#define FOLDED_DEPTH_TIMES 4U
#define DEPTH_PARTS 256 /* each node further in needs 1/DEPTH_PARTS of the limit more */
#define WATCHED_MAX 64U /* frames that watch_all compares */
#define WATCH_EVERY 32U /* of this many waiting paths, one is searched for functions that recur */
#define WAITED_TOLD_EVERY 32U /* a thread adds to admit_waited in steps of this many */
#define LIMIT_LOOK_EVERY 64U  /* walks of a thread between two computations of the limit */

/* Each element counts how often a path was seen lately. It holds 16 bits of the path's hash, and
 * below them the path's weight. Sightings of other paths that lead to this element lower the
 * weight. All threads share the elements. A thread may overwrite the count of another thread, which
 * does no harm. */
static uint32_t *sightings; /* atomic, as is each element */
/* The view that pays for waiting paths with the same two innermost frames and the same ancestor. */
struct known {
    struct view *view;
    uintptr_t site, caller;
    uint32_t ancestor;
};
struct admission {
    struct known known[KNOWN];
    uint32_t random, waited;
    uint16_t look; /* numbers the searches for last frames, in steps of LOOK_ONE */
    /* Indexed by a folded function's number: the search, and the function's last frame in it. */
    uint16_t last[RULE_FOLDED_PLACES + 1];
};
_Static_assert(sizeof(struct admission) <= OS_PAGE_BYTES, "part of TABLES_HEAP_BYTES");
#define LOOK_ONE STACK_FRAMES_MAX /* a search and the number of a frame fit 16 bits */

uint64_t admit_waited, admit_looked_up;

struct place {
    uint32_t node, hash, length;
};

/* One look-up. */
struct admit {
    struct heap *heap;
    struct paths *paths;
    struct stack *stack;
    unsigned depth;          /* greatest number of nodes of a path */
    unsigned begin;          /* the first frame that counts */
    bool folding, anchored;  /* anchored: the path begins where its thread does */
    enum tables_share share; /* for new nodes */
    struct place root;
};

static struct tree_frame frame_of(const struct stack_frame *frame) {
    return (struct tree_frame){frame->address, (uint16_t)rule_module(frame->rule), frame->exact};
}

static uint32_t mix_hash(uint32_t hash, uintptr_t address) {
    return (uint32_t)(((address ^ hash) * 0x9e3779b97f4a7c15ULL) >> 32) ^ hash << 7;
}

static struct place place_of(const struct stack_frame *frame) {
    return (struct place){frame->node, frame->hash, frame->length};
}

static uint32_t ancestor_of(uint32_t node) {
    return node & ~WAITS;
}

/* Returns the number of nodes that are left out before a path of this length, so that at most
 * `depth` are left. It is a multiple of half of `depth`, so that paths of nearly one length share
 * their nodes. */
static uint32_t left_out(const struct admit *admit, uint32_t length) {
    uint32_t step = admit->depth > 1 ? admit->depth / 2 : 1;
    return length <= admit->depth ? 0 : (length - admit->depth + step - 1) / step * step;
}

/* Returns the first frame, from frame `i` outwards, whose place has that length; if there is none,
 * a number less than admit->begin. */
static int frame_of_length(const struct admit *admit, int i, uint32_t length) {
    while (i >= (int)admit->begin && admit->stack->frames[i].length != length)
        i--;
    return i;
}

/* Returns the frame before frame `i` on its path, or -1. */
INLINE int frame_before(const struct admit *admit, int i) {
    struct stack_frame *frame = &admit->stack->frames[i];
    if (UNLIKELY(frame->before == ADMIT_BEFORE_UNKNOWN)) {
        int before = frame_of_length(admit, i - 1, frame->length - 1U);
        frame->before = before < (int)admit->begin ? 0 : (uint16_t)(before + 1) & 0x7fff;
    }
    return frame->before - 1;
}

INLINE struct place place_before(const struct admit *admit, int before) {
    return before < 0 ? admit->root : place_of(&admit->stack->frames[before]);
}

/* Reports the function of frame `i` to function_recurs if it stands further out, too. */
static NOINLINE void watch(const struct admit *admit, int i) {
    const struct stack_frame *frames = admit->stack->frames;
    bool recurs = false;
    functions_look_begins();
    struct cfi_function function = function_to_watch(frames[i].address, frames[i].exact);
    functions_look_ends();
    for (int outer = i - 1; function.start && !recurs && outer >= (int)admit->begin; outer--)
        recurs = function_holds(function, frames[outer].address, frames[outer].exact) &&
                 !rule_folded(frames[outer].rule);
    if (recurs)
        function_recurs(function.start);
}

/* As watch, for the innermost WATCHED_MAX frames that are not folded. */
static NOINLINE void watch_all(const struct admit *admit) {
    uintptr_t functions[WATCHED_MAX];
    unsigned count = 0;
    functions_look_begins();
    for (unsigned i = admit->stack->count; i-- > admit->begin && count < WATCHED_MAX;) {
        const struct stack_frame *frame = &admit->stack->frames[i];
        if (!rule_folded(frame->rule))
            functions[count++] = function_to_watch(frame->address, frame->exact).start;
    }
    functions_look_ends();
    for (unsigned i = 0; i < count; i++)
        for (unsigned outer = i + 1; functions[i] && outer < count; outer++)
            if (functions[outer] == functions[i]) {
                function_recurs(functions[i]);
                break;
            }
}

/* Returns the last frame of a folded function, or -1 if this search found none. */
INLINE int last_frame(const struct admission *admission, uint32_t number) {
    uint16_t last = admission->last[number];
    return (uint16_t)(last - admission->look) < LOOK_ONE ? (int)(last % LOOK_ONE) : -1;
}

/* Makes the node of frame `i` below `node`. Returns `node` with WAITS if there is no room. */
static NOINLINE uint32_t make_node(const struct admit *admit, uint32_t node, int i) {
    struct stack_frame *frame = &admit->stack->frames[i];
    uint32_t child = 0;
    if (!tables_are_past(admit->share))
        child = tree_child(node, frame_of(frame), admit->share);
    if (!child)
        return node | WAITS;
    if (admit->share != TABLES_PATH || UNLIKELY(load_relaxed(&evict_views_all)))
        tree_flag(child, TREE_LATE);
    if (admit->paths->watching && !rule_folded(frame->rule))
        watch(admit, i);
    return child;
}

/* Returns the node of frame `i` below `node`, as make_node does if it is missing. */
static uint32_t step(const struct admit *admit, uint32_t node, int i) {
    if (UNLIKELY(node & WAITS))
        return node;
    uint32_t child = tree_find(node, frame_of(&admit->stack->frames[i]));
    return LIKELY(child) ? child : make_node(admit, node, i);
}

/* For a path that drops more outer nodes than its caller's path did: looks up every node that is
 * kept, from the outermost on, below [truncated], and returns the node of frame `i`. */
static NOINLINE uint32_t begin_anew(const struct admit *admit, int i, uint32_t length) {
    int frames[MEMCTX_DEPTH_MAX] = {0}, outer = i - 1;
    uint32_t first = left_out(admit, length), node = TREE_TRUNCATED;
    for (uint32_t at = length - 1; at-- > first; outer--) {
        outer = frame_of_length(admit, outer, at + 1);
        frames[at - first] = outer;
    }
    for (uint32_t at = first; at + 1 < length; at++)
        node = step(admit, node, frames[at - first]);
    return step(admit, node, i);
}

static struct place place_inwards(struct place outer, uint32_t node, uintptr_t address) {
    uint32_t hash = mix_hash(outer.node & WAITS ? outer.hash : outer.node, address);
    return (struct place){.node = node, .hash = hash, .length = outer.length + 1};
}

/* As push, where `outer` waits, or its path has as many nodes as a path may have. */
static NOINLINE struct place push_waiting_or_full(const struct admit *admit, struct place outer,
                                                  int i) {
    uint32_t length = outer.length + 1, node = outer.node;
    if (UNLIKELY(length > admit->depth) && admit->anchored &&
        left_out(admit, length) != left_out(admit, outer.length))
        node = begin_anew(admit, i, length);
    else
        node = step(admit, node, i);
    return place_inwards(outer, node, admit->stack->frames[i].address);
}

/* As push, where the path is not in the tree. */
static NOINLINE struct place push_new(const struct admit *admit, struct place outer, int i) {
    return place_inwards(outer, make_node(admit, outer.node, i), admit->stack->frames[i].address);
}

/* Returns the place of frame `i`, whose caller's place is `outer`. */
INLINE struct place push(const struct admit *admit, struct place outer, int i) {
    if (UNLIKELY(outer.node & WAITS) || UNLIKELY(outer.length >= admit->depth))
        return push_waiting_or_full(admit, outer, i);
    uint32_t child = tree_find(outer.node, frame_of(&admit->stack->frames[i]));
    return LIKELY(child) ? (struct place){.node = child, .length = outer.length + 1}
                         : push_new(admit, outer, i);
}

/* The bit of a folded function in the hash of a path that does not wait. Several functions may
 * share a bit. */
INLINE uint32_t function_bit(uint32_t number) {
    return number ? 1U << number % 32 : 0;
}

/* Returns the place from which the path goes on, and sets *first to the first frame whose place is
 * to be found. */
static struct place begin(struct admit *admit, int *first) {
    static const uint8_t roots[] = {[STACK_COMPLETE] = TREE_ROOT,
                                    [STACK_OPEN] = TREE_TRUNCATED,
                                    [STACK_NO_CFI] = TREE_NO_CFI,
                                    [STACK_BROKEN] = TREE_BROKEN};
    struct paths *paths = admit->paths;
    struct stack *stack = admit->stack;
    admit->root = (struct place){.node = admit->anchored ? roots[stack->end] : TREE_TRUNCATED};
    if (paths->nodes_valid > stack->kept)
        paths->nodes_valid = stack->kept;
    if (!admit->anchored) {
        *first = stack->count > admit->depth ? (int)(stack->count - admit->depth) : 0;
        /* The part of the stack that counts may begin in the middle of a recursion. */
        for (int at = *first; admit->folding && at < (int)stack->count; at++)
            if (!rule_folded(stack->frames[at].rule)) {
                *first = at;
                break;
            }
        admit->begin = (unsigned)*first;
        return admit->root;
    }
    if (UNLIKELY(paths->first_cold < paths->nodes_valid) && paths->nodes_seen != tree_made())
        paths->nodes_valid = paths->first_cold;
    if (paths->first_cold >= paths->nodes_valid)
        paths->first_cold = UINT32_MAX;
    *first = (int)paths->nodes_valid;
    while (*first && !stack->frames[*first - 1].length)
        --*first;
    return *first ? place_of(&stack->frames[*first - 1]) : admit->root;
}

/* Finds the last frame of each folded function from `first` on, and forgets the places of all
 * frames from `first` on. Where one of these functions stands on the path before `first`, the path
 * goes on from the outermost such frame, and *next is set to the frame that takes its place.
 * Returns the frame before *next on the path. */
static int erase_loops(const struct admit *admit, int first, int *next) {
    struct stack_frame *frames = admit->stack->frames;
    struct admission *admission = admit->paths->admission;
    admission->look += LOOK_ONE;
    if (UNLIKELY(!admission->look)) { /* the number has wrapped around */
        __builtin_memset(admission->last, 0, sizeof admission->last);
        admission->look = LOOK_ONE;
    }
    int hit = -1, count = (int)admit->stack->count;
    int outer = first > (int)admit->begin ? first - 1 : -1;
    uint16_t look = (uint16_t)(admission->look + (unsigned)first);
    for (int i = first; i < count; i++) {
        admission->last[rule_folded(frames[i].rule)] = look++;
        frames[i].length = 0;
    }
    admission->last[0] = 0; /* 0 is no function's number */
    for (int i = outer; i >= 0; i = frame_before(admit, i))
        if (last_frame(admission, rule_folded(frames[i].rule)) >= 0)
            hit = i;
    *next = hit < 0 ? first : last_frame(admission, rule_folded(frames[hit].rule));
    return hit < 0 ? outer : frame_before(admit, hit);
}

/* Records the place of frame `i`, which comes after `before` on the path. */
INLINE void note(const struct admit *admit, struct place at, int i, int before) {
    struct stack_frame *frame = &admit->stack->frames[i];
    frame->node = at.node;
    frame->length = (uint16_t)at.length;
    frame->before = (uint16_t)(before + 1) & 0x7fff;
    if (LIKELY(!(at.node & WAITS))) {
        const struct stack_frame *outer = &admit->stack->frames[before];
        /* The hash of a path that waits is no set of bits. Such a path can be followed by one that
         * begins at a later [truncated] and is in the tree. */
        uint32_t functions = before < 0 ? 0 : outer->node & WAITS ? UINT32_MAX : outer->hash;
        frame->hash = functions | function_bit(rule_folded(frame->rule));
        return;
    }
    frame->hash = at.hash;
    if (admit->paths->first_cold > (uint32_t)i)
        admit->paths->first_cold = (uint32_t)i;
}

/* Frame `last` is the last frame of a folded function. The frames directly outside it that
 * belong to the same function have nearly the same path, so they get places, too: the next walk may
 * go on from any of them. */
static void place_direct(const struct admit *admit, int first, int last) {
    struct stack_frame *frames = admit->stack->frames;
    uint32_t number = rule_folded(frames[last].rule);
    if (frames[last].node & WAITS)
        return;
    uint32_t parent = tree_node(frames[last].node)->parent;
    for (int i = last - 1; i >= first && rule_folded(frames[i].rule) == number; i--) {
        bool same = frames[i].address == frames[last].address;
        uint32_t node = same ? frames[last].node : tree_find(parent, frame_of(&frames[i]));
        if (!node)
            return;
        frames[i].node = node;
        frames[i].hash = frames[last].hash;
        frames[i].length = frames[last].length;
        frames[i].before = frames[last].before;
    }
}

/* Finds the places of the frames from `first` on that stay on the path; fast for many frames. */
static NOINLINE struct place place_many(const struct admit *admit, int first) {
    struct stack *stack = admit->stack;
    int next, count = (int)stack->count, before = erase_loops(admit, first, &next);
    struct place at = place_before(admit, before);
    for (; next < count; next++) {
        int begun = next;
        uint32_t number = rule_folded(stack->frames[next].rule);
        if (number)
            next = last_frame(admit->paths->admission, number);
        at = push(admit, at, next);
        admit->paths->looked_up++;
        note(admit, at, next, before);
        if (next != begun) {
            place_direct(admit, begun, next);
            if (!(at.node & WAITS))
                tree_flag(at.node, TREE_FOLDED);
        }
        before = next;
    }
    return at;
}

/* Returns the frame of that function on the path of frame `i`, or -1. */
INLINE int earlier(const struct admit *admit, int i, uint32_t number) {
    const struct stack_frame *frame = &admit->stack->frames[i];
    if (i < 0 || !(frame->node & WAITS || frame->hash & function_bit(number)))
        return -1;
    while (i >= 0 && rule_folded(admit->stack->frames[i].rule) != number)
        i = frame_before(admit, i);
    return i;
}

/* Finds the places of all frames from `first` on, one by one; slow for many frames. */
static struct place place_few(const struct admit *admit, struct place at, int first) {
    const struct stack_frame *frames = admit->stack->frames;
    int count = (int)admit->stack->count, caller = first > (int)admit->begin ? first - 1 : -1;
    for (int i = first; i < count; caller = i++) {
        uint32_t number = rule_folded(frames[i].rule);
        int again = number ? earlier(admit, caller, number) : -1;
        if (again < 0) {
            at = push(admit, at, i);
            note(admit, at, i, caller);
            continue;
        }
        int before = frame_before(admit, again);
        if (frames[again].address == frames[i].address && frames[again].exact == frames[i].exact) {
            at = place_of(&frames[again]);
        } else {
            uint32_t from = at.node;
            at = push(admit, place_before(admit, before), i);
            if (!((at.node | from) & WAITS) && !tree_loop(at.node))
                tree_set_loop(at.node, from);
        }
        note(admit, at, i, before);
    }
    admit->paths->looked_up = admit->stack->count - (unsigned)first;
    return at;
}

#define FEW_FRAMES 8

/* Returns the place of the innermost frame. */
static struct place place_stack(struct admit *admit) {
    struct paths *paths = admit->paths;
    int first, count = (int)admit->stack->count;
    struct place at = begin(admit, &first);
    if (!admit->anchored && admit->folding)
        admit_forget(paths);
    paths->looked_up = 0;
    if (UNLIKELY(admit->folding)) {
        at = count - first > FEW_FRAMES ? place_many(admit, first) : place_few(admit, at, first);
    } else {
        for (int i = first; i < count; i++) {
            at = push(admit, at, i);
            if (admit->anchored)
                note(admit, at, i, i - 1);
        }
        paths->looked_up = (uint32_t)(count - first);
    }
    if (admit->anchored)
        paths->nodes_valid = (uint32_t)count;
    paths->nodes_seen = tree_made();
    return at;
}

/* --- paths that have to wait ----------------------------------------------------------------- */

static bool make_sightings(void) {
    if (load_acquire(&sightings))
        return true;
    uint32_t *made = meta_alloc(SIGHTINGS * sizeof *made), *there = NULL;
    if (!made)
        return false;
    if (cas_acq_rel(&sightings, &there, made))
        tables_add(SIGHTINGS * sizeof *made);
    else
        meta_free(made, SIGHTINGS * sizeof *made);
    return true;
}

static bool make_admission(struct paths *paths) {
    if (paths->admission)
        return true;
    if (!make_sightings())
        return false;
    paths->admission = meta_alloc(sizeof *paths->admission); /* part of TABLES_HEAP_BYTES */
    return paths->admission;
}

void admit_forget_known(struct paths *paths) {
    if (paths->admission)
        __builtin_memset(paths->admission->known, 0, sizeof paths->admission->known);
}

void admit_end(struct paths *paths) {
    meta_free(paths->admission, sizeof *paths->admission);
    paths->admission = NULL;
    admit_forget(paths);
}

#define WORN_ONCE_IN 4 /* of this many sightings of other paths, one lowers the weight */

/* Counts a sighting of a path. Returns the path's weight, or 1 if another path has its place in
 * `sightings`. */
static uint32_t sight(struct admission *admission, uint32_t hash) {
    uint32_t *place = &sightings[hash % SIGHTINGS], word = load_relaxed(place);
    uint32_t tag = hash & 0xffff0000, weight = word & 0xffff;
    if (weight && (word & 0xffff0000) != tag) {
        admission->random = admission->random * 1103515245 + 12345;
        if (admission->random >> 16 & (WORN_ONCE_IN - 1))
            return 1;
        word = weight > 1 ? word - 1 : tag | 1;
        store_owner(place, word);
        return 1;
    }
    weight += weight < UINT16_MAX;
    store_owner(place, tag | weight);
    return weight;
}

/* Clears the count of a path that was admitted. The count would keep other paths waiting whose
 * hashes lead to the same place in `sightings`. */
static void sighting_clear(uint32_t hash) {
    uint32_t *place = &sightings[hash % SIGHTINGS];
    if ((load_relaxed(place) & 0xffff0000) == (hash & 0xffff0000))
        store_owner(place, 0);
}

/* Returns the weight that a path needs to be admitted, for an allocation of `size` bytes. */
static uint32_t weight_wanted(size_t size) {
    int64_t live = segment_used_bytes() - load_relaxed(&heap_global.own_free);
    int64_t part = load_relaxed(&tables_limit_known) / TABLES_PARTS + 1;
    int64_t left = (TABLES_ADMITTED * part - load_relaxed(&tables_used_bytes)) * 2 / part;
    unsigned steps = left >= ADMIT_STEPS ? 0 : (unsigned)(ADMIT_STEPS - (left > 0 ? left : 0));
    live = live > ADMIT_LIVE_LEAST ? live : ADMIT_LIVE_LEAST;
    if ((int64_t)size >= live / ADMIT_LIVE_SHARE)
        return 1;
    return ADMIT_WEIGHT << 2 * steps;
}

/* Returns the view of the stack's innermost frames, as a site below that ancestor. NULL: the
 * ancestor has no such site, and there is no room for it or it may not be made. */
static struct view *site_below(const struct admit *admit, uint32_t ancestor, bool may_make,
                               enum tables_share share) {
    const struct stack *stack = admit->stack;
    bool has = ancestor == TREE_ROOT || load_relaxed(&tree_node(ancestor)->flags) & TREE_HAS_OTHERS;
    unsigned count = stack->count < SITE_FRAMES ? stack->count : SITE_FRAMES;
    if (!has && !may_make)
        return NULL;
    uint32_t node = tree_others(ancestor, share);
    if (count > admit->depth)
        count = admit->depth;
    for (unsigned i = stack->count - count; node && i < stack->count; i++) {
        struct tree_frame frame = frame_of(&stack->frames[i]);
        node = may_make ? tree_child(node, frame, share) : tree_find(node, frame);
    }
    return node ? heap_view_within(admit->heap, node, share) : NULL;
}

/* If this share is refused only because of traces, gives back the traces of this thread. True:
 * memory came free. */
static NOINLINE bool make_way(struct paths *paths, enum tables_share share) {
    bool had = paths->replays;
    if (!tables_are_crowded(0) || tables_are_past(share))
        return false;
    replay_end(paths);
    return cache_make_way(paths) || had;
}

/* Returns the site of the ancestor, or of the first one further out that has it or may get it. The
 * less room is left, the nearer to the root a node has to be to get a site, so the figures of the
 * outermost ancestors stay exact longest. */
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
        bool may_make = near || left > depth * (limit / DEPTH_PARTS);
        view = site_below(admit, at, may_make, share);
        if (UNLIKELY(!view) && may_make && make_way(admit->paths, share))
            view = site_below(admit, at, true, share);
        if (view)
            return view;
        tree_flag(at, TREE_PARTIAL);
    }
    view = site_below(admit, TREE_ROOT, true, TABLES_SITE);
    if (UNLIKELY(!view) && make_way(admit->paths, TABLES_SITE))
        view = site_below(admit, TREE_ROOT, true, TABLES_SITE);
    return view ? view : context_view_fixed(admit->heap, TREE_OTHERS);
}

/* Returns the view that pays for a path that is not admitted. */
static struct view *view_of_site(const struct admit *admit, uint32_t ancestor) {
    const struct stack *stack = admit->stack;
    struct admission *admission = admit->paths->admission;
    uintptr_t site = stack->frames[stack->count - 1].address;
    uintptr_t caller = stack->count > 1 ? stack->frames[stack->count - 2].address : 0;
    uint32_t hash = (uint32_t)(hash_mix(site ^ caller << 9, ancestor) >> 16);
    struct known *known = &admission->known[(uint64_t)hash * KNOWN >> 32];
    if (!(++admission->waited % WAITED_TOLD_EVERY))
        add_relaxed(&admit_waited, WAITED_TOLD_EVERY);
    if (known->site != site || known->caller != caller || known->ancestor != ancestor)
        *known = (struct known){find_site(admit, ancestor), site, caller, ancestor};
    /* A site that was refused is looked for again the next time: there may be room by then. */
    if (UNLIKELY(!known->view) || UNLIKELY(known->view->context == TREE_OTHERS))
        known->site = 0;
    return known->view;
}

/* True if a rule applies to a frame that is not in the tree yet. */
static NOINLINE bool is_wanted(const struct admit *admit) {
    const struct stack *stack = admit->stack;
    for (unsigned i = admit->begin; i < stack->count; i++)
        if ((!stack->frames[i].length || stack->frames[i].node & WAITS) &&
            tree_wanted(frame_of(&stack->frames[i])))
            return true;
    return false;
}

#define EXTEND_WEIGHTS 4 /* a frame needs this many times the weight that a path needs */

/* The first frame whose path is not in the tree gets a node if waiting paths went through it very
 * often. The tree then shows the callers of paths that are never admitted. */
static void extend_tree(const struct admit *admit, uint32_t weight) {
    struct paths *paths = admit->paths;
    const struct stack_frame *frame = &admit->stack->frames[paths->first_cold];
    /* A path that begins at [truncated] may lack a node further out. */
    if (paths->first_cold >= admit->stack->count || frame->length > admit->depth)
        return;
    bool near = frame->length <= NEAR_ROOT;
    if (sight(paths->admission, ~frame->hash) < (near ? ADMIT_WEIGHT : EXTEND_WEIGHTS * weight))
        return;
    if (tree_child(ancestor_of(frame->node), frame_of(frame), near ? TABLES_NEAR : TABLES_ADMITTED))
        sighting_clear(~frame->hash);
}

/* Admits a path whose place is cold, or lets it wait. */
static NOINLINE struct view *wait_or_admit(struct admit *admit, struct place place, size_t size,
                                           bool *keep) {
    struct paths *paths = admit->paths;
    *keep = false;
    if (!make_admission(paths))
        return context_view_fixed(admit->heap, TREE_OTHERS);
    uint32_t seen = sight(paths->admission, place.hash);
    if (paths->watching && !(paths->admission->waited % WATCH_EVERY))
        watch_all(admit);
    uint32_t wanted_weight = weight_wanted(size);
    extend_tree(admit, wanted_weight);
    bool wanted = UNLIKELY(tree_wanted != NULL) && is_wanted(admit);
    if (wanted || seen >= wanted_weight) {
        uint32_t hash = place.hash;
        admit->share = wanted ? TABLES_RULE : TABLES_ADMITTED;
        admit_forget(paths);
        place = place_stack(admit);
        struct view *view =
            place.node & WAITS ? NULL : heap_view_within(admit->heap, place.node, admit->share);
        *keep = true; /* without this, the path would be walked for as long as there is no room */
        if (view) {
            sighting_clear(hash);
            return view;
        }
    }
    if (seen >= ADMIT_WEIGHT)
        evict_want();
    return view_of_site(admit, ancestor_of(place.node));
}

/* --- the functions of admit.h ----------------------------------------------------------------- */

#define FOLDING_LOOK_EVERY 16U /* walks between two looks, if no function is folded meanwhile */
#define NODE_IN_LOOK_UPS 8U    /* paths come fast if over one in this many look-ups makes a node */

static bool paths_come_fast(void) {
    return tables_are_past(TABLES_FOLD) &&
           (tables_are_past(TABLES_FOLD_ANYWAY) ||
            tree_count() > load_relaxed(&admit_looked_up) / NODE_IN_LOOK_UPS);
}

/* Updates whether functions that recur are looked for, and which functions are folded. */
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

struct view *admit_view(struct heap *heap, unsigned depth, size_t size, bool *keep) {
    struct paths *paths = paths_of(heap);
    struct stack *stack = &paths->stack;
    struct admit admit = {.heap = heap,
                          .paths = paths,
                          .stack = stack,
                          .depth = depth,
                          .folding = paths->fold_epoch && make_admission(paths),
                          .share = TABLES_PATH};
    admit.anchored = stack->end != STACK_OPEN &&
                     (stack->count <= depth || (admit.folding && stack->count <= STACK_DEPTH_MAX));
    if (admit.folding && admit.anchored)
        admit.depth = folded_depth(depth);
    struct place place = place_stack(&admit);
    *keep = true;
    if (UNLIKELY(place.node & WAITS))
        return wait_or_admit(&admit, place, size, keep);
    struct view *view = NULL;
    if (LIKELY(heap->slots != NULL)) {
        uint32_t index = heap->slots[place.node & heap->slot_mask];
        view = heap_view_at(heap, index);
        if (LIKELY(index) && LIKELY(view->context == place.node))
            return view;
    }
    view = heap_view_within(heap, place.node, TABLES_ADMITTED);
    if (LIKELY(view != NULL))
        return view;
    *keep = false;
    return make_admission(paths) ? view_of_site(&admit, tree_node(place.node)->parent)
                                 : context_view_fixed(heap, TREE_OTHERS);
}
