/* SPDX-License-Identifier: MIT */
/*
 * mangled.h - reads the name of a C++ function, or of a Rust function in the older mangling, from
 * its symbol.
 *
 * The name has the form ns::type::function, without template arguments and parameters. A lambda in
 * ns::f is ns::f()::{lambda}::operator(). This code does not understand every symbol: it knows no
 * names with types in them (operator int), and only common expressions in template arguments.
 *
 * Threads: any; nothing is kept.
 */
#ifndef MEMCTX_RULES_MANGLED_H
#define MEMCTX_RULES_MANGLED_H

#include "base/text.h"

/* Adds the name of a symbol that begins with _Z. False: only the beginning of the name is
 * understood, and was added. */
bool mangled_read(const char *symbol, struct text *name);

#endif
