/* SPDX-License-Identifier: MIT */
/*
 * model.h - one dump in memory: the tree, its figures, modules, threads, marks and the ledger.
 *
 * It is filled from the wire (model_load_wire) or from a snapshot file (snapshot_load); both
 * give the same model, and nothing behind it can tell them apart. Both sources are untrusted: every
 * index, offset and string is checked while loading, so that the readers need no checks.
 * INVARIANT: contexts[0] is the root; a parent stands before its children; no node is deeper than
 * MODEL_LEVELS_MAX, so walking the tree recursively is safe.
 */
#ifndef MEMCTX_MODEL_H
#define MEMCTX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <memctx/wire.h>

#include "base/cli.h"

#define MODEL_LEVELS_MAX 1024
/* Numbers of a page in a snapshot, before its shares. */
#define PAGE_NUMBERS (16 + WIRE_OCCUPANCY_BINS + 1)
#define MODEL_FLAGS (WIRE_CONTEXT_PARTIAL | WIRE_CONTEXT_LATE | WIRE_CONTEXT_RECURSIVE)
#define MODEL_EXITED "exited" /* the key under which the exited threads' view stands */

/* The figures of a context, in bytes and counts, with the order and names of the JSON: those of
 * struct wire_sums, then those that page records give (figures.h). */
#define MODEL_TOTALS(X)                                                                            \
    X(requested_bytes)                                                                             \
    X(block_bytes)                                                                                 \
    X(reserved_bytes)                                                                              \
    X(resident_bytes)                                                                              \
    X(pinned_bytes)                                                                                \
    X(sole_pinned_bytes)                                                                           \
    X(live_chunks)                                                                                 \
    X(allocs)                                                                                      \
    X(frees)                                                                                       \
    X(requested_cum_bytes)                                                                         \
    X(peak_requested_bytes)                                                                        \
    X(pages)

struct model_totals {
#define X(name) int64_t name;
    MODEL_TOTALS(X)
#undef X
};

/* What may be asked for beside the sums; else it is WIRE_UNKNOWN. */
enum model_flags {
    MODEL_RESIDENT = 1, /* what the kernel says is resident */
    MODEL_THREADS = 2,  /* each thread's part */
    MODEL_PINNED = 4,   /* pinned and sole-pinned bytes, occupancy */
};

/* The figures of struct wire_ledger. */
#define MODEL_LEDGER(X)                                                                            \
    X(segments_mapped)                                                                             \
    X(segments_resident)                                                                           \
    X(pages_reserved)                                                                              \
    X(mixed_reserved)                                                                              \
    X(mixed_block_bytes)                                                                           \
    X(freelist_bytes)                                                                              \
    X(freelist_items)                                                                              \
    X(segment_headers)                                                                             \
    X(metadata_mapped)                                                                             \
    X(metadata_used)                                                                               \
    X(metadata_resident)                                                                           \
    X(control_bytes)                                                                               \
    X(untouched_bytes)                                                                             \
    X(returned_bytes)                                                                              \
    X(rss_bytes)

/* What the kernel's map of the process says of memory that is not ours (memory.c). */
#define MODEL_MAPPINGS(X)                                                                          \
    X(rss_bytes)                                                                                   \
    X(file_bytes)       /* program, libraries and other files, with their .bss */                  \
    X(stack_bytes)      /* the main thread's stack and other threads' */                           \
    X(heap_bytes)       /* the brk heap */                                                         \
    X(executable_bytes) /* anonymous and executable: code made at run time */                      \
    X(shared_bytes)     /* shared memory and named anonymous mappings */                           \
    X(anonymous_bytes)  /* the rest: ours, and what the program mapped itself */                   \
    X(huge_bytes)       /* of all of it: in huge pages */                                          \
    X(swap_bytes)       /* beside it: in swap */                                                   \
    X(peak_rss_bytes)   /* the most that was ever resident */

struct model_mappings {
#define X(name) int64_t name;
    MODEL_MAPPINGS(X)
#undef X
};

