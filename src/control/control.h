/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control thread: a socket on which the command asks for dumps, marks, resets.
 *
 * One pthread named `memctx`, all signals blocked through its attributes, small stack, its own
 * descriptor table (unshare, then everything closed), so the program's numbers stay its own. It
 * never calls malloc and stops no other thread. It starts at once in the program that `memctx run`
 * started or with MEMCTX_CONTROL=eager; elsewhere with the first slow allocation after 20 ms of life
 * and 20 ms after the last fork, at most 1 s of life, or with a second thread, from a place outside libc
 * and the loader. A forked child starts its own in the same way; launchers (api/init.c) have none. What cannot be had is said only with
 * MEMCTX_VERBOSE.
 *
 * A process whose system calls are filtered (seccomp) has no thread: it ends before the process restricts itself
 * (api/sandbox.c), and does not start where a filter was there first, but for containers (sandbox.h) and MEMCTX_CONTROL=always.
 */
#ifndef MEMCTX_CONTROL_H
#define MEMCTX_CONTROL_H

#include "os/os.h"
#include <memctx/wire.h>

INTERNAL uint32_t control_waiting; /* atomic: the thread is to start when its time has come */

/* Its time has come; where the caller stands is for the caller to judge (context_outside_libc). */
bool control_is_due(void);
/* Starts the thread, once. From a slow allocation, but outside the allocator. */
void control_start(void);

/* The program's first thread is ending by itself (pthread_exit): when the last other one has, the
 * control thread must not keep the process alive, and the exit handlers run in it. It starts anew, now
 * with the program's descriptors. */
void control_first_thread_ended(void);
void control_init(bool at_once);
/* The process is about to restrict itself: ends the thread and its socket, and lets none start any more, in
 * forked children neither. False: nothing changed, also in a vfork child, which is another process. *before (enum
 * os_restriction) is for control_unrestrict, where the kernel refuses the restriction. */
bool control_restrict(bool strictly, uint32_t *before);
void control_unrestrict(uint32_t before);
/* Removes the socket, if this process made it; with MEMCTX_VERBOSE=2 prints the statistics. */
void control_exit(void);
void control_fork_prepare(void);
void control_fork_done(bool child);

/* --- within the layer ------------------------------------------------------------------------ */

/* An answer under construction, in room that is the client's: WIRE_ANSWER_MAX bytes. */
struct answer {
    char *bytes;
    size_t length, capacity;
};
/* Room for `bytes` more, zeroed; NULL: there is not so much. */
void *answer_add(struct answer *answer, size_t bytes);
/* Memory of the control thread's own, counted in the ledger's line for it; `touched`: each page is written at once. */
void *control_map(size_t bytes, bool touched);
void control_unmap(void *start);
/* A table that a piece is made with, zeroed when it is new; NULL: out of memory. It stays until no client is there. */
enum control_scratch { SCRATCH_PARTS, SCRATCH_PAGES, SCRATCHES };
void *control_scratch(enum control_scratch which, size_t bytes);
void control_unmap_kept(void); /* no client is there */

/* The handler of a request: body of `length` bytes -> answer; returns enum wire_status. */
uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer);
/* False: no such type, or its body cannot have that length; costs the client its connection. */
bool command_is_known(uint16_t type, size_t length);

struct page;
/* The least that was not requested of a live block of a page of one context, in whole units of what a slab could do
 * without. */
uint8_t pages_spare_units(const struct page *page, const char *start);
/* Calls `visit` for each page of a sliced segment, from a slice on, with a copy of its header, until it says false; returns the slice
 * of that page, 0: that was all. resident: as os_resident_vector told, so that headers that were given back are not looked at, which
 * would map them; NULL: all are. */
struct segment;
unsigned pages_each(const struct segment *segment, unsigned from, const unsigned char *resident,
                    bool (*visit)(const struct page *page, const char *start, void *context),
                    void *context);
