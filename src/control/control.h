/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control thread: serves a socket on which the command asks for dumps, marks,
 * resets.
 *
 * The thread is one pthread named `memctx`. Its attributes block all signals, its stack is small,
 * and it has its own descriptor table (it unshares the table and closes everything in it), so the
 * program's descriptor numbers do not change. It never calls malloc and stops no other thread. It
 * starts at once in the program that `memctx run` started, or with MEMCTX_CONTROL=eager. Elsewhere
 * it starts with the first slow allocation after 20 ms of life and 20 ms after the last fork (after
 * 1 s of life at the latest), or with a second thread, if the call comes from outside libc and the
 * loader. A forked child starts its own thread in the same way; launchers (api/init.c) have none.
 * The thread reports what it cannot get only with MEMCTX_VERBOSE.
 *
 * A process whose system calls are filtered (seccomp) has no control thread. The thread ends before
 * the process restricts itself (api/sandbox.c). It does not start where a filter was installed
 * before the program started, except in containers (sandbox.h) and with MEMCTX_CONTROL=always.
 */
#ifndef MEMCTX_CONTROL_H
#define MEMCTX_CONTROL_H

#include "control/buffers.h"
#include <memctx/wire.h>

INTERNAL uint32_t control_waiting; /* atomic: the thread has still to start, once control_is_due */

/* True when the time to start the thread has come. The caller checks that it does not run inside
 * libc (context_outside_libc). */
bool control_is_due(void);
/* Starts the thread, once. Called by a slow allocation, but from outside the allocator. */
void control_start(void);

/* The program's first thread is ending by itself (pthread_exit). When the last other thread has
 * ended, the control thread must not keep the process alive, and the exit handlers run in the
 * control thread. So the control thread starts anew, now with the program's descriptors. */
void control_first_thread_ended(void);
void control_init(bool at_once);
/* The process is about to restrict itself: ends the thread, removes its socket, and lets no thread
 * start again, here or in forked children. False: nothing changed; also returned in a vfork child,
 * which is another process. *before (enum os_restriction) is the argument for control_unrestrict,
 * which the caller calls when the kernel refuses the restriction. */
bool control_restrict(bool strictly, uint32_t *before);
void control_unrestrict(uint32_t before);
/* Removes the socket if this process made it; prints the statistics with MEMCTX_VERBOSE=2. */
void control_exit(void);
void control_fork_prepare(void);
void control_fork_done(bool child);

/* --- within the layer ------------------------------------------------------------------------ */

/* Handles a request: reads `length` bytes of body, writes the answer; returns enum wire_status. */
uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer);
/* False: the type is unknown, or its body cannot have that length. The server then closes the
 * connection. */
bool command_is_known(uint16_t type, size_t length);

struct page;
/* The smallest spare room (block size less requested size) of a live block of a page that belongs
 * to one context, in whole units of the room that a slab could save. */
uint8_t pages_spare_units(const struct page *page, const char *start);
/* Calls `visit` with a copy of each page's header, for each page of a sliced segment from the slice
 * `from` on, until `visit` returns false. Returns the slice of the page where it stopped; 0: all
 * pages were visited. resident: the vector from os_resident_vector; pages whose headers were given
 * back are then skipped, because a read would map them again. NULL: every header counts as
 * resident. */
struct segment;
unsigned pages_each(const struct segment *segment, unsigned from, const unsigned char *resident,
                    bool (*visit)(const struct page *page, const char *start, void *context),
                    void *context);
/* Sums the resident bytes between start and end, from a segment's residency vector. */
int64_t pages_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end);
/* Early values of segment_clock: pages_clock_begin is set in the constructor of this process or of
 * the one that it was forked from, pages_clock_start when the control thread starts to serve. */
