/* SPDX-License-Identifier: MIT */
/* Named contexts; see named.h. */
#include "context/named.h"
#include "context/lookup.h"
#include "context/misuse.h"
#include "context/tree.h"
#include "os/meta.h"
#include "region/region.h"
#include "region/terms.h"

struct named *named_blocks[NAMED_BLOCKS];
uint32_t named_count;

/* A kind: the contexts of one name below one parent, with their places that were given up. Kinds
 * never move. The table that finds them doubles when it is half full. Doubling takes all the extra
 * time: some ns an entry, and the first touch of the new memory. */
#define KINDS_PER_BLOCK 1024U
struct kind {
    const char *name;
    uint32_t parent, spare;
    uint32_t alive; /* contexts, without members */
    uint32_t crowd; /* place; 0: none yet */
};
struct kind_slot {
    uint32_t hash, number; /* a kind's number, from 1 on; 0: empty */
};
static struct {
    struct kind *blocks[NAMED_BLOCKS];
    struct kind_slot *table;
    uint32_t mask, count;
    uint32_t first_top; /* first child of no parent: the contexts without a parent */
    uint32_t spare;     /* a member's number; for reuse */
} kinds;                /* under region_lock */

static uint32_t kind_hash(uint32_t parent, const char *name) {
    uint64_t hash = parent;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3ULL;
    return (uint32_t)hash_mix(hash, parent);
}

static struct kind *kind_at(uint32_t number) {
    return &kinds.blocks[number / KINDS_PER_BLOCK][number % KINDS_PER_BLOCK];
}

/* Returns the slot where the kind stands, or would stand. */
static struct kind_slot *kind_slot(uint32_t parent, const char *name, uint32_t hash) {
    for (uint32_t at = hash;; at++) {
        struct kind_slot *slot = &kinds.table[at & kinds.mask];
        if (!slot->number)
            return slot;
        const struct kind *kind = slot->hash == hash ? kind_at(slot->number) : NULL;
        if (kind && kind->parent == parent && text_equal(kind->name, name))
            return slot;
    }
}

#define FIRST_KINDS 64U

static bool kinds_grow(void) {
    uint32_t old_count = kinds.table ? kinds.mask + 1 : 0;
    uint32_t count = old_count ? old_count * 2 : FIRST_KINDS;
    struct kind_slot *table = meta_alloc(count * sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < old_count; i++) {
        uint32_t at = kinds.table[i].hash;
        if (!kinds.table[i].number)
            continue;
        while (table[at & (count - 1)].number)
            at++;
        table[at & (count - 1)] = kinds.table[i];
    }
    meta_free(kinds.table, old_count * sizeof *table);
    kinds.table = table;
    kinds.mask = count - 1;
    return true;
}

/* Makes a new kind. Returns 0 if memory is short, or there are too many kinds. */
static uint32_t kind_create(uint32_t parent, const char *name) {
    uint32_t number = kinds.count + 1;
    if (number / KINDS_PER_BLOCK >= NAMED_BLOCKS)
        return 0;
    struct kind **block = &kinds.blocks[number / KINDS_PER_BLOCK];
    if (!*block && !(*block = meta_alloc(KINDS_PER_BLOCK * sizeof **block)))
        return 0;
    size_t bytes = text_length(name) + 1;
    char *copy = meta_alloc(bytes);
    if (!copy)
        return 0;
    __builtin_memcpy(copy, name, bytes);
    *kind_at(number) = (struct kind){.name = copy, .parent = parent};
    kinds.count++;
    return number;
}

/* Returns the kind, and makes it when it is missing. NULL: out of memory. */
static struct kind *kind_of(uint32_t parent, const char *name) {
    if ((!kinds.table || kinds.count * 2 > kinds.mask) && !kinds_grow())
        return NULL;
    uint32_t hash = kind_hash(parent, name);
    struct kind_slot *slot = kind_slot(parent, name, hash);
    if (!slot->number)
        *slot = (struct kind_slot){.hash = hash, .number = kind_create(parent, name)};
    return slot->number ? kind_at(slot->number) : NULL;
}

static uint32_t new_place(void) {
    uint32_t place = named_count ? named_count : 1;
    if (place / NAMED_PLACES_PER_BLOCK >= NAMED_BLOCKS)
        return 0;
    struct named **block = &named_blocks[place / NAMED_PLACES_PER_BLOCK];
    if (!*block) {
        struct named *fresh = meta_alloc(NAMED_PLACES_PER_BLOCK * sizeof *fresh);
        if (!fresh)
            return 0;
        store_release(block, fresh);
    }
    store_release(&named_count, place + 1);
    return place;
}

