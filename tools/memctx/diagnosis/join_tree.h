/* SPDX-License-Identifier: MIT */
/*
 * join_tree.h - the tree of the call paths of a group of suspects, in which join.c searches. The
 * outermost functions are at its root. One thread.
 */
#ifndef MEMCTX_JOIN_TREE_H
#define MEMCTX_JOIN_TREE_H

#include "diagnosis/blame.h"
#include "model/who.h"

#define JOIN_NONE UINT32_MAX /* no node */

/* A function in the tree of the members' paths, which has the outermost functions at its root. The
 * root, node 0, is no function. */
struct join_node {
    uint64_t key; /* identifies the function (who_key) */
    uint32_t parent, first_child, next_sibling;
    /* A step of a path in this function. `is_tail`: the function ended in a tail call in all paths
     * so far, so no path has a step in it. Then `step` is a step of the function that called it. */
    struct who_step step;
    bool is_tail;
    int64_t figure;    /* sum over the members at this node and below it */
    uint32_t suspects; /* how many suspects have members at this node or below it */
    uint32_t counted;  /* number of the suspect that was last counted in `suspects`, plus one */
    bool has_kind;     /* `kind` is set */
    enum who_kind kind;
};

/* A member of a suspect, and the node where its path ends. */
struct join_end {
    uint32_t suspect, node;
    int64_t figure;
};

struct join_tree {
    const struct blame_paths *paths;
    const int64_t *chunks; /* by number of a context's figures */
    bool grows;            /* the figures and chunks are those by which the paths grew */
    struct join_node *nodes;
    size_t count, capacity;
    uint32_t *slots; /* hash table of nodes; 0: free */
    size_t slot_count;
    struct join_end *ends;
    size_t end_count;
    uint64_t **keys; /* of the functions of each frame; NULL: not computed yet */
};

/* Makes the tree of the paths of all suspects of the group. `figures`: as for blame_make. The
 * caller ends its use with join_tree_free. */
void join_tree_make(struct join_tree *tree, const struct blame *blame,
                    const struct blame_paths *paths, const int64_t *figures, uint8_t group);
/* Sets node.suspects of all nodes. */
void join_tree_count_suspects(struct join_tree *tree);
void join_tree_free(struct join_tree *tree);

#endif
