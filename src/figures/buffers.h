/* SPDX-License-Identifier: MIT */
/*
 * buffers.h - memory for the answers of the control thread, and for the tables that it needs while
 * it makes an answer.
 *
 * For: the answers to clients, tables for pieces of a dump, tables of the recording, a table of the
 * automatic choice (MEMCTX_AUTO). Each of them is a mapping of its own, so that its memory goes
 * back to the kernel when it is not needed any more. Cannot do: more than BUFFERS_MAX mappings at a
 * time.
 *
 * Cost: a munmap interrupts each processor that a thread of the program runs on. So a mapping that
 * is released while a client is connected is kept for the next request, if it is small.
 *
 * Threads: the control thread. Only answer_add may be called by other threads, each with an answer
 * of its own.
 */
#ifndef MEMCTX_FIGURES_BUFFERS_H
#define MEMCTX_FIGURES_BUFFERS_H

#include "os/os.h"

/* An answer under construction, in memory of the caller: for a client WIRE_ANSWER_MAX bytes, or a
 * few bytes when there was no memory. */
struct answer {
    char *bytes;
    size_t length, capacity;
};
/* Appends `bytes` zeroed bytes and returns their address. NULL: the answer has too little room
 * left. */
void *answer_add(struct answer *answer, size_t bytes);
/* Greatest number of mappings at one time. */
#define BUFFERS_MAX 16
/* buffers_bytes counts the resident OS pages in this many bytes, from the end of the control
 * thread's stack (buffers_stack_top) downwards. */
#define BUFFERS_STACK_BYTES (128UL << 10)

struct buffer {
    char *start; /* NULL: this place is free */
    size_t bytes;
    bool kept; /* released, and kept for the next request */
};

/* Maps zeroed memory for the control thread. The ledger of `memctx frag` counts the memory as the
 * control thread's. `touched`: writes to each OS page at once. NULL: out of memory, or BUFFERS_MAX
 * mappings are in use. */
void *buffers_map(size_t bytes, bool touched);
/* Releases a mapping: keeps it for the next buffers_map, or gives it back to the kernel when the
 * kept mappings would have more than KEPT_BYTES_MAX bytes. NULL: does nothing. */
void buffers_unmap(void *start);
/* Returns a table used to build pieces of a dump; a new table is zeroed. NULL: out of memory. The
 * table stays mapped until no client is connected. */
enum buffers_scratch { SCRATCH_PARTS, SCRATCH_PAGES, SCRATCHES };
void *buffers_scratch(enum buffers_scratch which, size_t bytes);
void buffers_unmap_kept(void); /* call when no client is connected */
/* Returns the resident bytes of the control thread's stack plus the bytes of all mappings. With
 * `resident`, counts only the resident bytes of the mappings. */
int64_t buffers_bytes(bool resident);
INTERNAL char *buffers_stack_top; /* end of the control thread's stack; NULL: no such thread */
INTERNAL const struct buffer *const buffers_shown; /* for control/outside.c: the mappings */

#endif
