/* SPDX-License-Identifier: MIT */
/* fuzz.h - functions that the targets for the command share. */
#ifndef MEMCTX_FUZZ_H
#define MEMCTX_FUZZ_H

/* fuzz_forget() frees all that the command's functions have allocated since its last call.
 * fuzz_free(), their free, does nothing. */
void fuzz_forget(void);
void fuzz_free(void *memory);
/* Runs the rules of doctor on a model, without looking up names. */
struct model;
void fuzz_examine(struct model *model);

#endif
