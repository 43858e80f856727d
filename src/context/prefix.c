/* SPDX-License-Identifier: MIT */
/* Finds the prefix of each frame of a stack, and folds the path; see prefix.h. */
#include "context/prefix.h"
#include "context/evict.h"
#include "path/functions.h"
#include "region/heap.h"

#define WATCHED_MAX 64U /* frames that prefix_watch_all compares */

static uint32_t mix_hash(uint32_t hash, uintptr_t address) {
    return (uint32_t)(((address ^ hash) * 0x9e3779b97f4a7c15ULL) >> 32) ^ hash << 7;
}

static struct prefix prefix_of(const struct stack_frame *frame) {
    return (struct prefix){frame->node, frame->hash, frame->length};
}

/* Returns how many outer nodes a path of this length drops, so that at most admit->depth nodes are
 * left. The number is a multiple of half of that depth, so that paths of nearly equal length share
 * their nodes. */
static uint32_t left_out(const struct admit *admit, uint32_t length) {
    uint32_t step = admit->depth > 1 ? admit->depth / 2 : 1;
    return length <= admit->depth ? 0 : (length - admit->depth + step - 1) / step * step;
}

/* Returns the first frame, from frame `i` outwards, whose prefix has length `length`; if there is
 * none, a number less than admit->begin. */
static int frame_of_length(const struct admit *admit, int i, uint32_t length) {
    while (i >= (int)admit->begin && admit->stack->frames[i].length != length)
        i--;
    return i;
}

/* Returns the next frame outwards from frame `i` on its path; -1: there is none. */
INLINE int frame_before(const struct admit *admit, int i) {
    struct stack_frame *frame = &admit->stack->frames[i];
    if (UNLIKELY(frame->before == ADMIT_BEFORE_UNKNOWN)) {
        int before = frame_of_length(admit, i - 1, frame->length - 1U);
        frame->before = before < (int)admit->begin ? 0 : (uint16_t)(before + 1) & 0x7fff;
    }
    return frame->before - 1;
}

INLINE struct prefix prefix_before(const struct admit *admit, int before) {
    return before < 0 ? admit->root : prefix_of(&admit->stack->frames[before]);
}

/* Reports the function of frame `i` to function_recurs if a frame further out is in this function,
 * too. */
static NOINLINE void watch(const struct admit *admit, int i) {
    const struct stack_frame *frame = &admit->stack->frames[i];
    const struct stack_frame *outermost = &admit->stack->frames[admit->begin];
    bool recurs = false;
    functions_look_begins();
    struct cfi_function function = function_to_watch(frame->address, frame->exact);
    functions_look_ends();
    if (!function.start)
        return;
    while (!recurs && frame-- > outermost)
        /* the first condition holds for few frames, and the second one needs it */
        recurs = UNLIKELY(frame->address - function.start <= function.bytes) &&
                 function_holds(function, frame->address, frame->exact) &&
                 !rule_folded(frame->rule);
    if (recurs)
        function_recurs(function);
}

void prefix_watch_all(const struct admit *admit) {
    struct cfi_function functions[WATCHED_MAX];
    unsigned count = 0;
    functions_look_begins();
    for (unsigned i = admit->stack->count; i-- > admit->begin && count < WATCHED_MAX;) {
        const struct stack_frame *frame = &admit->stack->frames[i];
        if (!rule_folded(frame->rule))
            functions[count++] = function_to_watch(frame->address, frame->exact);
    }
    functions_look_ends();
    for (unsigned i = 0; i < count; i++)
        for (unsigned outer = i + 1; functions[i].start && outer < count; outer++)
            if (functions[outer].start == functions[i].start) {
                function_recurs(functions[i]);
                break;
            }
}

/* Returns the last frame of a folded function, or -1 if this search found none. */
INLINE int last_frame(const struct admission *admission, uint32_t number) {
    uint16_t last = admission->last[number];
    return (uint16_t)(last - admission->look) < LOOK_ONE ? (int)(last % LOOK_ONE) : -1;
}

