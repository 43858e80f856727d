/* SPDX-License-Identifier: MIT */
/*
 * follow.h - the short way from one walked path to the next.
 *
 * Where paths are ever new to the table of traces, a program that builds or searches a tree mostly comes
 * from one path to the same next one as before. A *step* notes, for a view that was walked to, how the
 * stack changed until the next walk: the frames that stayed, the few that are new, their nodes, and the
 * view of the path. It is a guess: the new frames' return addresses are compared with the stack, each
 * found by the rule of the one before, and then all words that prove the frames that stayed. So it is
 * right for the same reason as a walk is, but nothing has to be searched, and no branch depends on
 * which frames or which children these are.
 *
 * Only for paths whose new frames find their caller by the stack pointer, and that are not cut off. Owned
 * by one heap's thread; one line a view, made when walks are followed by walks.
 */
#ifndef MEMCTX_FOLLOW_H
#define MEMCTX_FOLLOW_H

#include "path/cache.h"

/* The view of the stack's path, if it is the one that followed the last walked one before; NULL: walk. */
struct view *follow(struct heap *heap, uintptr_t frame);
/* After a walk to `view`: the stack's frames from `first` on were looked up in the tree, all nodes are
 * known. Notes the step from the last such walk. */
void follow_note(struct heap *heap, const struct view *view, unsigned first);
void follow_flush(struct paths *paths);

#endif
