/* SPDX-License-Identifier: MIT */
/*
 * replay.h - the short way from one walked stack to the next, where the same change came before.
 *
 * A program that builds or searches a tree by recursion comes to ever new stacks by few changes: it
 * leaves some frames and enters one or two. A *replay* notes such a change: the node that the last path
 * led to, how far the stack pointer moved, the frame that stayed innermost with its node, and the new
 * frames with their nodes and the view. Where the stack changes so again, and all words that prove the
 * frames that stayed are still there, a walk would find just these frames, and their nodes follow from
 * those of the frame that stayed: so neither has to be looked up.
 *
 * For: threads whose look-ups are mostly walks, and code that finds its caller by the stack pointer.
 * Cost: some 15 ns where it serves. Memory: REPLAYS entries a thread, once walks are its way.
 *
 * Threads: the owner of the heap.
 */
#ifndef MEMCTX_REPLAY_H
#define MEMCTX_REPLAY_H

#include "path/cache.h"

#define REPLAY_FRAMES 2U
#define REPLAYS 256U
#define REPLAY_WAYS 4U

/* The view of the current stack; NULL: no change is noted that leads to it, and nothing is changed. */
struct view *replay(struct paths *paths, uintptr_t frame);
/* Before a walk: what a change is noted against. */
void replay_before(struct paths *paths);
/* After a walk that led to `view` by a path of the tree: notes the change. */
void replay_note(struct paths *paths, struct view *view);
/* The nodes that the notes name may be others now. */
void replay_forget(struct paths *paths);
/* Changes are looked for at once, also if hardly one was found before. */
void replay_hope(struct paths *paths);
void replay_end(struct paths *paths); /* gives the memory back */

#endif
