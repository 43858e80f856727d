/* SPDX-License-Identifier: MIT */
/*
 * dwarf_units.h - which source file the code of an object was compiled from, read from its debug information.
 *
 * For: rules that name a source file. What is told is the file that was given to the compiler: code that was inlined from a
 * header counts to the file that it was inlined into. Reads .debug_aranges, or, where there is none, units that are in one
 * piece. Cannot do: compressed sections; split debug information. Nothing in a damaged file is believed.
 *
 * Source: DWARF Debugging Information Format, versions 2 to 5, sections 6.1.2, 7.5 and 7.21.
 *
 * Threads: as elf_symbols.h.
 */
#ifndef MEMCTX_DWARF_UNITS_H
#define MEMCTX_DWARF_UNITS_H

#include "rules/elf_symbols.h"

/* Calls `visit` for every piece of code with the name of its source file, as the compiler was given it. False: nothing of the
 * kind could be read. */
bool dwarf_each_unit(const struct module *module, elf_function_visit *visit, void *context);

#endif
