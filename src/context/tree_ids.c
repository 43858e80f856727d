/* SPDX-License-Identifier: MIT */
/* The ids of removed nodes, which wait for new nodes; see tree_ids.h. */
#include "context/tree_ids.h"
#include "os/meta.h"

/* For the nodes of a block, a bit for each id that waits for a new node: in `idle` if the node's
 * memory is still there, in `discarded` if it was given back. The budget counts the struct when the
 * block is made, because a sweep that makes room must not be refused memory. */
#define GONE_WORDS (TREE_NODES_PER_BLOCK / 64)
struct gone {
    struct gone_ids {
        uint64_t words[GONE_WORDS]; /* the words of `discarded` are atomic */
        uint64_t used;              /* a bit for each word that is not 0 */
    } idle, discarded;
};
_Static_assert(GONE_WORDS == 64, "`used` has a bit for each word");
_Static_assert(sizeof(struct gone) == TREE_IDS_BYTES, "counted with the block");
static struct gone *gone[TREE_BLOCKS]; /* atomic; NULL: no id of the block ever waited */
uint32_t tree_ids_waiting, tree_ids_reused;

/* The loads are plain. A thread that reads an old bit only maps a page of zeros, or takes a node
 * that is just being made for a removed one. */
bool tree_is_gone(uint32_t id) {
    const struct gone *block = load_plain(&gone[id / TREE_NODES_PER_BLOCK]);
    const uint64_t *word = block ? &block->discarded.words[id % TREE_NODES_PER_BLOCK / 64] : NULL;
    if (word && load_plain(word) >> id % 64 & 1)
        return true;
    const struct tree_node *node = tree_node(id);
    return !node->address && !node->module;
}

uint32_t tree_reused(void) {
    return load_relaxed(&tree_ids_reused);
}

bool tree_ids_make_room(uint32_t id) {
    struct gone **block = &gone[id / TREE_NODES_PER_BLOCK];
    if (!*block) {
        struct gone *made = meta_alloc(sizeof *made);
        if (made)
            store_release(block, made);
    }
    return *block;
}

void tree_ids_give(uint32_t id, bool idle) {
    struct gone *block = gone[id / TREE_NODES_PER_BLOCK];
    struct gone_ids *ids = idle ? &block->idle : &block->discarded;
    uint32_t at = id % TREE_NODES_PER_BLOCK / 64;
    ids->words[at] |= 1UL << id % 64;
    ids->used |= 1UL << at;
    store_owner(&tree_ids_waiting, tree_ids_waiting + 1);
}

#define WORDS_PER_PAGE (OS_PAGE_BYTES / sizeof(struct tree_node) / 64)

/* Gives an OS page of nodes to the kernel, if the ids of all its nodes wait. `first`: its first
 * node, whose bit is in word `at`. Returns how many of the nodes still had their memory. 0: nothing
 * changed. */
static int64_t discard_page(struct tree_node *first, struct gone *block, uint32_t at) {
    const uint64_t *idle = &block->idle.words[at], *discarded = &block->discarded.words[at];
    int64_t count = 0;
    for (uint32_t i = 0; i < WORDS_PER_PAGE; i++) {
        if (~(idle[i] | discarded[i]))
            return 0;
        count += __builtin_popcountl(idle[i]);
    }
    if (!count || (uintptr_t)first % OS_PAGE_BYTES)
        return 0;
    os_discard(first, OS_PAGE_BYTES);
    for (uint32_t i = at; i < at + WORDS_PER_PAGE; i++) {
        block->idle.words[i] = 0;
        block->idle.used &= ~(1UL << i);
        store_release(&block->discarded.words[i], ~0UL);
        block->discarded.used |= 1UL << i;
    }
    return count;
}

void tree_discard(void) {
    for (uint32_t i = 0; i < TREE_BLOCKS && tree_blocks[i]; i++)
        for (uint32_t at = 0; gone[i] && at < GONE_WORDS; at += WORDS_PER_PAGE)
            tables_add_idle(-TREE_NODE_COUNTED *
                            discard_page(&tree_blocks[i][at * 64UL], gone[i], at));
}

/* Takes and returns the lowest id that waits for a new node and is greater than the parent's.
 * `idle`: only ids whose memory is still there; otherwise only ids whose memory was discarded. 0:
 * there is none. */
static uint32_t take_first(uint32_t parent, bool idle) {
    uint32_t end = (tree_count() - 1) / TREE_NODES_PER_BLOCK, first = parent + 1;
    uint64_t above = ~0UL << first % 64; /* the ids above the parent's in its word */
    uint32_t from = first % TREE_NODES_PER_BLOCK / 64;
    for (uint32_t i = first / TREE_NODES_PER_BLOCK; i <= end; i++, from = 0, above = ~0UL) {
        struct gone_ids *ids = !gone[i] ? NULL : idle ? &gone[i]->idle : &gone[i]->discarded;
        uint64_t used = ids ? ids->used & ~0UL << from : 0;
        if (used & 1UL << from && !(ids->words[from] & above))
            used &= ~(1UL << from);
        if (!used)
            continue;
        uint32_t at = (uint32_t)__builtin_ctzl(used);
        uint64_t *word = &ids->words[at];
        uint32_t bit = (uint32_t)__builtin_ctzl(at == from ? *word & above : *word);
        store_release(word, *word & ~(1UL << bit));
        if (!*word)
            ids->used &= ~(1UL << at);
        store_owner(&tree_ids_waiting, tree_ids_waiting - 1);
        return i * TREE_NODES_PER_BLOCK + at * 64 + bit;
    }
    return 0;
}

uint32_t tree_ids_take(uint32_t parent, enum tables_share share) {
    if (LIKELY(!tree_ids_waiting) || load_relaxed(&tree_read_until_ns) > os_now_ns())
        return 0;
    uint32_t id = take_first(parent, true);
    bool idle = id;
    if (!idle && !(id = take_first(parent, false)))
        return 0;
    if (idle && share == TABLES_UNCOUNTED)
        tables_add_idle(-TREE_NODE_COUNTED);
    if ((idle ? tables_reuse : tables_take)(TREE_NODE_COUNTED, share))
        return id;
    tree_ids_give(id, idle);
    return 0;
}