/* --- the tree of those that are alive, under region_lock ------------------------------------- */

static uint32_t *children_of(uint32_t parent) {
    return parent ? &named_at(parent)->first_child : &kinds.first_top;
}

static uint32_t *next_of(uint32_t link) {
    return link & NAMED_MEMBER ? &member_at(link & ~NAMED_MEMBER)->next : &named_at(link)->next;
}

static uint32_t *prev_of(uint32_t link) {
    return link & NAMED_MEMBER ? &member_at(link & ~NAMED_MEMBER)->prev : &named_at(link)->prev;
}

static void link_child(uint32_t link, uint32_t parent) {
    uint32_t *first = children_of(parent);
    *prev_of(link) = 0;
    *next_of(link) = *first;
    if (*first)
        *prev_of(*first) = link;
    store_release(first, link);
}

static void unlink_child(uint32_t link, uint32_t parent) {
    uint32_t next = *next_of(link), prev = *prev_of(link);
    if (prev)
        *next_of(prev) = next;
    else
        *children_of(parent) = next;
    if (next)
        *prev_of(next) = prev;
    *next_of(link) = *prev_of(link) = 0;
}

void named_set_parent(uint32_t place, uint32_t parent) {
    bool below = false;
    lock_take(&region_lock);
    for (uint32_t at = parent; at && !below; at = named_at(at)->parent)
        below = at == place;
    if (!below) {
        unlink_child(named_link(place), named_at(place)->parent);
        link_child(named_link(place), parent);
        named_at(place)->parent = parent;
    }
    lock_release(&region_lock);
    if (below)
        named_misused("memctx_set_parent", named_handle(place),
                      "is the new parent, or an ancestor of it");
}

/* --- making and ending ----------------------------------------------------------------------- */

static const uint8_t placements[] = {[MEMCTX_ASET] = PLACE_APART,
                                     [MEMCTX_SLAB] = PLACE_SLAB,
                                     [MEMCTX_GENERATION] = PLACE_GENERATION,
                                     [MEMCTX_BUMP] = PLACE_BUMP,
                                     [MEMCTX_SIMPLE] = PLACE_SIMPLE};

/* Returns a place for a context of the kind; it is in no list yet. 0: out of memory. */
static uint32_t place_of_kind(struct kind *kind) {
    uint32_t place = kind ? kind->spare : 0;
    if (place) {
        kind->spare = named_at(place)->spare;
    } else if (kind && (place = new_place())) {
        named_at(place)->made_below = kind->parent;
        store_release(&named_at(place)->name, kind->name);
    }
    if (place) {
        kind->alive++;
        named_at(place)->member = 0;
        named_at(place)->first_child = 0;
        named_at(place)->parent = kind->parent;
    }
    return place;
}

static void spare_place(struct kind *kind, uint32_t place) {
    kind->alive--;
    named_at(place)->member = 0;
    named_at(place)->spare = kind->spare;
    kind->spare = place;
}

static struct kind *kind_of_place(uint32_t place) {
    return kind_of(named_at(place)->made_below, named_at(place)->name); /* is there */
}

/* Returns a place that is in the tree of contexts, but not alive yet. */
static uint32_t take_place(uint32_t parent, const char *name) {
    lock_take(&region_lock);
    uint32_t place = place_of_kind(kind_of(parent, name));
    if (place)
        link_child(place, parent);
    lock_release(&region_lock);
    return place;
}

static void spare_member(uint32_t number) {
    struct member *member = member_at(number);
    store_release(&member->generation, member->generation + 1);
    store_release(&member->crowd, kinds.spare);
    kinds.spare = number;
}

static struct named *crowd_at(uint32_t number) {
    return named_at((uint32_t)tree_node(load_relaxed(&member_at(number)->crowd))->address);
}

/* Keeps the answer of a context that ends, because its place is soon another context's. */
static void keep_answer(struct named *named, struct named *crowd) {
    if (!named->wanted || named->wanted != named->done || named->wanted != crowd->wanted)
        return;
    crowd->freed += named->freed;
    store_release(&crowd->done, crowd->done + 1);
    store_release(&named->wanted, 0);
}

