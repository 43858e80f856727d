/* SPDX-License-Identifier: MIT */
/* The tree of contexts; see tree.h. */
#include "context/tree_ids.h"
#include "os/meta.h"
#include "region/heap.h"

#define FIRST_CAPACITY 1024U /* places of the first table of children */
#define NEWEST_NODES 32U     /* value of newest_max in a forked child */

struct lock tree_lock FORK_PAGE = LOCK_INIT(RANK_TREE);
uint64_t tree_read_until_ns;
void (*tree_watch)(uint32_t id);
bool (*tree_wanted)(struct tree_frame frame);
bool (*tree_is_ruled)(uint32_t id);

struct table {
    uint64_t mask;
    bool counted; /* the budget counts the table's bytes */
    /* the table that this table replaced; NULL: there was none, or it was freed */
    struct table *older;
    uint32_t ids[]; /* each is like an entry of tree_node.children; 0: empty */
};
/* the table that was in use when tree_note_old was last called; under tree_lock */
static struct table *noted;

#define LOOPS_PER_LEAF 4096U
/* Atomic. Each leaf is an array of uint32_t, one for each id; see tree_loop. */
static void *loops[TREE_IDS / LOOPS_PER_LEAF];
struct tree_node *tree_blocks[TREE_BLOCKS];
static struct {
    uint32_t count; /* atomic; the fixed nodes need no memory */
    /* nodes with ids below this number are in their parents' lists, or in the table */
    uint32_t linked;
    uint32_t newest_max; /* greatest number of nodes that are in neither a list nor the table */
    struct table *table; /* atomic */
    uint64_t table_count;
} tree FORK_PAGE = {.count = TREE_FIXED_COUNT, .linked = TREE_FIXED_COUNT};
const uint32_t *const tree_count_shown = &tree.count;

struct tree_node tree_fixed_nodes[TREE_FIXED_COUNT] START_PAGE = {
    [0 ... TREE_FIXED_COUNT - 1] = {.parent = TREE_ROOT, .module = MODULE_NONE}};

/* Replaces the entry of a removed child in `children` and in the table. No frame has the node
 * TREE_UNKNOWN. */
#define TOMBSTONE ((uint32_t)TREE_UNKNOWN)

/* tombstones in the table, counted in table_count, too; under tree_lock */
static uint64_t tombstones;

uint32_t tree_count(void) {
    return load_acquire(&tree.count);
}

uint32_t tree_nodes(void) {
    return load_relaxed(&tree.count) - load_relaxed(&tree_ids_waiting);
}

bool tree_ids_are_past(unsigned parts) {
    return tree_nodes() > TREE_IDS / TABLES_PARTS * parts;
}

bool tree_is_id(uint64_t id) {
    return id < tree_count() && !tree_is_gone((uint32_t)id);
}

