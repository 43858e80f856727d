/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - very many contexts of one name, each with at most one small chunk.
 *
 * A program may keep the state of each of a million groups in a context of its own, as PostgreSQL's
 * array_agg does. A context with a place (named.h), a node, a view and a list of chunks takes about
 * 300 bytes, more than such a group holds: a million contexts of 100 bytes took 4.0 times the
 * requested bytes. So when NAMED_MANY contexts of one kind (one name and one parent) exist, each
 * new context begins as a *member*: 24 bytes (region/member.h) that hold its generation, its only
 * chunk and its neighbours among the children of its parent. The *crowd* is a hidden context of the
 * kind, which has the node and the account for all members. A million contexts of 100 bytes then
 * take 1.46 times the requested bytes: 117 bytes a chunk with its record, and 24 a member. Creating
 * a member with its chunk takes 118 ns; a context with a place takes 1 029.
 *
 * A member can hold one small chunk, and can be reset and deleted. A request for more, such as a
 * second chunk, a child, a callback, a limit or figures, makes the member *grow* into a context
 * with a place; its handle and its position among the children stay. The price: the common free
 * (api/fast.h) does not serve a member's chunk, and a dump shows all members of a crowd as one
 * context.
 *
 * Threads: the owner of the crowd makes, grows and ends members. If the crowd has no owner, any
 * thread may take a member, which grows then (hand_over.c). Any thread frees their chunks.
 */
#include "context/tree.h"
#include "named/internal.h"
#include "os/meta.h"
#include "region/region.h"
#include "region/tiny.h"

/* The first member number that waits for reuse; member.prev links the list. 0: none. Under
 * region_lock. */
static uint32_t spare_members;

static void spare_member(uint32_t number) {
    struct member *member = member_at(number);
    store_release(&member->generation, member->generation + 1);
    store_release(&member->prev, spare_members);
    spare_members = number;
}

struct named *crowd_of_member(uint32_t number) {
    return named_at((uint32_t)tree_node(load_relaxed(&member_at(number)->crowd))->address);
}

static uint32_t grown_place(uint64_t chunk) {
    return (uint32_t)tree_node((uint32_t)(chunk >> MEMBER_ID_SHIFT))->address;
}

uint32_t crowd_parent(uint32_t number) {
    uint64_t chunk = load_acquire(&member_at(number)->chunk);
    uint32_t grown = member_state(chunk) == MEMBER_GROWN ? grown_place(chunk) : 0;
    if (grown && named_at(grown)->member) /* else crowd_grow moves the child in a moment */
        return grown;
    return NAMED_MEMBER | number;
}

/* Moves the children of a member that has grown to its place. Under region_lock. */
static void move_children(uint32_t number, uint32_t place) {
    for (uint32_t child; (child = *member_children(number));) {
        named_unlink_child(child, NAMED_MEMBER | number);
        named_link_child(child, place);
        store_release(&named_at(child)->parent, place);
    }
}

/* Called when a context that grew from a member ends. If the context has answered the last request
 * for a reset (ask.c), counts this answer in the crowd, because the context's place soon belongs to
 * another context. */
static void keep_answer(struct named *named, struct named *crowd) {
    if (!named->wanted || named->wanted != named->done)
        return;
    /* A crowd that had no members was not asked, so it has no answers to the request yet. */
    if (named->wanted > crowd->wanted && !crowd->asking) {
        store_release(&crowd->done, 0);
        crowd->freed = 0;
        store_release(&crowd->wanted, named->wanted);
    }
    if (named->wanted != crowd->wanted)
        return;
    crowd->freed += named->freed;
    store_release(&crowd->done, crowd->done + 1);
    /* Both become 0, because a context whose `wanted` and `done` differ is asked for a reset. The
     * next context in this place must not be asked. */
    store_release(&named->wanted, 0);
    store_release(&named->done, 0);
}

/* Returns the number of the handle's member, which may have grown; 0: the handle names no member,
 * or the member was ended. */
