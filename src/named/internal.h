/* SPDX-License-Identifier: MIT */
/* internal.h - functions that only files of this layer use: kinds, the making of contexts,
 * crowds. */
#ifndef MEMCTX_NAMED_INTERNAL_H
#define MEMCTX_NAMED_INTERNAL_H

#include "named/named.h"

/* --- kinds (kinds.c) -------------------------------------------------------------------------- */

/* A kind: the contexts that have one name and one parent. Under region_lock. */
struct kind {
    const char *name;
    /* Places; 0: none. parent: the place of the parent. spare: the first of the places that were
     * given up, a list linked by named.spare. */
    uint32_t parent, spare;
    uint32_t alive; /* number of places in use; members have no place */
    uint32_t crowd; /* place of the kind's crowd; 0: none yet */
};
/* Returns the kind, and makes it when it is missing. NULL: out of memory. The caller holds
 * region_lock. */
struct kind *kinds_get(uint32_t parent, const char *name);

/* --- making and ending (named.c) -------------------------------------------------------------- */

/* Returns a place for a context of the kind; it is in no list yet. 0: out of memory, or `kind` is
 * NULL. These three functions run under region_lock. */
uint32_t named_take_place(struct kind *kind);
/* Keeps a place for the next context of the kind. */
void named_spare_place(struct kind *kind, uint32_t place);
/* Returns the kind of a place that named_take_place returned before. */
struct kind *named_kind_of(uint32_t place);
/* Add a context or a member to the list of its parent's children, and remove it. `link` is the
 * number that named_link returns. Under region_lock. */
void named_link_child(uint32_t link, uint32_t parent);
void named_unlink_child(uint32_t link, uint32_t parent);
/* Sets the fields of a new context: no callbacks, no limit, no identifier. */
void named_prepare(struct named *named, struct heap *heap, enum memctx_policy policy);
/* Gives the context its node, its view and its region or list of chunks. False: out of memory. */
bool named_make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags);

/* --- crowds (crowd.c) ------------------------------------------------------------------------- */

/* Returns the crowd of the kind if the heap may add to it, and makes the crowd when it is missing
 * and the contexts are many. NULL: the next context needs a place of its own. While
 * the command asks all contexts of that name for a reset there are no new members, because the
 * request does not include new ones. */
struct named *crowd_of_kind(struct heap *heap, uint32_t parent, const char *name);
/* Returns the handle of a new member. NULL: memory is short, or another heap took the crowd. */
memctx_t crowd_create_member(const struct heap *heap, struct named *crowd);
/* Grows a member. The caller is the crowd's owner, or holds the lock of its heap. NULL: out of
 * memory. */
struct named *crowd_grow(memctx_t handle, struct named *crowd);
/* Gives up the member number of a context that grew from a member and ends. Under region_lock. */
void crowd_end_grown(struct named *named, uint32_t number);

#endif
