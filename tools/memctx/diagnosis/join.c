/* SPDX-License-Identifier: MIT */
/* join.c - finds the innermost function that nearly all figures of several suspects pass through.
 */
#include "diagnosis/join.h"

#include <stdlib.h>
#include <string.h>

#include "diagnosis/join_tree.h"

#define NEARLY_ALL_PER_CENT 90
#define SMALL_SHARE 64 /* functions with less than 1/SMALL_SHARE of the sum are not searched */
#define MULTIPLE_MOST 8
#define OWNED_SHARE 32 /* a multiple of the objects' number may be off by this share of it */
#define OWNED_MOST 8   /* so many suspects are looked at: the largest */

/* --- the search ------------------------------------------------------------------------------ */

static bool is_nearly_all(int64_t part, int64_t whole) {
    return part / NEARLY_ALL_PER_CENT >= whole / 100;
}

static enum who_kind kind_of(const struct join_tree *tree, uint32_t index) {
    struct join_node *node = &tree->nodes[index];
    if (node->is_tail) /* a finding cannot name it as its function */
        return WHO_RUNTIME;
    if (!node->has_kind)
        node->kind = who_kind_of(tree->paths->model, node->step);
    node->has_kind = true;
    return node->kind;
}

/* Returns the innermost node, at or below `root`, that has nearly all of the figure of `root`. */
static uint32_t find_innermost(const struct join_tree *tree, uint32_t root) {
    const struct join_node *nodes = tree->nodes;
    uint32_t at = root;
    for (;;) {
        uint32_t child = nodes[at].first_child;
        while (child != JOIN_NONE && !is_nearly_all(nodes[child].figure, nodes[root].figure))
            child = nodes[child].next_sibling;
        if (child == JOIN_NONE)
            return at;
        at = child;
    }
}

static uint32_t module_of(const struct join_tree *tree, uint32_t node) {
    return tree->paths->model->contexts[tree->nodes[node].step.context].frame->module;
}

/* True if the function has no name, but a function of its module, farther out and up to `root`, has
 * a name and can be a cause. Then the text of the finding does not name the first function. */
static bool is_left_out(const struct join_tree *tree, uint32_t node, uint32_t root) {
    const struct model *model = tree->paths->model;
    if (who_has_name(model, tree->nodes[node].step))
        return false;
    for (uint32_t at = node; at != root && tree->nodes[at].parent != 0;) {
        at = tree->nodes[at].parent;
        if (module_of(tree, at) == module_of(tree, node) && kind_of(tree, at) == WHO_MEANS &&
            who_has_name(model, tree->nodes[at].step))
            return true;
    }
    return false;
}

/* Returns the innermost node from `node` outwards to `root` that can be a cause: a function of the
 * program, or the loop of an interpreter. Returns JOIN_NONE if there is none. */
static uint32_t find_cause(const struct join_tree *tree, uint32_t node, uint32_t root) {
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent) {
        enum who_kind kind = kind_of(tree, at);
        if (kind == WHO_INTERPRETER || (kind == WHO_MEANS && !is_left_out(tree, at, root)))
            return at;
        if (at == root)
            break;
    }
    return JOIN_NONE;
}

/* Sets inside[i] for the suspects that have nearly all of their figure at or below a node. Returns
 * their number. */
static size_t find_inside(const struct join_tree *tree, uint32_t node, const struct blame *blame,
                          bool *inside) {
    size_t count = 0;
    int64_t *sums = cli_alloc(blame->count, sizeof *sums);
    for (size_t i = 0; i < tree->end_count; i++) {
        uint32_t at = tree->ends[i].node;
        while (at != 0 && at != node)
            at = tree->nodes[at].parent;
        if (at == node)
            sums[tree->ends[i].suspect] =
                model_tame(sums[tree->ends[i].suspect] + tree->ends[i].figure);
    }
    for (size_t i = 0; i < blame->count; i++) {
        inside[i] = sums[i] > 0 && is_nearly_all(sums[i], model_tame(blame->suspects[i].figure));
        count += inside[i];
    }
    free(sums);
    return count;
}

