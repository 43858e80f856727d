/* SPDX-License-Identifier: MIT */
/* The tree of contexts; see tree.h. */
#include "context/tree.h"
#include "os/meta.h"

#define FIRST_CAPACITY 1024U

struct lock tree_lock FORK_PAGE = LOCK_INIT(RANK_TREE);
uint64_t tree_lost;

struct table {
    uint64_t mask;
    uint32_t ids[]; /* 0: empty */
};

struct tree_node *tree_blocks[TREE_BLOCKS];
static struct {
    uint32_t count;      /* atomic; the fixed nodes need no memory */
    struct table *table; /* atomic */
    uint64_t table_count;
} tree FORK_PAGE = {.count = TREE_FIXED_COUNT};

struct tree_node tree_fixed_nodes[TREE_FIXED_COUNT] = {
    [0 ... TREE_FIXED_COUNT - 1] = {.parent = TREE_ROOT, .module = MODULE_NONE}};

uint32_t tree_count(void) {
    return load_acquire(&tree.count);
}

const char *tree_fixed_label(uint32_t id) {
    static const char *const labels[TREE_FIXED_COUNT] = {[TREE_ROOT] = "[process]",
                                                         [TREE_UNKNOWN] = "[unknown]",
                                                         [TREE_UNWINDING] = "[unwinding]",
                                                         [TREE_TRUNCATED] = "[truncated]",
                                                         [TREE_NO_CFI] = "[no unwind information]",
                                                         [TREE_BROKEN] = "[broken stack]",
                                                         [TREE_NO_PATHS] = "[no call paths]"};
    return id < TREE_FIXED_COUNT ? labels[id] : NULL;
}

static uint64_t key_hash(uint32_t parent, struct tree_frame frame) {
    return hash_mix(frame.address,
                    (uint64_t)parent << 17 | (uint64_t)frame.module << 1 | frame.exact);
}

/* The child's id, or 0; *free is then the first free place in the parent's list, or NULL. */
INLINE uint32_t find_inline(struct tree_node *parent, uint32_t parent_id, struct tree_frame frame,
                            uint32_t **free) {
    uint32_t tag = tree_child_tag(frame);
    *free = NULL;
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN; i++) {
        uint32_t child = load_acquire(&parent->children[i]);
        uint32_t id = child & ((1U << TREE_ID_BITS) - 1);
        if (!child) {
            *free = &parent->children[i];
            return 0;
        }
        if ((child ^ id) == tag && LIKELY(tree_node_is(id, parent_id, frame)))
            return id;
    }
    return 0;
}

/* The child's id in the table, or 0; *at is then where it would stand. */
static NOINLINE uint32_t find_in_table(const struct table *table, uint32_t parent,
                                       struct tree_frame frame, uint64_t *at) {
    *at = 0;
    if (!table)
        return 0;
    for (*at = key_hash(parent, frame) & table->mask;; *at = (*at + 1) & table->mask) {
        uint32_t id = load_acquire(&table->ids[*at]);
        if (!id || tree_node_is(id, parent, frame))
            return id;
    }
}

/* Under tree_lock. The old table is handed back only when no reader can be in it: never, so it is
 * emptied and kept; all old tables together are smaller than the new one. */
static bool table_grow(void) {
    struct table *old = tree.table;
    uint64_t capacity = old ? (old->mask + 1) * 2 : FIRST_CAPACITY;
    struct table *table = meta_alloc(sizeof *table + capacity * sizeof(uint32_t));
    if (!table)
        return false;
    table->mask = capacity - 1;
    for (uint32_t id = TREE_FIXED_COUNT; id < tree.count; id++) {
        const struct tree_node *node = tree_node(id);
        if (!node->in_table)
            continue;
        struct tree_frame frame = {node->address, node->module, node->exact};
        uint64_t at = key_hash(node->parent, frame) & table->mask;
        while (table->ids[at])
            at = (at + 1) & table->mask;
        table->ids[at] = id;
    }
    store_release(&tree.table, table);
    return true;
}

/* Under tree_lock. */
static uint32_t create(uint32_t parent, struct tree_frame frame) {
    uint64_t at = 0;
    uint32_t *place;
    uint32_t id = tree.count;
    if (id / TREE_NODES_PER_BLOCK >= TREE_BLOCKS)
        return 0;
    uint32_t found = find_inline(tree_node(parent), parent, frame, &place);
    if (!found && !place) {
        if ((!tree.table || tree.table_count * 2 > tree.table->mask) && !table_grow())
            return 0;
        found = find_in_table(tree.table, parent, frame, &at);
    }
    if (found)
        return found;
    struct tree_node **block = &tree_blocks[id / TREE_NODES_PER_BLOCK];
    if (!*block) {
        struct tree_node *fresh = meta_alloc(TREE_NODES_PER_BLOCK * sizeof **block);
        if (!fresh)
            return 0;
        store_release(block, fresh);
    }
    (*block)[id % TREE_NODES_PER_BLOCK] = (struct tree_node){.address = frame.address,
                                                             .parent = parent,
                                                             .module = frame.module,
                                                             .exact = frame.exact,
                                                             .in_table = !place};
    if (place) {
        store_release(place, tree_child_tag(frame) | id);
    } else {
        store_release(&tree.table->ids[at], id);
        tree.table_count++;
    }
    store_release(&tree.count, id + 1);
    return id;
}

NOINLINE uint32_t tree_child_further(uint32_t parent, struct tree_frame frame) {
    uint64_t at;
    uint32_t *place;
    uint32_t child = find_inline(tree_node(parent), parent, frame, &place);
    if (!child && !place)
        child = find_in_table(load_acquire(&tree.table), parent, frame, &at);
    if (LIKELY(child))
        return child;
    lock_take(&tree_lock);
    child = create(parent, frame);
    lock_release(&tree_lock);
    if (!child)
        add_relaxed(&tree_lost, 1);
    return child;
}
