/* SPDX-License-Identifier: MIT */
/*
 * elf_code.h - the code of one ELF file: its symbols, and the functions that DWARF describes.
 *
 * elf_names.c reads both into sorted tables; call_graph.c and tail_calls.c look functions up in
 * them. Symbols have addresses of the file. All other addresses are DWARF's: the address of the
 * file less dwarf_bias.
 */
#ifndef MEMCTX_ELF_CODE_H
#define MEMCTX_ELF_CODE_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A range of code. Units and functions have a DIE; symbols have a name instead. */
struct range {
    uint64_t start, end;
    Dwarf_Die die;
    const char *name;
    int rank; /* for symbols: 2 global, 1 weak, 0 local, -1 without a size */
    uint32_t unit;
};

struct ranges {
    struct range *items;
    size_t count, capacity;
};

/* A unit of DWARF: the description of one compiled source file. */
struct unit {
    Dwarf_Die die;
    struct ranges functions;
    bool read;
};

struct names {
    Dwfl_Module *module;
    Dwarf_Addr dwarf_bias;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct ranges unit_ranges, symbols;
};

/* Returns the last range that begins at or before the address and contains it; NULL: none. */
const struct range *code_find_range(const struct ranges *ranges, uint64_t address);
/* Returns the range of the function at an address, with the number of its unit; NULL: none. */
const struct range *code_find_function(struct names *names, uint64_t address);
/* Returns the functions of a unit, each with all its ranges. */
const struct ranges *code_unit_functions(struct names *names, uint32_t unit);
/* Returns the readable name of a function. `symbol`: its name in the symbol table, or NULL. The
 * caller frees the name. */
char *code_function_name(Dwarf_Die *die, const char *symbol);
/* Writes the functions at an address into the answer, then the end mark. */
void code_put_names(struct names *names, uint64_t address, FILE *answer);

#endif