/* Returns the node of main if it is between `node` and `root`, else JOIN_NONE. */
static uint32_t find_main(const struct join_tree *tree, uint32_t node, uint32_t root) {
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent) {
        if (kind_of(tree, at) == WHO_MAIN)
            return at;
        if (at == root)
            break;
    }
    return JOIN_NONE;
}

/* True if both functions are in one library without source lines. */
static bool share_library(const struct join_tree *tree, uint32_t a, uint32_t b) {
    const struct model *model = tree->paths->model;
    return module_of(tree, a) == module_of(tree, b) &&
           !who_is_programs_own(model, tree->nodes[a].step) &&
           !who_is_programs_own(model, tree->nodes[b].step);
}

/* Sets direct[i] for the suspects that the function at node `main` allocates without another
 * function of the program in between. The function is main, or a caller that find_owner tries.
 * With `through`, functions of libraries without source lines may stand in between. */
static void find_direct(const struct join_tree *tree, uint32_t main, bool through,
                        const struct blame *blame, bool *direct) {
    find_inside(tree, main, blame, direct);
    for (size_t i = 0; i < tree->end_count; i++) {
        uint32_t at = tree->ends[i].node;
        for (; at != 0 && at != main; at = tree->nodes[at].parent)
            if (kind_of(tree, at) == WHO_MEANS &&
                (!through || who_is_programs_own(tree->paths->model, tree->nodes[at].step)))
                direct[tree->ends[i].suspect] = false;
    }
}

static int64_t count_chunks(const struct join_tree *tree, const struct blame_suspect *suspect) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++)
        sum = model_tame(sum +
                         model_tame(tree->chunks[blame_number(tree->paths, suspect->members[i])]));
    return sum;
}

/* True if one count is (nearly) a small multiple of the other. */
static bool are_multiples(int64_t a, int64_t b) {
    int64_t more = a > b ? a : b, less = a > b ? b : a;
    int64_t times = less > 0 ? (more + less / 2) / less : 0;
    int64_t off = more - times * less;
    return times > 0 && times <= MULTIPLE_MOST && (off < 0 ? -off : off) <= more / 50;
}

/* Joins suspects that main allocates directly, if their numbers of chunks are small multiples of
 * each other. (main alone is no cause, because a small program may do everything in main.) */
static void search_main(const struct join_tree *tree, uint32_t main, const struct blame *blame,
                        uint32_t *causes) {
    bool *direct = cli_alloc(blame->count, sizeof *direct);
    size_t largest = 0, fitting = 0;
    find_direct(tree, main, false, blame, direct);
    for (size_t i = 0; i < blame->count; i++)
        direct[i] = direct[i] && causes[i] == 0;
    while (largest < blame->count && !direct[largest])
        largest++;
    for (size_t i = largest; i < blame->count; i++) {
        direct[i] = direct[i] && are_multiples(count_chunks(tree, &blame->suspects[largest]),
                                               count_chunks(tree, &blame->suspects[i]));
        fitting += direct[i];
    }
    for (size_t i = largest; i < blame->count && fitting > 1; i++)
        if (direct[i])
            causes[i] = main;
    free(direct);
}

/* Handles one suspect, `large`, that has nearly all of the figure, or the largest of several that
 * have, such as a buffer with a small header. Suspects whose numbers of chunks are small multiples
 * of its number are joined with it, at the function between `inner` and `root` that has most of
 * them. `inner` is the innermost function with nearly all of the figure of `large`. */
