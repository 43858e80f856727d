/* SPDX-License-Identifier: MIT */
/* Recursive tree building: binary trees of depth 4 to 16 are built, walked and freed, beside a tree
 * that lives until the end. Left and right children have different call sites, so that a tree of
 * depth 12 is built on 8 191 different paths. */
#include "common.h"

enum { DEPTH_MIN = 4, DEPTH_MAX = 16, NODES_PER_DEPTH = 3 << 20 };

struct node {
    struct node *left, *right;
    uint64_t value;
};

static NOINLINE struct node *tree_build(int depth, uint64_t value) {
    struct node *node = check_chunk(malloc(sizeof *node), sizeof *node);

    node->value = value;
    node->left = node->right = NULL;
    if (depth > 0) {
        node->left = tree_build(depth - 1, value * 2);
        node->right = tree_build(depth - 1, value * 2 + 1);
    }
    return node;
}

static NOINLINE uint64_t tree_sum(const struct node *node) {
    return node == NULL ? 0 : mix(node->value, tree_sum(node->left) + 3 * tree_sum(node->right));
}

static NOINLINE void tree_free(struct node *node) {
    if (node != NULL) {
        tree_free(node->left);
        tree_free(node->right);
        free(node);
    }
}

int main(void) {
    struct node *lasting = tree_build(DEPTH_MAX, 1);
    uint64_t sum = 0;

    for (int depth = DEPTH_MIN; depth <= DEPTH_MAX; depth += 2) {
        for (int i = 0; i < NODES_PER_DEPTH >> depth; i++) {
            struct node *tree = tree_build(depth, (uint64_t)i);

            sum = mix(sum, tree_sum(tree));
            tree_free(tree);
        }
    }
    sum = mix(sum, tree_sum(lasting));
    tree_free(lasting);
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
