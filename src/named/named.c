/* SPDX-License-Identifier: MIT */
/* named.c - the table of named contexts and their tree: create, end, children, names; see
 * named.h. */
#include "context/lookup.h"
#include "context/tree.h"
#include "named/internal.h"
#include "named/misuse.h"
#include "os/meta.h"
#include "region/hooks.h"
#include "region/region.h"
#include "region/terms.h"

static const struct region_hooks hooks = {.explain_misuse = misuse_explain,
                                          .explain_guarded = misuse_explain_guarded,
                                          .callers = misuse_callers,
                                          .tell_limit = misuse_tell_limit,
                                          .leave_named = named_leave};

void named_set_hooks(void) {
    if (!load_relaxed(&region_hooks))
        store_release(&region_hooks, &hooks);
}

struct named *named_blocks[NAMED_BLOCKS];
uint32_t named_count;

/* named_link of the first context without a parent. Under region_lock. */
static uint32_t first_top;

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

/* --- the tree of live contexts, under region_lock -------------------------------------------- */

/* `parent` is as in named.parent. */
static uint32_t *children_of(uint32_t parent) {
    if (parent & NAMED_MEMBER)
        return member_children(parent & ~NAMED_MEMBER);
    return parent ? &named_at(parent)->first_child : &first_top;
}

/* Returns the parent of a context that is given, and returned, as in named.parent. */
static uint32_t parent_of(uint32_t at) {
    return at & NAMED_MEMBER ? crowd_of_member(at & ~NAMED_MEMBER)->made_below
                             : named_at(at)->parent;
}

static uint32_t *next_of(uint32_t link) {
    return link & NAMED_MEMBER ? &member_at(link & ~NAMED_MEMBER)->next : &named_at(link)->next;
}

static uint32_t *prev_of(uint32_t link) {
    return link & NAMED_MEMBER ? &member_at(link & ~NAMED_MEMBER)->prev : &named_at(link)->prev;
}

void named_link_child(uint32_t link, uint32_t parent) {
    uint32_t *first = children_of(parent);
    *prev_of(link) = 0;
    *next_of(link) = *first;
    if (*first)
        *prev_of(*first) = link;
    store_release(first, link);
}

void named_unlink_child(uint32_t link, uint32_t parent) {
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
    for (uint32_t at = parent; at && !below; at = parent_of(at))
        below = at == place;
    if (!below) {
        named_unlink_child(named_link(place), named_at(place)->parent);
        named_link_child(named_link(place), parent);
        named_at(place)->parent = parent;
    }
    lock_release(&region_lock);
    if (below)
        named_misused("memctx_set_parent", named_handle(place),
                      "is the new parent, or an ancestor of it; it cannot be below itself");
}

/* --- making and ending ----------------------------------------------------------------------- */

static const uint8_t placements[] = {[MEMCTX_ASET] = PLACE_APART,
                                     [MEMCTX_SLAB] = PLACE_SLAB,
                                     [MEMCTX_GENERATION] = PLACE_GENERATION,
                                     [MEMCTX_BUMP] = PLACE_BUMP,
                                     [MEMCTX_SIMPLE] = PLACE_SIMPLE};

enum placement named_placement(uint32_t context) {
    unsigned policy = named_at((uint32_t)tree_node(context)->address)->policy;
    return policy < sizeof placements ? (enum placement)placements[policy] : PLACE_APART;
}

