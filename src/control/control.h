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

/* An answer under construction: memory of its own, never malloc's. */
struct answer {
    char *bytes;
    size_t length, capacity;
    bool failed; /* out of memory */
};
/* Room for `bytes` more, zeroed; NULL: failed is set. Earlier pointers may move. */
void *answer_add(struct answer *answer, size_t bytes);
/* So that so many bytes need no move; what is not used is not touched. */
void answer_reserve(struct answer *answer, size_t bytes);
void answer_free(struct answer *answer);
/* Memory for the control thread's tables, counted in the ledger's line for it. */
void *control_map(size_t bytes);
void control_unmap(void *start);
void control_unmap_kept(void); /* no client is there */

/* The handler of a request: body of `length` bytes -> answer; returns enum wire_status. */
uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer);
/* False: no such type, or its body cannot have that length; costs the client its connection. */
bool command_is_known(uint16_t type, size_t length);

struct page;
/* The least that was not requested of a live block of a page of one context, in whole units of what a slab could do
 * without. */
uint8_t pages_spare_units(const struct page *page, const char *start);
/* Calls `visit` for each page of a sliced segment, with a copy of its header. resident: as os_resident_vector told, so that
 * headers that were given back are not looked at, which would map them; NULL: all are. */
struct segment;
void pages_each(const struct segment *segment, const unsigned char *resident,
                void (*visit)(const struct page *page, const char *start, void *context),
                void *context);
unsigned pages_occupancy_bin(uint64_t live, uint64_t capacity);
/* Of a segment's residency, bytes of a part of it. */
int64_t pages_resident_in(const unsigned char *resident, uintptr_t start, uintptr_t end);
/* segment_clock when it was first set, in this process or the one that it was forked from; by the thread. */
INTERNAL uint32_t pages_clock_begin, pages_clock_start;
uint32_t pages_build(const struct wire_pages_request *request, struct answer *answer);
uint32_t place_run(const struct wire_contexts_request *request, struct text *text);
uint32_t note_run(const char *body, struct text *text);
/* The notes, oldest first; each at most WIRE_NOTE_BYTES with its end. NULL: that was all. */
const char *note_next(unsigned *place);
void note_forget(void); /* in a forked child */
uint32_t trim_run(const struct wire_contexts_request *request, struct answer *answer);
uint32_t dump_build(const struct wire_dump_request *request, struct answer *answer);
uint32_t mark_set(const struct wire_mark_request *request, struct text *text);
uint32_t reset_run(const struct wire_reset_request *request, struct text *text);

/* Sums over all heaps, by context id. */
struct sums {
    uint32_t count; /* contexts */
    struct sum {
        int64_t allocs, frees, live_bytes, requested_cum_bytes;    /* since the start */
        int64_t base_allocs, base_frees, base_requested_cum_bytes; /* at the last reset */
        int64_t peak_bytes;
        uint32_t views; /* that did anything */
        uint32_t round; /* it was read in last */
    } * rows;
    struct sums_entries *entries;
};
/* One view's part in it: those of a context add up to its sum. */
struct sums_view {
    struct heap *heap;
    uint32_t context;
    struct sum sum;
};
/* False: out of memory. */
bool sums_collect(struct sums *sums, bool keep_views);
void sums_free(struct sums *sums);
/* The views that were kept, one after the other, from a place that is zero on; NULL: that was all. */
struct sums_place {
    const struct sums_entries *entries;
    size_t next;
};
const struct sums_view *sums_next_view(const struct sums *sums, struct sums_place *place);

struct mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns;
    struct sums sums; /* rows NULL: a free slot */
};
INTERNAL struct mark marks[WIRE_MARKS_MAX]; /* control thread only */
uint64_t control_uptime_ns(void);
/* Memory of the control thread: stack and tables; resident bytes, or what is mapped. */
int64_t control_bytes(bool resident);
INTERNAL char *control_stack_top; /* set by the thread */
/* False: what it opens, the program may close, and a fork inherits. */
bool control_has_own_descriptors(void);

#endif