/* greatest number of nodes that make_nodes makes at once */
#define CHAIN_MAX 16U

/* Makes the node of frame `i` below `node`. The nodes of the frames further in are missing then,
 * too. Makes up to `count` nodes in all, as far as it is certain that the path goes on with these
 * frames: until a frame of a folded function. push finds the further nodes in the tree. Returns the
 * first node, or `node` with PREFIX_WAITS if there is no room. */
static NOINLINE uint32_t make_nodes(const struct admit *admit, uint32_t node, int i,
                                    uint32_t count) {
    const struct stack_frame *frames = &admit->stack->frames[i];
    struct tree_frame chain[CHAIN_MAX];
    uint32_t ids[CHAIN_MAX], most = admit->stack->count - (uint32_t)i, child;
    most = count < most ? count : most;
    most = CHAIN_MAX < most ? CHAIN_MAX : most;
    /* While the table of children was cleared in place, the search may have missed the child. */
    if (UNLIKELY(admit->table_clears & 1 ||
                 load_acquire(&tree_table_clears) != admit->table_clears) &&
        (child = tree_find_again(node, prefix_frame(frames))))
        return child;
    if (tables_are_past(admit->share) || tree_ids_are_past(admit->share))
        return node | PREFIX_WAITS;
    chain[0] = prefix_frame(frames);
    for (count = 1; count < most && !rule_folded(frames[count].rule); count++)
        chain[count] = prefix_frame(&frames[count]);
    count = tree_chain(node, chain, count, admit->share, ids);
    if (!count)
        return node | PREFIX_WAITS;
    bool late = admit->share != TABLES_PATH || UNLIKELY(load_relaxed(&admit_any_waited)) ||
                UNLIKELY(load_relaxed(&evict_views_all));
    for (uint32_t k = 0; k < count; k++) {
        if (late)
            tree_flag(ids[k], TREE_LATE);
        if (admit->paths->watching && !rule_folded(frames[k].rule))
            watch(admit, i + (int)k);
    }
    return ids[0];
}

/* Returns the node of frame `i` below `node`. If it is missing, make_nodes makes it. If the path of
 * `node` waits, returns `node`. */
static uint32_t step(const struct admit *admit, uint32_t node, int i) {
    if (UNLIKELY(node & PREFIX_WAITS))
        return node;
    uint32_t child = tree_find(node, prefix_frame(&admit->stack->frames[i]));
    return LIKELY(child) ? child : make_nodes(admit, node, i, 1);
}

/* For frame `i` with a path that drops more outer nodes (left_out) than its caller's path did. The
 * kept frames need other nodes, below [truncated]: looks up each of them, from the outermost on.
 * Returns the node of frame `i`. */
