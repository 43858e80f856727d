/* SPDX-License-Identifier: MIT */
/*
 * tables.c - reads contexts, heaps, views and modules from the target's memory.
 *
 * Whole blocks of a table are copied at once. While the process runs on, two blocks are copied at
 * different moments, so sums may be off by the operations in between.
 */
#include "outside/tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEAPS_MAX (1U << 20)
#define HEAPS_TRIES 3 /* readings of all heaps, until none has moved figures to another */
#define PATH_MAX_BYTES 4096U

void tables_miss(struct tables *tables, const char *what, uint64_t address) {
    if (tables->missing++ == 0) {
        tables->missing_table = what;
        tables->missing_address = address;
    }
}

uint64_t tables_word(struct tables *tables, uint64_t address, size_t bytes) {
    uint64_t word = 0;
    if (!reach_read(&tables->reach, address, &word, bytes))
        word = 0;
    return word;
}

/* --- contexts -------------------------------------------------------------------------------- */

static void read_nodes(struct tables *tables) {
    uint32_t per_block = CONSTANT(tables, TREE_NODES_PER_BLOCK);
    uint32_t fixed = CONSTANT(tables, TREE_FIXED_COUNT);
    size_t size = SIZE(tables, tree_node);
    for (uint32_t first = 0; first < tables->node_count; first += per_block) {
        uint32_t count =
            tables->node_count - first < per_block ? tables->node_count - first : per_block;
        uint64_t block = tables_word(
            tables, ADDRESS(tables, tree_blocks) + first / per_block * sizeof block, sizeof block);
        if (first == 0 && count <= fixed)
            break;
        if (!reach_read_touched(&tables->reach, block, tables->nodes + first * size,
                                count * size)) {
            tables_miss(tables, "call paths", block);
            memset(tables->nodes + first * size, 0, count * size);
        }
    }
    if (!reach_read(&tables->reach, ADDRESS(tables, tree_fixed_nodes), tables->nodes,
                    fixed * size)) {
        tables_miss(tables, "call paths", ADDRESS(tables, tree_fixed_nodes));
        memset(tables->nodes, 0, fixed * size);
    }
}

/* Decides which nodes exist. A parent's id is less than its child's, so one pass is enough. */
static void check_nodes(struct tables *tables) {
    for (uint32_t id = 0; id < tables->node_count; id++) {
        const char *node = tables->nodes + id * SIZE(tables, tree_node);
        uint64_t module = FIELD(tables, node, tree_node, module);
        uint64_t parent = FIELD(tables, node, tree_node, parent);
        if (id < CONSTANT(tables, TREE_FIXED_COUNT)) {
            tables->exists[id] = true;
            continue;
        }
        if (FIELD(tables, node, tree_node, address) == 0 && module == 0)
            continue; /* the node was removed */
        tables->exists[id] = parent < id && tables->exists[parent];
        if (!tables->exists[id])
            tables_miss(tables, "call paths", FIELD(tables, node, tree_node, address));
    }
}

static bool read_contexts(struct tables *tables, const char *source, struct cli_failure *failure) {
    uint64_t most =
        (uint64_t)CONSTANT(tables, TREE_NODES_PER_BLOCK) * CONSTANT(tables, TREE_BLOCKS);
    uint64_t count = tables_word(tables, ADDRESS(tables, tree_count_shown), sizeof(uint32_t));
    if (count == 0) /* the library's constructor has not run */
        return cli_fail(
            failure, CLI_NO_TARGET,
            "%s: libmemctx.so has not begun to count; the process has just started; try "
            "again",
            source);
    if (count < CONSTANT(tables, TREE_FIXED_COUNT) || count > most)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the tree of call paths cannot be read; %" PRIu64
                        " contexts at 0x%" PRIx64
                        " make no sense; try again, or use another core file",
                        source, count, ADDRESS(tables, tree_count_shown));
    tables->node_count = (uint32_t)count;
    tables->nodes = cli_alloc(count, SIZE(tables, tree_node));
    tables->exists = cli_alloc(count, sizeof *tables->exists);
    tables->sums = cli_alloc(count, sizeof *tables->sums);
    tables->bases = cli_alloc(count, sizeof *tables->bases);
    tables->views_of = cli_alloc(count, sizeof *tables->views_of);
    read_nodes(tables);
    check_nodes(tables);
    return true;
}

/* --- heaps and views ------------------------------------------------------------------------- */