static void give_place(uint32_t place) {
    lock_take(&region_lock);
    uint32_t link = named_link(place);
    unlink_child(link, named_at(place)->parent);
    if (link & NAMED_MEMBER) {
        keep_answer(named_at(place), crowd_at(link & ~NAMED_MEMBER));
        spare_member(link & ~NAMED_MEMBER);
    }
    spare_place(kind_of_place(place), place);
    lock_release(&region_lock);
}

/* Returns the node above a context's node. A chain of contexts longer than NAMED_LEVELS goes on
 * side by side, so that readers of dumps may rely on that limit. */
static uint32_t node_above(uint32_t made_below) {
    uint32_t above = made_below ? named_at(made_below)->context : TREE_ROOT;
    unsigned level = 0;
    for (uint32_t at = above; at != TREE_ROOT && level < NAMED_LEVELS; level++)
        at = tree_node(at)->parent;
    return level < NAMED_LEVELS ? above : tree_node(above)->parent;
}

static bool make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags) {
    if (!named->context)
        named->context =
            tree_child(node_above(named->made_below),
                       (struct tree_frame){.address = place, .module = MODULE_NAMED, .exact = true},
                       TABLES_UNCOUNTED);
    if (!named->context)
        return false;
    struct view *view = heap_view_within(heap, named->context, TABLES_UNCOUNTED);
    if (!view)
        return false;
    named->view = view;
    enum placement placement = (enum placement)placements[named->policy];
    return (heap_placement(named->context) == placement || heap_place(named->context, placement)) &&
           terms_ask(named->context, flags) && region_make_named(heap, view, placement);
}

static void begin(struct named *named, struct heap *heap, enum memctx_policy policy) {
    named->policy = (uint8_t)policy;
    named->heap = heap;
    named->callbacks = NULL;
    named->limit = NULL;
    named->identifier[0] = 0;
}

/* --- crowds ---------------------------------------------------------------------------------- */

/* Returns the number of a live member, or 0. */
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
    return member_state(chunk) == MEMBER_GROWN
               ? named_at((uint32_t)tree_node((uint32_t)(chunk >> MEMBER_ID_SHIFT))->address)
               : NULL;
}

struct named *named_crowd_of(memctx_t handle) {
    uint32_t number = member_alive(handle);
    return number && member_state(load_acquire(&member_at(number)->chunk)) != MEMBER_GROWN
               ? crowd_at(number)
               : NULL;
}

struct named *named_my_crowd(const struct heap *heap, memctx_t handle, const char *what) {
    struct named *crowd = named_crowd_of(handle);
    if (crowd && crowd->heap != heap)
        named_misused(what, handle, "belongs to another thread");
    return crowd;
}

/* Returns the crowd of the kind if the heap may add to it, and makes the crowd when it is missing
 * and the contexts are many. NULL: no crowd for now. While all contexts of that name are asked for
 * a reset there are no new members, because the request does not include new ones. */
