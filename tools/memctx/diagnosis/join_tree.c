/* SPDX-License-Identifier: MIT */
/*
 * join_tree.c - makes the tree of the call paths of a group of suspects. Adds the full paths first,
 * then the paths whose outer end was cut off, which need the full ones.
 */
#include "diagnosis/join_tree.h"

#include <stdlib.h>
#include <string.h>

#include "model/folding.h"
#include "model/tails.h"

#define CUT_LABEL "[truncated]"

/* The key of a function that stands in a full path, and its node. */
struct keyed_node {
    uint64_t key;
    uint32_t node;
};

static size_t slot_of(const struct join_tree *tree, uint32_t parent, uint64_t key) {
    size_t slot = folding_mix(key, parent) >> 7 & (tree->slot_count - 1);
    while (tree->slots[slot] != 0 && (tree->nodes[tree->slots[slot]].parent != parent ||
                                      tree->nodes[tree->slots[slot]].key != key))
        slot = (slot + 1) & (tree->slot_count - 1);
    return slot;
}

static void grow(struct join_tree *tree) {
    tree->capacity = 2 * tree->capacity + 512;
    tree->nodes = cli_grow(tree->nodes, tree->capacity, sizeof *tree->nodes);
    free(tree->slots);
    tree->slot_count = 1024;
    while (tree->slot_count < 2 * tree->capacity)
        tree->slot_count *= 2;
    tree->slots = cli_alloc(tree->slot_count, sizeof *tree->slots);
    for (uint32_t i = 1; i < tree->count; i++)
        tree->slots[slot_of(tree, tree->nodes[i].parent, tree->nodes[i].key)] = i;
}

static uint32_t child_of(struct join_tree *tree, uint32_t parent, uint64_t key,
                         struct who_step step, bool is_tail) {
    if (tree->count == tree->capacity)
        grow(tree);
    size_t slot = slot_of(tree, parent, key);
    if (tree->slots[slot] == 0) {
        uint32_t node = (uint32_t)tree->count++;
        tree->nodes[node] = (struct join_node){.key = key,
                                               .parent = parent,
                                               .first_child = JOIN_NONE,
                                               .next_sibling = tree->nodes[parent].first_child,
                                               .step = step,
                                               .is_tail = is_tail};
        tree->nodes[parent].first_child = node;
        tree->slots[slot] = node;
    }
    struct join_node *found = &tree->nodes[tree->slots[slot]];
    if (found->is_tail && !is_tail) {
        found->step = step;
        found->is_tail = false;
    }
    return tree->slots[slot];
}

static uint64_t key_of(struct join_tree *tree, struct who_step step) {
    const struct model *model = tree->paths->model;
    const struct model_frame *frame = model->contexts[step.context].frame;
    if (!tree->keys[frame->number]) {
        uint32_t count = frame->names && frame->names->count > 0 ? frame->names->count : 1;
        tree->keys[frame->number] = cli_alloc(count, sizeof(uint64_t));
        for (uint32_t i = 0; i < count; i++)
            tree->keys[frame->number][i] = who_key(model, (struct who_step){step.context, i});
    }
    return tree->keys[frame->number][step.function];
}

static void add_figure(struct join_tree *tree, uint32_t node, int64_t figure) {
    tree->nodes[node].figure = model_tame(tree->nodes[node].figure + model_tame(figure));
}

/* Returns the end of the frames of a path that are in the tree: the frames up to code that was
 * generated at run time. A runtime generates this code again, so paths with one cause differ
 * farther out. */
static uint32_t end_of(const struct blame_paths *paths, uint32_t number) {
    for (uint32_t i = paths->first[number] + 1; i < paths->first[number + 1]; i++)
        if (blame_is_generated(paths->model->contexts[paths->frames[i]].frame))
            return i + 1;
    return paths->first[number + 1];
}

/* True if the path was cut at its outer end, so that it begins with the label [truncated]. */
static bool is_cut(const struct blame_paths *paths, uint32_t number) {
    uint32_t end = end_of(paths, number);
    if (end - paths->first[number] < 2)
        return false;
    const struct model_frame *frame = paths->model->contexts[paths->frames[end - 1]].frame;
    return frame->kind == WIRE_KIND_UNKNOWN && frame->label && strcmp(frame->label, CUT_LABEL) == 0;
}

