/* SPDX-License-Identifier: MIT */
/*
 * answer.h - the format in which a child process, which reads a module's symbols, sends the names
 * to its parent through a pipe.
 *
 * An answer begins with one byte, an enum symbols_source. For each address of the request, it has
 * the functions, inlined ones included, and an end mark. For each pair of frames in the request, it
 * has the number of functions between the two that ended in a tail call (tail frames). The address
 * and the functions of each tail frame follow, innermost first.
 */
#ifndef MEMCTX_NAMES_ANSWER_H
#define MEMCTX_NAMES_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

/* Where a module's names came from, or why there are none. */
enum symbols_source {
    SYMBOLS_DWARF,
    SYMBOLS_SYMTAB,
    SYMBOLS_DYNSYM,
    SYMBOLS_STRIPPED, /* the file has no symbols at all */
    SYMBOLS_MISSING,  /* there is no file */
    SYMBOLS_MISMATCH, /* the file has another build-id */
    SYMBOLS_DAMAGED,
    SYMBOLS_KILLED, /* the child was killed, most likely because memory was short */
    SYMBOLS_SOURCES,
};

/* Writes one function of an address. Call it for the functions of an address in the order of struct
 * model_names, and for the addresses in the order of the request. `name` and `file` may be NULL. */
void answer_put_function(FILE *answer, const char *name, const char *file, int64_t line);
/* Ends the functions of one address. */
void answer_put_end(FILE *answer);

#define ANSWER_TAILS_MAX 16 /* greatest number of tail frames of one pair */
/* Writes the number of tail frames of a pair, at most ANSWER_TAILS_MAX. */
void answer_put_tails(FILE *answer, size_t count);
/* Writes the number of a tail frame's module, and the address behind its tail call in the module's
 * file. The functions of the tail frame must follow. */
void answer_put_address(FILE *answer, uint32_t module, uint64_t address);
/* Read what answer_put_tails and answer_put_address wrote. Return false if the stream is damaged or
 * has ended. */
bool answer_get_tails(FILE *answer, size_t *count);
bool answer_get_address(FILE *answer, uint32_t *module, uint64_t *address);

/* Reads the functions of one address; *names is NULL if it has none. False: the stream is damaged
 * or has ended. */
bool answer_get_names(FILE *answer, struct model_names **names);

#endif
