/* SPDX-License-Identifier: MIT */
/*
 * snapshot_format.h - defines the bytes of a snapshot file, for whoever writes a second reader.
 *
 * The file:
 *   8 bytes   89 6d 65 6d 63 74 78 0a  ("\x89memctx\n")
 *   4 bytes   the version, little-endian; this is version 1
 *   then      one zstd frame with a content checksum and a window of at most 8 MiB: the body
 *   then perhaps skippable zstd frames, which a reader ignores
 * `tail -c +13 FILE | zstd -dc` gives the body.
 *
 * The body is a sequence of blocks. A block holds some rows of one table, column by column:
 *   varint    the table's number
 *   varint    number of bytes of the block from here on
 *   varint    rows
 *   varint    columns, then of each: its number (varint), its bytes (varint)
 *   then      the columns' contents, one behind the other, in the same order
 * A table's rows may come in several blocks; they are numbered from 0 through all of them. Tables
 * stand in the order of their numbers. The block of table 0 (no rows, no columns) is the last.
 *
 * A reader skips tables and columns that it does not know, and a column that is missing in a block
 * holds the number 0 in each row. So a later writer adds tables and columns without a new version.
 * The version changes only if the meaning of a known table or column changes.
 *
 * Contents of a column: a value for each row. Kinds of value:
 *   number    varint: 7 bits a byte, the lowest first; bit 7: more follow; at most 10 bytes
 *   signed    a number n; n even: n / 2, n odd: -(n + 1) / 2
 *   figure    a number n; 0: not known, else expected + signed(n - 1). The expected
 *             value is 0, unless the column names another; an unknown figure counts as 0 in it.
 *             Since -2^63 is no figure, the number that would give it is left out: let u be the
 *             number with signed(u) = -2^63 - expected; for n > u the figure is
 *             expected + signed(n).
 *   text      a number n; 0: none, else row n - 1 of the texts
 *   index     a number: a row of the table that is named. "index or none": 0: none, else row n - 1
 *   bytes     no numbers: the bytes of all rows side by side; another column has the lengths
 * Arithmetic is modulo 2^64. "delta of" a value: a signed number that is added to the value of the
 * row before (for the first row of all blocks: to 0).
 *
 * A writer keeps the limits below, and a reader checks them. So that a small file cannot unpack to
 * gigabytes, a file of N bytes has a body of at most SNAPSHOT_BODY_FREE + N * SNAPSHOT_BODY_RATIO
 * bytes, and its tables together have at most SNAPSHOT_ROWS_FREE + N * SNAPSHOT_ROWS_RATIO rows. If
 * a body is compressed further than that, the writer makes the file longer with a skippable frame.
 * Every index must be the number of a row; texts have no 0 bytes.
 */
#ifndef MEMCTX_SNAPSHOT_FORMAT_H
#define MEMCTX_SNAPSHOT_FORMAT_H

#include "model/model.h"
#include <stdint.h>

#include <memctx/wire.h>

#define SNAPSHOT_MAGIC "\x89memctx\n"
#define SNAPSHOT_MAGIC_BYTES 8U
#define SNAPSHOT_HEAD_BYTES (SNAPSHOT_MAGIC_BYTES + 4U)
#define SNAPSHOT_VERSION 1U

#define SNAPSHOT_WINDOW_LOG 23
/* greatest number of columns of a block; each column's number is below it */
#define SNAPSHOT_COLUMNS_MAX 64U
#define SNAPSHOT_ROWS_MAX 65536U       /* rows of a block */
#define SNAPSHOT_BLOCK_MAX (32U << 20) /* bytes of a block */
#define SNAPSHOT_TEXT_MAX (1U << 20)   /* bytes of a text */
#define SNAPSHOT_BODY_FREE (16U << 20)
#define SNAPSHOT_BODY_RATIO 256U
#define SNAPSHOT_ROWS_FREE (1U << 20)
#define SNAPSHOT_ROWS_RATIO 8U
#define SNAPSHOT_FILE_MAX ((size_t)1 << 30)