static uint32_t member_alive(memctx_t handle) {
    uint32_t place = named_place(handle), number = place & ~NAMED_MEMBER;
    return place & NAMED_MEMBER && number && number < load_acquire(&member_count) &&
                   named_generation(handle) & 1 &&
                   load_relaxed(&member_at(number)->generation) == named_generation(handle)
               ? number
               : 0;
}

struct named *named_grown(memctx_t handle) {
    uint32_t number = member_alive(handle);
    uint64_t chunk = number ? load_acquire(&member_at(number)->chunk) : 0;
    return member_state(chunk) == MEMBER_GROWN ? named_at(grown_place(chunk)) : NULL;
}

struct named *named_crowd_of(memctx_t handle) {
    uint32_t number = member_alive(handle);
    return number && member_state(load_acquire(&member_at(number)->chunk)) != MEMBER_GROWN
               ? crowd_of_member(number)
               : NULL;
}

struct named *named_my_crowd(const struct heap *heap, memctx_t handle, const char *what) {
    struct named *crowd = named_crowd_of(handle);
    if (crowd && crowd->heap != heap)
        named_not_mine(what, handle, crowd);
    return crowd;
}

struct named *crowd_of_kind(struct heap *heap, uint32_t parent, const char *name) {
    lock_take(&region_lock);
    struct kind *kind = kinds_get(parent, name);
    bool many = kind && kind->alive >= NAMED_MANY;
    uint32_t place = many ? kind->crowd : 0;
    bool make = many && !place && (place = named_take_place(kind));
    lock_release(&region_lock);
    if (!place)
        return NULL;
    struct named *crowd = named_at(place);
    if (make) {
        named_prepare(crowd, heap, MEMCTX_ASET);
        bool made = named_make_node(heap, crowd, place, 0);
        crowd->policy = NAMED_CROWD;
        lock_take(&region_lock);
        bool first = made && !kind->crowd;
        crowd->asking = crowd->wanted = crowd->done = 0; /* the place may have been used before */
        crowd->freed = 0;
        if (first)
            kind->crowd = place;
        else
            named_spare_place(kind, place);
        lock_release(&region_lock);
        return first ? crowd : NULL;
    }
    if (crowd->heap != heap && !load_acquire(&crowd->members)) { /* no member: take the crowd */
        struct view *view = heap_view_within(heap, crowd->context, TABLES_UNCOUNTED);
        if (!view || view->context != crowd->context)
            return NULL;
        lock_take(&region_lock);
        if (!crowd->members) {
            crowd->view = view;
            crowd->heap = heap;
        }
        lock_release(&region_lock);
    }
    return crowd->heap == heap && !load_relaxed(&crowd->asking) ? crowd : NULL;
}

/* Returns a member number that was never used. The caller holds region_lock. 0: out of memory,
 * or of numbers. */
static uint32_t member_new(void) {
    uint32_t number = member_count ? member_count : 1;
    if (number / MEMBERS_PER_BLOCK >= MEMBER_BLOCKS)
        return 0;
    struct member **block = &member_blocks[number / MEMBERS_PER_BLOCK];
    if (!*block) {
        struct member *fresh = meta_alloc(MEMBERS_PER_BLOCK * MEMBER_ALL_BYTES);
        if (!fresh)
            return 0;
        store_release(block, fresh);
    }
    store_release(&member_count, number + 1);
    return number;
}

memctx_t crowd_create_member(const struct heap *heap, struct named *crowd) {
    lock_take(&region_lock);
    bool mine = crowd->heap == heap;
    uint32_t number = mine ? spare_members : 0;
    if (number)
        spare_members = member_at(number)->prev;
    else if (mine)
        number = member_new();
    if (number) {
        struct member *member = member_at(number);
        store_release(&member->crowd, crowd->context);
        store_release(&member->chunk, 0);
        named_link_child(NAMED_MEMBER | number, crowd->made_below);
        store_release(&member->generation, member->generation + 1);
        crowd->members++;
    }
    lock_release(&region_lock);
    return number ? named_handle(NAMED_MEMBER | number) : NULL;
}

