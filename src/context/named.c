/* SPDX-License-Identifier: MIT */
/* Named contexts; see named.h. */
#include "context/named.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "os/meta.h"
#include "region/region.h"
#include "region/terms.h"

struct named *named_blocks[NAMED_BLOCKS];
uint32_t named_count;

/* Contexts of one name below one parent: the places that were given up. They stay where they are; the table that finds them
 * doubles when it is half full, and has all that this takes: some ns an entry, and its own first touch. */
#define KINDS_PER_BLOCK 1024U
struct kind {
    const char *name;
    uint32_t parent, spare;
};
struct kind_slot {
    uint32_t hash, number; /* from 1 on; 0: empty */
};
static struct {
    struct kind *blocks[NAMED_BLOCKS];
    struct kind_slot *table;
    uint32_t mask, count;
    uint32_t first_top; /* of the contexts without a parent */
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

/* Where it stands, or would stand. */
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

/* A new one; 0: out of memory, or there are too many. */
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

/* The kind, made when missing. NULL: out of memory. */
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

/* --- the tree of those that are alive, under region_lock ---------------------------------------------- */

static uint32_t *children_of(uint32_t parent) {
    return parent ? &named_at(parent)->first_child : &kinds.first_top;
}

static void link_child(uint32_t place, uint32_t parent) {
    struct named *named = named_at(place);
    uint32_t *first = children_of(parent);
    named->parent = parent;
    named->prev = 0;
    named->next = *first;
    if (*first)
        named_at(*first)->prev = place;
    *first = place;
}

static void unlink_child(uint32_t place) {
    struct named *named = named_at(place);
    if (named->prev)
        named_at(named->prev)->next = named->next;
    else
        *children_of(named->parent) = named->next;
    if (named->next)
        named_at(named->next)->prev = named->prev;
    named->next = named->prev = named->parent = 0;
}

void named_set_parent(uint32_t place, uint32_t parent) {
    bool below = false;
    lock_take(&region_lock);
    for (uint32_t at = parent; at && !below; at = named_at(at)->parent)
        below = at == place;
    if (!below) {
        unlink_child(place);
        link_child(place, parent);
    }
    lock_release(&region_lock);
    if (below)
        named_misused("memctx_set_parent", named_handle(place), "is the new parent, or above it");
}

/* --- making and ending ------------------------------------------------------------------------------- */

static const uint8_t placements[] = {[MEMCTX_ASET] = PLACE_APART,
                                     [MEMCTX_SLAB] = PLACE_SLAB,
                                     [MEMCTX_GENERATION] = PLACE_GENERATION,
                                     [MEMCTX_BUMP] = PLACE_BUMP,
                                     [MEMCTX_SIMPLE] = PLACE_SIMPLE};

/* A place for it, in the tree, but not alive yet. 0: out of memory. */
static uint32_t take_place(uint32_t parent, const char *name) {
    lock_take(&region_lock);
    struct kind *kind = kind_of(parent, name);
    uint32_t place = kind ? kind->spare : 0;
    if (place) {
        kind->spare = named_at(place)->spare;
    } else if (kind && (place = new_place())) {
        named_at(place)->made_below = parent;
        store_release(&named_at(place)->name, kind->name);
    }
    if (place)
        link_child(place, parent);
    lock_release(&region_lock);
    return place;
}

static void give_place(uint32_t place) {
    struct named *named = named_at(place);
    lock_take(&region_lock);
    unlink_child(place);
    struct kind *kind = kind_of(named->made_below, named->name); /* is there */
    named->spare = kind->spare;
    kind->spare = place;
    lock_release(&region_lock);
}

/* Of a context below that node: a chain that is longer goes on side by side, so that readers of dumps may rely on it. */
static uint32_t node_above(uint32_t made_below) {
    uint32_t above = made_below ? named_at(made_below)->context : TREE_ROOT;
    unsigned level = 0;
    for (uint32_t at = above; at != TREE_ROOT && level < NAMED_LEVELS; level++)
        at = tree_node(at)->parent;
    return level < NAMED_LEVELS ? above : tree_node(above)->parent;
}

static bool make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags) {
    if (!named->context)
        named->context = tree_child(
            node_above(named->made_below),
            (struct tree_frame){.address = place, .module = MODULE_NAMED, .exact = true});
    if (!named->context)
        return false;
    struct view *view = heap_view(heap, named->context);
    if (!view || view->context != named->context)
        return false;
    named->view = view;
    enum placement placement = (enum placement)placements[named->policy];
    return (heap_placement(named->context) == placement || heap_place(named->context, placement)) &&
           terms_ask(named->context, flags) && region_make_named(heap, view, placement);
}