static NOINLINE uint32_t find_below_truncated(const struct admit *admit, int i, uint32_t length) {
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

static struct prefix prefix_with_frame(struct prefix outer, uint32_t node, uintptr_t address) {
    uint32_t hash = mix_hash(outer.node & PREFIX_WAITS ? outer.hash : outer.node, address);
    return (struct prefix){.node = node, .hash = hash, .length = outer.length + 1};
}

/* Does the work of push when the path of `outer` waits, or already has as many nodes as a path may
 * have. */
static NOINLINE struct prefix push_waiting_or_full(const struct admit *admit, struct prefix outer,
                                                   int i) {
    uint32_t length = outer.length + 1, node = outer.node;
    if (UNLIKELY(length > admit->depth) && admit->anchored &&
        left_out(admit, length) != left_out(admit, outer.length))
        node = find_below_truncated(admit, i, length);
    else
        node = step(admit, node, i);
    return prefix_with_frame(outer, node, admit->stack->frames[i].address);
}

/* Does the work of push when frame `i` has no node yet. A path has at most admit->depth nodes that
 * push_waiting_or_full did not make. */
static NOINLINE struct prefix push_new(const struct admit *admit, struct prefix outer, int i) {
    uint32_t node = make_nodes(admit, outer.node, i, admit->depth - outer.length);
    return prefix_with_frame(outer, node, admit->stack->frames[i].address);
}

/* Returns the prefix of frame `i`, whose caller's prefix is `outer`. */
INLINE struct prefix push(const struct admit *admit, struct prefix outer, int i) {
    if (UNLIKELY(outer.node & PREFIX_WAITS) || UNLIKELY(outer.length >= admit->depth))
        return push_waiting_or_full(admit, outer, i);
    uint32_t child = tree_find(outer.node, prefix_frame(&admit->stack->frames[i]));
    return LIKELY(child) ? (struct prefix){.node = child, .length = outer.length + 1}
                         : push_new(admit, outer, i);
}

/* The bit of a folded function in the hash of a path that does not wait. Several functions may
 * share a bit. */
INLINE uint32_t function_bit(uint32_t number) {
    return number ? 1U << number % 32 : 0;
}

/* Begins a look-up. Returns the prefix from which the path goes on, and sets *first to the frame
 * that follows: the outermost one whose prefix is not known. */
static struct prefix begin(struct admit *admit, int *first) {
    static const uint8_t roots[] = {[STACK_COMPLETE] = TREE_ROOT,
                                    [STACK_OPEN] = TREE_TRUNCATED,
                                    [STACK_NO_CFI] = TREE_NO_CFI,
                                    [STACK_BROKEN] = TREE_BROKEN};
    struct paths *paths = admit->paths;
    struct stack *stack = admit->stack;
    admit->root = (struct prefix){.node = admit->anchored ? roots[stack->end] : TREE_TRUNCATED};
    if (paths->nodes_valid > stack->kept)
        paths->nodes_valid = stack->kept;
    if (!admit->anchored) {
        *first = stack->count > admit->depth ? (int)(stack->count - admit->depth) : 0;
        /* The innermost `depth` frames may begin in the middle of a recursion: begins at the first
         * frame that is not folded. */
        for (int at = *first; admit->folding && at < (int)stack->count; at++)
            if (!rule_folded(stack->frames[at].rule)) {
                *first = at;
                break;
            }
        admit->begin = (unsigned)*first;
        return admit->root;
    }
    /* A cold path may be in the tree now if any node was made since the last look-up. */
    if (UNLIKELY(paths->first_cold < paths->nodes_valid) && paths->nodes_seen != tree_made())
        paths->nodes_valid = paths->first_cold;
    if (paths->first_cold >= paths->nodes_valid)
        paths->first_cold = UINT32_MAX;
    *first = (int)paths->nodes_valid;
    while (*first && !stack->frames[*first - 1].length)
        --*first;
    return *first ? prefix_of(&stack->frames[*first - 1]) : admit->root;
}

/* Finds the last frame of each folded function from `first` on, and forgets the prefixes of all
 * frames from `first` on. If one of these functions also stands on the path before `first`, the
 * path is cut at the outermost frame of such a function. The function's last frame takes the place
 * of that frame, and *next is set to the last frame. Otherwise *next is `first`. Returns the next
 * frame outwards from *next on the path; -1: there is none. */
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

/* Records the prefix `at` of frame `i`. Frame `before` is the next one outwards on the path; -1:
 * there is none. */
INLINE void note(const struct admit *admit, struct prefix at, int i, int before) {
    struct stack_frame *frame = &admit->stack->frames[i];
    frame->node = at.node;
    frame->length = (uint16_t)at.length;
    frame->before = (uint16_t)(before + 1) & 0x7fff;
    if (LIKELY(!(at.node & PREFIX_WAITS))) {
        const struct stack_frame *outer = &admit->stack->frames[before];
        /* The hash of a waiting path is no set of bits. The outer frame's path may wait although
         * this frame's path, which drops more outer nodes, is in the tree
         * (find_below_truncated). */
        uint32_t functions = before < 0 ? 0 : outer->node & PREFIX_WAITS ? UINT32_MAX : outer->hash;
        frame->hash = functions | function_bit(rule_folded(frame->rule));
        return;
    }
    frame->hash = at.hash;
    if (admit->paths->first_cold > (uint32_t)i)
        admit->paths->first_cold = (uint32_t)i;
}

/* Frame `last` is the last frame of a folded function that called itself directly. The frames of
 * these calls, directly outside `last`, get prefixes below the parent of `last`'s node, because the
 * next walk may go on from any of them. */
static void find_direct_recursion(const struct admit *admit, int first, int last) {
    struct stack_frame *frames = admit->stack->frames;
    uint32_t number = rule_folded(frames[last].rule);
    if (frames[last].node & PREFIX_WAITS)
        return;
    uint32_t parent = tree_node(frames[last].node)->parent;
    for (int i = last - 1; i >= first && rule_folded(frames[i].rule) == number; i--) {
        bool same = frames[i].address == frames[last].address;
        uint32_t node = same ? frames[last].node : tree_find(parent, prefix_frame(&frames[i]));
        if (!node)
            return;
        frames[i].node = node;
        frames[i].hash = frames[last].hash;
        frames[i].length = frames[last].length;
        frames[i].before = frames[last].before;
    }
}

/* For more than FEW_FRAMES frames: finds the prefixes of the frames from `first` on that stay on
 * the path. One pass finds all loops. */
static NOINLINE struct prefix find_loops_at_once(const struct admit *admit, int first) {
    struct stack *stack = admit->stack;
    int next, count = (int)stack->count, before = erase_loops(admit, first, &next);
    struct prefix at = prefix_before(admit, before);
    for (; next < count; next++) {
        int begun = next;
        uint32_t number = rule_folded(stack->frames[next].rule);
        if (number)
            next = last_frame(admit->paths->admission, number);
        at = push(admit, at, next);
        admit->paths->looked_up++;
        note(admit, at, next, before);
        if (next != begun) {
            find_direct_recursion(admit, begun, next);
            if (!(at.node & PREFIX_WAITS))
                tree_flag(at.node, TREE_FOLDED);
        }
        before = next;
    }
    return at;
}

/* Returns the frame of the folded function `number` on the path of frame `i`; -1: there is none.
 * Several functions share a bit of the hash, so a set bit still needs the search. */
INLINE int earlier(const struct admit *admit, int i, uint32_t number) {
    const struct stack_frame *frame = &admit->stack->frames[i];
    if (i < 0 || !(frame->node & PREFIX_WAITS || frame->hash & function_bit(number)))
        return -1;
    while (i >= 0 && rule_folded(admit->stack->frames[i].rule) != number)
        i = frame_before(admit, i);
    return i;
}

/* For at most FEW_FRAMES frames: finds the prefixes of all frames from `first` on. Searches for the
 * loop of each frame by itself. */
static struct prefix find_loops_singly(const struct admit *admit, struct prefix at, int first) {
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
            at = prefix_of(&frames[again]);
        } else {
            uint32_t from = at.node;
            at = push(admit, prefix_before(admit, before), i);
            if (!((at.node | from) & PREFIX_WAITS) && !tree_loop(at.node))
                tree_set_loop(at.node, from);
        }
        note(admit, at, i, before);
    }
    admit->paths->looked_up = admit->stack->count - (unsigned)first;
    return at;
}

/* find_loops_singly looks for the loops of up to this many new frames, find_loops_at_once for those
 * of more frames. */
#define FEW_FRAMES 8

struct prefix prefix_of_stack(struct admit *admit) {
    struct paths *paths = admit->paths;
    int first, count = (int)admit->stack->count;
    struct prefix at = begin(admit, &first);
    if (!admit->anchored && admit->folding)
        admit_forget(paths);
    paths->looked_up = 0;
    if (UNLIKELY(admit->folding)) {
        at = count - first > FEW_FRAMES ? find_loops_at_once(admit, first)
                                        : find_loops_singly(admit, at, first);
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
