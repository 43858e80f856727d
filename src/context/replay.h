/* SPDX-License-Identifier: MIT */
/*
 * replay.h - finds the view of a stack that changed in the same way as an earlier stack did.
 *
 * A program that builds or searches a tree by recursion comes to ever new stacks by few kinds of
 * change: it leaves some frames and enters a few. A *replay* notes such a change: the node of the
 * last path, how far the stack pointer moved, the innermost frame that stayed with its node, and
 * the new frames with their nodes and the view. Suppose that the stack changes in this way again,
 * and that all words that prove the frames that stayed are still there. Then a walk would find
 * exactly the noted new frames, and their nodes follow from the node of the frame that stayed. So
 * neither the frames nor the nodes have to be looked up.
 *
 * For: threads whose look-ups are mostly walks. The new frames find their callers by the stack
 * pointer, or by rbp, as in code that is built with frame pointers. Cost: some 15 ns for a replay
 * that finds the view. Memory: 256 notes for each thread whose look-ups are mostly walks; 1 024 if
 * many notes take the place of others, and the budget has room.
 *
 * Threads: only the owner of the heap calls these functions. While no owner uses the heap,
 * context/visit.c may call replay_forget and replay_end.
 */
#ifndef MEMCTX_REPLAY_H
#define MEMCTX_REPLAY_H

#include "path/cache.h"

#define REPLAY_FRAMES 4U /* greatest number of new frames in a change */
#define REPLAY_WAYS 4U   /* number of places that one change may have */

/* Returns the view of the current stack. NULL: no noted change leads to the stack; the call then
 * changed nothing. `frame`: the frame pointer of the exported function. */
struct view *replay(struct paths *paths, uintptr_t frame);
/* Called before a walk: records the state of the stack that replay_note compares with. May
 * make the table of notes, or a larger one. */
void replay_before(struct paths *paths);
/* Called after a walk that led to `view` by a path of the tree: notes the change. */
void replay_note(struct paths *paths, struct view *view);
/* Forgets all notes, because the ids in them may mean other nodes now. */
void replay_forget(struct paths *paths);
/* Makes the next look-ups try replays at once, even if hardly any served before. */
void replay_hope(struct paths *paths);
/* True if the thread has the larger table of notes. */
bool replay_is_grown(const struct paths *paths);
void replay_end(struct paths *paths); /* gives the memory back */

#endif