static void search_fitting(const struct join_tree *tree, uint32_t inner, uint32_t root,
                           size_t large, const struct blame *blame, uint32_t *causes) {
    bool *inside = cli_alloc(blame->count, sizeof *inside);
    bool *fits = cli_alloc(blame->count, sizeof *fits);
    bool *joined = cli_alloc(blame->count, sizeof *joined);
    uint32_t best = JOIN_NONE;
    size_t most = 1;
    int64_t chunks = count_chunks(tree, &blame->suspects[large]);
    for (size_t i = 0; i < blame->count; i++)
        fits[i] = are_multiples(chunks, count_chunks(tree, &blame->suspects[i]));
    for (uint32_t at = inner; at != 0; at = tree->nodes[at].parent) {
        uint32_t cause = find_cause(tree, at, at);
        size_t count = 0;
        if (cause != JOIN_NONE)
            find_inside(tree, cause, blame, inside);
        for (size_t i = 0; i < blame->count && cause != JOIN_NONE; i++)
            count += inside[i] && fits[i];
        if (count > most) {
            best = cause;
            most = count;
            for (size_t i = 0; i < blame->count; i++)
                joined[i] = inside[i] && fits[i];
        }
        if (at == root)
            break;
    }
    for (size_t i = 0; i < blame->count && best != JOIN_NONE; i++)
        if (joined[i] && causes[i] == 0)
            causes[i] = best;
    free(inside);
    free(fits);
    free(joined);
}

/* True if the counts differ by at most a fiftieth. */
static bool are_nearly_equal(int64_t a, int64_t b) {
    int64_t more = a > b ? a : b, less = a > b ? b : a;
    return less > 0 && more - less <= more / 50;
}

/* True if each of `owners` objects may own equally many of the chunks of a suspect. An object that
 * is being made at the moment of a look has fewer. */
static bool may_own(int64_t owners, int64_t chunks) {
    int64_t times = owners > 0 ? (chunks + owners / 2) / owners : 0, off = chunks - times * owners;
    return are_nearly_equal(owners, chunks) ||
           (times > 1 && (off < 0 ? -off : off) <= owners / OWNED_SHARE);
}

/* Sets owners[i] for the suspects without a cause that may own the chunks of one of the largest
 * suspects of `inside`. Returns their number. */
static size_t find_candidates(const struct join_tree *tree, const struct blame *blame,
                              const uint32_t *causes, const bool *inside, bool *owners) {
    int64_t chunks[OWNED_MOST];
    size_t owned = 0, count = 0;
    for (size_t i = 0; i < blame->count && owned < OWNED_MOST; i++)
        if (inside[i])
            chunks[owned++] = count_chunks(tree, &blame->suspects[i]);
    for (size_t i = 0; i < blame->count; i++) {
        if (inside[i] || causes[i] != 0)
            continue;
        int64_t own = count_chunks(tree, &blame->suspects[i]);
        for (size_t k = 0; k < owned && !owners[i]; k++)
            owners[i] = may_own(own, chunks[k]);
        count += owners[i];
    }
    return count;
}

/* `inside` has the suspects with the cause `cause`. An object may own several of their chunks, and
 * be small itself. Looks for suspects that a caller of `cause` allocates directly, or through a
 * library, and that have as many chunks as a suspect of `inside`, or a whole part of its number.
 * Returns that caller's node; returns `cause` if there is none. A library may allocate the parts of
 * an object in many functions, such as a statement of sqlite in its parser. So of callers in the
 * library of `cause` the outermost counts. */
static uint32_t find_owner(const struct join_tree *tree, uint32_t cause, uint32_t root,
                           const struct blame *blame, const uint32_t *causes, const bool *inside) {
    bool *owners = cli_alloc(blame->count, sizeof *owners);
    bool *direct = cli_alloc(blame->count, sizeof *direct);
    size_t candidates = find_candidates(tree, blame, causes, inside, owners);
    uint32_t found = cause;
    for (uint32_t at = cause; at != root && candidates > 0;) {
        at = tree->nodes[at].parent;
        if (at == 0 || kind_of(tree, at) != WHO_MEANS)
            continue;
        bool in_library = share_library(tree, at, cause);
        if (found != cause && !in_library)
            break;
        if (in_library && !who_has_name(tree->paths->model, tree->nodes[at].step))
            continue;
        find_direct(tree, at, true, blame, direct);
        for (size_t i = 0; i < blame->count; i++)
            found = owners[i] && direct[i] ? at : found;
    }
    free(owners);
    free(direct);
    return found;
}

