/* SPDX-License-Identifier: MIT */
/*
 * tree_ids.h - the ids of removed nodes, which wait for new nodes.
 *
 * A new node gets the id of a removed one, so that ids stay small and the memory of removed nodes
 * is used again. A child has a greater id than its parent, so an id fits only below a parent with a
 * smaller id.
 *
 * Threads: functions that change something need tree_lock.
 */
#ifndef MEMCTX_TREE_IDS_H
#define MEMCTX_TREE_IDS_H

#include "context/tree.h"
#include "region/tables.h"

/* bytes of the note about the ids of a block, counted with the block */
#define TREE_IDS_BYTES 1040U

/* atomic: number of ids that wait for a new node; number of nodes that got such an id */
INTERNAL uint32_t tree_ids_waiting, tree_ids_reused;

/* Makes sure that the id of a node can be noted. False: out of memory. */
bool tree_ids_make_room(uint32_t id);
/* Lets an id wait for a new node. `idle`: the node's memory is still there. */
void tree_ids_give(uint32_t id, bool idle);
/* Takes an id that waits for a new node and is greater than the parent's. Takes the node's bytes
 * from the budget. Ids whose memory is still there come first, because the budget may have no room
 * for a discarded one. 0: no such id waits, the share is used up, or a reader of the tree
 * (tree_read_until_ns) may know the id as another node's. */
uint32_t tree_ids_take(uint32_t parent, enum tables_share share);

#endif