uint32_t named_take_place(struct kind *kind) {
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

void named_spare_place(struct kind *kind, uint32_t place) {
    kind->alive--;
    named_at(place)->member = 0;
    named_at(place)->spare = kind->spare;
    kind->spare = place;
}

struct kind *named_kind_of(uint32_t place) {
    /* the kind exists already, so this is never NULL */
    return kinds_get(named_at(place)->made_below, named_at(place)->name);
}

/* Takes a place for a new context of the kind `above`, `name`, and links the place below `member`,
 * which is or was a member of another thread's crowd, or below `above` if `member` is 0. The
 * context is not alive yet. 0: out of memory. */
static uint32_t take_place(uint32_t above, uint32_t member, const char *name) {
    lock_take(&region_lock);
    uint32_t parent = member ? crowd_parent(member) : above;
    uint32_t place = named_take_place(kinds_get(above, name));
    if (place) {
        named_at(place)->parent = parent;
        named_link_child(place, parent);
    }
    lock_release(&region_lock);
    return place;
}

static void give_place(uint32_t place) {
    lock_take(&region_lock);
    struct named *named = named_at(place);
    uint32_t link = named_link(place), wanted = load_relaxed(&named->wanted);
    /* A request for a reset may have come after the context's chunks were freed. The end of the
     * context answers it. */
    if (load_relaxed(&named->done) != wanted) {
        named->freed = 0;
        store_release(&named->done, wanted);
    }
    named_unlink_child(link, named->parent);
    if (link & NAMED_MEMBER)
        crowd_end_grown(named, link & ~NAMED_MEMBER);
    named_spare_place(named_kind_of(place), place);
    lock_release(&region_lock);
}

/* Returns the node below which a context's node is made. Readers of dumps rely on the fact that no
 * node is deeper than NAMED_LEVELS. So in a longer chain of contexts all deeper contexts have nodes
 * side by side at the last level. */
static uint32_t node_above(uint32_t made_below) {
    uint32_t above = made_below ? named_at(made_below)->context : TREE_ROOT;
    unsigned level = 0;
    for (uint32_t at = above; at != TREE_ROOT && level < NAMED_LEVELS; level++)
        at = tree_node(at)->parent;
    return level < NAMED_LEVELS ? above : tree_node(above)->parent;
}

bool named_make_node(struct heap *heap, struct named *named, uint32_t place, unsigned flags) {
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
    return (heap_placement(named->context) == placement ||
            heap_set_placement(named->context, placement)) &&
           terms_ask(named->context, flags) && region_make_named(heap, view, placement);
}

void named_prepare(struct named *named, struct heap *heap, enum memctx_policy policy) {
    named->policy = (uint8_t)policy;
    named->heap = heap;
    named->callbacks = NULL;
    named->limit = NULL;
    named->identifier[0] = 0;
}

struct named *named_mine_of_crowd(struct heap *heap, memctx_t handle, const char *what) {
    struct named *crowd = named_my_crowd(heap, handle, what);
    if (!crowd)
        named_misused(what, handle,
                      "was deleted, or its handle is invalid; a delete or reset of the parent "
                      "deletes it, too");
    return crowd_grow(handle, crowd);
}

/* Returns the view of the chunk's context, for a realloc; a member first grows into a context. NULL
 * if the chunk is in no named context of this heap, and always in the shared heap. */
static struct view *view_of(struct heap *heap, const void *chunk) {
    /* A thread that uses the shared heap does not own the contexts that belong to no thread, so its
     * realloc moves the chunk out of the context, as any other thread's realloc does. */
    if (load_relaxed(&heap->state) == HEAP_SHARED)
        return NULL;
    uint32_t number = region_member_of(chunk);
    memctx_t handle = number ? named_handle(NAMED_MEMBER | number) : NULL;
    struct named *crowd = handle ? named_crowd_of(handle) : NULL, *grown = NULL;
    if (crowd && crowd->heap == heap)
        grown = crowd_grow(handle, crowd);
    /* If the member cannot grow, because memory is short or its crowd belongs to another thread,
     * its chunk moves to the context of the call path that resizes it. The member then has no chunk
     * any more (MEMBER_HAD). */
    if (crowd)
        return grown ? grown->view : NULL;
    return region_named_view(heap, chunk);
}

struct view *context_view_kept(struct heap *heap, const void *chunk) {
    struct view *view = view_of(heap, chunk);
    if (!view && context_switched(heap)) {
        uint32_t context = region_context_of(chunk);
        if (context != REGION_NO_CONTEXT && !tree_is_named(context))
            view = heap_view(heap, context);
    }
    return view;
}

memctx_t named_create(struct heap *heap, memctx_t parent, const char *name,
                      enum memctx_policy policy, unsigned flags, bool plain) {
    /* named_crowd_of is called first: if another thread lets its member grow between the two calls,
     * named_find finds the context that the member has become. */
    struct named *over = named_crowd_of(parent);
    bool is_member = over != NULL;
    over = over ? over : named_find(parent);
    if (policy >= sizeof placements || !name || flags & ~MEMCTX_FLAGS)
        return NULL;
    if (parent && !over)
        named_misused("memctx_create", parent, "was deleted, so it cannot be a parent");
    bool mine = !over || over->heap == heap;
    if (is_member && mine && !(over = named_mine_of_crowd(heap, parent, "memctx_create")))
        return NULL;
    uint32_t above = over ? (uint32_t)tree_node(over->context)->address : 0;
    struct named *crowd = plain && policy == MEMCTX_ASET && mine && !options.check
                              ? crowd_of_kind(heap, above, name)
                              : NULL;
    memctx_t member = crowd ? crowd_create_member(heap, crowd) : NULL;
    if (member)
        return member;
    uint32_t is_one = mine ? 0 : named_place(parent) & NAMED_MEMBER;
    uint32_t place = take_place(above, is_one ? named_place(parent) & ~NAMED_MEMBER : 0, name);
    if (!place)
        return NULL;
    struct named *named = named_at(place);
    named_prepare(named, heap, policy);
    if (!named_make_node(heap, named, place, flags)) {
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

/* Stands for the limit of a context while the limit's function runs. It has no function, so a
 * nested allocation calls none. */
static const struct memctx_limit calling;

bool named_limit_reached(uint32_t context, size_t bytes) {
    uint32_t place = (uint32_t)tree_node(context)->address;
    struct named *named = named_at(place);
    const struct memctx_limit *limit = named->limit;
    if (!limit || !limit->function)
        return false;
    named->limit = &calling;
    memctx_t handle = named_handle(place);
    const struct heap *owner = named->heap;
    bool again = limit->function(handle, bytes, limit->argument);
    if (!named_find(handle)) /* the function deleted the context */
        return false;
    /* Puts the limit back, unless the function set another limit, or none. This is atomic, because
     * another thread may already use a context that the function gave away. */
    const struct memctx_limit *expected = &calling;
    cas_acq_rel(&named->limit, &expected, limit);
    return again && load_relaxed(&named->heap) == owner;
}

memctx_t named_first_child(memctx_t handle) {
    const struct named *named = named_find(handle);
    uint32_t child = 0;
    if (named)
        child = load_acquire(&named->first_child);
    else if (named_place(handle) & NAMED_MEMBER)
        child = load_acquire(member_children(named_place(handle) & ~NAMED_MEMBER));
    return child ? named_handle(child) : NULL;
}

memctx_t named_next(memctx_t handle) {
    uint32_t next = load_acquire(next_of(named_place(handle)));
    return next ? named_handle(next) : NULL;
}

uint32_t named_count_children(const struct named *named) {
    uint32_t count = 0;
    lock_take(&region_lock);
    for (uint32_t link = named->first_child; link; link = *next_of(link))
        count++;
    lock_release(&region_lock);
    return count;
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

/* Returns the name of a context. A deleted context has a name, a deleted member has none. NULL: the
 * name is not known. */
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
        text_add_word(&text, name, NAMED_SHOWN);
        text_add(&text, "\" ");
    }
    text_add(&text, why);
    text_add(&text, "\n");
    os_print(&text);
    misuse_explain(REGION_NO_CONTEXT, false);
    os_abort();
}

void named_not_mine(const char *what, memctx_t handle, const struct named *named) {
    uint32_t owner = load_relaxed(&load_acquire(&named->heap)->state);
    named_misused(what, handle,
                  owner == HEAP_SHARED || owner == HEAP_PARKED
                      ? "belongs to no thread; call memctx_take first"
                      : "belongs to another thread; use memctx_give there and memctx_take here");
}