void *named_alloc_in_member(struct heap *heap, struct view *crowd, uint32_t number, size_t size,
                            bool *fresh) {
    struct member *member = member_at(number);
    if (load_relaxed(&member->chunk) || size > TINY_MAX)
        return NULL;
    char *chunk = tiny_take(heap, crowd, size, fresh);
    if (!chunk)
        return NULL;
    struct page *page = segment_page_of(chunk);
    record_set(page, chunk, MEMBER_VIEW | number, page->block_bytes - (uint32_t)size);
    store_release(&member->chunk, (uintptr_t)chunk | (uint64_t)size << MEMBER_BYTES_SHIFT);
    return chunk;
}

void crowd_end_grown(struct named *named, uint32_t number) {
    keep_answer(named, crowd_of_member(number));
    spare_member(number);
}

/* Counts one member less. With the last member, a request for a reset ends. Under region_lock. */
static void member_has_left(struct named *crowd) {
    store_release(&crowd->members, crowd->members - 1);
    if (!crowd->members)
        store_release(&crowd->asking, 0);
}

void named_end_member(struct named *crowd, memctx_t handle) {
    uint32_t number = named_place(handle) & ~NAMED_MEMBER;
    lock_take(&region_lock);
    named_unlink_child(NAMED_MEMBER | number, crowd->made_below);
    spare_member(number);
    member_has_left(crowd);
    lock_release(&region_lock);
}

/* Moves the member's chunk to the new context, also in the accounts: the chunk counts as freed in
 * the crowd, and as allocated once more in the new context. */
static void bring_along(struct member *member, struct named *crowd, struct named *grown) {
    uint64_t chunk = load_acquire(&member->chunk);
    uint64_t id = (uint64_t)grown->context << MEMBER_ID_SHIFT | MEMBER_GROWN;
    void *address = member_state(chunk) == MEMBER_HAS ? member_address(chunk) : NULL;
    uint32_t bytes = member_bytes(chunk);
    if (chunk)
        view_account_alloc(grown->view, bytes);
    if (address)
        tiny_adopt(grown->context, address, bytes);
    while (!cas_acq_rel(&member->chunk, &chunk, id))
        ; /* another thread just freed the chunk */
    if (member_state(chunk) == MEMBER_HAD) {
        if (address)
            tiny_freed(grown->context, address);
        view_account_free(grown->view, bytes);
    } else if (address) {
        view_account_free(crowd->view, bytes);
    }
}

struct named *crowd_grow(memctx_t handle, struct named *crowd) {
    uint32_t number = named_place(handle) & ~NAMED_MEMBER;
    struct heap *heap = crowd->heap;
    lock_take(&region_lock);
    struct kind *kind = named_kind_of((uint32_t)tree_node(crowd->context)->address);
    uint32_t place = named_take_place(kind);
    lock_release(&region_lock);
    if (!place)
        return NULL;
    struct named *named = named_at(place);
    named_prepare(named, heap, MEMCTX_ASET);
    bool made = named_make_node(heap, named, place, 0) &&
                (tiny_of(named->context) || tiny_begin(named->context, heap));
    if (made)
        bring_along(member_at(number), crowd, named);
    lock_take(&region_lock);
    if (made) {
        named->member = number & (MEMBER_VIEW - 1);
        move_children(number, place);
        /* The place may hold the answer of an earlier context to the crowd's last request. */
        keep_answer(named, crowd);
        named->done = 0;
        store_release(&named->wanted, load_acquire(&crowd->asking) ? crowd->wanted : 0);
        store_release(&named->generation, named->generation + 1);
        member_has_left(crowd);
    } else {
        named_spare_place(kind, place);
    }
    lock_release(&region_lock);
    return made ? named : NULL;
}
