/* SPDX-License-Identifier: MIT */
/*
 * elf_symbols.h - lists the functions of a mapped object, as its file names them.
 *
 * Purpose: to find the code of a function by its name without asking the loader and without
 * allocating. The names come from the .symtab of the file, else from the .symtab of the separate
 * debug file that the build-id names, else from the .dynsym of the file. This code cannot find
 * inlined functions, which have no symbol, and cannot read compressed symbol tables. It does not
 * trust the file: every offset is checked before it is followed.
 *
 * Threads: the control thread, whose descriptors are its own, or the constructor.
 */
#ifndef MEMCTX_ELF_SYMBOLS_H
#define MEMCTX_ELF_SYMBOLS_H

#include "path/unwind_rules.h"

/* Receives one function: its name, ended by a 0, and its start and end address in the file (the
 * address in the process, minus the object's bias). */
typedef void elf_function_visit(const char *name, uint64_t start, uint64_t end, void *context);
/* Calls `visit` for every function. False: no symbols could be read. */
bool elf_each_function(const struct module *module, elf_function_visit *visit, void *context);

#endif