uint32_t tree_made(void) {
    return tree_count() + tree_reused();
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

/* While a node [other callers] is out of the tree (tree_unlink), its entry stays in its parent's
 * list with this tag, so that tree_child finds this node instead of making a second one. */
#define OUT_TAG (1U << TREE_ID_BITS)

static struct tree_frame frame_of_node(const struct tree_node *node) {
    return (struct tree_frame){node->address, node->module, node->exact};
}

/* Returns the entry of a node in its parent's list, or in the table. */
static uint32_t entry_of(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    bool out = node->module == MODULE_OTHERS && node->flags & TREE_LEAVING;
    return tree_child_tag(frame_of_node(node)) ^ (out ? OUT_TAG | id : id);
}

static uint64_t key_hash(uint32_t parent, struct tree_frame frame) {
    return hash_mix(frame.address,
                    (uint64_t)parent << 17 | (uint64_t)frame.module << 1 | frame.exact);
}

/* Returns the id of the child whose entry in the table has the tag, or 0. */
static NOINLINE uint32_t find_in_table(const struct table *table, uint32_t parent,
                                       struct tree_frame frame, uint32_t tag) {
    if (!table)
        return 0;
    for (uint64_t at = key_hash(parent, frame) & table->mask;; at = (at + 1) & table->mask) {
        uint32_t child = load_acquire(&table->ids[at]), id = child ^ tag;
        if (!child)
            return 0;
        if (id < 1U << TREE_ID_BITS && LIKELY(tree_node_is(id, parent, frame)))
            return id;
    }
}

/* Returns the first place in the table that a new child may have. */
static uint64_t place_in_table(const struct table *table, uint32_t parent,
                               struct tree_frame frame) {
    uint64_t at = key_hash(parent, frame) & table->mask;
    while (table->ids[at] && table->ids[at] != TOMBSTONE)
        at = (at + 1) & table->mask;
    return at;
}

/* Puts all children into a table that is empty. Under tree_lock. */
static void table_fill(struct table *table) {
    tree.table_count = 0;
    for (uint32_t id = TREE_FIXED_COUNT; id < tree.count; id++) {
        const struct tree_node *node = tree_node(id);
        if (!(node->flags & TREE_IN_TABLE))
            continue;
        uint64_t at = place_in_table(table, node->parent, frame_of_node(node));
        store_release(&table->ids[at], entry_of(id));
        tree.table_count++;
    }
}

uint32_t tree_table_clears START_PAGE;

/* If children fill at most half of the places that they may fill, takes the tombstones out in place
 * and returns true. A thread that searches meanwhile may miss a child. It learns of this by
 * tree_table_clears, and asks again under tree_lock. */
static bool table_is_cleared(void) {
    struct table *table = tree.table;
    if (!table || tables_hash_is_full((tree.table_count - tombstones) * 2, table->mask))
        return false;
    store_owner(&tree_table_clears, tree_table_clears + 1);
    for (uint64_t at = 0; at <= table->mask; at++)
        store_release(&table->ids[at], 0);
    table_fill(table);
    tombstones = 0;
    store_release(&tree_table_clears, tree_table_clears + 1);
    return true;
}

static size_t table_bytes(uint64_t capacity) {
    return sizeof(struct table) + capacity * sizeof(uint32_t);
}

/* Makes room in the table of children: takes its tombstones out, or doubles it. The old table stays
 * for threads that search in it (tree_free_old); all old tables together are smaller than the new
 * one. False: no memory, or the share of the budget is used up. Called under tree_lock. */
static bool table_grow(enum tables_share share) {
    struct table *old = tree.table;
    if (table_is_cleared())
        return true;
    uint64_t capacity = old ? (old->mask + 1) * 2 : FIRST_CAPACITY;
    size_t bytes = table_bytes(capacity);
    if (!tables_take((int64_t)bytes, share))
        return false;
    struct table *table = meta_alloc(bytes);
    bool counted = share != TABLES_UNCOUNTED;
    if (!table) {
        tables_add(counted ? -(int64_t)bytes : 0);
        return false;
    }
    table->mask = capacity - 1;
    table->counted = counted;
    table->older = old;
    table_fill(table);
    tombstones = 0;
    store_release(&tree.table, table);
    return true;
}

bool tree_note_old(void) {
    noted = tree.table;
    return noted && noted->older;
}

void tree_free_old(void) {
    for (struct table *old = noted ? noted->older : NULL, *older; old; old = older) {
        older = old->older;
        tables_add(old->counted ? -(int64_t)table_bytes(old->mask + 1) : 0);
        meta_free(old, table_bytes(old->mask + 1));
    }
    if (noted)
        noted->older = NULL;
}

/* True if the table may take `waiting` more children although it is full by tables_hash_is_full,
 * because the budget has no room for a larger table. Searches in the table get longer. */
static bool may_be_fuller(uint64_t waiting) {
    return tree.table && (tree.table_count + waiting) * 8 < tree.table->mask * 7;
}

/* Links the node, so that threads find it without looking through the newest nodes. False: no
 * memory, or the share of the budget is used up. Called under tree_lock. */
static bool link_node(uint32_t id, enum tables_share share) {
    const struct tree_node *node = tree_node(id);
    struct tree_frame frame = frame_of_node(node);
    struct tree_node *parent = tree_node(node->parent);
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN; i++)
        if (!parent->children[i] || parent->children[i] == TOMBSTONE) {
            store_release(&parent->children[i], tree_child_tag(frame) | id);
            return true;
        }
    if ((!tree.table || tables_hash_is_full(tree.table_count, tree.table->mask)) &&
        !table_grow(share) && !may_be_fuller(0))
        return false;
    uint64_t at = place_in_table(tree.table, node->parent, frame);
    tree.table_count += !tree.table->ids[at];
    tombstones -= tree.table->ids[at] == TOMBSTONE;
    tree_flag(id, TREE_IN_TABLE);
    store_release(&tree.table->ids[at], tree_child_tag(frame) | id);
    return true;
}

