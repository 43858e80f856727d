/* SPDX-License-Identifier: MIT */
/*
 * tail_calls.h - finds the functions that a call path lacks, because they ended in a tail call.
 *
 * A function that ends in a tail call jumps to the next function, which then returns to the first
 * function's caller. So the first function has no return address on the stack. DWARF describes the
 * call sites of each function that was compiled with -O2 -g: the function that is called before a
 * return address, and the tail calls of each function. The functions between two frames are known
 * if exactly one chain of tail calls leads from the function that the outer frame calls to the
 * function of the inner frame. Otherwise the answer has no functions.
 *
 * Cost: each function's call sites are read once. A search looks at a bounded number of functions.
 * Only a child process calls this.
 */
#ifndef MEMCTX_TAIL_CALLS_H
#define MEMCTX_TAIL_CALLS_H

#include <stdio.h>

#include "names/elf_code.h"
#include "names/elf_names.h"

/* The modules that a search may look at. `open` opens a module when it is needed, and returns NULL
 * if the module cannot be read. A chain with a function outside of the first `named` modules is no
 * answer. */
struct tail_modules {
    uint32_t count, named;
    bool are_all; /* the list has all modules of the process */
    struct names *(*open)(void *data, uint32_t module);
    void *data;
};

/* Writes the tail frames between the two frames of each pair (answer.h). */
void tail_calls_answer(const struct tail_modules *modules, const struct symbols_pair *pairs,
                       size_t count, FILE *answer);

#endif
