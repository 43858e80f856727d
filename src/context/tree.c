/* SPDX-License-Identifier: MIT */
/* The tree of contexts; see tree.h. */
#include "context/tree.h"
#include "os/meta.h"
#include "region/heap.h"

#define FIRST_CAPACITY 1024U
#define NEWEST_NODES 32U /* of a forked child */

struct lock tree_lock FORK_PAGE = LOCK_INIT(RANK_TREE);
uint64_t tree_read_until_ns;
void (*tree_watch)(uint32_t id);
bool (*tree_wanted)(struct tree_frame frame);

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
                                                         [TREE_NO_PATHS] = "[no call paths]",
                                                         [TREE_OTHERS] = "[other callers]"};
    if (id < TREE_FIXED_COUNT)
        return labels[id];
    return tree_node(id)->module == MODULE_OTHERS ? labels[TREE_OTHERS] : NULL;
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
static bool table_grow(enum tables_share share) {
    struct table *old = tree.table;
    uint64_t capacity = old ? (old->mask + 1) * 2 : FIRST_CAPACITY;
    size_t bytes = sizeof(struct table) + capacity * sizeof(uint32_t);
    if (!tables_take((int64_t)bytes, share))
        return false;
    struct table *table = meta_alloc(bytes);
    if (!table) {
        tables_add(-(int64_t)bytes);
        return false;
    }
    table->mask = capacity - 1;
    for (uint32_t id = TREE_FIXED_COUNT; id < tree.count; id++) {
        const struct tree_node *node = tree_node(id);
        if (!(node->flags & TREE_IN_TABLE))
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

/* Makes the node found by others than by looking through the newest. False: no memory, or none of the
 * budget. Under tree_lock. */
static bool link_node(uint32_t id, enum tables_share share) {
    const struct tree_node *node = tree_node(id);
    struct tree_frame frame = {node->address, node->module, node->exact};
    uint64_t at;
    uint32_t *place;
    find_inline(tree_node(node->parent), node->parent, frame, &place);
    if (place) {
        store_release(place, tree_child_tag(frame) | id);
        return true;
    }
    if ((!tree.table || tree.table_count * 2 > tree.table->mask) && !table_grow(share))
        return false;
    find_in_table(tree.table, node->parent, frame, &at);
    tree_flag(id, TREE_IN_TABLE);
    store_release(&tree.table->ids[at], id);
    tree.table_count++;
    return true;
}

static void link_newest(enum tables_share share) {
    tree.newest_max = 0;
    while (tree.linked < tree.count && link_node(tree.linked, share))
        tree.linked++;
}

/* In a forked child the first new nodes stand in no list until one of them is looked for again, or they
 * are many: mostly they are few, and the pages of their parents need not be copied for them. Under
 * tree_lock. */
static uint32_t find_newest(uint32_t parent, struct tree_frame frame) {
    uint32_t id = parent < tree.linked ? tree.linked : parent + 1; /* made after its parent */
    for (; id < tree.count; id++)
        if (tree_node_is(id, parent, frame)) {
            link_newest(TABLES_SITE);
            return id;
        }
    return 0;
}

void tree_fork_child(void) {
    tree.newest_max = NEWEST_NODES;
}

/* The nodes that wait to be linked must stay few: they are looked through one by one. So a node is made
 * only where the table of children has room for it. Under tree_lock. */
static bool has_room(enum tables_share share) {
    uint64_t waiting = tree.count - tree.linked;
    bool full = tree.table && (tree.table_count + waiting) * 2 > tree.table->mask;
    return !full || tree.newest_max > waiting || table_grow(share);
}

/* Under tree_lock. */
static uint32_t create(uint32_t parent, struct tree_frame frame, enum tables_share share) {
    uint32_t id = tree.count;
    if (id / TREE_NODES_PER_BLOCK >= TREE_BLOCKS || !has_room(share) ||
        !tables_take(sizeof(struct tree_node), share))
        return 0;
    struct tree_node **block = &tree_blocks[id / TREE_NODES_PER_BLOCK];
    if (!*block) {
        struct tree_node *fresh = meta_alloc(TREE_NODES_PER_BLOCK * sizeof **block);
        if (!fresh) {
            tables_add(-(int64_t)sizeof(struct tree_node));
            return 0;
        }
        store_release(block, fresh);
    }
    (*block)[id % TREE_NODES_PER_BLOCK] = (struct tree_node){
        .address = frame.address, .parent = parent, .module = frame.module, .exact = frame.exact};
    store_release(&tree.count, id + 1);
    if (UNLIKELY(tree_watch != NULL)) /* before other threads find it */
        tree_watch(id);
    if (id + 1 - tree.linked > tree.newest_max)
        link_newest(share);
    return id;
}

NOINLINE uint32_t tree_find_further(uint32_t parent, struct tree_frame frame) {
    uint64_t at;
    uint32_t *place;
    /* The newest node, as the parent of a new path's next frame mostly is, has no children. */
    if (parent + 1 == tree_count())
        return 0;
    uint32_t child = find_inline(tree_node(parent), parent, frame, &place);
    return child || place ? child : find_in_table(load_acquire(&tree.table), parent, frame, &at);
}

NOINLINE uint32_t tree_child(uint32_t parent, struct tree_frame frame, enum tables_share share) {
    uint32_t child = tree_find(parent, frame);
    if (child || (share != TABLES_UNCOUNTED && tables_are_past(share)))
        return child;
    lock_take(&tree_lock);
    if (parent + 1 != tree.count)
        child = tree_find_further(parent, frame); /* another thread may have made it */
    if (!child)
        child = find_newest(parent, frame);
    if (!child)
        child = create(parent, frame, share);
    lock_release(&tree_lock);
    return child;
}

uint32_t tree_others(uint32_t parent, enum tables_share share) {
    if (parent == TREE_ROOT)
        return TREE_OTHERS;
    uint32_t others = tree_child(parent, (struct tree_frame){.module = MODULE_OTHERS}, share);
    if (others)
        tree_flag(parent, TREE_HAS_OTHERS);
    return others;
}

#define LOOPS_PER_LEAF 4096U
static void *loops[(TREE_NODES_PER_BLOCK * TREE_BLOCKS) / LOOPS_PER_LEAF];

uint32_t tree_loop(uint32_t id) {
    const uint32_t *leaf = load_acquire(&loops[id / LOOPS_PER_LEAF]);
    return leaf ? load_relaxed(&leaf[id % LOOPS_PER_LEAF]) : 0;
}

void tree_set_loop(uint32_t id, uint32_t last) {
    uint32_t *place;
    if (!load_relaxed(&loops[id / LOOPS_PER_LEAF]) &&
        !tables_take(LOOPS_PER_LEAF * sizeof *place, TABLES_ADMITTED))
        return;
    if (!(place = heap_leaf_place(loops, id, sizeof *place)))
        return;
    store_owner(place, last);
    tree_flag(id, TREE_FOLDED);
}
