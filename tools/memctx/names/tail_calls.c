/* SPDX-License-Identifier: MIT */
/*
 * tail_calls.c - searches chains of tail calls.
 *
 * A tail call through a register may lead anywhere, and so may a tail call to a function without
 * DWARF. So a search that meets such a call has no answer. Calls into the C library are an
 * exception, because no function of the C library ends in a tail call to the program. The exception
 * does not hold if the last function of the chain belongs to the C library.
 */
#include "names/tail_calls.h"

#include "names/answer.h"
#include "names/call_graph.h"

#define SEARCH_NODES_MAX 64 /* functions that one search looks at */

/* --- the search -------------------------------------------------------------------------- */

/* The functions that a search has met. */
struct search {
    uint32_t nodes[SEARCH_NODES_MAX];
    /* leads[i]: a chain of tail calls leads from nodes[i] to the last function */
    bool leads[SEARCH_NODES_MAX];
    size_t count;
    uint32_t hint; /* module of the last function; GRAPH_NO_MODULE: it is the allocator */
};

/* Returns the index of a node in the search. Adds the node if it is new. Returns SEARCH_NODES_MAX
 * if there is no room. */
static size_t index_of(struct search *search, uint32_t node) {
    size_t i = 0;
    while (i < search->count && search->nodes[i] != node)
        i++;
    if (i == search->count && i < SEARCH_NODES_MAX)
        search->nodes[search->count++] = node;
    return i;
}

/* Adds the functions that the tail calls of a function lead to. Returns false if there are too
 * many. */
static bool add_tails(struct graph *graph, struct search *search, uint32_t number) {
    struct sites tails = graph->nodes[number].tails; /* a copy, because nodes may move */
    for (size_t i = 0; i < tails.count; i++)
        if (index_of(search, graph_resolve(graph, tails.items[i].target, search->hint)) ==
            SEARCH_NODES_MAX)
            return false;
    return true;
}

/* Adds to the search all functions that tail calls lead to. Returns false if a tail call of one of
 * them is not known, or if there are too many functions. Unknown tail calls of the last function,
 * and of functions behind it, do not matter: they put no function between the two frames. */
static bool meet_all(struct graph *graph, struct search *search, uint32_t last) {
    size_t i;
    for (i = 0; i < search->count; i++) {
        uint32_t number = search->nodes[i];
        if (number == NODE_ALLOCATOR || number == NODE_LIBC || number == last)
            continue;
        graph_read_node(graph, number);
        const struct node *node = &graph->nodes[number];
        if (!(last == NODE_ALLOCATOR ? node->complete_to_malloc : node->complete) ||
            !add_tails(graph, search, number))
            return false;
    }
    graph_read_node(graph, last);
    if (!add_tails(graph, search, last))
        return false;
    for (; i < search->count; i++) {
        graph_read_node(graph, search->nodes[i]);
        if (!add_tails(graph, search, search->nodes[i]))
            return false;
    }
    return true;
}

/* Returns true if a chain of tail calls leads from this function to the last one. */
static bool leads(struct graph *graph, struct search *search, uint32_t target) {
    return search->leads[index_of(search, graph_resolve(graph, target, search->hint))];
}

/* Marks all functions from which a chain leads to the last one. */
static void mark_leads(struct graph *graph, struct search *search, uint32_t last) {
    for (size_t i = 0; i < search->count; i++)
        search->leads[i] = search->nodes[i] == last;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < search->count; i++) {
            struct sites tails = graph->nodes[search->nodes[i]].tails;
            for (size_t k = 0; k < tails.count && !search->leads[i]; k++)
                changed |= search->leads[i] = leads(graph, search, tails.items[k].target);
        }
    }
}

/* Counts the tail calls of a function from which a chain leads to the last function; *found is set
 * to one of them. */
static size_t count_tails(struct graph *graph, struct search *search, uint32_t number,
                          struct site *found) {
    struct sites tails = graph->nodes[number].tails;
    size_t count = 0;
    for (size_t i = 0; i < tails.count; i++) {
        if (leads(graph, search, tails.items[i].target)) {
            *found = tails.items[i];
            count++;
        }
    }
    return count;
}

/* A function of a chain, and its tail call. */
struct link {
    uint32_t node;
    struct site tail;
};