enum snapshot_table {
    SNAPSHOT_END = 0, /* the last block, although its number is the lowest */
    SNAPSHOT_TEXTS = 1,
    SNAPSHOT_PROCESS = 2,
    SNAPSHOT_FIGURES = 3,
    SNAPSHOT_MODULES = 4,
    SNAPSHOT_FUNCTIONS = 5,
    SNAPSHOT_FRAMES = 6,
    SNAPSHOT_CONTEXTS = 7,
    SNAPSHOT_THREADS = 8,
    SNAPSHOT_VIEWS = 9,
    SNAPSHOT_REMOTES = 10,
    SNAPSHOT_MARKS = 11,
    SNAPSHOT_MARK_ENTRIES = 12,
    SNAPSHOT_PAGES = 13,
    SNAPSHOT_SHARES = 14,
    SNAPSHOT_NOTES = 15,
    SNAPSHOT_TAILS = 16,
    SNAPSHOT_RESIZES = 17,
    SNAPSHOT_TABLES,
};

enum snapshot_texts {
    TEXTS_LENGTH = 1, /* number: bytes */
    TEXTS_BYTES = 2,  /* bytes */
};

/* The table has one row: the process, and which parts of its data the file has. */
enum snapshot_process {
    PROCESS_PID = 1,             /* figure; must be known */
    PROCESS_EXE = 2,             /* text; must be there */
    PROCESS_UPTIME = 3,          /* number: the bits of a double, in seconds */
    PROCESS_DEPTH = 4,           /* figure */
    PROCESS_EXACT = 5,           /* number: 1 or 0; likewise the columns PROCESS_HAS_... */
    PROCESS_START_TICKS = 6,     /* number */
    PROCESS_LIBRARY_VERSION = 7, /* text */
    PROCESS_BUILD_NS = 8,        /* figure: nanoseconds that the target took for the dump */
    PROCESS_HAS_NAMES = 9, /* 1: names were looked up: for a frame without names none were found */
    PROCESS_HAS_THREADS = 10,
    PROCESS_HAS_PAGES = 11,
    PROCESS_HAS_MAPPINGS = 12,
    PROCESS_PROGRAM = 13,       /* text: the program as the user named it; may be missing */
    PROCESS_LOST_REALLOCS = 14, /* number: calls of realloc that SNAPSHOT_RESIZES does not count */
    /* number: the bits of a double, in seconds: how long the machine slept since it started */
    PROCESS_SLEPT = 15,
    /* text: how the process's memory was read; no text: the process answered the requests */
    PROCESS_HOW = 16,
    PROCESS_RESETS = 17, /* number: how often counters were reset */
};

/* Figures of the process, one a row, under the names that they have in the JSON form. A reader
 * skips names that it does not know. */
enum snapshot_figures {
    FIGURES_GROUP = 1, /* number: 1 the ledger, 2 the mappings */
    FIGURES_NAME = 2,  /* text */
    FIGURES_VALUE = 3, /* figure */
};
enum { FIGURES_LEDGER = 1, FIGURES_MAPPINGS = 2 };

enum snapshot_modules {
    MODULES_PATH = 1, /* text; must be there */
    MODULES_START = 2,
    MODULES_END = 3,
    MODULES_BIAS = 4, /* address in the process less bias: address in the module's file */
    MODULES_ID_LENGTH = 5,
    MODULES_ID = 6,      /* bytes: the build-id */
    MODULES_CLOSED = 7,  /* 1 after dlclose */
    MODULES_SYMBOLS = 8, /* text: the source of the module's names, or why it has none */
};

/* Functions at addresses. A row with INLINED 0 begins the list of one address: the function that
 * contains the address. The rows with INLINED 1 after it are functions that are inlined there,
 * innermost first. Lists are numbered from 0. */
enum snapshot_functions {
    FUNCTIONS_NAME = 1, /* text */
    FUNCTIONS_FILE = 2, /* text */
    FUNCTIONS_LINE = 3, /* number; 0: not known */
    FUNCTIONS_INLINED = 4,
};

enum snapshot_frames {
    FRAMES_ADDRESS = 1, /* delta of the address */
    FRAMES_MODULE = 2,  /* index or none, of the modules */
    FRAMES_LIST = 3,    /* index or none, of the lists of functions */
};

/* Row 0 is the root; a parent stands before its children; no context is deeper than 1 024. A reader
 * treats an unknown kind as a label, an unknown policy as none, and an unknown placement as the
 * default. */
