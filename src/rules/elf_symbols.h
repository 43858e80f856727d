/* SPDX-License-Identifier: MIT */
/*
 * elf_symbols.h - the functions of a mapped object, read from its file.
 *
 * For: finding out which code a name stands for, without asking the loader and without allocating.
 * Reads .symtab, of the file or of the separate debug file that its build-id names, else .dynsym.
 * Cannot do: functions that were inlined (they have no symbol), compressed symbol tables. What lies
 * in a damaged file is not believed: all offsets are checked before they are followed.
 *
 * Threads: the control thread, whose descriptors are its own.
 */
#ifndef MEMCTX_ELF_SYMBOLS_H
#define MEMCTX_ELF_SYMBOLS_H

#include "path/rules.h"

/* A function: its name, ended by a 0, and where it starts and ends in the file's own addresses
 * (address in the process - bias). */
typedef void elf_function_visit(const char *name, uint64_t start, uint64_t end, void *context);
/* Calls `visit` for every function. False: no symbols could be read. */
bool elf_each_function(const struct module *module, elf_function_visit *visit, void *context);

#endif
