/* SPDX-License-Identifier: MIT */
/*
 * tail_calls.c - searches chains of tail calls.
 *
 * A tail call through a register or into another library may lead anywhere. So a chain that a
 * search meets with such a call makes its answer unknown. Calls into the C library are the
 * exception, because it never ends in a tail call back into the program.
 */
#include "names/tail_calls.h"

#include "names/answer.h"
#include "names/call_graph.h"

#define SEARCH_NODES_MAX 64 /* functions that one search looks at */

/* --- the search -------------------------------------------------------------------------- */

/* The functions that a search has met. */
struct search {
    uint32_t nodes[SEARCH_NODES_MAX];
    bool leads[SEARCH_NODES_MAX]; /* a chain of tail calls leads from it to the last function */
    size_t count;
};

/* Returns the place of a node in the search, which is added; SEARCH_NODES_MAX: there is no room. */
static size_t place_of(struct search *search, uint32_t node) {
    size_t i = 0;
    while (i < search->count && search->nodes[i] != node)
        i++;
    if (i == search->count && i < SEARCH_NODES_MAX)
        search->nodes[search->count++] = node;
    return i;
}

/* Adds the functions that the tail calls of a function lead to. Returns false if there are too
 * many. */
static bool add_tails(const struct graph *graph, struct search *search, uint32_t number) {
    const struct sites *tails = &graph->nodes[number].tails;
    for (size_t i = 0; i < tails->count; i++)
        if (place_of(search, tails->items[i].target) == SEARCH_NODES_MAX)
            return false;
    return true;
}

/* Meets all functions that tail calls lead to. Returns false if one of them may lead anywhere, or
 * if there are too many. An unknown tail call of the last function itself does not matter, nor do
 * those behind it: they put no function between. */
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

/* Marks all functions from which a chain leads to the last one. */
static void mark_leads(const struct graph *graph, struct search *search, uint32_t last) {
    for (size_t i = 0; i < search->count; i++)
        search->leads[i] = search->nodes[i] == last;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < search->count; i++) {
            const struct sites *tails = &graph->nodes[search->nodes[i]].tails;
            for (size_t k = 0; k < tails->count && !search->leads[i]; k++)
                changed |= search->leads[i] =
                    search->leads[place_of(search, tails->items[k].target)];
        }
    }
}

/* Returns the only tail call of a function from which a chain leads to the last function; NULL:
 * there is none, or there are several. */
static const struct site *only_tail(const struct graph *graph, struct search *search,
                                    uint32_t number, size_t *count) {
    const struct sites *tails = &graph->nodes[number].tails;
    const struct site *found = NULL;
    *count = 0;
    for (size_t i = 0; i < tails->count; i++) {
        if (search->leads[place_of(search, tails->items[i].target)]) {
            found = &tails->items[i];
            ++*count;
        }
    }
    return *count == 1 ? found : NULL;
}

/* A function of a chain, and its tail call. */
struct link {
    uint32_t node;
    struct site tail;
};

/* Fills in the chain of tail calls from one of the starts to the last function, outermost first.
 * Returns the number of links; 0: there is no chain, or more than one. */
static size_t find_chain(struct graph *graph, const struct targets *starts, uint32_t last,
                         struct link *chain) {
    struct search search = {.count = 0};
    uint32_t at = NODE_UNKNOWN;
    size_t ways = 0, count = 0, tails;
    for (size_t i = 0; i < starts->count; i++)
        place_of(&search, starts->nodes[i]);
    if (last == NODE_UNKNOWN || !meet_all(graph, &search, last))
        return 0;
    mark_leads(graph, &search, last);
    for (size_t i = 0; i < starts->count; i++) {
        if (search.leads[i]) {
            at = starts->nodes[i];
            ways++;
        }
    }
    if (ways != 1)
        return 0;
    while (at != last) {
        const struct site *tail = only_tail(graph, &search, at, &tails);
        if (!tail || count == ANSWER_TAILS_MAX)
            return 0;
        chain[count++] = (struct link){at, *tail};
        at = tail->target;
    }
    /* A way from the last function back to itself would make a second chain. */
    only_tail(graph, &search, last, &tails);
    return tails == 0 ? count : 0;
}

/* --- the answer -------------------------------------------------------------------------- */

/* Writes a function of the chain: with the line and the inlined functions of its tail call if only
 * one of its tail calls leads on. */
static void put_link(struct graph *graph, const struct link *link, FILE *answer) {
    const struct range *function = &graph->nodes[link->node].range;
    uint64_t bias = graph->names->dwarf_bias;
    uint64_t address = link->tail.several ? function->start + 1 : link->tail.address;
    answer_put_address(answer, address + bias);
    if (!link->tail.several) {
        code_put_names(graph->names, address - 1, answer);
        return;
    }
    Dwarf_Die die = function->die;
    const struct range *symbol = code_find_range(&graph->names->symbols, function->start + bias);
    char *name = code_function_name(&die, symbol ? symbol->name : NULL);
    answer_put_function(answer, name, NULL, 0);
    answer_put_end(answer);
}

static size_t search_pair(struct graph *graph, const struct symbols_pair *pair,
                          struct link *chain) {
    uint64_t bias = graph->names->dwarf_bias, return_address = pair->return_address - bias;
    struct targets starts = {.count = 0};
    uint32_t outer = graph_node_at(graph, return_address - 1);
    graph_read_node(graph, outer);
    const struct sites *calls = &graph->nodes[outer].calls;
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].address == return_address)
            graph_add_target(&starts, calls->items[i].target);
    if (starts.count == 0)
        return 0;
    return find_chain(graph, &starts,
                      pair->inner == SYMBOLS_ALLOCATOR ? NODE_ALLOCATOR
                                                       : graph_node_at(graph, pair->inner - bias),
                      chain);
}

void tail_calls_answer(struct names *names, const struct symbols_request *request, FILE *answer) {
    if (!names->module || names->unit_ranges.count == 0) {
        for (size_t i = 0; i < request->pair_count; i++)
            answer_put_tails(answer, 0);
        return;
    }
    struct graph graph;
    struct link chain[ANSWER_TAILS_MAX];
    graph_begin(&graph, names);
    for (size_t i = 0; i < request->pair_count; i++) {
        size_t count = search_pair(&graph, &request->pairs[i], chain);
        answer_put_tails(answer, count);
        while (count-- > 0)
            put_link(&graph, &chain[count], answer);
    }
}
