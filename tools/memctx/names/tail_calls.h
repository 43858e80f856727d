/* SPDX-License-Identifier: MIT */
/*
 * tail_calls.h - finds the functions that a call path lacks, because they ended in a tail call.
 *
 * A function that ends in a tail call jumps to the next function, which then returns to the first
 * function's caller. So the first function has no return address on the stack. DWARF describes the
 * call sites of each function that was compiled with -O2 -g: the function called at a return
 * address, and the tail calls of each function. The functions between are known if exactly one
 * chain of tail calls leads from the function that the outer frame calls to the function of the
 * inner frame. Otherwise the answer is that no function is known.
 *
 * Cost: each function's call sites are read once in a module. A search looks at a bounded number of
 * functions. Only the child process that reads a module calls this.
 */
#ifndef MEMCTX_TAIL_CALLS_H
#define MEMCTX_TAIL_CALLS_H

#include <stdio.h>

#include "names/elf_code.h"
#include "names/elf_names.h"

/* Writes the tail frames between the two frames of each pair of the request (answer.h). */
void tail_calls_answer(struct names *names, const struct symbols_request *request, FILE *answer);

#endif