static struct named *crowd_of_kind(struct heap *heap, uint32_t parent, const char *name) {
    lock_take(&region_lock);
    struct kind *kind = kind_of(parent, name);
    bool many = kind && kind->alive >= NAMED_MANY;
    uint32_t place = many ? kind->crowd : 0;
    bool make = many && !place && (place = place_of_kind(kind));
    lock_release(&region_lock);
    if (!place)
        return NULL;
    struct named *crowd = named_at(place);
    if (make) {
        begin(crowd, heap, MEMCTX_ASET);
        bool made = make_node(heap, crowd, place, 0);
        crowd->policy = NAMED_CROWD;
        lock_take(&region_lock);
        bool first = made && !kind->crowd;
        if (first)
            kind->crowd = place;
        else
            spare_place(kind, place);
        lock_release(&region_lock);
        return first ? crowd : NULL;
    }
    if (crowd->heap != heap && !load_acquire(&crowd->members)) { /* no thread has a chunk in it */
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

/* Returns NULL if memory is short, or the crowd became another heap's. */
static memctx_t create_member(const struct heap *heap, struct named *crowd) {
    lock_take(&region_lock);
    bool mine = crowd->heap == heap;
    uint32_t number = mine ? kinds.spare : 0;
    if (number)
        kinds.spare = member_at(number)->crowd;
    else if (mine)
        number = member_new();
    if (number) {
        struct member *member = member_at(number);
        store_release(&member->crowd, crowd->context);
        store_release(&member->chunk, 0);
        link_child(NAMED_MEMBER | number, crowd->made_below);
        store_release(&member->generation, member->generation + 1);
        crowd->members++;
    }
    lock_release(&region_lock);
    return number ? named_handle(NAMED_MEMBER | number) : NULL;
}

/* Under region_lock. */
static void one_fewer(struct named *crowd) {
    store_release(&crowd->members, crowd->members - 1);
    if (!crowd->members)
        store_release(&crowd->asking, 0);
}

void named_end_member(struct named *crowd, memctx_t handle) {
    uint32_t number = named_place(handle) & ~NAMED_MEMBER;
    lock_take(&region_lock);
    unlink_child(NAMED_MEMBER | number, crowd->made_below);
    spare_member(number);
    one_fewer(crowd);
    lock_release(&region_lock);
}

/* The member's chunks move to the new context, also in the accounts: each counts as freed there,
 * and allocated once more here. */
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
        ; /* another thread just freed it */
    if (member_state(chunk) == MEMBER_HAD) {
        if (address)
            tiny_freed(grown->context, address);
        view_account_free(grown->view, bytes);
    } else if (address) {
        view_account_free(crowd->view, bytes);
    }
}

/* Grows a member. The caller is the crowd's owner, or holds the lock of its heap. NULL: out of
 * memory. */
static struct named *grow(memctx_t handle, struct named *crowd) {
    uint32_t number = named_place(handle) & ~NAMED_MEMBER;
    struct heap *heap = crowd->heap;
    lock_take(&region_lock);
    struct kind *kind = kind_of_place((uint32_t)tree_node(crowd->context)->address);
    uint32_t place = place_of_kind(kind);
    lock_release(&region_lock);
    if (!place)
        return NULL;
    struct named *named = named_at(place);
    begin(named, heap, MEMCTX_ASET);
    bool made = make_node(heap, named, place, 0) &&
                (tiny_of(named->context) || tiny_begin(named->context, heap));
    if (made)
        bring_along(member_at(number), crowd, named);
    lock_take(&region_lock);
    if (made) {
        named->member = number & (MEMBER_VIEW - 1);
        named->done = 0;
        store_release(&named->wanted, load_acquire(&crowd->asking) ? crowd->wanted : 0);
        store_release(&named->generation, named->generation + 1);
        one_fewer(crowd);
    } else {
        spare_place(kind, place);
    }
    lock_release(&region_lock);
    return made ? named : NULL;
}

struct named *named_mine_further(struct heap *heap, memctx_t handle, const char *what) {
    struct named *crowd = named_my_crowd(heap, handle, what);
    if (!crowd)
        named_misused(what, handle, "was deleted, or its handle is invalid");
    return grow(handle, crowd);
}

struct view *named_view_of(struct heap *heap, const void *chunk) {
    uint32_t number = region_member_of(chunk);
    memctx_t handle = number ? named_handle(NAMED_MEMBER | number) : NULL;
    struct named *crowd = handle ? named_crowd_of(handle) : NULL, *grown = NULL;
    if (crowd && crowd->heap == heap)
        grown = grow(handle, crowd);
    return grown ? grown->view : region_named_view(heap, chunk);
}

memctx_t named_create(struct heap *heap, memctx_t parent, const char *name,
                      enum memctx_policy policy, unsigned flags, bool plain) {
    struct named *over = named_find(parent);
    if (policy >= sizeof placements || !name || flags & ~MEMCTX_FLAGS)
        return NULL;
    if (parent && !over && !named_crowd_of(parent))
        named_misused("memctx_create", parent, "was deleted, so it cannot be a parent");
    if (parent && !over && !(over = named_mine_further(heap, parent, "memctx_create")))
        return NULL;
    uint32_t above = over ? (uint32_t)tree_node(over->context)->address : 0;
    struct named *crowd =
        plain && policy == MEMCTX_ASET && (!over || over->heap == heap) && !options.check
            ? crowd_of_kind(heap, above, name)
            : NULL;
    memctx_t member = crowd ? create_member(heap, crowd) : NULL;
    if (member)
        return member;
    uint32_t place = take_place(above, name);
    if (!place)
        return NULL;
    struct named *named = named_at(place);
    begin(named, heap, policy);
    if (!make_node(heap, named, place, flags)) {
        give_place(place);
        return NULL;
    }
    store_release(&named->generation, named->generation + 1);
    return named_handle(place);
}

void named_end(struct heap *heap, struct named *named) {
    uint32_t place = (uint32_t)tree_node(named->context)->address;
    struct bins *region = named->view->region;
    if (region) {
        bins_release_empty(heap, region);
        serial_release_empty(region_of(region));
    }
    store_release(&named->generation, named->generation + 1);
    give_place(place);
}

bool named_limit_reached(uint32_t context, size_t bytes) {
    uint32_t place = (uint32_t)tree_node(context)->address;
    struct named *named = named_at(place);
    const struct memctx_limit *limit = named->limit;
    if (!limit || !limit->function)
        return false;
    named->limit = NULL;
    memctx_t handle = named_handle(place);
    const struct heap *owner = named->heap;
    bool again = limit->function(handle, bytes, limit->argument);
    if (!named_find(handle) || named->heap != owner)
        return false; /* the function deleted the context, or gave it away */
    named->limit = limit;
    return again;
}

/* The caller holds heap_global.lock, and the locks of heaps that are not its own. */
static bool move_crowd(struct named *crowd, struct heap *to) {
    struct view *view = heap_view_within(to, crowd->context, TABLES_UNCOUNTED);
    if (!view || view->context != crowd->context)
        return false;
    crowd->view = view;
    store_release(&crowd->heap, to);
    return true;
}

static bool move_to(struct named *named, struct heap *from, struct heap *to) {
    struct view *view = heap_view_within(to, named->context, TABLES_UNCOUNTED);
    if (!view || view->context != named->context)
        return false;
    region_move(from, named->view, to, view);
    named->view = view;
    store_release(&named->heap, to);
    return true;
}

/* Returns the shared heap with both locks held. NULL: not possible now, or no memory for the heap's
 * first view, which pays for everything that cannot be charged elsewhere. */
static struct heap *lock_both(void) {
    lock_take(&heap_global.lock);
    struct heap *shared = heap_shared_lock();
    if (shared && context_view_fixed(shared, TREE_UNKNOWN))
        return shared;
    if (shared)
        heap_shared_unlock(shared);
    lock_release(&heap_global.lock);
    return NULL;
}

static void unlock_both(struct heap *shared) {
    heap_shared_unlock(shared);
    lock_release(&heap_global.lock);
}

bool named_give(struct heap *heap, struct named *named) {
    struct heap *shared = lock_both();
    bool given = shared && move_to(named, heap, shared);
    if (shared)
        unlock_both(shared);
    return given;
}

void named_leave(struct heap *heap) {
    struct heap *shared = load_relaxed(&region_named_any) ? lock_both() : NULL;
    if (!shared)
        return;
    for (uint32_t i = 1; i < heap->view_count; i++) {
        const struct view *view = heap_view_at(heap, i);
        struct named *named = tree_is_named(view->context)
                                  ? named_at((uint32_t)tree_node(view->context)->address)
                                  : NULL;
        if (named && named->view == view && named->policy == NAMED_CROWD && named->members)
            (void)move_crowd(named, shared);
        else if (named && named->view == view && load_relaxed(&named->generation) & 1)
            (void)move_to(named, heap, shared); /* if memory is short, it stays with the heap */
    }
    unlock_both(shared);
}

bool named_take(struct heap *heap, struct named *named) {
    struct heap *shared = lock_both(), *owner = load_acquire(&named->heap);
    bool nobodys = owner == shared, taken = owner == heap;
    if (!shared)
        return false;
    if (nobodys)
        taken = move_to(named, owner, heap);
    heap_shared_unlock(shared);
    if (!nobodys && !taken && lock_try(&owner->lock)) {
        nobodys = load_acquire(&owner->state) == HEAP_PARKED;
        taken = nobodys && move_to(named, owner, heap);
        lock_release(&owner->lock);
    }
    lock_release(&heap_global.lock);
    if (!nobodys && !taken)
        named_misused("memctx_take", named_handle((uint32_t)tree_node(named->context)->address),
                      "belongs to another thread");
    return taken;
}

struct named *named_grow_of_nobody(memctx_t handle) {
    struct heap *shared = lock_both();
    if (!shared)
        return NULL;
    struct named *crowd = named_crowd_of(handle), *grown = NULL;
    struct heap *owner = crowd ? load_acquire(&crowd->heap) : NULL;
    bool nobodys = owner == shared;
    if (nobodys)
        grown = grow(handle, crowd);
    heap_shared_unlock(shared);
    if (owner && !nobodys && lock_try(&owner->lock)) { /* as named_take */
        nobodys = load_acquire(&owner->state) == HEAP_PARKED;
        grown = nobodys ? grow(handle, crowd) : NULL;
        lock_release(&owner->lock);
    }
    lock_release(&heap_global.lock);
    if (!nobodys)
        named_misused("memctx_take", handle, "belongs to another thread");
    return grown;
}

static uint32_t last_wish; /* control thread */

/* Returns how many this request asks: one context, or the members of a crowd. */
static uint32_t asked_by(const struct named *named) {
    if (named->policy == NAMED_CROWD)
        return load_acquire(&named->members);
    return load_relaxed(&named->generation) & 1;
}

static struct named *next_of_name(uint32_t *place, const char *name) {
    while (++*place < load_acquire(&named_count)) {
        struct named *named = named_at(*place);
        const char *its_name = load_acquire(&named->name);
        if (its_name && text_equal(its_name, name))
            return named;
    }
    return NULL;
}

void named_ask_reset(const char *name) {
    last_wish++;
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || !asked_by(named))
            continue;
        bool crowd = named->policy == NAMED_CROWD;
        if (crowd) {
            store_release(&named->done, 0);
            named->freed = 0;
        }
        store_release(&named->wanted, last_wish);
        if (crowd)
            store_release(&named->asking, 1);
    }
}

