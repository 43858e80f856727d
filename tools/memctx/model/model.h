/* SPDX-License-Identifier: MIT */
/*
 * model.h - one dump in memory: the tree, its figures, the modules, threads, marks and the ledger.
 *
 * A model is filled from the answers of a process (wire_load.h) or from a snapshot file
 * (snapshot_load). Both give an equal model, so its readers need not tell them apart. Neither
 * source is trusted: every index, offset and string is checked while loading, so that the readers
 * need no checks. INVARIANT: contexts[0] is the root; a parent stands before its children; no node
 * is deeper than MODEL_LEVELS_MAX, so a recursive walk over the tree needs a bounded stack.
 */
#ifndef MEMCTX_MODEL_H
#define MEMCTX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <memctx/wire.h>

#include "base/cli.h"

#define MODEL_LEVELS_MAX 1024
/* A JSON snapshot has this many numbers for a page, before the page's shares. */
#define PAGE_NUMBERS (16 + WIRE_OCCUPANCY_BINS + 1)
/* The flags of a context that a model keeps (not those of enum model_flags). */
#define MODEL_FLAGS (WIRE_CONTEXT_PARTIAL | WIRE_CONTEXT_LATE | WIRE_CONTEXT_RECURSIVE)
#define MODEL_EXITED "exited" /* JSON key for the view of the thread with tid 0 */

/* The figures of a context, in bytes and counts, in the order and with the names of the JSON. Some
 * come from struct wire_sums, the others from page records (figures.h). */
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