/* Fills in the chain of tail calls from one of the `starts` to the function `last`, outermost
 * first. Returns the number of links; 0: there is no chain, or more than one. `hint`: module of the
 * last function (graph_resolve). */
static size_t find_chain(struct graph *graph, const struct targets *starts, uint32_t last,
                         uint32_t hint, struct link *chain) {
    struct search search = {.hint = hint};
    uint32_t at = NODE_UNKNOWN;
    size_t ways = 0, count = 0;
    struct site tail;
    for (size_t i = 0; i < starts->count; i++)
        index_of(&search, graph_resolve(graph, starts->nodes[i], hint));
    size_t start_count = search.count;
    if (last == NODE_UNKNOWN || !meet_all(graph, &search, last))
        return 0;
    mark_leads(graph, &search, last);
    for (size_t i = 0; i < start_count; i++) {
        if (search.leads[i]) {
            at = search.nodes[i];
            ways++;
        }
    }
    if (ways != 1)
        return 0;
    while (at != last) {
        if (count_tails(graph, &search, at, &tail) != 1 || count == ANSWER_TAILS_MAX)
            return 0;
        chain[count++] = (struct link){at, tail};
        at = graph_resolve(graph, tail.target, hint);
    }
    /* A chain from the last function back to itself would make a second chain. */
    return count_tails(graph, &search, last, &tail) == 0 ? count : 0;
}

/* --- the answer -------------------------------------------------------------------------- */

/* Writes a function of the chain. It has the line and the inlined functions of its tail call only
 * if a single tail call leads to the next function. */
static void put_link(struct graph *graph, const struct link *link, FILE *answer) {
    const struct node *node = &graph->nodes[link->node];
    struct names *names = graph_names(graph, node->module);
    uint64_t bias = names->dwarf_bias;
    uint64_t address = link->tail.several ? node->range.start + 1 : link->tail.address;
    answer_put_address(answer, node->module, address + bias);
    if (!link->tail.several) {
        code_put_names(names, address - 1, answer);
        return;
    }
    Dwarf_Die die = node->range.die;
    const struct range *symbol = code_find_range(&names->symbols, node->range.start + bias);
    char *name = code_function_name(&die, symbol ? symbol->name : NULL);
    answer_put_function(answer, name, NULL, 0);
    answer_put_end(answer);
}

/* Adds the functions that the call before the outer frame's return address may have called. */
static void find_starts(struct graph *graph, const struct symbols_pair *pair,
                        struct targets *starts) {
    struct names *names = graph_names(graph, pair->outer_module);
    if (!names || names->unit_ranges.count == 0)
        return;
    uint64_t address = pair->return_address - names->dwarf_bias;
    uint32_t outer = graph_node_at(graph, pair->outer_module, address - 1);
    graph_read_node(graph, outer);
    const struct sites *calls = &graph->nodes[outer].calls;
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].address == address)
            graph_add_target(starts, calls->items[i].target);
}

static size_t search_pair(struct graph *graph, const struct symbols_pair *pair,
                          struct link *chain) {
    struct targets starts = {.count = 0};
    find_starts(graph, pair, &starts);
    if (starts.count == 0)
        return 0;
    if (pair->inner == SYMBOLS_ALLOCATOR)
        return find_chain(graph, &starts, NODE_ALLOCATOR, GRAPH_NO_MODULE, chain);
    struct names *names = graph_names(graph, pair->inner_module);
    return names ? find_chain(
                       graph, &starts,
                       graph_node_at(graph, pair->inner_module, pair->inner - names->dwarf_bias),
                       pair->inner_module, chain)
                 : 0;
}

void tail_calls_answer(const struct tail_modules *modules, const struct symbols_pair *pairs,
                       size_t count, FILE *answer) {
    struct graph graph;
    struct link chain[ANSWER_TAILS_MAX];
    graph_begin(&graph, modules->count, modules->are_all, modules->open, modules->data);
    for (size_t i = 0; i < count; i++) {
        size_t links = search_pair(&graph, &pairs[i], chain);
        for (size_t k = 0; k < links; k++)
            links = graph.nodes[chain[k].node].module < modules->named ? links : 0;
        answer_put_tails(answer, links);
        while (links-- > 0)
            put_link(&graph, &chain[links], answer);
    }
}
