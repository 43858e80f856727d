/* SPDX-License-Identifier: MIT */
/*
 * answer.h - the child process that reads a module's symbols sends the names through a pipe.
 *
 * An answer is one byte of enum symbols_source. Then each address of the request follows in turn:
 * its functions, inlined ones included, and an end mark. Then each pair of the request follows: the
 * number of its tail frames, and of each one the address and the functions, innermost first.
 */
#ifndef MEMCTX_ANSWER_H
#define MEMCTX_ANSWER_H

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
    SYMBOLS_SOURCES,
};

/* Writes one function of the address whose turn it is. NULL: no name, no file. */
void answer_put_function(FILE *answer, const char *name, const char *file, int64_t line);
/* Ends the functions of one address. */
void answer_put_end(FILE *answer);

#define ANSWER_TAILS_MAX 16 /* tail frames of one pair */
void answer_put_tails(FILE *answer, size_t count);
/* A module, and the address in its file behind a tail call. The functions of the tail frame follow.
 */
void answer_put_address(FILE *answer, uint32_t module, uint64_t address);
/* Return false if the stream is damaged or has ended. */
bool answer_get_tails(FILE *answer, size_t *count);
bool answer_get_address(FILE *answer, uint32_t *module, uint64_t *address);

/* Reads the functions of one address; *names is NULL if it has none. False: the stream is damaged
 * or has ended. */
bool answer_get_names(FILE *answer, struct model_names **names);

#endif