memctx_t named_create(struct heap *heap, memctx_t parent, const char *name,
                      enum memctx_policy policy, unsigned flags) {
    uint32_t above = named_place(parent);
    if (policy >= sizeof placements || !name || flags & ~MEMCTX_FLAGS)
        return NULL;
    if (above && !named_find(parent))
        named_misused("memctx_create", parent, "is the parent, and was deleted");
    uint32_t place = take_place(above, name);
    if (!place)
        return NULL;
    struct named *named = named_at(place);
    named->policy = policy;
    named->heap = heap;
    named->callbacks = NULL;
    named->limit = NULL;
    named->identifier[0] = 0;
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
        return false; /* it deleted the context, or gave it away */
    named->limit = limit;
    return again;
}

/* Under heap_global.lock, and those of heaps that are not the caller's. */
static bool move_to(struct named *named, struct heap *from, struct heap *to) {
    struct view *view = heap_view(to, named->context);
    if (!view || view->context != named->context)
        return false;
    region_move(from, named->view, to, view);
    named->view = view;
    store_release(&named->heap, to);
    return true;
}

/* The shared heap with both locks; NULL: not now, or no memory for its first view, which stands for what cannot be accounted
 * elsewhere. */
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

void heap_leave_named(struct heap *heap) {
    struct heap *shared = load_relaxed(&region_named_any) ? lock_both() : NULL;
    if (!shared)
        return;
    for (uint32_t i = 1; i < heap->view_count; i++) {
        const struct view *view = heap_view_at(heap, i);
        struct named *named = tree_is_named(view->context)
                                  ? named_at((uint32_t)tree_node(view->context)->address)
                                  : NULL;
        if (named && named->view == view && load_relaxed(&named->generation) & 1)
            (void)move_to(named, heap, shared); /* without memory it stays with the heap */
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

static uint32_t last_wish; /* control thread */

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
        if (named && load_relaxed(&named->generation) & 1)
            store_release(&named->wanted, last_wish);
    }
}

struct named_answers named_answers(const char *name) {
    struct named_answers answers = {0};
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || load_relaxed(&named->wanted) != last_wish || !last_wish)
            continue;
        bool done = load_acquire(&named->done) == last_wish;
        answers.asked++;
        answers.done += done;
        answers.freed_bytes += done ? load_relaxed(&named->freed) : 0;
    }
    return answers;
}

memctx_t named_first_child(const struct named *named) {
    uint32_t child = load_acquire(&named->first_child);
    return child ? named_handle(child) : NULL;
}

memctx_t named_next(const struct named *named) {
    uint32_t next = load_acquire(&named->next);
    return next ? named_handle(next) : NULL;
}

memctx_t named_owner(struct heap *heap, const void *chunk) {
    const struct view *view = region_named_view(heap, chunk);
    return view ? named_handle((uint32_t)tree_node(view->context)->address) : NULL;
}

const char *named_name(uint32_t context) {
    return named_at((uint32_t)tree_node(context)->address)->name;
}

void named_misused(const char *what, memctx_t handle, const char *why) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    uint32_t place = named_place(handle);
    text_add(&text, "memctx: ");
    text_add(&text, what);
    text_add(&text, ": the context ");
    if (place && place < load_acquire(&named_count)) {
        text_add(&text, "\"");
        text_add(&text, named_at(place)->name);
        text_add(&text, "\" ");
    }
    text_add(&text, why);
    text_add(&text, "\n");
    os_print(&text);
    misuse_explain(REGION_NO_CONTEXT, false);
    os_abort();
}
