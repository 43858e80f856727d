/* SPDX-License-Identifier: MIT */
/* answer_contexts.c - the records of contexts in an answer: figures, names, placement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outside/answer.h"

/* greatest number of views in a record: SUMS_HEAPS of src/figures/sums.h */
#define HEAPS_A_RECORD 128U
#define LABEL_BYTES 201U /* the library cuts labels at 200 bytes */

/* Returns the byte of a context in a table that is divided into leaves; 0: there is no leaf. */
static uint8_t read_byte(struct tables *tables, uint64_t leaves, uint32_t id) {
    uint32_t leaf = id / CONSTANT(tables, PLACED_PER_LEAF);
    uint64_t at = leaf < CONSTANT(tables, PLACED_LEAVES)
                      ? tables_word(tables, leaves + leaf * sizeof at, sizeof at)
                      : 0;
    return at ? (uint8_t)tables_word(tables, at + id % CONSTANT(tables, PLACED_PER_LEAF), 1) : 0;
}

static void add_named_label(struct tables *tables, uint64_t place, char label[LABEL_BYTES]) {
    uint32_t per_block = CONSTANT(tables, NAMED_PLACES_PER_BLOCK);
    char *named = cli_alloc(1, SIZE(tables, named)), name[LABEL_BYTES] = "", identifier[33] = "";
    uint64_t block =
        place / per_block < CONSTANT(tables, NAMED_BLOCKS)
            ? tables_word(tables, ADDRESS(tables, named_blocks) + place / per_block * sizeof block,
                          sizeof block)
            : 0;
    bool good = reach_read(&tables->reach, block + place % per_block * SIZE(tables, named), named,
                           SIZE(tables, named));
    uint64_t at_name = good ? FIELD(tables, named, named, name) : 0;
    if (!reach_read_text(&tables->reach, at_name, name, sizeof name) &&
        /* a longer name, of which the first bytes are shown */
        !reach_read(&tables->reach, at_name, name, sizeof name - 1)) {
        tables_miss(tables, "names of contexts", block);
        snprintf(label, LABEL_BYTES, "[name not readable]");
        free(named);
        return;
    }
    name[sizeof name - 1] = '\0';
    uint32_t bits = 0; /* the word behind the member `spare`; its lowest 8 bits are the policy */
    uint32_t at = OFFSET(tables, named, spare) + (uint32_t)sizeof bits;
    if (at + sizeof bits <= SIZE(tables, named))
        memcpy(&bits, named + at, sizeof bits);
    size_t room = tables->root.fields[OUTSIDE_named_identifier].bytes;
    memcpy(identifier, named + OFFSET(tables, named, identifier),
           room < sizeof identifier - 1 ? room : sizeof identifier - 1);
    bool alive = FIELD(tables, named, named, generation) & 1; /* odd: it exists */
    char whole[2 * LABEL_BYTES] = "";
    if ((bits & 255) == CONSTANT(tables, NAMED_CROWD))
        snprintf(whole, sizeof whole, "%s: its smallest contexts", name);
    else
        snprintf(whole, sizeof whole, "%s%s%s", name, alive && identifier[0] ? ": " : "",
                 alive ? identifier : "");
    memcpy(label, whole, LABEL_BYTES - 1); /* cuts a longer label */
    label[LABEL_BYTES - 1] = '\0';
    free(named);
}

/* Fills the parts of a record that come from the node, and writes its label. */
static void fill_node(struct tables *tables, uint32_t id, struct wire_context *out,
                      char label[LABEL_BYTES]) {
    /* as tree_fixed_label in src/context/tree.c */
    static const char *const labels[] = {"[process]",
                                         "[unknown]",
                                         "[unwinding]",
                                         "[truncated]",
                                         "[no unwind information]",
                                         "[broken stack]",
                                         "[no call paths]",
                                         "[other callers]"};
    const uint32_t last = sizeof labels / sizeof *labels - 1;
    const char *node = tables->nodes + id * SIZE(tables, tree_node);
    uint64_t module = FIELD(tables, node, tree_node, module);
    uint64_t flags = FIELD(tables, node, tree_node, flags);
    /* ids below this are fixed labels, which are children of the root */
    bool first = id < CONSTANT(tables, TREE_FIXED_COUNT);
    bool named = !first && module == CONSTANT(tables, MODULE_NAMED);
    bool fixed = first || module == CONSTANT(tables, MODULE_OTHERS);
    out->id = id;
    out->parent = id == 0 ? WIRE_NONE
                  : first ? 0
                          : (uint32_t)FIELD(tables, node, tree_node, parent);
    out->kind = id == 0 ? WIRE_KIND_ROOT
                : named ? WIRE_KIND_NAMED
                : fixed ? WIRE_KIND_UNKNOWN
                        : WIRE_KIND_PATH;
    out->exact_address = FIELD(tables, node, tree_node, exact) != 0;
    out->module = !fixed && module < tables->module_count ? (uint32_t)module : WIRE_NONE;
    out->address = named || fixed ? 0 : FIELD(tables, node, tree_node, address);
    out->placement =
        read_byte(tables, ADDRESS(tables, heap_placed), id) & CONSTANT(tables, PLACE_MASK);
    out->recursive_from = WIRE_NONE;
    out->flags = (flags & CONSTANT(tables, TREE_PARTIAL) ? WIRE_CONTEXT_PARTIAL : 0) |
                 (flags & CONSTANT(tables, TREE_LATE) ? WIRE_CONTEXT_LATE : 0) |
                 (flags & CONSTANT(tables, TREE_FOLDED) ? WIRE_CONTEXT_RECURSIVE : 0);
    label[0] = '\0';
    if (named)
        add_named_label(tables, FIELD(tables, node, tree_node, address), label);
    else if (fixed)
        snprintf(label, LABEL_BYTES, "%s", labels[id < last ? id : last]);
}

