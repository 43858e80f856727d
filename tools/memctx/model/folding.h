/* SPDX-License-Identifier: MIT */
/*
 * folding.h - what a dump says of call paths that the library has folded or merged.
 *
 * A folded path leaves out the turns of a recursion: `visit > generic > visit > leaf` is charged to
 * `visit > leaf`, in which `visit` is recursive. The loop is `visit > generic`. A merged path has
 * no nodes of its own: its chunks are charged to its innermost functions, below the node [other
 * callers] of an ancestor that stays in the tree. Contexts below that ancestor may then lack
 * chunks, so they are marked as partial.
 */
#ifndef MEMCTX_FOLDING_H
#define MEMCTX_FOLDING_H

#include "model/model.h"

/* Finds the loop of a recursive context: the contexts of its functions, outermost first. Writes the
 * indices of the first `room` contexts to `loop`, and returns how many the loop has; 0 if the
 * context is not recursive or its loop is not known. */
size_t folding_find_loop(const struct model *model, uint32_t index, uint32_t *loop, size_t room);
/* Returns an upper bound for the bytes that a partial context lacks: those charged to [other
 * callers] of its ancestors. */
int64_t folding_find_bound(const struct model *model, uint32_t index);

/* Returns the sums over the contexts of a model that have full call paths, and over those with
 * merged ones. */
struct folding_shares folding_add_shares(const struct model *model);

/* True for a node [other callers], from its kind (enum wire_context_kind) and its label. */
bool folding_is_others(uint8_t kind, const char *label);

/* Folds paths in the command. The library folds only functions that recur on very many paths;
 * folding_fold_path folds every function that recurs. */
struct folding_paths {
    const struct model *model;
    uint32_t *functions; /* functions[number of a frame]: number of the function */
    /* last[number of a function]: index of its innermost frame in the path that is folded now */
    uint32_t *last;
};
void folding_paths_begin(struct folding_paths *paths, const struct model *model);
void folding_paths_end(struct folding_paths *paths);
/* Writes those contexts of a path to `path` that folding keeps, innermost first and without the
 * root; `path` must have room for the whole path. Returns their number. *plain receives how many
 * contexts at the inner end come before the first one that folding left out; the number of all if
 * it left none out. */
size_t folding_fold_path(struct folding_paths *paths, uint32_t index, uint32_t *path,
                         uint32_t *plain);
/* Returns a key that all frames of one function share. Keys of different functions differ, unless
 * their 64-bit hashes collide. A frame without a name counts as a function of its own, identified
 * by its return address; a label, by its text. */
uint64_t folding_function_key(const struct model_frame *frame);
/* Returns a hash of `hash` and a further value. */
uint64_t folding_mix(uint64_t hash, uint64_t value);

#endif