INTERNAL uint32_t pages_clock_begin, pages_clock_start;
uint32_t place_run(const struct wire_contexts_request *request, struct text *text);
/* Unfolds recursion for some seconds, or folds it again. */
uint32_t unfold_run(const struct wire_contexts_request *request, struct text *text);
void unfold_look(void);            /* called now and then: ends unfoldings that have expired */
void unfold_end(void);             /* ends all unfoldings */
int64_t unfold_count(void);        /* number of unfolded functions */
int64_t unfold_seconds_left(void); /* until the last unfolded function is folded again */
uint32_t note_run(const char *body, struct text *text);
/* Iterates over the notes, oldest first. Each has at most WIRE_NOTE_BYTES with its final 0. NULL:
 * no more notes. */
const char *note_next(unsigned *place);
void note_forget(void); /* in a forked child */
uint32_t trim_run(const struct wire_contexts_request *request, struct answer *answer);
void dump_head(const struct wire_dump_request *request, struct wire_dump *dump);
uint32_t mark_set(const struct wire_mark_request *request, struct text *text);
void marks_forget(void); /* in a forked child */
/* Counters were reset, so the marks' sums of the contexts that they left out cannot be adjusted. */
void marks_forget_counters(void);
/* The memory of marks and resets is part of the tables (region/tables.h). Marks may use an eighth
 * of the tables' limit, marks and resets together a quarter. */
INTERNAL int64_t asked_bytes; /* used by marks and resets now; control thread only */
bool asked_fits(int64_t bytes);
void text_add_kib(struct text *text, uint64_t bytes);
uint32_t reset_run(const struct wire_reset_request *request, struct text *text);
/* Runs a request about rules. "list" writes a line for each rule: text, contexts, live bytes and
 * chunks and more, separated by tabs. "clear" removes all rules. "unresolved" lists the objects
 * that wait for the command. Any other body is a rule, which is added after the existing ones. */
uint32_t rules_run(const char *body, struct text *text);

/* A piece of a dump under construction. */
struct piece {
    const struct wire_piece_request *request;
    struct answer *answer; /* begins with struct wire_piece */
    uint64_t next;
    uint32_t count;
    int64_t segments_resident;
};
/* Appends a zeroed record. NULL: no room is left, so the piece ends before this record. */
void *piece_record(struct piece *piece, size_t bytes);
/* Makes the answer a refusal with the reason `why`; returns the refusal's status. */
uint32_t piece_refuse(struct piece *piece, const char *why);
uint32_t piece_run(const struct wire_piece_request *request, struct answer *answer);
uint32_t pages_piece(struct piece *piece);
uint32_t marks_piece(struct piece *piece);
uint32_t marks_entries_piece(struct piece *piece);

/* The sums of one context over all heaps, at one moment. */
struct sum {
    int64_t allocs, frees, live_bytes, requested_cum_bytes;    /* since the start */
    int64_t base_allocs, base_frees, base_requested_cum_bytes; /* at the last reset */
    /* Exact only where one view did everything. */
    int64_t peak_bytes;
    /* Views that allocated or freed anything. */
    uint32_t views;
};
/* The sums of one context for each heap, for the heaps numbered from `first` on. */
#define SUMS_HEAPS 128U
struct sums_parts {
    uint32_t first, count;
    struct sum list[SUMS_HEAPS];
};
/* Contexts are read between sums_begin and sums_end. Other threads that need heap_global.lock wait
 * meanwhile, so long loops call sums_pause. */
#define SUMS_STEPS 256U
void sums_begin(void);
void sums_end(void);
void sums_pause(uint32_t steps); /* call after each SUMS_STEPS contexts */
/* Adds up one context over all heaps. If `parts` is not NULL, its `first` and `count` name some of
 * the heaps: *sum is then the sum over these alone, and parts->list has the sum of each. */
void sums_read(uint32_t context, struct sum *sum, struct sums_parts *parts);
struct sum sums_of(uint32_t context);   /* takes and releases the lock itself */
struct sum sums_base(uint32_t context); /* the amounts that the last reset subtracts */
/* Allocs, frees and bytes of all contexts; takes the lock itself. */
struct sum sums_all(void);

uint64_t control_uptime_ns(void);
/* False: the table is shared, so the program may close the thread's descriptors, and a fork
 * inherits them. */
bool control_has_own_descriptors(void);

#endif
