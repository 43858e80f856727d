/* SPDX-License-Identifier: MIT */
/*
 * call_graph.h - which function of a module calls which, by ordinary calls and by tail calls.
 *
 * The functions of the module are the nodes. DWARF describes the call sites of each function that
 * was compiled with -O2 -g. A node's calls are read when graph_read_node asks for them, and once.
 */
#ifndef MEMCTX_CALL_GRAPH_H
#define MEMCTX_CALL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names/elf_code.h"

#define GRAPH_TARGETS_MAX 8 /* clones of one function */

/* A tail call of one function, or an ordinary call, which returns to `address`. */
struct site {
    uint64_t address; /* behind the call */
    uint32_t target;  /* number of a node */
    bool several;     /* several tail calls of the function lead to the target */
};

struct sites {
    struct site *items;
    size_t count, capacity;
};

struct node {
    uint64_t key;       /* of functions: unique in the module */
    struct range range; /* range.die.addr is NULL if the function is not in DWARF */
    struct sites calls, tails;
    bool read;
    bool complete;           /* `tails` has all tail calls, each with its target */
    bool complete_to_malloc; /* ... also those of the allocator, which clang does not describe */
};

/* Nodes that are no functions of this module. */
enum { NODE_ALLOCATOR, NODE_LIBC, NODE_UNKNOWN, NODES_FIXED };

struct instances;

struct graph {
    struct names *names;
    struct node *nodes;
    size_t count, capacity;
    uint32_t *slots; /* hash table of the nodes by key: number plus 1; 0: the slot is empty */
    size_t mask;
    struct instances *instances;  /* of each unit */
    const struct range **symbols; /* hash table of the global symbols by name */
    size_t symbol_mask;
    const char **libc; /* hash table of the names that the module takes from the C library */
    size_t libc_mask;
    bool is_program; /* false: a shared library, whose malloc gives way to the preloaded one */
};

/* The functions that one call site may call. */
struct targets {
    uint32_t nodes[GRAPH_TARGETS_MAX];
    size_t count;
};

void graph_begin(struct graph *graph, struct names *names);
/* Returns the node of the function at an address, or NODE_UNKNOWN. */
uint32_t graph_node_at(struct graph *graph, uint64_t address);
/* Reads the call sites of a node. The nodes may move. */
void graph_read_node(struct graph *graph, uint32_t number);
/* Adds a node to the targets, unless it is one of them. */
void graph_add_target(struct targets *targets, uint32_t node);

#endif
