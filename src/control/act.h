/* SPDX-License-Identifier: MIT */
/* act.h - answers WIRE_PLACE and WIRE_TRIM, and keeps the notes of the command (WIRE_NOTE). Control
 * thread only. */
#ifndef MEMCTX_CONTROL_ACT_H
#define MEMCTX_CONTROL_ACT_H

#include "base/text.h"
#include "figures/buffers.h"
#include <memctx/wire.h>

/* Gives the next chunks of contexts pages of their own, or mixed pages again, or a policy. Returns
 * enum wire_status, with the result or the reason in `text`. */
uint32_t place_run(const struct wire_contexts_request *request, struct text *text);
/* Gives empty memory of all heaps, or of the pages of some contexts, back to the kernel. First
 * trims the heaps without a thread, and collects chunks that other threads freed, for up to a
 * second. Then waits until the program's threads have trimmed their heaps, for up to 40 ms (all
 * heaps) or 250 ms (some contexts). Last, punches the pages of threads that have not, for up to two
 * seconds. */
uint32_t trim_run(const struct wire_contexts_request *request, struct answer *answer);
/* Keeps a text of the command in the process, and shows it in each later dump. */
uint32_t note_run(const char *body, struct text *text);
/* Iterates over the notes, oldest first. Each has at most WIRE_NOTE_BYTES with its final 0. NULL:
 * no more notes. */
const char *note_next(unsigned *place);
void note_forget(void); /* drops all notes in a forked child */
/* For a reader of the process's memory (outside.c): the ring of notes, and the number of notes ever
 * made. */
INTERNAL char *const *const notes_shown;
INTERNAL const unsigned *const notes_made_shown;

#endif
