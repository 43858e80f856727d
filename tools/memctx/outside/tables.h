/* SPDX-License-Identifier: MIT */
/*
 * tables.h - the library's tables, as they were read from the target's memory.
 *
 * tables_open finds the root and checks it. tables_read reads all tables but pages;
 * tables_read_pages reads the pages. Names and placements of contexts are read later, when an
 * answer needs them.
 */
#ifndef MEMCTX_OUTSIDE_TABLES_H
#define MEMCTX_OUTSIDE_TABLES_H

#include <memctx/outside.h>
#include <memctx/wire.h>

#include "outside/reach.h"

/* Most records of one kind or another (views, counts, entries of marks; pages with segments) that
 * are read from a process, so that a damaged or hostile one does not take all memory here. */
#define TABLES_RECORDS_MOST (1UL << 26)
#define FIXED_UNKNOWN 1U /* id of [unknown]; the fixed nodes exist in each version of the root */

struct seen_heap {
    uint64_t address;
    uint32_t number, tid, view_count;
    uint32_t listed;      /* position in the target's list of heaps */
    bool totals;          /* true: this heap stands for the figures of ended threads */
    uint32_t *context_of; /* context of each view, by the view's index; 0: none */
    /* freed_of[number of a heap]: frees of that heap's chunks by this heap's thread */
    uint64_t *freed_of;
    uint32_t freed_of_count;
    uint64_t resizes_at; /* address of the heap's counts of realloc; 0: none */
    struct wire_resizes *resizes;
    size_t resize_count;
};

struct seen_view {
    uint32_t context, heap;
    struct wire_sums sums;
};

struct seen_page {
    struct wire_page wire;
    size_t first_share; /* index of the page's first share in `shares` */
};

struct seen_mark {
    struct wire_mark wire;
    struct wire_mark_entry *entries;
    size_t entry_count;
};

struct tables {
    struct reach reach;
    struct outside_root root;
    /* By id of a context: its node, as it is in the target's memory; whether the node exists; the
     * sums of its views. */
    char *nodes;
    bool *exists;
    uint32_t node_count;
    struct wire_sums *sums;
    /* bases[id of a context]: the context's counters at the last reset; 0: no reset */
    struct wire_sums *bases;
    uint32_t *views_of; /* views_of[id of a context]: number of its views with figures */
    struct seen_heap *heaps;
    size_t heap_count, heap_last; /* heap_last: the heap that was looked up last */
    /* Indexes of `heaps` in the order of the socket's answers: as in the target's list, in which
     * the newest heap comes first, except that the shared heap (number 0) comes last. */
    uint32_t *order;
    int64_t cached_slices;   /* slices of the freed spans that heaps keep */
    struct seen_view *views; /* by context, then by heap */
    size_t view_count, view_room;
    struct wire_module *modules; /* path_bytes of each is 0 */
    char **paths;
    size_t module_count;
    struct seen_page *pages;
    struct wire_share *shares;
    size_t page_count, page_room, share_count, share_room;
    int64_t segments_resident;
    uint64_t lost_views;
    bool moved;            /* figures moved from one heap to another while the heaps were read */
    uint64_t resizes_lost; /* calls of realloc that are in no table */
    struct seen_mark marks[WIRE_MARKS_ALL];
    size_t mark_count;
    char *notes[WIRE_NOTES_MAX]; /* the oldest first */
    size_t note_count;
    char **rules; /* texts of the placement rules; a text is NULL if it could not be read */
    size_t rule_count;
    uint64_t room; /* how many more records may be read */
    /* Tables that could not be read or are damaged: their number, and the first such table. */
    size_t missing;
    uint64_t missing_address;
    const char *missing_table;
};

/* Both return false and the reason if the tables cannot be read. `source`: the process or the file,
 * for messages. */
bool tables_open(struct tables *tables, const char *source, struct cli_failure *failure);
bool tables_read(struct tables *tables, const char *source, struct cli_failure *failure);
/* `light`: in the form of WIRE_DUMP_LIGHT, for which the content of pages of one context is not
 * read. */
void tables_read_pages(struct tables *tables, bool light);
/* Fills the ledger of the library's memory. `resident`: also asks the kernel which OS pages are
 * resident. */
void tables_fill_ledger(struct tables *tables, struct wire_ledger *ledger, bool resident);
/* Reads counts of realloc, marks, notes and placement rules. Called by tables_read. */
void tables_read_records(struct tables *tables);
void tables_forget_records(struct tables *tables);
/* Frees the results of tables_read and tables_read_pages. */
void tables_forget(struct tables *tables);

/* Counts a table that is missing or damaged. `what` names it in the message about the first such
 * table, so it must stay valid. */
void tables_miss(struct tables *tables, const char *what, uint64_t address);
/* Returns the heap at an address of the target; NULL: there is none. */
const struct seen_heap *tables_heap_at(struct tables *tables, uint64_t address);

/* Returns a field of `record`, a struct that was copied from the target. */
static inline uint64_t field_at(const struct tables *tables, enum outside_field field,
                                const void *record) {
    const struct outside_place *place = &tables->root.fields[field];
    uint64_t value = 0; /* the machine is little-endian */
    __builtin_memcpy(&value, (const char *)record + place->offset,
                     place->bytes < sizeof value ? place->bytes : sizeof value);
    return value;
}
#define FIELD(tables, record, type, name) field_at(tables, OUTSIDE_##type##_##name, record)
#define OFFSET(tables, type, name) ((tables)->root.fields[OUTSIDE_##type##_##name].offset)
#define CONSTANT(tables, name) ((tables)->root.constants[OUTSIDE_IS_##name])
#define TABLES_USAGE_BYTES 64U /* room for a struct meta_usage of the library */
#define SIZE(tables, type) ((size_t)(tables)->root.structs[OUTSIDE_SIZE_##type])
#define ADDRESS(tables, name) ((tables)->root.addresses[OUTSIDE_AT_##name])

/* Adds two signed numbers. Damaged numbers may overflow, so the sum is unsigned. */
static inline void tables_add(int64_t *sum, int64_t number) {
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)number);
}

/* Reads a word of up to 8 bytes at an address; 0 if it cannot be read. */
uint64_t tables_word(struct tables *tables, uint64_t address, size_t bytes);

#endif