/* True if the chunks of a suspect may be those of a container that has a pointer for each of so
 * many objects: they are far fewer than the objects, and large enough. */
static bool may_contain(const struct join_tree *tree, const struct blame_suspect *suspect,
                        int64_t objects) {
    int64_t pointers = model_tame(objects * (int64_t)sizeof(void *));
    return count_chunks(tree, suspect) < objects / MULTIPLE_MOST &&
           model_tame(suspect->figure) >= pointers - pointers / MULTIPLE_MOST;
}

/* `inside` has the suspects with the cause `cause`. The function that calls `cause` may keep the
 * objects that it gets in a container. So if `cause` has nearly all of what its nearest caller gets
 * from it and allocates for a container, returns that caller's node, and adds the suspects that may
 * be the container to `inside`. Otherwise returns `cause`. */
static uint32_t find_keeper(const struct join_tree *tree, uint32_t cause, uint32_t root,
                            const struct blame *blame, const uint32_t *causes, bool *inside) {
    uint32_t at = cause;
    while (at != root && at != 0 && (at == cause || kind_of(tree, at) > WHO_INTERPRETER))
        at = tree->nodes[at].parent;
    if (at == cause || at == 0 || kind_of(tree, at) != WHO_MEANS)
        return cause;
    bool *direct = cli_alloc(blame->count, sizeof *direct);
    int64_t made = 0, kept = 0, objects = INT64_MAX;
    for (size_t i = 0; i < blame->count; i++) {
        int64_t chunks = inside[i] ? count_chunks(tree, &blame->suspects[i]) : objects;
        made = model_tame(made + (inside[i] ? model_tame(blame->suspects[i].figure) : 0));
        objects = chunks < objects ? chunks : objects;
    }
    find_direct(tree, at, true, blame, direct);
    for (size_t i = 0; i < blame->count; i++) {
        direct[i] = direct[i] && causes[i] == 0 && !inside[i] &&
                    may_contain(tree, &blame->suspects[i], objects);
        kept = model_tame(kept + (direct[i] ? model_tame(blame->suspects[i].figure) : 0));
    }
    bool keeps = kept > 0 && is_nearly_all(made, model_tame(made + kept));
    for (size_t i = 0; i < blame->count && keeps; i++)
        inside[i] = inside[i] || direct[i];
    free(direct);
    return keeps ? at : cause;
}

/* The objects of a script are made by many functions of its interpreter, one of which may have
 * nearly all of the memory. If `cause` is such a function, and other suspects are below the
 * interpreter's loop, returns the node of the loop; else `cause`. Sets `inside` and *count as
 * find_inside does for the returned node. */
static uint32_t widen_to_loop(const struct join_tree *tree, uint32_t cause, uint32_t root,
                              const struct blame *blame, bool *inside, size_t *count) {
    uint32_t at = cause;
    while (at != root && at != 0 &&
           (kind_of(tree, at) != WHO_INTERPRETER || module_of(tree, at) != module_of(tree, cause)))
        at = tree->nodes[at].parent;
    if (at == cause || at == 0 || kind_of(tree, at) != WHO_INTERPRETER)
        return cause;
    size_t below = find_inside(tree, at, blame, inside);
    if (below > *count) {
        *count = below;
        return at;
    }
    find_inside(tree, cause, blame, inside);
    return cause;
}

static void search(const struct join_tree *tree, uint32_t root, const struct blame *blame,
                   uint32_t *causes);