static struct seen_view *new_view(struct tables *tables) {
    if (tables->view_count == tables->view_room) {
        tables->view_room = 2 * tables->view_room + 256;
        tables->views = cli_grow(tables->views, tables->view_room, sizeof *tables->views);
    }
    return &tables->views[tables->view_count++];
}

/* Subtracts a view's counters at the last reset, and adds them to `bases` of the context. */
static void subtract_baseline(struct tables *tables, const char *heap, uint32_t index,
                              uint32_t context, struct wire_sums *sums) {
    uint64_t list = FIELD(tables, heap, heap, baselines);
    uint32_t per_block = CONSTANT(tables, BASELINES_PER_BLOCK);
    if (list == 0)
        return;
    char bytes[4096];
    uint64_t block = tables_word(tables, list + index / per_block * sizeof block, sizeof block);
    if (block == 0 || SIZE(tables, baseline) > sizeof bytes ||
        !reach_read(&tables->reach, block + index % per_block * SIZE(tables, baseline), bytes,
                    SIZE(tables, baseline)))
        return;
    uint64_t allocs = FIELD(tables, bytes, baseline, allocs),
             frees = FIELD(tables, bytes, baseline, frees),
             requested = FIELD(tables, bytes, baseline, requested_cum_bytes);
    struct wire_sums *base = &tables->bases[context];
    sums->allocs = (int64_t)((uint64_t)sums->allocs - allocs);
    sums->frees = (int64_t)((uint64_t)sums->frees - frees);
    sums->requested_cum_bytes = (int64_t)((uint64_t)sums->requested_cum_bytes - requested);
    base->allocs = (int64_t)((uint64_t)base->allocs + allocs);
    base->frees = (int64_t)((uint64_t)base->frees + frees);
    base->requested_cum_bytes = (int64_t)((uint64_t)base->requested_cum_bytes + requested);
}

static void add_sums(struct wire_sums *to, const struct wire_sums *from, uint32_t views) {
    tables_add(&to->requested_bytes, from->requested_bytes);
    tables_add(&to->live_chunks, from->live_chunks);
    tables_add(&to->allocs, from->allocs);
    tables_add(&to->frees, from->frees);
    tables_add(&to->requested_cum_bytes, from->requested_cum_bytes);
    to->peak_requested_bytes = views == 1 ? from->peak_requested_bytes : WIRE_UNKNOWN;
}

static void take_view(struct tables *tables, struct seen_heap *seen, const char *heap,
                      const char *view, uint32_t index) {
    uint32_t context = (uint32_t)FIELD(tables, view, view, context);
    uint64_t allocs = FIELD(tables, view, view, allocs), frees = FIELD(tables, view, view, frees);
    uint64_t bytes = FIELD(tables, view, view, requested_cum_bytes);
    seen->context_of[index] = context < tables->node_count ? context : 0;
    if (context == 0 || (allocs == 0 && frees == 0))
        return;
    if (context >= tables->node_count || !tables->exists[context])
        context = FIXED_UNKNOWN; /* a node that is being made, or a damaged one */
    struct wire_sums sums = {
        .requested_bytes = (int64_t)(bytes - FIELD(tables, view, view, freed_cum_bytes)),
        .live_chunks = (int64_t)(allocs - frees),
        .allocs = (int64_t)allocs,
        .frees = (int64_t)frees,
        .requested_cum_bytes = (int64_t)bytes,
        .peak_requested_bytes =
            seen->totals ? WIRE_UNKNOWN : (int64_t)FIELD(tables, view, view, peak_bytes)};
    subtract_baseline(tables, heap, index, context, &sums);
    add_sums(&tables->sums[context], &sums, ++tables->views_of[context]);
    *new_view(tables) = (struct seen_view){context, seen->number, sums};
}

static void read_views(struct tables *tables, struct seen_heap *seen, const char *heap) {
    uint32_t per_block = CONSTANT(tables, VIEWS_PER_BLOCK);
    size_t size = SIZE(tables, view);
    char *block = cli_alloc(per_block, size);
    for (uint32_t first = 0; first < seen->view_count; first += per_block) {
        uint32_t count =
            seen->view_count - first < per_block ? seen->view_count - first : per_block;
        uint64_t at;
        memcpy(&at, heap + OFFSET(tables, heap, views) + first / per_block * sizeof at, sizeof at);
        if (!reach_read_touched(&tables->reach, at, block, count * size)) {
            tables_miss(tables, "counters", at);
            continue;
        }
        for (uint32_t i = first == 0; i < count; i++)
            take_view(tables, seen, heap, block + i * size, first + i);
    }
    free(block);
}

