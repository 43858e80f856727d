/* SPDX-License-Identifier: MIT */
/* fuzz.h - what the fuzzed functions of the command share. */
#ifndef MEMCTX_FUZZ_H
#define MEMCTX_FUZZ_H

/* Gives back what the command's functions allocated since the last time; their own frees do
 * nothing. */
void fuzz_forget(void);
void fuzz_free(void *memory);
/* What doctor does with a model, without the names. */
struct model;
void fuzz_examine(struct model *model);

#endif
