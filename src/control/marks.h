/* SPDX-License-Identifier: MIT */
/* marks.h - answers WIRE_MARK, tells the marks in pieces of a dump, and bounds the memory of marks
 * and resets. Control thread only. */
#ifndef MEMCTX_CONTROL_MARKS_H
#define MEMCTX_CONTROL_MARKS_H

#include "base/text.h"
#include "figures/pieces.h"

/* Sets a mark. Returns enum wire_status, with a sentence for the user in `text`. */
uint32_t mark_set(const struct wire_mark_request *request, struct text *text);
/* Makes the next mark of MEMCTX_MARKS (options.marks) if it is due. A mark takes 17 ms with 300 000
 * contexts; the pauses between marks are so long that marks take at most 1/50 of the time. */
void marks_look(void);
/* Returns the ms until the next mark of MEMCTX_MARKS is due, at most `wait`. */
int marks_wait_ms(int wait);
void marks_forget(void); /* drops all marks in a forked child */
/* Protects the contexts of the existing marks, and those that the recording watches (record.h),
 * from eviction (context/evict.h). All other contexts may be evicted again. */
void marks_pin(void);
/* Called when counters are reset. A mark has only sums over the contexts that it left out. These
 * sums cannot be adjusted, so their counters become unknown. */
void marks_forget_counters(void);
/* The memory of marks and resets is part of the tables (region/tables.h). Marks may use an eighth
 * of the tables' limit, marks and resets together a quarter. */
INTERNAL int64_t asked_bytes;   /* bytes that marks and resets use; control thread only */
bool asked_fits(int64_t bytes); /* true if a reset may take `bytes` more bytes */
/* Writes the bytes in KiB, rounded up. */
void text_add_kib(struct text *text, uint64_t bytes);

/* Write the marks, or the entries of one mark, into a piece. Return enum wire_status. */
uint32_t marks_piece(struct piece *piece);
uint32_t marks_entries_piece(struct piece *piece);

/* --- for a reader of the process's memory (outside.c) ----------------------------------------- */

#define MARK_CHUNK_BYTES 4096U
#define MARKS_KEPT_MAX (WIRE_MARKS_ALL - WIRE_MARKS_MAX)

/* Memory for entries of a mark, by rising context id. No entry continues in the next mark_chunk. */
struct mark_chunk {
    struct mark_chunk *next;
    uint32_t used;
    uint8_t bytes[MARK_CHUNK_BYTES - sizeof(void *) - sizeof(uint32_t)];
};
_Static_assert(sizeof(struct mark_chunk) == MARK_CHUNK_BYTES, "one block");

struct mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns; /* uptime of the process, when the mark was set; 0: a free slot */
    uint64_t slept_ns;  /* os_slept_ns, when the mark was set */
    int64_t rss_bytes;  /* resident set, when the mark was set; WIRE_UNKNOWN: could not be read */
    struct wire_elsewhere elsewhere; /* when the mark was set */
    struct mark_chunk *first;
    uint64_t bytes; /* bytes of the list `first` */
    struct wire_left_out left_out;
};

struct kept_marks {   /* the marks that MEMCTX_MARKS makes */
    int64_t setting;  /* the value of options.marks that next_ns is computed for */
    uint64_t next_ns; /* uptime at which the next mark is due */
    int64_t made;     /* number of the newest mark */
    struct mark slots[MARKS_KEPT_MAX];
};
INTERNAL struct mark *const *const marks_shown;
INTERNAL struct kept_marks *const *const marks_kept_shown;

#endif