/* Reads how often the heap's thread freed chunks of each other heap. */
static void read_freed_of(struct tables *tables, struct seen_heap *seen, const char *heap) {
    uint64_t count = FIELD(tables, heap, heap, freed_of_count);
    if (count == 0 || count > HEAPS_MAX)
        return;
    if (count > tables->room) {
        tables_miss(tables, "counts of remote frees", FIELD(tables, heap, heap, freed_of));
        return;
    }
    tables->room -= count;
    seen->freed_of = cli_alloc(count, sizeof *seen->freed_of);
    if (reach_read_touched(&tables->reach, FIELD(tables, heap, heap, freed_of), seen->freed_of,
                           count * sizeof *seen->freed_of))
        seen->freed_of_count = (uint32_t)count;
    else
        tables_miss(tables, "counts of remote frees", FIELD(tables, heap, heap, freed_of));
}

/* Counts the slices of the freed spans that a heap keeps for its next pages. */
static void read_span_cache(struct tables *tables, const char *heap) {
    uint64_t count = CONSTANT(tables, SPAN_CACHE_SPANS), each = CONSTANT(tables, SPAN_CACHE_EACH);
    const struct outside_place *place = &tables->root.fields[OUTSIDE_heap_span_cache];
    for (uint64_t i = 0; each > 0 && i < count && (i + 1) * sizeof(uint64_t) <= place->bytes; i++) {
        uint64_t span = 0;
        memcpy(&span, heap + place->offset + i * sizeof span, sizeof span);
        tables->cached_slices += span != 0 ? (int64_t)(i / each + 1) : 0;
    }
}

/* Reads one heap. Returns the address of the next heap of the list; 0: there is none, or the heap
 * is damaged. */
static uint64_t read_heap(struct tables *tables, uint64_t address, uint64_t totals, char *heap) {
    uint64_t most = (uint64_t)CONSTANT(tables, VIEWS_PER_BLOCK) * CONSTANT(tables, VIEW_BLOCKS);
    if (!reach_read_touched(&tables->reach, address, heap, SIZE(tables, heap))) {
        tables_miss(tables, "counters", address);
        return 0;
    }
    uint64_t views = FIELD(tables, heap, heap, view_count);
    uint64_t number = FIELD(tables, heap, heap, number);
    if (views > most || number > HEAPS_MAX || views >= tables->room) {
        tables_miss(tables, "counters", address);
        return 0;
    }
    tables->room -= views + 1;
    if ((tables->heap_count & (tables->heap_count - 1)) == 0)
        tables->heaps = cli_grow(tables->heaps, 2 * tables->heap_count + 1, sizeof *tables->heaps);
    struct seen_heap *seen = &tables->heaps[tables->heap_count];
    *seen = (struct seen_heap){.address = address,
                               .listed = (uint32_t)tables->heap_count++,
                               .number = (uint32_t)number,
                               .tid = (uint32_t)FIELD(tables, heap, heap, tid),
                               .view_count = (uint32_t)views,
                               .resizes_at = FIELD(tables, heap, heap, resizes),
                               .totals = address == totals,
                               .context_of = cli_alloc(views + 1, sizeof(uint32_t))};
    read_views(tables, seen, heap);
    read_freed_of(tables, seen, heap);
    read_span_cache(tables, heap);
    return FIELD(tables, heap, heap, next);
}

static int compare_views(const void *a, const void *b) {
    const struct seen_view *one = a, *other = b;
    if (one->context != other->context)
        return one->context < other->context ? -1 : 1;
    return one->heap < other->heap ? -1 : one->heap > other->heap;
}

/* Adds up several views of one context in one heap. [unknown] may have them: take_view charges the
 * views of nodes that do not exist to it. */
static void join_views(struct tables *tables) {
    size_t kept = 0;
    for (size_t i = 0; i < tables->view_count; i++) {
        struct seen_view *view = &tables->views[i];
        struct seen_view *last = kept > 0 ? &tables->views[kept - 1] : NULL;
        if (last && last->context == view->context && last->heap == view->heap) {
            add_sums(&last->sums, &view->sums, 2);
            tables->views_of[view->context]--;
        } else {
            tables->views[kept++] = *view;
        }
    }
    tables->view_count = kept;
}