/* Looks for causes below each function from `inner` outwards to `root`; if `done`, not below
 * `inner` itself. */
static void search_around(const struct join_tree *tree, uint32_t inner, uint32_t root, bool done,
                          const struct blame *blame, uint32_t *causes) {
    const struct join_node *nodes = tree->nodes;
    uint32_t from = JOIN_NONE; /* the child of `at` on the way to `inner`: searched before */
    for (uint32_t at = inner;; from = at, at = nodes[at].parent) {
        for (uint32_t child = nodes[at].first_child; child != JOIN_NONE && !(done && at == inner);
             child = nodes[child].next_sibling)
            if (child != from && nodes[child].suspects > 1 &&
                nodes[child].figure >= nodes[0].figure / SMALL_SHARE)
                search(tree, child, blame, causes);
        if (at == root)
            break;
    }
}

/* Looks for causes at `root` and below it. Sets causes[i] to the node at which suspect i is joined
 * with other suspects. */
static void search(const struct join_tree *tree, uint32_t root, const struct blame *blame,
                   uint32_t *causes) {
    bool *inside = cli_alloc(blame->count, sizeof *inside);
    uint32_t innermost = find_innermost(tree, root);
    uint32_t cause = find_cause(tree, innermost, root);
    size_t count = cause != JOIN_NONE ? find_inside(tree, cause, blame, inside) : 0, first = 0;
    for (size_t i = 0; i < blame->count && count > 0; i++) {
        count -= inside[i] && causes[i] != 0; /* search_fitting has joined it farther out */
        inside[i] = inside[i] && causes[i] == 0;
    }
    if (count > 0)
        cause = widen_to_loop(tree, cause, root, blame, inside, &count);
    bool found = count > 1;
    uint32_t owner = found ? find_owner(tree, cause, root, blame, causes, inside) : cause;
    if (owner != cause) /* all suspects below the owner belong to it */
        find_inside(tree, owner, blame, inside);
    while (count > 0 && !inside[first])
        first++;
    uint32_t joint = owner;
    if (owner == cause && count > 0 && kind_of(tree, cause) != WHO_INTERPRETER) {
        search_fitting(tree, cause, root, first, blame, causes);
        joint = found && causes[first] != 0 ? causes[first] : cause;
    }
    if (tree->grows && joint == cause && count > 0 && (found || causes[first] == 0))
        joint = find_keeper(tree, cause, root, blame, causes, inside);
    for (size_t i = 0; i < blame->count && (found || joint != cause); i++)
        if (inside[i] && (causes[i] == 0 || causes[i] == cause))
            causes[i] = joint;
    free(inside);
    uint32_t main = !found ? find_main(tree, innermost, root) : JOIN_NONE;
    if (main != JOIN_NONE)
        search_main(tree, main, blame, causes);
    search_around(tree, found ? owner : innermost, root, found, blame, causes);
}

/* All memory that a script keeps has one cause for doctor, whichever thread runs the script: the
 * interpreter's loop. Paths of several threads have no outer function in common. So suspects that
 * were joined at functions of one interpreter are joined at the first of these functions. */
static void join_threads(const struct join_tree *tree, const struct blame *blame,
                         uint32_t *causes) {
    for (size_t i = 0; i < blame->count; i++) {
        if (causes[i] == 0 || kind_of(tree, causes[i]) != WHO_INTERPRETER)
            continue;
        for (size_t k = 0; k < i; k++) {
            if (causes[k] != 0 && kind_of(tree, causes[k]) == WHO_INTERPRETER &&
                module_of(tree, causes[k]) == module_of(tree, causes[i])) {
                causes[i] = causes[k];
                break;
            }
        }
    }
}

/* Sets found[i] to the function to blame for suspect i: the node at which it was joined with other
 * suspects, otherwise the innermost node that can be a cause. JOIN_NONE: there is none. */
