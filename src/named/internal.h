/* SPDX-License-Identifier: MIT */
/* internal.h - what the files of this layer share: kinds, the making of contexts, crowds. */
#ifndef MEMCTX_NAMED_INTERNAL_H
#define MEMCTX_NAMED_INTERNAL_H

#include "named/named.h"

/* --- kinds (kinds.c) -------------------------------------------------------------------------- */

/* A kind: the contexts of one name below one parent, with their places that were given up. All
 * under region_lock. */
struct kind {
    const char *name;
    uint32_t parent, spare;
    uint32_t alive; /* contexts, without members */
    uint32_t crowd; /* place; 0: none yet */
};
/* Returns the kind, and makes it when it is missing. NULL: out of memory. The caller holds
 * region_lock. */
struct kind *kinds_get(uint32_t parent, const char *name);

/* --- making and ending (named.c) -------------------------------------------------------------- */

/* Returns a place for a context of the kind; it is in no list yet. 0: out of memory, or `kind` is
 * NULL. These three functions run under region_lock. */
uint32_t named_take_place(struct kind *kind);
void named_spare_place(struct kind *kind, uint32_t place);
/* Returns the kind of a place that was taken before. */
struct kind *named_kind_of(uint32_t place);
/* Adds a context or a member to the children of its parent, and removes it; see named_link. Under
 * region_lock. */
void named_link_child(uint32_t link, uint32_t parent);
void named_unlink_child(uint32_t link, uint32_t parent);
/* Sets the fields of a context that begins: no callbacks, no limit, no identifier. */
void named_prepare(struct named *named, struct heap *heap, enum memctx_policy policy);
/* Gives the context its node, its view and its region or list of chunks. False: out of memory. */
bool named_make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags);

/* --- crowds (crowd.c) ------------------------------------------------------------------------- */

/* Returns the crowd of the kind if the heap may add to it, and makes the crowd when it is missing
 * and the contexts are many. NULL: no crowd for now. While all contexts of that name are asked for
 * a reset there are no new members, because the request does not include new ones. */
struct named *crowd_of_kind(struct heap *heap, uint32_t parent, const char *name);
/* Returns the handle of a new member. NULL: memory is short, or the crowd became another heap's. */
memctx_t crowd_create_member(const struct heap *heap, struct named *crowd);
/* Grows a member. The caller is the crowd's owner, or holds the lock of its heap. NULL: out of
 * memory. */
struct named *crowd_grow(memctx_t handle, struct named *crowd);
/* Ends the member number of a context that grew from it. Under region_lock. */
void crowd_end_grown(struct named *named, uint32_t number);

#endif
