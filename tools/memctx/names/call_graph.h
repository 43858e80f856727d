/* SPDX-License-Identifier: MIT */
/*
 * call_graph.h - which function of a module calls which, by ordinary calls and by tail calls.
 *
 * The nodes are functions of modules. DWARF describes the call sites of each function that was
 * compiled with -O2 -g. The first graph_read_node of a node reads its call sites; modules are
 * opened when they are needed.
 */
#ifndef MEMCTX_CALL_GRAPH_H
#define MEMCTX_CALL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names/elf_code.h"

/* greatest number of clones of a function that one call site may call */
#define GRAPH_TARGETS_MAX 8

/* A call site: a tail call, or an ordinary call, which returns to `address`. */
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
    uint64_t key; /* identifies a function in its module */
    /* name of a function of another module: the node has no range and no sites; NULL: the node is a
     * function of `module` */
    const char *name;
    bool of_libc;       /* `name` is a function of the C library */
    uint32_t module;    /* number of the module that has the function or that names it */
    struct range range; /* range.die.addr is NULL if the function is not in DWARF */
    struct sites calls, tails;
    bool read;
    bool complete; /* `tails` has all tail calls, each with its target */
    /* `tails` has all tail calls to malloc and its family, too; clang does not describe these */
    bool complete_to_malloc;
};

/* Nodes that stand for no function of a module: malloc and its family; any function of the C
 * library; an unknown function. */
enum { NODE_ALLOCATOR, NODE_LIBC, NODE_UNKNOWN, NODES_FIXED };

/* A module, and tables for looking up its functions. */
struct graph_module {
    struct names *names; /* NULL: not opened yet, or it cannot be read */
    /* for each unit of DWARF: its functions, and the declaration or abstract function of each */
    struct instances *instances;
    const struct range **symbols; /* hash table of the global symbols by name */
    size_t symbol_mask;
    const char **libc; /* hash table of the names that the module takes from the C library */
    size_t libc_mask;
    bool is_program; /* false: a library; the preloaded malloc is called instead of its own */
    bool opened;
};

#define GRAPH_NO_MODULE UINT32_MAX

struct graph {
    struct graph_module *modules;
    uint32_t module_count;
    bool has_all; /* `modules` has all modules of the process */
    /* Opens a module when it is needed. Returns NULL if it cannot be read. */
    struct names *(*open)(void *data, uint32_t module);
    void *data;
    struct node *nodes;
    size_t count, capacity;
    uint32_t *slots; /* hash table of the nodes by key: number plus 1; 0: the slot is empty */
    size_t mask;
};

/* The functions that one call site may call. */
struct targets {
    uint32_t nodes[GRAPH_TARGETS_MAX];
    size_t count;
};

void graph_begin(struct graph *graph, uint32_t module_count, bool has_all,
                 struct names *(*open)(void *data, uint32_t module), void *data);
/* Returns the names of a module; NULL: it cannot be read. */
struct names *graph_names(struct graph *graph, uint32_t module);
/* Returns the node of the function at an address of a module's DWARF, or NODE_UNKNOWN. */
uint32_t graph_node_at(struct graph *graph, uint32_t module, uint64_t address);
/* Returns the node of the function that a node stands for. If the node only names a function of
 * another module, searches the module `hint`. Without a hint (GRAPH_NO_MODULE), searches all
 * modules of the process, if they are known, and finds the function only if one module has the
 * name. If a function is not found, returns NODE_LIBC for a function of the C library, and
 * NODE_UNKNOWN for any other one. */
uint32_t graph_resolve(struct graph *graph, uint32_t number, uint32_t hint);
/* Reads the call sites of a node, unless they have been read. graph->nodes may move. */
void graph_read_node(struct graph *graph, uint32_t number);
/* Adds a node to the targets, unless it is among them. If there is no room, NODE_UNKNOWN replaces
 * the first one, so a search knows that targets are missing. */
void graph_add_target(struct targets *targets, uint32_t node);

#endif