/* Of a segment's residency, bytes of a part of it. */
int64_t pages_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end);
/* segment_clock when it was first set, in this process or the one that it was forked from; by the thread. */
INTERNAL uint32_t pages_clock_begin, pages_clock_start;
uint32_t place_run(const struct wire_contexts_request *request, struct text *text);
/* Leaves recursion unfolded for some seconds, or folds it again. */
uint32_t unfold_run(const struct wire_contexts_request *request, struct text *text);
void unfold_look(void);            /* now and then: ends what is over */
void unfold_end(void);             /* ends all */
int64_t unfold_count(void);        /* functions that are unfolded */
int64_t unfold_seconds_left(void); /* until the last of them is folded again */
uint32_t note_run(const char *body, struct text *text);
/* The notes, oldest first; each at most WIRE_NOTE_BYTES with its end. NULL: that was all. */
const char *note_next(unsigned *place);
void note_forget(void); /* in a forked child */
uint32_t trim_run(const struct wire_contexts_request *request, struct answer *answer);
void dump_head(const struct wire_dump_request *request, struct wire_dump *dump);
uint32_t mark_set(const struct wire_mark_request *request, struct text *text);
void marks_forget(void); /* in a forked child */
/* Counters were reset: what marks have of those that they left out cannot be moved along. */
void marks_forget_counters(void);
/* What marks and resets keep is part of the tables (region/tables.h): marks may have an eighth of these,
 * with resets a quarter. */
INTERNAL int64_t asked_bytes; /* by now; control thread only */
bool asked_fits(int64_t bytes);
void text_add_kib(struct text *text, uint64_t bytes);
uint32_t reset_run(const struct wire_reset_request *request, struct text *text);
/* "list" -> a line for each rule: text, contexts, live bytes and chunks and more, separated by tabs; "clear" ->
 * no rules; "unresolved" -> what waits for the command; else a rule that is added behind the others. */
uint32_t rules_run(const char *body, struct text *text);

/* A piece of a dump. */
struct piece {
    const struct wire_piece_request *request;
    struct answer *answer; /* from struct wire_piece on */
    uint64_t next;
    uint32_t count;
    int64_t segments_resident;
};
/* Room for a record, zeroed; NULL: the piece ends before it. */
void *piece_record(struct piece *piece, size_t bytes);
/* An answer that says why there is none; returns its status. */
uint32_t piece_refuse(struct piece *piece, const char *why);
uint32_t piece_run(const struct wire_piece_request *request, struct answer *answer);
uint32_t pages_piece(struct piece *piece);
uint32_t marks_piece(struct piece *piece);
uint32_t marks_entries_piece(struct piece *piece);

/* The sums of one context over all heaps, at one moment. */
struct sum {
    int64_t allocs, frees, live_bytes, requested_cum_bytes;    /* since the start */
    int64_t base_allocs, base_frees, base_requested_cum_bytes; /* at the last reset */
    int64_t peak_bytes;                                        /* where one view did all */
    uint32_t views;                                            /* that did anything */
};
/* The same by heaps, of those whose numbers are from `first` on. */
#define SUMS_HEAPS 128U
struct sums_parts {
    uint32_t first, count;
    struct sum list[SUMS_HEAPS];
};
/* Contexts are read between these two; others wait for heap_global.lock meanwhile, which is why long loops pause. */
#define SUMS_STEPS 256U
void sums_begin(void);
void sums_end(void);
void sums_pause(uint32_t steps); /* after each SUMS_STEPS of them */
/* parts: NULL, or, whose first and count say which heaps `sum` is then of. */
void sums_read(uint32_t context, struct sum *sum, struct sums_parts *parts);
struct sum sums_of(uint32_t context);   /* by itself */
struct sum sums_base(uint32_t context); /* what the last reset subtracts */
struct sum sums_all(void);              /* of all contexts: allocs, frees and bytes; by itself */

uint64_t control_uptime_ns(void);
/* Memory of the control thread: stack and tables; resident bytes, or what is mapped. */
int64_t control_bytes(bool resident);
INTERNAL char *control_stack_top; /* set by the thread */
/* False: what it opens, the program may close, and a fork inherits. */
bool control_has_own_descriptors(void);

#endif