static int compare_heaps(const void *a, const void *b) {
    const struct seen_heap *one = a, *other = b;
    return one->address < other->address ? -1 : one->address > other->address;
}

/* Fills tables->order. Called after the heaps were sorted by address. */
static void order_heaps(struct tables *tables) {
    size_t count = tables->heap_count, kept = 0;
    tables->order = cli_alloc(count + 1, sizeof *tables->order);
    uint32_t *listed = cli_alloc(count + 1, sizeof *listed);
    for (uint32_t i = 0; i < count; i++)
        listed[tables->heaps[i].listed] = i;
    for (size_t i = 0; i < count; i++)
        if (tables->heaps[listed[i]].number != 0)
            tables->order[kept++] = listed[i];
    for (size_t i = 0; i < count; i++)
        if (tables->heaps[listed[i]].number == 0)
            tables->order[kept++] = listed[i];
    free(listed);
}

static void forget_heaps(struct tables *tables) {
    for (size_t i = 0; i < tables->heap_count; i++) {
        free(tables->heaps[i].context_of);
        free(tables->heaps[i].freed_of);
    }
    free(tables->heaps);
    free(tables->views);
    tables->heaps = NULL;
    tables->views = NULL;
    tables->heap_count = tables->view_count = tables->view_room = 0;
}

/* Reads all heaps. `global`: a copy of heap_global. */
static void read_list(struct tables *tables, const char *global) {
    char *heap = cli_alloc(1, SIZE(tables, heap));
    uint64_t totals = FIELD(tables, global, heap_global, totals);
    uint64_t next = FIELD(tables, global, heap_global, first);
    /* Heaps may be added while the list is read. */
    uint64_t most = FIELD(tables, global, heap_global, heaps) + 64;
    tables->lost_views = FIELD(tables, global, heap_global, lost_views);
    uint64_t earlier = 0; /* a heap that was read; a damaged list may lead back to it */
    while (next != 0 && tables->heap_count < most && tables->heap_count < HEAPS_MAX) {
        if ((tables->heap_count & (tables->heap_count - 1)) == 0)
            earlier = next;
        next = read_heap(tables, next, totals, heap);
        if (next == earlier && next != 0) {
            tables_miss(tables, "the list of heaps", next);
            break;
        }
    }
    free(heap);
}

/* True if figures may have moved from one heap to another between two copies of heap_global. A
 * thread that moves figures holds the lock. A thread that ends adds 1 to `parked`; a thread that
 * gets a heap adds 1 to `threads_seen`, and subtracts 1 from `parked` if the heap was parked. A
 * heap that is retired subtracts 1 from `parked` and from `heaps`. */
static bool have_moved(const struct tables *tables, const char *before, const char *after) {
#define CHANGED(field)                                                                             \
    (FIELD(tables, before, heap_global, field) != FIELD(tables, after, heap_global, field))
    return FIELD(tables, before, heap_global, lock) != 0 ||
           FIELD(tables, after, heap_global, lock) != 0 || CHANGED(parked) ||
           CHANGED(threads_seen) || CHANGED(heaps);
#undef CHANGED
}

static bool read_heaps(struct tables *tables, const char *source, struct cli_failure *failure) {
    const struct tables empty = *tables;
    size_t size = SIZE(tables, heap_global);
    char *before = cli_alloc(1, size), *after = cli_alloc(1, size);
    int tries = tables->reach.is_core ? 1 : HEAPS_TRIES;
    bool good = true;
    tables->moved = true;
    for (int i = 0; i < tries && tables->moved && good; i++) {
        forget_heaps(tables);
        *tables = empty;
        memset(tables->sums, 0, tables->node_count * sizeof *tables->sums);
        memset(tables->bases, 0, tables->node_count * sizeof *tables->bases);
        memset(tables->views_of, 0, tables->node_count * sizeof *tables->views_of);
        good = reach_read(&tables->reach, ADDRESS(tables, heap_global), before, size);
        if (good)
            read_list(tables, before);
        good = good && reach_read(&tables->reach, ADDRESS(tables, heap_global), after, size);
        tables->moved = good && have_moved(tables, before, after);
    }
    free(before);
    free(after);
    if (!good)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the list of heaps at 0x%" PRIx64
                        " cannot be read; try again, or use another core file",
                        source, ADDRESS(tables, heap_global));
    if (tables->view_count > 0)
        qsort(tables->views, tables->view_count, sizeof *tables->views, compare_views);
    join_views(tables);
    if (tables->heap_count > 0)
        qsort(tables->heaps, tables->heap_count, sizeof *tables->heaps, compare_heaps);
    order_heaps(tables);
    return true;
}