/* One function with the line of it that was running. */
struct model_function {
    char *name; /* NULL: not known; so is file; line is 0 then */
    char *file;
    int64_t line;
};

/* The names of one address: [0] is the machine function, then what was inlined into it at that
 * address, innermost first. */
struct model_names {
    uint32_t count;
    struct model_function *functions;
};

struct model_module {
    uint64_t start, end, bias;
    char *path;
    uint8_t build_id[24];
    uint32_t build_id_bytes;
    bool closed;
    char *symbols; /* where its names came from, or why there are none; NULL: not looked for */
};

/* What a node of the tree stands for. All contexts of one frame share this struct: there are few
 * frames, but there may be millions of contexts. */
struct model_frame {
    uint64_t address;
    uint32_t module; /* index or WIRE_NONE */
    uint32_t number; /* from 0 on */
    uint8_t kind;    /* enum wire_context_kind */
    bool exact_address;
    char *label;                     /* NULL for frames of a call path */
    const struct model_names *names; /* NULL: not known */
    struct model_frame *next;        /* model->frames lists them */
};

/* The figures of one context. Contexts in which nothing was ever allocated share the figures
 * with number 0; in a large tree these are nearly all contexts. */
struct model_figures {
    struct model_totals self;
    uint32_t occupancy[WIRE_OCCUPANCY_BINS];
    uint32_t number;  /* below model->figures_count */
    uint32_t context; /* index of whose they are; of number 0: WIRE_NONE */
    uint32_t first_view, view_count;
};

/* 64 bytes, because there may be millions: no member that few of them need. */
struct model_context {
    struct model_frame *frame;
    const struct model_figures *figures;
    const struct model_totals
        *total; /* of it and all below; may be another context's own, or of its only child */
    char *why;  /* the rule, or another reason, that it is placed by; NULL: none */
    uint32_t id;
    uint32_t parent;                    /* index; WIRE_NONE for the root */
    uint32_t first_child, next_sibling; /* indices or WIRE_NONE, in the order of arrival */
    uint32_t recursive_from;            /* index or WIRE_NONE, as in wire.h; see folding.h */
    uint16_t level;
    uint8_t flags;             /* WIRE_CONTEXT_PARTIAL, LATE, RECURSIVE */
    uint8_t policy, placement; /* enum wire_policy, wire_placement */
};

struct model_thread {
    uint32_t tid; /* 0: all that have exited */
    char name[17];
};

struct model_view {
    uint32_t context, thread; /* indices; views stand in the order of their contexts */
    struct model_totals totals;
};

/* Frees of chunks in another thread's pages. A pair of threads may occur more than once. */
struct model_remote {
    uint32_t freed_by, owner; /* indices */
    int64_t frees;
};

struct model_share { /* of a mixed page */
    uint32_t context, live;
};

struct model_mark {
    char name[WIRE_MARK_NAME_MAX];
    double uptime_s;
    uint64_t uptime_ns;              /* as the target has it; 0: from a snapshot */
    bool has_entries;                /* false: only its name is known */
    struct wire_left_out left_out;   /* of it the counters may not be known */
    struct wire_mark_entry *entries; /* context is an index here */
    size_t entry_count;
};

struct model_id {
    uint32_t id, index;
};

/* How much is charged to full call paths, and how much to merged ones (folding.h); what is missing
 * to the totals stands below other labels, such as [truncated]. */
struct folding_shares {
    int64_t full_bytes, full_allocs, merged_bytes, merged_allocs;
};

