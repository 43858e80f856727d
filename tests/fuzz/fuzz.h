/* SPDX-License-Identifier: MIT */
/* fuzz.h - functions that the targets for the command share. */
#ifndef MEMCTX_FUZZ_H
#define MEMCTX_FUZZ_H

/* Frees all that the command's functions have allocated since the last call of fuzz_forget. */
void fuzz_forget(void);
/* Stands for free in the command's functions, which are built for the targets. Does nothing. */
void fuzz_free(void *memory);
/* Runs the rules of doctor on a model, without looking up names. */
struct model;
void fuzz_examine(struct model *model);

#endif