/* Returns the text of the rule that places a context; "" if there is none. */
static const char *rule_of(struct tables *tables, uint32_t id) {
    if (tables->rule_count == 0)
        return "";
    size_t rule = read_byte(tables, ADDRESS(tables, rules_matched_shown), id);
    return rule > 0 && rule <= tables->rule_count && tables->rules[rule - 1]
               ? tables->rules[rule - 1]
               : "";
}

/* Returns the index of a context's first view in tables->views, which is sorted by context. */
static size_t find_views(const struct tables *tables, uint32_t context) {
    size_t low = 0, high = tables->view_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tables->views[middle].context < context)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a record of a context. `threads`: with its views, HEAPS_A_RECORD in each group. Returns
 * false if the answer has no room for the record. */
static bool add_context(struct outside *outside, struct answer *answer, uint32_t id, uint32_t group,
                        bool threads) {
    struct tables *tables = &outside->tables;
    char label[LABEL_BYTES];
    uint32_t views = tables->views_of[id], first = group * HEAPS_A_RECORD;
    uint32_t part = !threads || views <= first       ? 0
                    : views - first < HEAPS_A_RECORD ? views - first
                                                     : HEAPS_A_RECORD;
    struct wire_context head = {0};
    fill_node(tables, id, &head, label);
    head.views = (uint16_t)part;
    head.holds = (views > 0 ? WIRE_CONTEXT_SUMS : 0) | (group > 0 ? WIRE_CONTEXT_FURTHER : 0);
    head.label_bytes = group == 0 && label[0] != '\0' ? (uint16_t)(strlen(label) + 1) : 0;
    const char *why = group == 0 ? rule_of(tables, id) : "";
    head.why_bytes = why[0] != '\0' ? (uint16_t)(strlen(why) + 1) : 0;
    size_t bytes = sizeof head + (views > 0 ? sizeof(struct wire_sums) : 0) +
                   part * sizeof(struct wire_view) + head.label_bytes + head.why_bytes;
    head.bytes = (uint16_t)((bytes + 7) & ~(size_t)7);
    char *at = answer_add_record(answer, bytes);
    if (!at)
        return false;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    const struct seen_view *seen = part > 0 ? &tables->views[find_views(tables, id) + first] : NULL;
    if (views > 0) {
        struct wire_sums sums = tables->sums[id];
        /* A record with views has the sums over these views alone. */
        if (threads)
            sums = (struct wire_sums){.peak_requested_bytes = WIRE_UNKNOWN};
        for (uint32_t i = 0; i < part; i++) {
            tables_add(&sums.requested_bytes, seen[i].sums.requested_bytes);
            tables_add(&sums.live_chunks, seen[i].sums.live_chunks);
            tables_add(&sums.allocs, seen[i].sums.allocs);
            tables_add(&sums.frees, seen[i].sums.frees);
            tables_add(&sums.requested_cum_bytes, seen[i].sums.requested_cum_bytes);
        }
        if (views == 1)
            sums.peak_requested_bytes = tables->sums[id].peak_requested_bytes;
        memcpy(at, &sums, sizeof sums);
        at += sizeof sums;
    }
    for (uint32_t i = 0; i < part; i++) {
        struct wire_view view = {.heap = seen[i].heap, .sums = seen[i].sums};
        memcpy(at, &view, sizeof view);
        at += sizeof view;
    }
    memcpy(at, label, head.label_bytes);
    memcpy(at + head.label_bytes, why, head.why_bytes);
    return true;
}

void answer_contexts(struct outside *outside, const struct wire_piece_request *request,
                     struct answer *answer) {
    const struct tables *tables = &outside->tables;
    bool threads = request->flags & WIRE_DUMP_THREADS;
    uint32_t group = (uint16_t)request->from;
    for (uint64_t id = request->from >> 16; id < tables->node_count; id++, group = 0) {
        if (!tables->exists[id])
            continue;
        uint32_t groups =
            threads ? (tables->views_of[id] + HEAPS_A_RECORD - 1) / HEAPS_A_RECORD : 1;
        for (; group < groups || group == 0; group++)
            if ((request->most > 0 && answer->count == request->most) ||
                !add_context(outside, answer, (uint32_t)id, group, threads)) {
                answer->next = WIRE_FROM_ID(id) | group;
                return;
            }
    }
}

static uint32_t parent_of(const struct tables *tables, uint32_t id) {
    const char *node = tables->nodes + id * SIZE(tables, tree_node);
    return id < CONSTANT(tables, TREE_FIXED_COUNT)
               ? 0
               : (uint32_t)FIELD(tables, node, tree_node, parent);
}

void answer_path(struct outside *outside, const struct wire_piece_request *request,
                 struct answer *answer) {
    const struct tables *tables = &outside->tables;
    uint32_t length = 1, told = (uint16_t)request->from;
    if (request->from >> 16 >= tables->node_count || !tables->exists[request->from >> 16])
        return;
    uint32_t id = (uint32_t)(request->from >> 16);
    /* check_nodes (tables.c) has seen that the id of a parent is less than its child's */
    for (uint32_t at = id; at != 0 && length < UINT16_MAX; at = parent_of(tables, at))
        length++;
    for (; told < length; told++) {
        uint32_t at = id;
        for (uint32_t up = length - 1 - told; up > 0; up--)
            at = parent_of(tables, at);
        if (!add_context(outside, answer, at, 0, false)) {
            answer->next = WIRE_FROM_ID(id) | told;
            return;
        }
    }
}