struct model {
    int64_t pid;
    uint64_t start_ticks;
    char *library_version;
    char *exe;
    char *source; /* what messages call it: "pid 12" or the snapshot's file name */
    double uptime_s;
    int64_t build_ns;
    int64_t depth;
    bool exact;
    bool from_snapshot;
    bool has_names;   /* symbolised already */
    bool has_threads; /* the views are there, and who freed whose chunks */
    bool has_pages;
    struct wire_ledger ledger;
    bool has_mappings;
    struct model_mappings mappings;
    struct model_totals totals;
    /* Contexts that the target counted but did not send, because only some were asked for
     * (top.h): how many, how many of them have figures, and the sum of these. */
    size_t left_out_count, left_out_leaves;
    int64_t left_out_bytes; /* requested, of those with figures; with --site, of its own */
    struct model_context left_out;
    struct folding_shares left_out_shares; /* of all contexts, these and those that are there */
    struct model_context *contexts;
    struct model_id
        *by_id; /* the contexts in the order of their ids; NULL: these are the indices */
    struct model_store *store;  /* where frames, figures and totals stand */
    struct model_frame *frames; /* a list of all */
    size_t frame_count;
    size_t figures_count; /* with that of contexts that have none */
    struct model_module *modules;
    struct model_thread *threads;
    struct model_view *views;
    struct model_remote *remotes;
    struct model_mark *marks;
    /* As in wire.h, but contexts are indices. Sorted by address, except for pages far from the
     * first segment. */
    struct wire_page *pages;
    struct model_share *shares;
    char **notes; /* what memctx isolate and its kin have written down (notes.h) */
    size_t context_count, module_count, thread_count, view_count, remote_count, mark_count;
    size_t page_count, share_count, note_count;
};

/* For the loaders: an empty model; `source` is copied. */
void model_begin(struct model *model, const char *source);
/* Gives back what a model has for each context; nothing can be read of it any more. */
void model_drop(struct model *model);
/* Returns the frame with the members of `wanted`; creates it if needed and copies the label. A
 * frame of a call path is identified by address, module and exact_address, any other by kind and
 * label. */
struct model_frame *model_find_frame(struct model *model, const struct model_frame *wanted);
/* A frame that nobody else has. */
struct model_frame *model_new_frame(struct model *model, const struct model_frame *from);
/* The figures of a context as its own, to be written to. */
struct model_figures *model_own_figures(struct model *model, struct model_context *context);
/* Gives a context these figures, without the views. The context gets figures of its own, or
 * shares them if it had none and another context already has equal ones. */
void model_set_figures(struct model *model, struct model_context *context,
                       const struct model_figures *figures);
/* Those with a number. */
struct model_figures *model_figures_at(const struct model *model, size_t number);
/* For the loaders: checks the tree that the parents' ids in contexts[].parent describe, turns them
 * into indices, and links the children. So it does with recursive_from; a context that is not there
 * is none. */
bool model_link(struct model *model, struct cli_failure *failure);
/* Call this when all figures are set: it computes all totals. A context that a page or a mark
 * names gets figures of its own, so that their number identifies it. */
void model_add_up(struct model *model);
/* The index of the context with this id, or WIRE_NONE. */
uint32_t model_find_context(const struct model *model, uint32_t id);
/* Computes total of every context, from the contexts that `included` marks (NULL: all). */
void model_compute_totals(struct model *model, const bool *included);
/* a + b, WIRE_UNKNOWN where either is or where the sum does not fit. */
int64_t model_add(int64_t a, int64_t b);
/* The value for sums that must not overflow, whatever a damaged dump says: 0 where it is not known,
 * and at most 2^50, which no figure of a process comes near. */
int64_t model_tame(int64_t value);
/* a * b / c without overflow, tamed; 0 for c 0. */
int64_t model_share(int64_t a, int64_t b, int64_t c);
/* Figures of a page that no page has become ones that sums can bear. */
void model_tame_page(struct wire_page *page);
void model_add_totals(struct model_totals *sum, const struct model_totals *part);
/* True where there is something to see in these figures. */
bool model_totals_any(const struct model_totals *totals);
/* The mark of that name; NULL: the latest one. NULL where there is none. */
struct model_mark *model_find_mark(struct model *model, const char *name);

const char *model_kind_word(const struct model_context *context);
const char *model_policy_word(uint8_t policy);
const char *model_placement_word(uint8_t placement);

/* What the writers of JSON (formats/emit.h) and of snapshot files (snapshot/snapshot.h) write. */
struct model_write_options {
    const bool *shown; /* JSON only: by context, which contexts are written; NULL: all */
    bool threads;
    bool names;
    bool snapshot; /* JSON only: also what only a snapshot file needs */
};

#endif