/* Links the nodes that are not linked yet, in the order of ids, while there is room. Called under
 * tree_lock. */
static void link_newest(enum tables_share share) {
    tree.newest_max = 0;
    while (tree.linked < tree.count && link_node(tree.linked, share))
        tree.linked++;
}

/* Replaces a node's entry in its parent's list, or in the table, by `entry`. */
static void replace_entry(uint32_t id, uint32_t entry) {
    const struct tree_node *node = tree_node(id);
    struct tree_node *parent = tree_node(node->parent);
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN; i++)
        if ((parent->children[i] & ((1U << TREE_ID_BITS) - 1)) == id)
            store_release(&parent->children[i], entry);
    if (!(node->flags & TREE_IN_TABLE))
        return;
    uint64_t at = key_hash(node->parent, frame_of_node(node)) & tree.table->mask;
    /* A fork may have copied the tree between the flag and the entry. */
    while (tree.table->ids[at] && tree.table->ids[at] != entry_of(id))
        at = (at + 1) & tree.table->mask;
    bool removed = entry == TOMBSTONE;
    tombstones += tree.table->ids[at] && removed;
    if (tree.table->ids[at])
        store_release(&tree.table->ids[at], entry);
    if (removed)
        tree_unflag(id, TREE_IN_TABLE);
}

bool tree_unlink(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    if (id >= tree.linked) /* link_newest would link the node later */
        return false;
    bool others = node->module == MODULE_OTHERS;
    if (others)
        tree_unflag(node->parent, TREE_HAS_OTHERS);
    replace_entry(id, others ? entry_of(id) ^ OUT_TAG : TOMBSTONE);
    tree_flag(id, TREE_LEAVING);
    return true;
}

/* Puts a node [other callers] that is out of the tree back. */
static void put_back(uint32_t id) {
    replace_entry(id, entry_of(id) ^ OUT_TAG);
    tree_unflag(id, TREE_LEAVING);
}

/* Puts the node [other callers] of `parent` back if it is out of the tree, and returns it; else
 * returns 0. */
static uint32_t put_back_other_callers(uint32_t parent, struct tree_frame frame) {
    const struct tree_node *node = tree_node(parent);
    uint32_t tag = tree_child_tag(frame) ^ OUT_TAG, found = 0;
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN; i++) {
        uint32_t id = node->children[i] ^ tag;
        if (id - 1 < (1U << TREE_ID_BITS) - 1 && tree_node_is(id, parent, frame))
            found = id;
    }
    if (!found)
        found = find_in_table(tree.table, parent, frame, tag);
    if (found)
        put_back(found);
    return found;
}

bool tree_link(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    if (node->module == MODULE_OTHERS) {
        put_back(id);
        tree_flag(node->parent, TREE_HAS_OTHERS);
        return true;
    }
    /* A look-up that missed this node may have made another node for the frame. From then on only
     * that other node is found. */
    if (tree_find(node->parent, frame_of_node(node)) || !link_node(id, TABLES_SITE))
        return false;
    tree_unflag(id, TREE_LEAVING);
    return true;
}

