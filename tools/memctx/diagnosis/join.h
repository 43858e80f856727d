/* SPDX-License-Identifier: MIT */
/*
 * join.h - joins suspects (blame.h) that have one cause, a function that their paths share.
 *
 * Blame (blame.h) groups contexts by their inner frames. So if open_session allocates a session of
 * four chunks in four places, there are four suspects. If a script keeps objects, there are as many
 * suspects as its interpreter has kinds of objects. Such suspects share only outer frames.
 *
 * Suspects are joined at the innermost function that has nine tenths of the sum of all of them. If
 * this function is main, or a function that starts threads, the suspects below each of its callees
 * are searched in the same way. If one suspect has nine tenths by itself, or if main itself
 * allocates, suspects are joined if their numbers of chunks are small multiples of each other: of a
 * session of four chunks, each chunk exists equally often.
 *
 * If objects own several chunks each, the chunks may have nine tenths of the sum without the
 * objects. The objects are joined with their chunks if they exist equally often, and if the
 * function that allocates an object calls the function at which the chunks are joined. In a library
 * without source lines, other functions of the library may stand between.
 *
 * A recursion deeper than MEMCTX_DEPTH cuts the outer end off some paths. If the full paths show
 * only one caller of such a path's outermost function, the path is treated as if it came through
 * that caller.
 */
#ifndef MEMCTX_JOIN_H
#define MEMCTX_JOIN_H

#include "diagnosis/blame.h"

/* Joins suspects of equal `group` that have one cause. `figures`: as for blame_make. `chunks`:
 * number of chunks for each number of figures; NULL: the live chunks. The old suspects become the
 * parts of the joined one. */
void join_suspects(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                   const int64_t *chunks);

/* Finds the innermost function, even main, below which nine tenths of the sum of all suspects lie.
 * Joins the suspects below it, and leaves all others as they are. Joins nothing if fewer than two
 * suspects are below it. */
void join_everything(struct blame *blame, const struct blame_paths *paths, const int64_t *figures);

#endif
