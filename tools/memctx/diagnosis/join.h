/* SPDX-License-Identifier: MIT */
/*
 * join.h - puts suspects together that one function caused.
 *
 * Blame (blame.h) groups contexts by their inner frames. So a session of four chunks, which
 * open_session makes in four places, is four suspects, and what a script in an interpreter keeps is
 * as many suspects as the interpreter has kinds of objects. They share their outer frames instead.
 *
 * Suspects are joined at the innermost function that has nine tenths of the sum of all of them. If
 * that is main, or what starts a thread, then the suspects below each of its callees are looked at
 * in the same way. Where one suspect has nine tenths by itself, or where main allocates, suspects
 * are joined if their numbers of chunks are small multiples of each other: a session of four chunks
 * has the same number of each.
 *
 * A recursion deeper than MEMCTX_DEPTH cuts the outer end off some paths. Such a path counts as one
 * that came through the caller of its outermost function, if the full paths show only one caller.
 */
#ifndef MEMCTX_JOIN_H
#define MEMCTX_JOIN_H

#include "diagnosis/blame.h"

/* Joins suspects of the same `group`. `figures` is as for blame_make. `chunks` has a number of
 * chunks for each context in the same way; NULL: live chunks. A joined suspect has the old ones as
 * its parts. */
void join_suspects(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                   const int64_t *chunks);

/* Joins all suspects at the innermost function that has nine tenths of the sum of all of them, even
 * if that is main, and leaves the others alone. The joined suspect is the first one, if any
 * suspects have such a function in common. */
void join_everything(struct blame *blame, const struct blame_paths *paths, const int64_t *figures);

#endif