/* If there is no memory to note the id, the id is never used again. */
void tree_remove(uint32_t id) {
    bool may_wait = tree_ids_make_room(id);
    if (tree_node(id)->module == MODULE_OTHERS)
        replace_entry(id, TOMBSTONE);
    *tree_node(id) = (struct tree_node){0};
    tables_add(-TREE_NODE_COUNTED);
    uint32_t *leaf = load_relaxed(&loops[id / LOOPS_PER_LEAF]);
    if (leaf)
        store_owner(&leaf[id % LOOPS_PER_LEAF], 0);
    if (!may_wait)
        return;
    tree_ids_give(id, true);
    tables_add_idle(TREE_NODE_COUNTED);
}

/* Finds a node among those that are not linked yet, and then links all of them. In a forked child
 * the first NEWEST_NODES new nodes stay unlinked until one of them is looked for again: linking
 * would write, and so copy, the OS pages of their parents. Called under tree_lock. */
static uint32_t find_newest(uint32_t parent, struct tree_frame frame) {
    /* a child is made after its parent */
    uint32_t id = parent < tree.linked ? tree.linked : parent + 1;
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

/* The nodes that wait to be linked must stay few, because they are searched one by one. So a node
 * is made only where the table of children has room for it. Called under tree_lock. */
static bool has_room(enum tables_share share) {
    uint64_t waiting = tree.count - tree.linked;
    bool full = tree.table && tables_hash_is_full(tree.table_count + waiting, tree.table->mask);
    return !full || tree.newest_max > waiting || table_grow(share) || may_be_fuller(waiting);
}

/* Returns an id that no node had yet, or 0. */
static uint32_t new_id(enum tables_share share) {
    uint32_t id = tree.count;
    if (id / TREE_NODES_PER_BLOCK >= TREE_BLOCKS || !has_room(share))
        return 0;
    struct tree_node **block = &tree_blocks[id / TREE_NODES_PER_BLOCK];
    if (!*block) {
        if (!tables_take(TREE_IDS_BYTES, share))
            return 0;
        struct tree_node *fresh = meta_alloc(TREE_NODES_PER_BLOCK * sizeof **block);
        if (!fresh) {
            tables_add(share == TABLES_UNCOUNTED ? 0 : -(int64_t)TREE_IDS_BYTES);
            return 0;
        }
        store_release(block, fresh);
    }
    return id;
}

/* Makes a node, under tree_lock. *paid: bytes that were taken from the budget for further nodes.
 * Returns 0 as tree_child does. */
static uint32_t create(uint32_t parent, struct tree_frame frame, enum tables_share share,
                       int64_t *paid) {
    if (share != TABLES_UNCOUNTED && UNLIKELY(tree_ids_are_past(share)))
        return 0; /* a large budget has room for more nodes than there are ids */
    uint32_t id = frame.module == MODULE_OTHERS ? put_back_other_callers(parent, frame) : 0;
    if (id)
        return id;
    id = tree_ids_take(parent, share);
    bool again = id;
    if (!again && *paid)
        *paid -= TREE_NODE_COUNTED;
    else if (!again && !tables_take(TREE_NODE_COUNTED, share))
        return 0;
    if (!again && !(id = new_id(share))) {
        tables_add(share == TABLES_UNCOUNTED ? 0 : -TREE_NODE_COUNTED);
        return 0;
    }
    *tree_node(id) = (struct tree_node){
        .address = frame.address, .parent = parent, .module = frame.module, .exact = frame.exact};
    if (!again)
        store_release(&tree.count, id + 1);
    if (again)
        store_owner(&tree_ids_reused, tree_ids_reused + 1);
    if (UNLIKELY(tree_watch != NULL)) /* before other threads find the node */
        tree_watch(id);
    if (again && !link_node(id, share)) {
        tables_add(share == TABLES_UNCOUNTED ? TREE_NODE_COUNTED : 0);
        tree_remove(id);
        return 0;
    }
    if (tree.count - tree.linked > tree.newest_max)
        link_newest(share);
    return id;
}

NOINLINE uint32_t tree_find_in_table(uint32_t parent, struct tree_frame frame) {
    /* The table holds children only of nodes whose own entries are all taken. */
    if (!load_acquire(&tree_node(parent)->children[TREE_INLINE_CHILDREN - 1]))
        return 0;
    return find_in_table(load_acquire(&tree.table), parent, frame, tree_child_tag(frame));
}

uint32_t tree_find_again(uint32_t parent, struct tree_frame frame) {
    lock_take(&tree_lock);
    uint32_t child = tree_find(parent, frame);
    lock_release(&tree_lock);
    return child;
}

/* Finds or makes a child, under tree_lock. */
INLINE uint32_t find_or_create(uint32_t parent, struct tree_frame frame, enum tables_share share,
                               int64_t *paid) {
    uint32_t child = 0;
    if (parent + 1 != tree.count)
        child = tree_find(parent, frame); /* another thread may have made it */
    if (!child)
        child = find_newest(parent, frame);
    return child ? child : create(parent, frame, share, paid);
}

NOINLINE uint32_t tree_child(uint32_t parent, struct tree_frame frame, enum tables_share share) {
    /* Only look-ups may search without the lock (see tree_free_old), and callers that hold
     * heap_global.lock. Contexts that the program makes itself are made outside of look-ups. Past
     * `share` a node [other callers] that is out of the tree stays there: it has no children, and a
     * site below it would be refused, too. */
    uint32_t child = share == TABLES_UNCOUNTED ? 0 : tree_find(parent, frame);
    int64_t paid = 0;
    if (child || (share != TABLES_UNCOUNTED && share != TABLES_MUST &&
                  (tables_are_past(share) || tree_ids_are_past(share))))
        return child;
    lock_take(&tree_lock);
    child = find_or_create(parent, frame, share, &paid);
    lock_release(&tree_lock);
    return child;
}

NOINLINE unsigned tree_chain(uint32_t parent, const struct tree_frame *frames, unsigned count,
                             enum tables_share share, uint32_t *ids) {
    unsigned made = 0;
    lock_take(&tree_lock);
    int64_t paid = count * TREE_NODE_COUNTED;
    if (tree_ids_waiting || count == 1 || !tables_take(paid, share))
        paid = 0; /* `create` takes the bytes for each node */
    for (; made < count; parent = ids[made++])
        if (!(ids[made] = find_or_create(parent, frames[made], share, &paid)))
            break;
    if (paid)
        tables_add(-paid);
    lock_release(&tree_lock);
    return made;
}

uint32_t tree_others(uint32_t parent, enum tables_share share) {
    if (parent == TREE_ROOT)
        return TREE_OTHERS;
    uint32_t others = tree_child(parent, (struct tree_frame){.module = MODULE_OTHERS}, share);
    if (others)
        tree_flag(parent, TREE_HAS_OTHERS);
    return others;
}

uint32_t tree_loop(uint32_t id) {
    const uint32_t *leaf = load_acquire(&loops[id / LOOPS_PER_LEAF]);
    return leaf ? load_relaxed(&leaf[id % LOOPS_PER_LEAF]) : 0;
}

void tree_set_loop(uint32_t id, uint32_t last) {
    const int64_t bytes = LOOPS_PER_LEAF * sizeof(uint32_t);
    lock_take(&tree_lock); /* two threads may need the same new leaf */
    bool missing = !load_relaxed(&loops[id / LOOPS_PER_LEAF]);
    bool fits = !missing || tables_take(bytes, TABLES_ADMITTED);
    uint32_t *place = fits ? heap_leaf_entry(loops, id, sizeof *place) : NULL;
    if (missing && fits && !place)
        tables_add(-bytes);
    lock_release(&tree_lock);
    if (!place)
        return;
    store_owner(place, last);
    tree_flag(id, TREE_FOLDED);
}