enum snapshot_contexts {
    CONTEXTS_ID = 1,     /* signed: added to the previous row's id plus 1; in the first row to 0 */
    CONTEXTS_PARENT = 2, /* number: rows from the parent to this row; 0 for the root */
    CONTEXTS_KIND = 3,   /* enum wire_context_kind */
    CONTEXTS_POLICY = 4, /* enum wire_policy */
    CONTEXTS_PLACEMENT = 5, /* enum wire_placement */
    CONTEXTS_FLAGS = 6, /* number: CONTEXTS_FLAG_*; a reader ignores bits that it does not know */
    CONTEXTS_FRAME = 7, /* index or none, of the frames: used if the kind is a path */
    CONTEXTS_LABEL = 8, /* text: used if the kind is not a path */
    CONTEXTS_WHY = 9,   /* text: the rule or other reason for the context's placement */
    /* index or none, of the contexts: recursive_from of struct wire_context */
    CONTEXTS_RECURSIVE_FROM = 10,
    /* this column and the next six: numbers of own pages, by share of live blocks */
    CONTEXTS_OCCUPANCY = 16,
    /* this column and the next eleven: SNAPSHOT_TOTALS of the context itself */
    CONTEXTS_TOTALS = 32,
};
enum {
    CONTEXTS_FLAG_EXACT_ADDRESS = 1,
    /* for this flag and the next two flags see WIRE_CONTEXT_* in wire.h */
    CONTEXTS_FLAG_PARTIAL = 2,
    CONTEXTS_FLAG_LATE = 4,
    CONTEXTS_FLAG_RECURSIVE = 8,
    CONTEXTS_FLAGS_SHIFT = 1, /* flag here = flag of wire.h << this number */
};
_Static_assert(WIRE_CONTEXT_PARTIAL << CONTEXTS_FLAGS_SHIFT == CONTEXTS_FLAG_PARTIAL &&
                   WIRE_CONTEXT_LATE << CONTEXTS_FLAGS_SHIFT == CONTEXTS_FLAG_LATE &&
                   WIRE_CONTEXT_RECURSIVE << CONTEXTS_FLAGS_SHIFT == CONTEXTS_FLAG_RECURSIVE,
               "the same flags");

/* The figures of a context, in the order of their columns: name and expected value. Sums over a
 * context's children are not stored. */
#define SNAPSHOT_TOTALS(X)                                                                         \
    X(requested_bytes, 0)                                                                          \
    X(block_bytes, SNAPSHOT_KNOWN(requested_bytes))                                                \
    X(reserved_bytes, SNAPSHOT_KNOWN(block_bytes))                                                 \
    X(resident_bytes, SNAPSHOT_KNOWN(reserved_bytes))                                              \
    X(pinned_bytes, 0)                                                                             \
    X(sole_pinned_bytes, 0)                                                                        \
    X(live_chunks, 0)                                                                              \
    X(allocs, SNAPSHOT_KNOWN(live_chunks))                                                         \
    X(frees, SNAPSHOT_KNOWN(allocs) - SNAPSHOT_KNOWN(live_chunks))                                 \
    X(requested_cum_bytes, SNAPSHOT_KNOWN(requested_bytes))                                        \
    X(peak_requested_bytes, SNAPSHOT_KNOWN(requested_bytes))                                       \
    X(pages, 0)
#define SNAPSHOT_TOTALS_COUNT 12U
#define SNAPSHOT_KNOWN(name) snapshot_known(totals->name)

/* Encodes a value of kind "signed" as the number that is stored; snapshot_unzigzag decodes it. */
static inline uint64_t snapshot_zigzag(uint64_t value) {
    return value << 1 ^ (0 - (value >> 63));
}

static inline uint64_t snapshot_unzigzag(uint64_t code) {
    return code >> 1 ^ (0 - (code & 1));
}

static inline uint64_t snapshot_known(int64_t figure) {
    return figure == WIRE_UNKNOWN ? 0 : (uint64_t)figure;
}

/* Sets `rest` to the expected values of a context's first view. After each view, `rest` less the
 * view's figures gives the expected values of the next view. */
static inline void snapshot_begin_rest(uint64_t rest[SNAPSHOT_TOTALS_COUNT],
                                       const struct model_totals *self) {
#define X(name, expected) *rest++ = snapshot_known(self->name);
    SNAPSHOT_TOTALS(X)
#undef X
}

enum snapshot_threads {
    THREADS_TID = 1,  /* 0: the exited threads, and those in the shared heap, together */
    THREADS_NAME = 2, /* text */
};

/* The rows are in the order of contexts. The expected value of a figure is the context's own figure
 * less the figures of the context's earlier views. */
enum snapshot_views {
    VIEWS_CONTEXT = 1, /* number: added to the context of the row before; in the first row to 0 */
    VIEWS_THREAD = 2,  /* index of the threads */
    VIEWS_TOTALS = 32, /* this column and the next eleven: SNAPSHOT_TOTALS of the view */
};