struct named_answers named_answers(const char *name) {
    struct named_answers answers = {0};
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || load_relaxed(&named->wanted) != last_wish || !last_wish)
            continue;
        if (named->policy == NAMED_CROWD) {
            uint32_t ended = load_acquire(&named->done);
            answers.asked += ended + (load_relaxed(&named->asking) ? asked_by(named) : 0);
            answers.done += ended;
            answers.freed_bytes += load_relaxed(&named->freed);
            continue;
        }
        bool done = load_acquire(&named->done) == last_wish;
        answers.asked++;
        answers.done += done;
        answers.freed_bytes += done ? load_relaxed(&named->freed) : 0;
    }
    return answers;
}

memctx_t named_first_child(memctx_t handle) {
    const struct named *named = named_find(handle);
    uint32_t child = named ? load_acquire(&named->first_child) : 0;
    return child ? named_handle(child) : NULL;
}

memctx_t named_next(memctx_t handle) {
    uint32_t next = load_acquire(next_of(named_place(handle)));
    return next ? named_handle(next) : NULL;
}

memctx_t named_parent(memctx_t handle) {
    const struct named *crowd = named_crowd_of(handle), *named = crowd ? NULL : named_find(handle);
    uint32_t parent = crowd ? crowd->made_below : named ? load_relaxed(&named->parent) : 0;
    return parent ? named_handle(parent) : NULL;
}