static void find_causes(const struct join_tree *tree, const struct blame *blame,
                        const uint32_t *causes, uint32_t *found) {
    for (size_t i = 0; i < blame->count; i++)
        found[i] = causes[i] != 0 ? causes[i] : JOIN_NONE;
    for (size_t i = 0; i < tree->end_count; i++)
        if (found[tree->ends[i].suspect] == JOIN_NONE)
            found[tree->ends[i].suspect] = find_cause(tree, tree->ends[i].node, 0);
}

/* True if both nodes are one function, and the path to `less` lacks exactly one caller: on the way
 * outwards to a node that both paths have in common, the callers of both nodes are the same
 * functions, except that `more` has one more, the outermost. A caller that the compiler divided in
 * two has two nodes. */
static bool lacks_caller(const struct join_tree *tree, uint32_t less, uint32_t more) {
    const struct join_node *nodes = tree->nodes;
    if (nodes[less].key != nodes[more].key)
        return false;
    while (less != more && nodes[less].key == nodes[more].key) {
        less = nodes[less].parent;
        more = nodes[more].parent;
    }
    while (less != more && nodes[more].parent != 0 &&
           nodes[nodes[more].parent].key == nodes[more].key)
        more = nodes[more].parent;
    return less != more && nodes[more].parent == less;
}

static int64_t count_allocs(const struct join_tree *tree, const struct blame_suspect *suspect) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t number = blame_number(tree->paths, suspect->members[i]);
        sum = model_tame(sum + model_figures_at(tree->paths->model, number)->self.allocs);
    }
    return sum;
}

/* If a function calls another one several times, the last call may be a tail call. Then some paths
 * lack the first function. DWARF does not tell that if the first function is called through a
 * pointer, as a handler of events is. So suspects with one cause whose paths differ in this way are
 * joined, if their numbers of allocations are small multiples of each other. */
static void join_tail_calls(const struct join_tree *tree, const struct blame *blame,
                            uint32_t *causes) {
    uint32_t *found = cli_alloc(blame->count, sizeof *found);
    int64_t *allocs = cli_alloc(tree->count, sizeof *allocs); /* by node */
    find_causes(tree, blame, causes, found);
    for (size_t i = 0; i < blame->count; i++)
        if (found[i] != JOIN_NONE)
            allocs[found[i]] =
                model_tame(allocs[found[i]] + count_allocs(tree, &blame->suspects[i]));
    for (size_t i = 0; i < blame->count; i++)
        for (size_t k = 0; k < blame->count; k++)
            if (found[i] != JOIN_NONE && found[k] != JOIN_NONE &&
                lacks_caller(tree, found[i], found[k]) &&
                are_multiples(allocs[found[i]], allocs[found[k]]))
                causes[i] = causes[k] = found[k];
    free(found);
    free(allocs);
}

/* --- joining --------------------------------------------------------------------------------- */

/* True if the path from `step` outwards ends in a recursion: its outermost function stands farther
 * in, too. Then the path was cut off, and the caller of the recursion is missing. */
static bool ends_in_recursion(const struct model *model, struct who_step step) {
    struct who_step last = {WIRE_NONE, 0};
    for (struct who_step at = step; at.context != WIRE_NONE; at = who_next(model, at))
        if (who_kind_of(model, at) <= WHO_MAIN)
            last = at;
    if (last.context == WIRE_NONE)
        return false;
    struct who_step found = who_find(model, step, last);
    return found.context != last.context || found.function != last.function;
}

/* Makes one suspect of all suspects with the cause causes[first]. The joined suspect takes the
 * place of suspect `first`; the other suspects are left without members. */
