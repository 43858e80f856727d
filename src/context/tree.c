/* SPDX-License-Identifier: MIT */
/* The tree of contexts; see tree.h. */
#include "context/tree.h"
#include "os/meta.h"

#define FIRST_CAPACITY 1024U
#define NEWEST_NODES 32U /* of a forked child */

struct lock tree_lock FORK_PAGE = LOCK_INIT(RANK_TREE);
uint64_t tree_lost START_PAGE;
uint64_t tree_read_until_ns;
void (*tree_watch)(uint32_t id);

struct table {
    uint64_t mask;
    uint32_t ids[]; /* 0: empty */
};

struct tree_node *tree_blocks[TREE_BLOCKS];
static struct {
    uint32_t count;      /* atomic; the fixed nodes need no memory */
    uint32_t linked;     /* those below it are in their parents' lists, or in the table */
    uint32_t newest_max; /* so many may be in neither */
    struct table *table; /* atomic */
    uint64_t table_count;
} tree FORK_PAGE = {.count = TREE_FIXED_COUNT, .linked = TREE_FIXED_COUNT};

struct tree_node tree_fixed_nodes[TREE_FIXED_COUNT] START_PAGE = {
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

/* Makes the node found by others than by looking through the newest. False: no memory. Under tree_lock. */
static bool link_node(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    struct tree_frame frame = {node->address, node->module, node->exact};
    uint64_t at;
    uint32_t *place;
    find_inline(tree_node(node->parent), node->parent, frame, &place);
    if (place) {
        store_release(place, tree_child_tag(frame) | id);
        return true;
    }
    if ((!tree.table || tree.table_count * 2 > tree.table->mask) && !table_grow())
        return false;
    find_in_table(tree.table, node->parent, frame, &at);
    tree_node(id)->in_table = true;
    store_release(&tree.table->ids[at], id);
    tree.table_count++;
    return true;
}

static void link_newest(void) {
    tree.newest_max = 0;
    while (tree.linked < tree.count && link_node(tree.linked))
        tree.linked++;
}

/* In a forked child the first new nodes stand in no list until one of them is looked for again, or they
 * are many: mostly they are few, and the pages of their parents need not be copied for them. Under
 * tree_lock. */
static uint32_t find_newest(uint32_t parent, struct tree_frame frame) {
    uint32_t id = parent < tree.linked ? tree.linked : parent + 1; /* made after its parent */
    for (; id < tree.count; id++)
        if (tree_node_is(id, parent, frame)) {
            link_newest();
            return id;
        }
    return 0;
}

void tree_fork_child(void) {
    tree.newest_max = NEWEST_NODES;
}

/* Under tree_lock. */
static uint32_t create(uint32_t parent, struct tree_frame frame) {
    uint32_t id = tree.count;
    if (id / TREE_NODES_PER_BLOCK >= TREE_BLOCKS)
        return 0;
    struct tree_node **block = &tree_blocks[id / TREE_NODES_PER_BLOCK];
    if (!*block) {
        struct tree_node *fresh = meta_alloc(TREE_NODES_PER_BLOCK * sizeof **block);
        if (!fresh)
            return 0;
        store_release(block, fresh);
    }
    (*block)[id % TREE_NODES_PER_BLOCK] = (struct tree_node){
        .address = frame.address, .parent = parent, .module = frame.module, .exact = frame.exact};
    store_release(&tree.count, id + 1);
    if (UNLIKELY(tree_watch != NULL)) /* before other threads find it */
        tree_watch(id);
    if (id + 1 - tree.linked > tree.newest_max)
        link_newest();
    return id;
}

static uint32_t find_linked(uint32_t parent, struct tree_frame frame) {
    uint64_t at;
    uint32_t *place;
    uint32_t child = find_inline(tree_node(parent), parent, frame, &place);
    return child || place ? child : find_in_table(load_acquire(&tree.table), parent, frame, &at);
}

NOINLINE uint32_t tree_child_further(uint32_t parent, struct tree_frame frame) {
    /* The newest node, as the parent of a new path's next frame mostly is, has no children. */
    uint32_t child = parent + 1 == tree_count() ? 0 : find_linked(parent, frame);
    if (LIKELY(child))
        return child;
    lock_take(&tree_lock);
    if (parent + 1 != tree.count)
        child = find_linked(parent, frame); /* another thread may have made it */
    if (!child)
        child = find_newest(parent, frame);
    if (!child)
        child = create(parent, frame);
    lock_release(&tree_lock);
    if (!child)
        add_relaxed(&tree_lost, 1);
    return child;
}
