/* SPDX-License-Identifier: MIT */
/*
 * elf_symbols.h - lists the functions of a mapped object, as its file names them.
 *
 * Purpose: to find the code of a function by its name without asking the loader and without
 * allocating. It reads .symtab from the file or from the separate debug file that the build-id
 * names, and .dynsym when there is no .symtab. It cannot find inlined functions, which have no
 * symbol, and cannot read compressed symbol tables. It does not trust the file: every offset is
 * checked before it is followed.
 *
 * Threads: the control thread, whose descriptors are its own.
 */
#ifndef MEMCTX_ELF_SYMBOLS_H
#define MEMCTX_ELF_SYMBOLS_H

#include "path/unwind_rules.h"

/* Receives one function: its name, ended by a 0, and its first and end address as the file has them
 * (address in the process - bias). */
typedef void elf_function_visit(const char *name, uint64_t start, uint64_t end, void *context);
/* Calls `visit` for every function. False: no symbols could be read. */
bool elf_each_function(const struct module *module, elf_function_visit *visit, void *context);

#endif