/* Figures that a dump has only on request. Otherwise they are WIRE_UNKNOWN. */
enum model_flags {
    MODEL_RESIDENT = 1, /* resident bytes, from the kernel */
    MODEL_THREADS = 2,  /* figures of each thread */
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

/* The counts of struct wire_resizes. */
#define MODEL_RESIZES(X)                                                                           \
    X(reallocs)                                                                                    \
    X(copies)                                                                                      \
    X(copied_bytes)                                                                                \
    X(grows)                                                                                       \
    X(grown_bytes)                                                                                 \
    X(grown_from_bytes)

/* Bytes of kinds of mappings, from the kernel's map of the process (memory.c). */
#define MODEL_MAPPINGS(X)                                                                          \
    X(rss_bytes)                                                                                   \
    X(file_bytes)       /* program, libraries, other files; their .bss except memctx's */          \
    X(stack_bytes)      /* the main thread's stack and other threads' */                           \
    X(heap_bytes)       /* the brk heap */                                                         \
    X(executable_bytes) /* anonymous and executable: code made at run time */                      \
    X(shared_bytes)     /* shared memory and named anonymous mappings */                           \
    X(anonymous_bytes)  /* all else: memory of the library and of the program */                   \
    X(huge_bytes)       /* at most so much of rss_bytes is in huge pages */                        \
    X(swap_bytes)       /* in swap, so not part of rss_bytes */                                    \
    X(peak_rss_bytes)   /* the highest resident set so far */                                      \
    /* by the kernel's counters, which struct wire_elsewhere has for a mark */                     \
    X(counted_anonymous_bytes)                                                                     \
    X(counted_file_bytes)                                                                          \
    X(counted_shared_bytes)                                                                        \
    X(counted_data_bytes)                                                                          \
    X(counted_swap_bytes)

struct model_mappings {
#define X(name) int64_t name;
    MODEL_MAPPINGS(X)
#undef X
};

enum model_place_kind {
    MODEL_PLACE_FILE,
    MODEL_PLACE_STACK,
    MODEL_PLACE_HEAP,
    MODEL_PLACE_CODE,
    MODEL_PLACE_SHARED,
    MODEL_PLACE_ANONYMOUS,
    MODEL_PLACE_KINDS
};

/* One mapping of the process. The kinds are those of struct model_mappings. */
struct model_place {
    uint64_t start, end;
    int64_t bytes; /* resident */
    enum model_place_kind kind;
    char *path; /* path or name as in /proc/PID/maps; NULL: none */
};

/* One function, with the line that was executed in it. */
struct model_function {
    char *name; /* NULL: not known */
    char *file; /* NULL: not known; then line is 0 */
    int64_t line;
};

/* The names of one address: functions[0] is the function that the machine code is in. The functions
 * that were inlined into it at this address follow, innermost first. */
struct model_names {
    uint32_t count;
    struct model_function *functions;
};

struct model_module {
    uint64_t start, end, bias; /* bias: address in the process less address in the file */
    char *path;
    uint8_t build_id[24];
    uint32_t build_id_bytes;
    bool closed;   /* dlclose has removed the module */
    char *symbols; /* source of the module's names, or why it has none; NULL: not looked up */
};

/* The frame that a node of the tree stands for. All contexts of one frame share this struct: there
 * are few frames, but there may be millions of contexts. */
struct model_frame {
    uint64_t address;
    uint32_t module;                 /* index or WIRE_NONE */
    uint32_t number;                 /* the frames of a model are numbered from 0 on */
    uint8_t kind;                    /* enum wire_context_kind */
    bool exact_address;              /* false: `address` is a return address */
    char *label;                     /* NULL for frames of a call path */
    const struct model_names *names; /* NULL: not known */
    struct model_frame *next;        /* next frame in the list model->frames */
};

/* The figures of one context. Contexts in which nothing was ever allocated share the figures
 * with number 0; in a large tree these are nearly all contexts. */
struct model_figures {
    struct model_totals self;
    uint32_t occupancy[WIRE_OCCUPANCY_BINS];
    uint32_t number; /* the figures of a model are numbered from 0 to figures_count - 1 */
    /* index of the context; WIRE_NONE for number 0 and for model->left_out */
    uint32_t context;
    /* The context's elements of model->views. If lone_view is set, there is one view, of the thread
     * with the index first_view, and it has no element: its sums are those of `self`. Nearly all
     * views are of this kind, since most contexts belong to one thread. */
    uint32_t first_view;
    uint32_t view_count : 31, lone_view : 1;
};

/* A context. There may be millions, so the struct has only 64 bytes. What only few contexts need is
 * stored elsewhere. */
struct model_context {
    struct model_frame *frame;
    const struct model_figures *figures;
    /* sum over the context and all contexts below it; contexts with equal sums may share one
     * struct */
    const struct model_totals *total;
    char *why; /* the rule or other reason for the context's placement; NULL: none */
    uint32_t id;
    uint32_t parent;                    /* index; WIRE_NONE for the root */
    uint32_t first_child, next_sibling; /* indices or WIRE_NONE, in the order of arrival */
    /* index of the innermost context of the loop of a recursion (folding.h), or WIRE_NONE */
    uint32_t recursive_from;
    uint16_t level;
    uint8_t flags;             /* WIRE_CONTEXT_PARTIAL, LATE, RECURSIVE */
    uint8_t policy, placement; /* enum wire_policy, wire_placement */
};

struct model_thread {
    uint32_t tid; /* 0: the exited threads, and those that use the shared heap, together */
    char name[17];
};

struct model_view {
    uint32_t context, thread; /* indices; the list of views is sorted by context */
    struct model_totals totals;
};

/* Frees of chunks in another thread's pages. A pair of threads may occur more than once. */
struct model_remote {
    uint32_t freed_by, owner; /* indices of threads */
    int64_t frees;
};

struct model_share { /* the blocks of one context in a mixed page */
    uint32_t context, live;
};

struct model_mark {
    char name[WIRE_MARK_NAME_MAX];
    double uptime_s, slept_s;
    /* uptime of the target when the mark was set; 0: not known, as in a JSON or packed snapshot */
    uint64_t uptime_ns;
    int64_t rss_bytes; /* resident set when the mark was set; WIRE_UNKNOWN: not known */
    struct wire_elsewhere elsewhere; /* figures are in the range of model_tame */
    bool has_entries;                /* false: the counters are not loaded */
    /* the contexts that have no entry; their sums may be WIRE_UNKNOWN */
    struct wire_left_out left_out;
    struct wire_mark_entry *entries; /* `context` is an index here, not an id */
    size_t entry_count;
};

struct model_id {
    uint32_t id, index;
};

/* The figures of the whole process at a moment of a recording. */
struct model_moment {
    uint64_t wall_ns; /* CLOCK_REALTIME */
    double uptime_s;
    double slept_s; /* how long the machine had slept since it was booted */
    int64_t requested_bytes, live_chunks, rss_bytes;
};

/* The data of a recording (memctx/record.h), beside the figures of the chosen moment. */
struct model_recording {
    struct model_moment *moments; /* the oldest first */
    size_t moment_count, chosen;  /* `chosen`: the moment whose figures the model has */
    uint32_t ending;              /* enum record_ending; 0: the file has no end */
    double end_uptime_s;
    char *boot_id;
    char *cgroup;          /* folder of the control group; empty: not known */
    uint64_t cgroup_inode; /* inode number of that folder; 0: not known */
    bool cgroup_v1;
    /* At the chosen moment; WIRE_UNKNOWN: the recording lacks the figure. */
    int64_t cgroup_bytes, cgroup_limit, cgroup_oom_kills;
    /* 0: cgroup_bytes and cgroup_limit are those of the process's control group; N: those of the
     * Nth group above it */
    uint32_t cgroup_above;
    /* the process changed its user after the first moment, so its exit handler may not write the
     * file */
    bool changed_user;
    int64_t lost; /* parts of the recording that could not be written */
    /* The chosen moment has figures of pages (memctx/record.h). Else paged_before is the last
     * earlier moment that has them; -1: none has. */
    bool paged;
    int64_t paged_before;
    /* by number of a context's figures: free bytes in pages that only this context keeps in use */
    int64_t *alone_free;
};

/* Sums over contexts with full call paths, and over contexts with merged ones (folding.h). The rest
 * of the totals is below other labels, such as [truncated]. */
struct folding_shares {
    int64_t full_bytes, full_allocs, merged_bytes, merged_allocs;
};

struct model {
    int64_t pid;
    uint64_t start_ticks;
    char *library_version;
    char *exe;
    char *program;   /* as the user named it, without folders: "redis-server", where exe may be the
                        file behind a symbolic link; NULL: not known */
    char *source;    /* name in messages: "pid 12" or the snapshot's file name */
    char *how;       /* how the memory was read; NULL: the process answered by itself */
    double uptime_s; /* like all uptimes, without the time that the machine slept */
    double slept_s;  /* how long the machine has slept since it was booted */
    int64_t build_ns;
    int64_t depth;
    uint32_t resets; /* how often counters were reset (memctx reset), also those of a subtree */
    bool exact;
    bool lost; /* the process itself says that its figures are not exact */
    /* The command paused, or had to connect again, while it read the contexts. Some figures may
     * then belong to other paths. */
    bool paused;
    bool from_snapshot; /* from a file: a snapshot, a recording or a core file */
    bool has_names;     /* the frames have their names */
    bool has_threads;   /* the thread views and the remote frees are loaded */
    bool has_pages;
    struct model_recording *recording; /* NULL: the model is not from a recording */
    struct wire_ledger ledger;
    bool has_mappings;
    struct model_mappings mappings;
    struct model_place *places; /* sorted by address; a snapshot has none */
    struct model_totals totals;
    /* Contexts that the target counted but did not send, because the command asked only for the
     * largest (verbs/best.h): the number of these contexts, and the number of those that have
     * figures of their own. `left_out` has the sum of these figures. */
    size_t left_out_count, left_out_leaves;
    /* requested bytes of the contexts that were left out; with --site, only of those that match */
    int64_t left_out_bytes;
    struct model_context left_out;
    struct folding_shares left_out_shares; /* shares of all contexts, left out or not */
    struct model_context *contexts;
    struct model_id *by_id;     /* contexts in the order of ids; NULL: each id equals its index */
    struct model_store *store;  /* memory of the frames, figures and totals */
    struct model_frame *frames; /* list of all frames */
    struct model_tail_table *tails; /* functions that paths lack (tails.h); NULL: none */
    size_t frame_count;
    /* the numbers of figures are below this; number 0 stands for contexts without figures of their
     * own */
    size_t figures_count;
    struct model_module *modules;
    struct model_thread *threads;
    struct model_view *views; /* without lone ones; read them with model_view_at */
    struct model_remote *remotes;
    /* Counts of realloc, one element for each context that resized chunks, in the order of the
     * contexts. `context` is an index here, and `heap` means nothing. */
    struct wire_resizes *resizes;
    int64_t lost_reallocs; /* calls of realloc that `resizes` does not count */
    struct model_mark *marks;
    /* The page records of wire.h, but with indices of contexts instead of ids. Sorted by address,
     * except for pages far from the first segment. */
    struct wire_page *pages;
    struct model_share *shares;
    char **notes; /* predictions of memctx isolate, merge, set and trim (target/notes.h) */
    size_t context_count, module_count, thread_count, view_count, remote_count, mark_count;
    size_t page_count, share_count, note_count, place_count, resize_count;
};

/* For the loaders: makes an empty model. Copies `source`. */
void model_begin(struct model *model, const char *source);
/* Frees the contexts, figures and totals of a model, which must not be read afterwards. Frames,
 * modules and names stay in memory. */
void model_drop(struct model *model);
/* Returns the frame with the members of `wanted`; creates it if needed and copies the label. A
 * frame of a call path is identified by address, module and exact_address, any other by kind and
 * label. */
struct model_frame *model_find_frame(struct model *model, const struct model_frame *wanted);
/* Adds a copy of `from` as a new frame, even if the model has an equal frame. */
struct model_frame *model_new_frame(struct model *model, const struct model_frame *from);
/* Returns the figures of a context for writing. A context that shares number 0 gets figures of its
 * own first. */
struct model_figures *model_own_figures(struct model *model, struct model_context *context);
/* Sets the totals and the occupancy of a context, but not its views. If all of them are 0 or
 * unknown, and equal to the figures with number 0, the context shares these; otherwise it gets
 * figures of its own. */
void model_set_figures(struct model *model, struct model_context *context,
                       const struct model_figures *figures);
/* Returns the view `index`, below figures->view_count, of the context with these figures. */
struct model_view model_view_at(const struct model *model, const struct model_figures *figures,
                                uint32_t index);
/* For the loaders: makes the last element of model->views the lone view of its context, if it is
 * the only one so far and has the sums of the context's figures, and removes the element. */
void model_fold_view(struct model *model, struct model_figures *figures);
/* For the loaders: gives a lone view an element of model->views again, for which the caller has
 * made room, before the context gets another view. */
void model_unfold_view(struct model *model, struct model_figures *figures);
/* Returns the figures with this number. */
struct model_figures *model_figures_at(const struct model *model, size_t number)
    __attribute__((pure));
/* For the loaders: checks the tree that the parents' ids in contexts[].parent describe, replaces
 * these ids by indices, and links the children. Replaces recursive_from by an index, too, or by
 * WIRE_NONE if there is no such context. Returns false and sets the failure if the tree is
 * damaged. */
bool model_link(struct model *model, struct cli_failure *failure);
/* Like model_link, but for contexts that were added to a model of which the first `from` contexts
 * are linked already. */
bool model_link_more(struct model *model, size_t from, struct cli_failure *failure);
/* Computes all totals; call it when all figures are set. A context that a page or a mark names gets
 * figures of its own, so that their number identifies the context. */
void model_add_up(struct model *model);
/* True if the sums over the pages of contexts are unknown, as in many moments of a recording. */
bool model_has_sums_only(const struct model *model);
/* Returns why the figures of a model are not exact; NULL: they are exact. */
const char *model_doubt(const struct model *model);
/* Returns the name of the program: as the user named it, or else the file name of exe. */
const char *model_program(const struct model *model);
/* Returns the time of the figures, in nanoseconds since 1970. For a process this is now; for a
 * recording, the time of the chosen moment; for a snapshot or a core file, which have no date, the
 * time of the file's last change. */
uint64_t model_time_ns(const struct model *model);
/* Returns the index of the context with this id, or WIRE_NONE. */
uint32_t model_find_context(const struct model *model, uint32_t id);
/* Computes the total of every context from the contexts that `included` marks (NULL: all). */
void model_compute_totals(struct model *model, const bool *included);
/* Returns a + b; WIRE_UNKNOWN if a or b is unknown, or if the sum overflows. */
int64_t model_add(int64_t a, int64_t b);
/* Returns a - b; WIRE_UNKNOWN if a or b is unknown, or if the difference overflows. */
int64_t model_subtract(int64_t a, int64_t b);
/* Returns the number of the bin for a share of live bytes. The bins are <=6, <=12, <=25, <=50,
 * <=75, <100 and 100 percent. The library puts a page's OS pages into the same bins. */
unsigned model_occupancy_bin(uint64_t live, uint64_t capacity);
/* Limits a value for sums that must not overflow, whatever a damaged dump says: returns 0 for
 * WIRE_UNKNOWN, and otherwise a value between -2^58 and 2^58. A process that allocates 9 GB each
 * second reaches this bound after a year. A sum of 31 such values fits into an int64_t. */
int64_t model_tame(int64_t value) __attribute__((const));
/* Returns a * b / c without overflow, limited as by model_tame; 0 if c is 0. */
int64_t model_share(int64_t a, int64_t b, int64_t c);
/* Returns the peak of a context's own live bytes; WIRE_UNKNOWN where it is not exact. The root and
 * labels such as [other callers] are charged with chunks of other paths, but not with their peaks.
 * A partial context lacks chunks. */
int64_t model_peak(const struct model_context *context) __attribute__((pure));
/* For the loaders: sorts the counts of realloc by context, and adds up several counts of one
 * context. */
void model_sort_resizes(struct model *model);
/* Returns the context's counts of realloc; NULL: it resized no chunk. */
const struct wire_resizes *model_resizes_of(const struct model *model, uint32_t context);
/* Limits the figures of a page to values that a page can have, so that sums do not overflow. */
void model_tame_page(struct wire_page *page);
void model_tame_elsewhere(struct wire_elsewhere *elsewhere);
void model_add_totals(struct model_totals *sum, const struct model_totals *part);
/* Returns true if requested, block or reserved bytes, live chunks, allocs or frees are not 0. */
bool model_totals_any(const struct model_totals *totals);
/* True if the process made the mark by itself (MEMCTX_MARKS). */
bool model_is_kept_mark(const struct model_mark *mark);
/* Returns how long the machine slept between an uptime of the target and the dump, counted from the
 * last mark at or before that uptime; 0 if there is no such mark. */
double model_slept_since(const struct model *model, double uptime_s);
/* Sorts the marks, the oldest first. */
void model_sort_marks(struct model *model);
/* Returns the mark of this name. If `name` is NULL, returns the latest mark of the user, or, if
 * there is none, the latest of MEMCTX_MARKS. Returns NULL if there is none at all. */
struct model_mark *model_find_mark(struct model *model, const char *name);

const char *model_kind_word(const struct model_context *context);
const char *model_policy_word(uint8_t policy);
const char *model_placement_word(uint8_t placement);

/* Options of a writer of JSON (formats/emit.h) or of a packed snapshot (snapshot/snapshot.h). */
struct model_write_options {
    const bool *shown; /* JSON only: true for each context that is written; NULL: all */
    bool threads;
    bool names;
    bool snapshot; /* JSON only: write the keys that only a snapshot file needs, too */
};

#endif