const struct seen_heap *tables_heap_at(struct tables *tables, uint64_t address) {
    if (tables->heap_last < tables->heap_count &&
        tables->heaps[tables->heap_last].address == address)
        return &tables->heaps[tables->heap_last];
    struct seen_heap key = {.address = address};
    const struct seen_heap *found =
        tables->heap_count > 0
            ? bsearch(&key, tables->heaps, tables->heap_count, sizeof key, compare_heaps)
            : NULL;
    if (found)
        tables->heap_last = (size_t)(found - tables->heaps);
    return found;
}

/* --- modules --------------------------------------------------------------------------------- */

static void take_module(struct tables *tables, const char *module) {
    char path[PATH_MAX_BYTES];
    size_t i = tables->module_count++;
    struct wire_module *out = &tables->modules[i];
    *out = (struct wire_module){.start = FIELD(tables, module, module, start),
                                .end = FIELD(tables, module, module, end),
                                .bias = FIELD(tables, module, module, bias),
                                .index = (uint32_t)i,
                                .closed = FIELD(tables, module, module, closed) != 0};
    uint64_t bytes = FIELD(tables, module, module, build_id_bytes);
    uint32_t there = tables->root.fields[OUTSIDE_module_build_id].bytes;
    if (bytes <= sizeof out->build_id && bytes <= there) {
        out->build_id_bytes = (uint32_t)bytes;
        memcpy(out->build_id, module + OFFSET(tables, module, build_id), bytes);
    }
    uint64_t at = FIELD(tables, module, module, path);
    if (!reach_read_text(&tables->reach, at, path, sizeof path) || path[0] == '\0') {
        /* The kernel leaves read-only data of a file out of a core file, and the library does not
         * know the program's path without /proc. But the list of mapped files has the path. */
        path[0] = '\0';
        const struct reach *reach = &tables->reach;
        for (size_t m = 0; m < reach->mapping_count && path[0] == '\0'; m++)
            if (reach->mappings[m].start <= out->start && out->start < reach->mappings[m].end)
                snprintf(path, sizeof path, "%s", reach->mappings[m].name);
        if (path[0] == '\0')
            tables_miss(tables, "names of files", at);
    }
    tables->paths[i] = cli_copy(path);
}

static void read_modules(struct tables *tables) {
    uint64_t count =
        tables_word(tables, ADDRESS(tables, unwind_rules_count_shown), sizeof(uint32_t));
    size_t size = SIZE(tables, module);
    if (count > CONSTANT(tables, MODULES_MAX))
        count = 0;
    char *modules = cli_alloc(count + 1, size);
    tables->modules = cli_alloc(count + 1, sizeof *tables->modules);
    tables->paths = cli_alloc(count + 1, sizeof *tables->paths);
    if (!reach_read(&tables->reach, ADDRESS(tables, unwind_rules_shown), modules, count * size)) {
        tables_miss(tables, "the list of mapped objects", ADDRESS(tables, unwind_rules_shown));
        count = 0;
    }
    for (uint64_t i = 0; i < count; i++)
        take_module(tables, modules + i * size);
    free(modules);
}

bool tables_read(struct tables *tables, const char *source, struct cli_failure *failure) {
    tables_forget(tables);
    tables->room = TABLES_RECORDS_MOST;
    if (!read_contexts(tables, source, failure) || !read_heaps(tables, source, failure))
        return false;
    read_modules(tables); /* after the contexts, so that no module of a context is missing */
    tables_read_records(tables);
    return true;
}

void tables_forget(struct tables *tables) {
    tables_forget_records(tables);
    forget_heaps(tables);
    for (size_t i = 0; i < tables->module_count; i++)
        free(tables->paths[i]);
    free(tables->nodes);
    free(tables->exists);
    free(tables->sums);
    free(tables->bases);
    free(tables->views_of);
    free(tables->order);
    free(tables->modules);
    free(tables->paths);
    free(tables->pages);
    free(tables->shares);
    struct reach reach = tables->reach;
    struct outside_root root = tables->root;
    *tables = (struct tables){.reach = reach, .root = root};
}