static void join(struct blame *blame, const struct join_tree *tree, const uint32_t *causes,
                 size_t first) {
    const struct model *model = tree->paths->model;
    /* The suspects were sorted, so the first member has the largest figure of the largest part. */
    uint32_t largest = blame->suspects[first].members[0];
    struct blame_suspect sum = {.group = blame->suspects[first].group, .joined = true};
    sum.common = tree->nodes[causes[first]].step;
    sum.parts = cli_alloc(blame->count, sizeof *sum.parts);
    for (size_t i = first; i < blame->count; i++) {
        struct blame_suspect *part = &blame->suspects[i];
        if (part->count == 0 || causes[i] != causes[first])
            continue;
        sum.members = cli_grow(sum.members, sum.count + part->count, sizeof *sum.members);
        memcpy(sum.members + sum.count, part->members, part->count * sizeof *sum.members);
        sum.count += part->count;
        sum.figure = model_tame(sum.figure + model_tame(part->figure));
        sum.parts[sum.part_count++] = *part;
        part->count = 0;
    }
    sum.frames = model->contexts[largest].level;
    struct who_step common = who_find(model, who_first(model, largest), sum.common);
    /* otherwise the path of `largest` was cut off before this function */
    if (common.context != WIRE_NONE)
        sum.common = common;
    bool cut = sum.common.context != WIRE_NONE && ends_in_recursion(model, sum.common);
    for (size_t i = 1; i < sum.count && cut; i++) {
        common = who_find(model, who_first(model, sum.members[i]), sum.common);
        cut = common.context == WIRE_NONE || ends_in_recursion(model, common);
        if (!cut)
            sum.common = common;
    }
    blame->suspects[first] = sum;
}

static void join_group(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                       const int64_t *chunks, bool grows, uint8_t group) {
    struct join_tree tree;
    uint32_t *causes = cli_alloc(blame->count, sizeof *causes);
    join_tree_make(&tree, blame, paths, figures, group);
    tree.chunks = chunks;
    tree.grows = grows;
    join_tree_count_suspects(&tree);
    search(&tree, 0, blame, causes);
    join_threads(&tree, blame, causes);
    join_tail_calls(&tree, blame, causes);
    for (size_t i = 0; i < blame->count; i++)
        if (causes[i] != 0 && blame->suspects[i].count > 0 && !blame->suspects[i].joined)
            join(blame, &tree, causes, i);
    join_tree_free(&tree);
    free(causes);
}

static bool has_group(const struct blame *blame, uint8_t group) {
    size_t i = 0;
    while (i < blame->count && blame->suspects[i].group != group)
        i++;
    return i < blame->count;
}

void join_everything(struct blame *blame, const struct blame_paths *paths, const int64_t *figures) {
    struct join_tree tree;
    uint32_t *causes = cli_alloc(blame->count, sizeof *causes);
    bool *inside = cli_alloc(blame->count, sizeof *inside);
    join_tree_make(&tree, blame, paths, figures, 0);
    uint32_t innermost = find_innermost(&tree, 0), cause = find_cause(&tree, innermost, 0);
    if (cause == JOIN_NONE)
        cause = find_main(&tree, innermost, 0);
    if (cause == JOIN_NONE)
        cause = innermost;
    if (cause != 0 && find_inside(&tree, cause, blame, inside) > 1) {
        size_t first = 0;
        for (size_t i = 0; i < blame->count; i++)
            causes[i] = inside[i] ? cause : 0;
        while (!inside[first])
            first++;
        join(blame, &tree, causes, first);
        blame_tidy(blame);
    }
    join_tree_free(&tree);
    free(inside);
    free(causes);
}

void join_suspects(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                   const int64_t *chunks) {
    int64_t *live = cli_alloc(paths->model->figures_count, sizeof *live);
    for (size_t i = 0; i < paths->model->figures_count; i++)
        live[i] = model_figures_at(paths->model, i)->self.live_chunks;
    for (uint8_t group = 0; group < BLAME_GROUPS && blame->count > 1; group++)
        if (has_group(blame, group))
            join_group(blame, paths, figures, chunks ? chunks : live, chunks != NULL, group);
    free(live);
    blame_tidy(blame);
}