enum snapshot_remotes {
    REMOTES_FREED_BY = 1, /* index of the threads */
    REMOTES_OWNER = 2,    /* index of the threads */
    REMOTES_FREES = 3,    /* figure */
};

enum snapshot_marks {
    MARKS_NAME = 1,        /* text */
    MARKS_UPTIME = 2,      /* number: the bits of a double, in seconds */
    MARKS_HAS_ENTRIES = 3, /* number; 0: the counters are not in the file */
    MARKS_ENTRIES = 4,   /* number of rows of the entries, which follow the previous mark's rows */
    MARKS_LEFT_OUT = 5,  /* number: contexts without entries, because they held least */
    MARKS_IDS_BELOW = 6, /* number: contexts with this id or a higher id are newer than the mark */
    MARKS_MOST = 7,      /* figure: the most bytes that one left-out context held */
    MARKS_SLEPT = 13,    /* number: PROCESS_SLEPT at the time when the mark was set */
    MARKS_RSS = 14,      /* figure: resident set at that time; 0: not known */
    MARKS_HAS_ELSEWHERE = 15, /* number; 0: the next five figures are not known */
    MARKS_ELSEWHERE = 16,     /* this column and the next four: SNAPSHOT_ELSEWHERE */
    /* this column and the next four: SNAPSHOT_MARK_FIGURES, sums over the left-out contexts */
    MARKS_SUMS = 8,
};

/* The expected value of a figure is the context's own figure of this name. */
enum snapshot_mark_entries {
    ENTRIES_CONTEXT = 1, /* delta of the row of the context */
    ENTRIES_FIGURES = 2, /* this column and the next four: SNAPSHOT_MARK_FIGURES */
};

#define SNAPSHOT_MARK_FIGURES(X)                                                                   \
    X(requested_bytes)                                                                             \
    X(live_chunks)                                                                                 \
    X(allocs)                                                                                      \
    X(frees)                                                                                       \
    X(requested_cum_bytes)

/* The fields of struct wire_elsewhere. */
#define SNAPSHOT_ELSEWHERE(X)                                                                      \
    X(private_bytes)                                                                               \
    X(shared_bytes)                                                                                \
    X(file_bytes)                                                                                  \
    X(data_bytes)                                                                                  \
    X(swap_bytes)

/* The fields of struct wire_page. A column without a comment holds numbers. */
enum snapshot_pages {
    PAGES_START = 1, /* signed: added to the end of the previous page; in the first row to 0 */
    PAGES_BYTES = 2,
    PAGES_TOUCHED_BYTES = 3,
    PAGES_LIVE_BYTES = 4,
    PAGES_RESIDENT_BYTES = 5, /* figure; its expected value is the touched bytes */
    PAGES_CONTEXT = 6,        /* index or none, of the contexts; none: the page has shares */
    PAGES_BLOCK_BYTES = 7,
    PAGES_LIVE = 8,
    PAGES_CAPACITY = 9,
    PAGES_TID = 10,
    PAGES_OLDEST_AGE = 11,
    PAGES_NEWEST_AGE = 12,
    PAGES_KIND = 13,
    PAGES_STATE = 14,
    PAGES_APART = 15,
    PAGES_SPARE_UNITS = 16,
    PAGES_OS_EMPTY = 17,
    PAGES_SHARES = 18,   /* number of rows of the shares, which follow the previous page's rows */
    PAGES_OS_PAGES = 24, /* this column and the next six: os_pages */
};

enum snapshot_shares {
    SHARES_CONTEXT = 1, /* index of the contexts */
    SHARES_LIVE = 2,
};

enum snapshot_notes {
    NOTES_TEXT = 1, /* text */
};

/* Functions that ended in a tail call, so that they have no frame: between two frames of a path, or
 * between a frame and malloc. The rows of one pair of frames stand together, innermost first. */
enum snapshot_tails {
    TAILS_OUTER = 1,    /* index of the frames */
    TAILS_INNER = 2,    /* index of the frames, or none: the inner end is malloc */
    TAILS_FUNCTION = 3, /* index of the frames: the address after the tail call, with its names */
};

/* Counts of calls of realloc: a row for each context with chunks that realloc resized, in the order
 * of contexts. */
enum snapshot_resizes {
    RESIZES_CONTEXT = 1, /* delta of the row of the context */
    RESIZES_COUNTS = 2,  /* this column and the next five: MODEL_RESIZES, figures */
};

#endif
