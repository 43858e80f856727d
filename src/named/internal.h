/* SPDX-License-Identifier: MIT */
/* internal.h - functions that only the files of src/named use: kinds, making and ending contexts,
 * crowds. */
#ifndef MEMCTX_NAMED_INTERNAL_H
#define MEMCTX_NAMED_INTERNAL_H

#include "named/named.h"

/* --- kinds (kinds.c) -------------------------------------------------------------------------- */

/* A kind: the contexts that have one name and one parent. Under region_lock. */
struct kind {
    const char *name;
    /* `parent` is the place of the parent; 0: none. `spare` is the first of the places that were
     * given up, which named.spare links into a list; 0: none. */
    uint32_t parent, spare;
    uint32_t alive; /* number of places in use; members have no place */
    uint32_t crowd; /* place of the kind's crowd; 0: none yet */
};
/* Returns the kind, and makes it when it is missing. NULL: out of memory. The caller holds
 * region_lock. */
struct kind *kinds_get(uint32_t parent, const char *name);

/* --- making and ending (named.c) -------------------------------------------------------------- */

/* Returns a place for a context of the kind, and leaves the lists of children alone. 0: out of
 * memory, or `kind` is NULL. named_take_place, named_spare_place and named_kind_of need
 * region_lock. */
uint32_t named_take_place(struct kind *kind);
/* Keeps a place that was given up for the next context of the kind. */
void named_spare_place(struct kind *kind, uint32_t place);
/* Returns the kind of a place that named_take_place returned before. */
struct kind *named_kind_of(uint32_t place);
/* Add a context or a member to its parent's list of children, or remove it from that list. `link`
 * is the number that named_link returns for the context. Under region_lock. */
void named_link_child(uint32_t link, uint32_t parent);
void named_unlink_child(uint32_t link, uint32_t parent);
/* Sets the policy and the owner of a new context, which has no callbacks, limit or identifier. */
void named_prepare(struct named *named, struct heap *heap, enum memctx_policy policy);
/* Gives the context its node, its view and its region or list of chunks. False: out of memory. */
bool named_make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags);

/* --- crowds (crowd.c) ------------------------------------------------------------------------- */

/* Returns the kind's crowd if the heap owns the crowd or can take it over. Makes the crowd if the
 * kind has NAMED_MANY contexts and no crowd yet. NULL: the next context needs a place of its own.
 * Also returns NULL while the command asks the crowd for a reset, because the request does not
 * include new members. */
struct named *crowd_of_kind(struct heap *heap, uint32_t parent, const char *name);
/* Returns the handle of a new member. NULL: memory is short, or another heap took the crowd. */
memctx_t crowd_create_member(const struct heap *heap, struct named *crowd);
/* Makes a member grow into a context with a place. The caller is the crowd's owner, or holds the
 * lock of the crowd's heap. NULL: out of memory. */
struct named *crowd_grow(memctx_t handle, struct named *crowd);
/* Returns the crowd of a member, which may have grown. */
struct named *crowd_of_member(uint32_t number);
/* Returns what named.parent holds in a new child that another thread than the owner makes below a
 * member. Under region_lock. */
uint32_t crowd_parent(uint32_t number);
/* Gives up the member number of a context that grew from a member and ends. Under region_lock. */
void crowd_end_grown(struct named *named, uint32_t number);

#endif