static int by_key(const void *a, const void *b) {
    const struct keyed_node *left = a, *right = b;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Lists the functions of the tree, sorted by key. Called while the tree has only full paths. */
static struct keyed_node *list_by_key(const struct join_tree *tree) {
    struct keyed_node *sorted = cli_alloc(tree->count, sizeof *sorted);
    for (uint32_t i = 1; i < tree->count; i++)
        sorted[i - 1] = (struct keyed_node){tree->nodes[i].key, i};
    qsort(sorted, tree->count - 1, sizeof *sorted, by_key);
    return sorted;
}

/* For a path whose outer end was cut off: returns the node of the caller of its outermost function,
 * if this function has exactly one node in the tree of full paths; else 0, the root. */
static uint32_t find_caller(struct join_tree *tree, const struct keyed_node *sorted, size_t count,
                            uint32_t number) {
    struct who_step outermost = {tree->paths->frames[tree->paths->first[number + 1] - 2], 0};
    const struct keyed_node wanted = {.key = key_of(tree, outermost)};
    const struct keyed_node *at = bsearch(&wanted, sorted, count, sizeof *sorted, by_key);
    if (!at || (at > sorted && at[-1].key == at->key) ||
        (at + 1 < sorted + count && at[1].key == at->key))
        return 0;
    return tree->nodes[at->node].parent;
}

/* Adds functions that ended in tail calls below a node, the outermost first. `step`: a step of the
 * path in the function that called them. Returns the node of the innermost one. */
static uint32_t add_tails(struct join_tree *tree, uint32_t node, const struct model_tails *tails,
                          struct who_step step, int64_t figure) {
    for (uint32_t i = tails ? tails->count : 0; i-- > 0;) {
        const struct model_frame *frame = &tails->frames[i];
        uint32_t count = frame->names ? frame->names->count : 0;
        for (uint32_t k = 0; k < count; k++) {
            uint64_t key = who_function_key(frame, k == 0 ? 0 : count - k);
            node = child_of(tree, node, key, step, true);
            add_figure(tree, node, figure);
        }
    }
    return node;
}

/* Adds the folded path of a member below a node, from its outermost function inwards. */
static void add_member(struct join_tree *tree, uint32_t suspect, uint32_t number, int64_t figure,
                       uint32_t node) {
    const struct blame_paths *paths = tree->paths;
    /* without the label [truncated], if `node` takes its place */
    uint32_t end = end_of(paths, number) - (node != 0);
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent)
        add_figure(tree, at, figure);
    add_figure(tree, 0, figure);
    for (uint32_t i = end; i-- > paths->first[number];) {
        uint32_t context = paths->frames[i];
        const struct model_frame *frame = paths->model->contexts[context].frame;
        uint32_t count = frame->kind == WIRE_KIND_PATH && frame->names ? frame->names->count : 1;
        struct who_step step = {context, 0};
        /* Of the functions at one address, function 0 is the outermost, function 1 the innermost.
         */
        for (uint32_t k = 0; k < count || k == 0; k++) {
            step.function = k == 0 ? 0 : count - k;
            node = child_of(tree, node, key_of(tree, step), step, false);
            add_figure(tree, node, figure);
        }
        const struct model_tails *tails =
            i > paths->first[number]
                ? tails_before(paths->model, &paths->model->contexts[paths->frames[i - 1]])
                : tails_to_malloc(paths->model, &paths->model->contexts[context]);
        node = add_tails(tree, node, tails, step, figure);
    }
    tree->ends[tree->end_count++] = (struct join_end){suspect, node, model_tame(figure)};
}

/* Adds the members of a group: if `cut`, those whose paths were cut, else those with full paths. */
static void add_members(struct join_tree *tree, const struct blame *blame, const int64_t *figures,
                        uint8_t group, bool cut) {
    size_t count = tree->count - 1;
    struct keyed_node *sorted = cut ? list_by_key(tree) : NULL;
    for (size_t i = 0; i < blame->count; i++) {
        const struct blame_suspect *suspect = &blame->suspects[i];
        for (size_t k = 0; k < suspect->count && suspect->group == group; k++) {
            uint32_t number = blame_number(tree->paths, suspect->members[k]);
            if (is_cut(tree->paths, number) == cut)
                add_member(tree, (uint32_t)i, number, figures[number],
                           cut ? find_caller(tree, sorted, count, number) : 0);
        }
    }
    free(sorted);
}

void join_tree_make(struct join_tree *tree, const struct blame *blame,
                    const struct blame_paths *paths, const int64_t *figures, uint8_t group) {
    size_t members = 0;
    for (size_t i = 0; i < blame->count; i++)
        members += blame->suspects[i].count;
    *tree = (struct join_tree){.paths = paths};
    tree->ends = cli_alloc(members, sizeof *tree->ends);
    tree->keys = cli_alloc(paths->model->frame_count, sizeof *tree->keys);
    grow(tree);
    tree->nodes[tree->count++] =
        (struct join_node){.first_child = JOIN_NONE, .next_sibling = JOIN_NONE};
    add_members(tree, blame, figures, group, false);
    add_members(tree, blame, figures, group, true);
}

void join_tree_count_suspects(struct join_tree *tree) {
    for (size_t i = 0; i < tree->end_count; i++) {
        uint32_t suspect = tree->ends[i].suspect + 1;
        for (uint32_t at = tree->ends[i].node; at != 0 && tree->nodes[at].counted != suspect;
             at = tree->nodes[at].parent) {
            tree->nodes[at].counted = suspect;
            tree->nodes[at].suspects++;
        }
    }
}

void join_tree_free(struct join_tree *tree) {
    for (size_t i = 0; i < tree->paths->model->frame_count; i++)
        free(tree->keys[i]);
    free(tree->keys);
    free(tree->nodes);
    free(tree->slots);
    free(tree->ends);
}