memctx_t named_owner(struct heap *heap, const void *chunk) {
    uint32_t number = region_member_of(chunk);
    memctx_t handle = number ? named_handle(NAMED_MEMBER | number) : NULL;
    const struct named *crowd = handle ? named_crowd_of(handle) : NULL;
    if (crowd)
        return crowd->heap == heap ? handle : NULL;
    const struct view *view = region_named_view(heap, chunk);
    return view ? named_handle((uint32_t)tree_node(view->context)->address) : NULL;
}

const char *named_name(uint32_t context) {
    return named_at((uint32_t)tree_node(context)->address)->name;
}

/* Returns the name of a context, even of a deleted one, except for members. NULL: not known. */
static const char *name_of(memctx_t handle) {
    uint32_t place = named_place(handle);
    const struct named *named = named_crowd_of(handle);
    if (place & NAMED_MEMBER)
        named = named ? named : named_grown(handle);
    else if (place && place < load_acquire(&named_count))
        named = named_at(place);
    return named ? named->name : NULL;
}

void named_misused(const char *what, memctx_t handle, const char *why) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    text_add(&text, "memctx: ");
    text_add(&text, what);
    text_add(&text, ": the context ");
    const char *name = name_of(handle);
    if (name) {
        text_add(&text, "\"");
        text_add(&text, name);
        text_add(&text, "\" ");
    }
    text_add(&text, why);
    text_add(&text, "\n");
    os_print(&text);
    misuse_explain(REGION_NO_CONTEXT, false);
    os_abort();
}
