/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the frames that the library and the command exchange over the control socket.
 *
 * Purpose: the one description of the bytes on the socket, for the command, which asks, and for the
 * library, which answers.
 * Shape: the server speaks first and sends a HELLO frame. Then the client sends one request frame
 * at a time and reads one answer frame. Every frame starts with struct wire_frame. Both ends run on
 * one machine, so integers are little-endian in their natural alignment, and structs travel as they
 * are in memory.
 * Pieces: no answer has more than WIRE_ANSWER_MAX bytes, whatever the target holds. The client
 * reads longer data in pieces: each answer says where the next piece starts. The target keeps no
 * state between two pieces, so every client reads at its own pace, and a client that disconnects
 * leaves nothing behind.
 * Limits: a request body has at most WIRE_REQUEST_MAX bytes. The server closes the connection of a
 * client whose request is too long, unknown, or of the wrong size. The server also closes a
 * connection when the client leaves a frame incomplete or an answer unread for WIRE_DEADLINE_MS, or
 * sends no request for 60 s. When WIRE_CLIENTS_MAX clients are connected and another one waits, the
 * server disconnects a client that sent no first request within 0.1 s, or no further request within
 * WIRE_DEADLINE_MS of an answer, or has been reading an answer for 10 s. Clients that never sent a
 * request go first. A client that lost its connection may connect again and ask for the next piece.
 * Versions: WIRE_VERSION changes when a struct changes. Each end refuses frames of another version,
 * and reports that version.
 */
#ifndef MEMCTX_WIRE_H
#define MEMCTX_WIRE_H

#include <stdint.h>

#define WIRE_MAGIC 0x5854434dU /* the bytes "MCTX" */
#define WIRE_VERSION 13
#define WIRE_ANSWER_MAX 24576U /* bytes after struct wire_frame */
#define WIRE_REQUEST_MAX 1024U
#define WIRE_CLIENTS_MAX 8
#define WIRE_DEADLINE_MS 2000
#define WIRE_MARK_NAME_MAX 32 /* with the final 0 */
#define WIRE_MARKS_MAX 16     /* marks that WIRE_MARK sets */
#define WIRE_MARKS_ALL 48     /* marks of WIRE_MARK, and marks of MEMCTX_MARKS (named auto-N) */
#define WIRE_NOTES_MAX 16     /* when there are this many, the next note replaces the oldest one */
#define WIRE_NOTE_BYTES 512
#define WIRE_OCCUPANCY_BINS 7  /* <=6, <=12, <=25, <=50, <=75, <100, 100 % of the bytes live */
#define WIRE_NONE UINT32_MAX   /* no such index or id */
#define WIRE_UNKNOWN INT64_MIN /* this figure was not computed: shown as null, never as 0 */

/* The comment of a type says: the body of the request -> the body of the answer. */
enum wire_type {
    /* The server sends struct wire_hello when a client connects. */
    WIRE_HELLO = 1,
    /* struct wire_dump_request -> struct wire_dump: the figures of the whole process */
    WIRE_DUMP = 2,
    /* struct wire_mark_request -> text */
    WIRE_MARK = 3,
    /* struct wire_reset_request -> text */
    WIRE_RESET = 4,
    /* struct wire_contexts_request, whose verb is a sum of flags -> struct wire_trim */
    WIRE_TRIM = 5,
    /* text "name=value" -> text: the value that the option has now */
    WIRE_SET = 6,
    /* no body -> text: a line "name\tvalue\tdefault\tsettable\thelp" for each option */
    WIRE_OPTIONS = 7,
    /* no body -> text: a line "name\tvalue\thelp" for each statistic of the library */
    WIRE_SELF = 8,
    /* struct wire_piece_request -> struct wire_piece and as many records as fit */
    WIRE_PIECE = 9,
    /* text, which the target keeps and shows in each dump -> text */
    WIRE_NOTE = 11,
    /* struct wire_contexts_request, whose verb is an enum wire_placement -> text */
    WIRE_PLACE = 10,
    /* text "list" -> text: a line for each rule with these fields, separated by tabs: rule,
     * contexts, live bytes, live chunks, limit, refused allocations (or warnings), guarded chunks,
     * chunks that got no guard;
     * text "clear", or a rule "PATTERN=POLICY" to add behind all other rules -> text;
     * text "check", a newline and a rule, which is not added -> text;
     * text "unresolved" -> text: the version of the list of rules, then a line with the index of
     * each open module that some rule was not resolved for, and " unreadable" if the library cannot
     * read its names */
    WIRE_RULES = 12,
    /* text "ask NAME", to ask the program for a reset of its contexts of that name;
     * text "look NAME", to ask for the answer alone
     * -> text "asked\treset since\tbytes freed" */
    WIRE_RESET_NAMED = 13,
    /* struct wire_contexts_request with recursive contexts. Its verb is the number of seconds
     * during which new paths keep every turn of a recursion of their functions; 0: these functions
     * are folded again at once -> text "number of functions of these contexts (with 0: of
     * those that were unfolded)\tnumber of all unfolded functions\tseconds until the last unfolded
     * function is folded again" */
    WIRE_UNFOLD = 14,
    /* struct wire_rule_ranges -> text */
    WIRE_RULE_RANGES = 15,
};

enum wire_status {
    WIRE_OK = 0,
    WIRE_REFUSED = 1,   /* the body is a text with the reason, such as an unknown option */
    WIRE_NO_MEMORY = 2, /* the server could not build the answer; the body is a text */
};

struct wire_frame {
    uint32_t magic;
    uint16_t version;
    uint16_t type;   /* enum wire_type; an answer repeats the type of its request */
    uint32_t status; /* enum wire_status; 0 in a request */
    uint32_t reserved;
    uint64_t length; /* bytes of the body */
};

struct wire_hello {
    /* Field 22 of /proc/PID/stat; differs when the pid was reused. 0: not known, because the
     * process sees no /proc, or has no descriptor left for the file. */
    uint64_t start_ticks;
    uint32_t pid; /* the process id, in the pid namespace of the process */
    uint32_t reserved;
    char library_version[32];
};

/* --- dump -------------------------------------------------------------------------------
 *
 * The head of a dump, which has a fixed size. The rest of the dump comes in pieces. */

#define WIRE_DUMP_RESIDENT 1U /* compute resident figures: asks the kernel with mincore */
#define WIRE_DUMP_THREADS 2U  /* contexts: add the figures of each thread */
#define WIRE_DUMP_LIGHT 4U    /* pages: leave out fields that sums over contexts do not need */
/* The client will ask for pieces. Ids keep their meaning until WIRE_DUMP_END, or until
 * WIRE_DUMP_QUIET_MS pass without a request for a piece. */
#define WIRE_DUMP_BEGIN 8U
#define WIRE_DUMP_END 16U  /* the client has read the last piece */
#define WIRE_DUMP_SUMS 32U /* compute the sums, which reads every thread's counters */
#define WIRE_DUMP_QUIET_MS 10000

struct wire_dump_request {
    uint32_t flags;
    uint32_t reserved;
};

struct wire_dump {
    uint64_t uptime_ns; /* like every uptime here, does not count the time that the machine slept */
    uint64_t slept_ns;  /* how long the machine slept since its boot */
    uint32_t depth;     /* the current value of MEMCTX_DEPTH */
    /* 1: no operation was lost. Operations are lost if memory for a table is short, and by some
     * forks */
    uint32_t exact;
    uint32_t resets;   /* how often counters were reset: all of them, or those of a subtree */
    uint32_t contexts; /* every id is less than this */
    uint32_t took_ns;  /* time to build this answer */
    uint32_t reserved;
    /* Sums over the whole process; WIRE_UNKNOWN unless the request has WIRE_DUMP_SUMS. */
    int64_t requested_bytes, live_chunks, allocs, frees;

    /* The memory of the allocator, in bytes, for comparison with the kernel's figure:
     * segments_mapped = pages_reserved + mixed_reserved + freelist_bytes + segment_headers + free
     * address space without memory.
     * A field marked "from the pages" is 0 here; the reader adds it up from the pages. */
    struct wire_ledger {
        int64_t segments_mapped;   /* address space of segments and large chunks */
        int64_t segments_resident; /* from the pages; WIRE_UNKNOWN without WIRE_DUMP_RESIDENT */
        int64_t pages_reserved;    /* from the pages: pages and large chunks of contexts */
        int64_t mixed_reserved;    /* from the pages: whole mixed pages */
        int64_t mixed_block_bytes; /* from the pages: live blocks in mixed pages */
        int64_t freelist_bytes;    /* empty memory kept for reuse, not yet returned */
        int64_t freelist_items;
        int64_t segment_headers; /* page headers in use */
        int64_t metadata_mapped; /* tree, views, caches, tables */
        int64_t metadata_used;
        int64_t metadata_resident; /* WIRE_UNKNOWN without WIRE_DUMP_RESIDENT */
        int64_t control_bytes;     /* stack and answer buffers of the control thread */
        int64_t untouched_bytes;   /* from the pages: reserved, never written, no memory yet */
        int64_t returned_bytes;    /* empty memory returned to the kernel since the start */
        /* Resident bytes of the whole process, as the kernel reports them at this moment.
         * WIRE_UNKNOWN: the process sees no /proc, or has no descriptor left for the file. */
        int64_t rss_bytes;
    } ledger;
    char exe[1024]; /* a longer path is cut */
};

/* --- pieces ------------------------------------------------------------------------------ */

enum wire_part {
    WIRE_PART_CONTEXTS = 0, /* struct wire_context and the data that follow it */
    WIRE_PART_MODULES = 1,  /* struct wire_module and its path */
    WIRE_PART_THREADS = 2,  /* struct wire_thread */
    WIRE_PART_REMOTES = 3,  /* struct wire_remote */
    WIRE_PART_MARKS = 4,    /* struct wire_mark */
    WIRE_PART_ENTRIES = 5,  /* struct wire_mark_entry of one mark */
    WIRE_PART_NOTES = 6,    /* texts, each with its final 0 */
    WIRE_PART_PAGES = 7,    /* struct wire_page and its shares */
    /* struct wire_survey, then records as in WIRE_PART_CONTEXTS: the contexts in which the figure
     * that the request names is at least `least` */
    WIRE_PART_BEST = 8,
    /* records as in WIRE_PART_CONTEXTS: the contexts from the root to one context */
    WIRE_PART_PATH = 9,
    WIRE_PART_RESIZES = 10, /* struct wire_resizes */
    WIRE_PARTS = 11,
};

struct wire_piece_request {
    uint32_t part;  /* enum wire_part */
    uint32_t flags; /* WIRE_DUMP_RESIDENT, WIRE_DUMP_THREADS, WIRE_DUMP_LIGHT */
    /* 0: from the start. Otherwise `next` of the previous answer, or, for contexts and for a path,
     * WIRE_FROM_ID(id). */
    uint64_t from;
    uint32_t most;   /* records; 0: as many as fit */
    uint32_t figure; /* BEST: enum wire_figure */
    int64_t least;   /* BEST: the least value of that figure in a context that is sent */
    /* BEST: ignore ids from this number on; they are newer than the dump */
    uint64_t ids_below;
    uint64_t mark_uptime_ns;       /* ENTRIES: tells marks of one name apart */
    char mark[WIRE_MARK_NAME_MAX]; /* ENTRIES */
};
#define WIRE_FROM_ID(id) ((uint64_t)(id) << 16)

enum wire_figure {
    WIRE_FIGURE_REQUESTED = 0,
    WIRE_FIGURE_CHUNKS = 1,
    WIRE_FIGURE_ALLOCS = 2,
    WIRE_FIGURE_FREES = 3,
    WIRE_FIGURE_PEAK = 4, /* an unknown peak counts as 0 */
    WIRE_FIGURES = 5,
};

/* Records follow, each at a multiple of 8 bytes. */
struct wire_piece {
    uint64_t next; /* greater than the request's `from`; 0: this was the last piece */
    uint32_t count;
    uint32_t took_ns;
    /* PAGES with WIRE_DUMP_RESIDENT: resident bytes of the segments that start in this piece */
    int64_t segments_resident;
};

/* The figures of one context, or of one thread in a context. The fields are signed, because a
 * thread that frees chunks of other threads has negative live figures. Sums over all threads are
 * not negative. */
struct wire_sums {
    int64_t requested_bytes; /* requested bytes of live chunks */
    int64_t live_chunks;
    /* Since the start, or since the last reset of the counters: */
    int64_t allocs;
    int64_t frees;
    int64_t requested_cum_bytes; /* requested bytes of all allocations */
    /* WIRE_UNKNOWN if several threads use the context, because no exact peak is known */
    int64_t peak_requested_bytes;
};

/* Sums over all contexts that the server looked at for a piece of WIRE_PART_BEST, whether it sent
 * them or not. */
struct wire_survey {
    uint64_t uptime_ns; /* when the figures of this piece were read */
    uint64_t contexts, with_figures;
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
    /* labelled_*: sums over the contexts below a label such as [truncated]; merged_*: sums over
     * those below [other callers]. */
    int64_t labelled_bytes, labelled_allocs, merged_bytes, merged_allocs;
    int64_t root_peak_bytes; /* WIRE_UNKNOWN, unless the root was among the contexts */
};

enum wire_context_kind {
    WIRE_KIND_ROOT = 0,    /* the root of the tree; has no frame */
    WIRE_KIND_PATH = 1,    /* a frame of a call path: address is its return address */
    WIRE_KIND_NAMED = 2,   /* created by the program through memctx.h: label is its name */
    WIRE_KIND_UNKNOWN = 3, /* a labelled node such as [unknown] or [truncated]: label says which */
};

/* A context's record: struct wire_context; struct wire_sums if `holds` has WIRE_CONTEXT_SUMS;
 * `views` times struct wire_view; the texts. When the threads of a context do not fit into one
 * record, several records follow each other; each has some threads, and each but the first has
 * WIRE_CONTEXT_FURTHER. */
#define WIRE_CONTEXT_SUMS 1U
#define WIRE_CONTEXT_FURTHER 2U
/* Flags of a context.
 * PARTIAL: the figures of the context and its descendants may be too low. The tables had no room,
 * so some call paths were charged to [other callers] of an ancestor; the figures of that node bound
 * the error.
 * LATE: the figures begin when the path was admitted. Earlier allocations of the path are in
 * [other callers] of an ancestor.
 * RECURSIVE: deeper call paths call this context's function again. These paths continue below this
 * context; see recursive_from. */
#define WIRE_CONTEXT_PARTIAL 1U
#define WIRE_CONTEXT_LATE 2U
#define WIRE_CONTEXT_RECURSIVE 4U

struct wire_context {
    uint32_t id;     /* of another path when this one was removed; see WIRE_DUMP_BEGIN */
    uint32_t parent; /* id, or WIRE_NONE for the root; a parent comes before its children */
    uint32_t module; /* index into the modules, or WIRE_NONE */
    uint32_t flags;  /* WIRE_CONTEXT_PARTIAL and so on */
    /* RECURSIVE: the context whose function was called again when the recursion was first seen. The
     * contexts from that context to this context's parent are the functions of the loop. WIRE_NONE:
     * unknown. */
    uint32_t recursive_from;
    uint16_t bytes; /* bytes of the whole record; the next record follows them */
    uint16_t views;
    uint64_t address; /* address in the process; 0: the context has no frame */
    uint8_t kind;     /* enum wire_context_kind */
    /* 0: `address` is a return address, so look up address - 1. 1: a signal interrupted the frame,
     * so `address` is the instruction itself. */
    uint8_t exact_address;
    uint8_t placement;    /* enum wire_placement */
    uint8_t holds;        /* WIRE_CONTEXT_SUMS, WIRE_CONTEXT_FURTHER */
    uint16_t label_bytes; /* a text with its final 0; 0: none */
    /* the text behind the label, with its final 0: the reason for the placement */
    uint16_t why_bytes;
};

struct wire_view { /* the figures of one thread in the context */
    uint32_t heap; /* number of the heap, as in struct wire_thread */
    uint32_t reserved;
    struct wire_sums sums;
};

/* Where the chunks of a context are, as the reader finds from the pages: in no page, in mixed
 * pages, or in its own pages by one of the policies. */
enum wire_policy {
    WIRE_POLICY_NONE = 0,
    WIRE_POLICY_ASET = 1,
    WIRE_POLICY_MIXED = 2,
    WIRE_POLICY_SLAB = 3,
    WIRE_POLICY_GENERATION = 4,
    WIRE_POLICY_BUMP = 5,
    WIRE_POLICY_SIMPLE = 6,
};
/* Where the next chunks of a context go. DEFAULT: the allocator decides. APART: to mixed pages that
 * only contexts with APART share. SHARED: to mixed pages; the context gets no new pages of its own.
 * Every other value: to pages of the context's own, with the policy of that name. */
enum wire_placement {
    WIRE_PLACE_DEFAULT = 0,
    WIRE_PLACE_APART = 1,
    WIRE_PLACE_SHARED = 2,
    WIRE_PLACE_SLAB = WIRE_POLICY_SLAB,
    WIRE_PLACE_GENERATION = WIRE_POLICY_GENERATION,
    WIRE_PLACE_BUMP = WIRE_POLICY_BUMP,
    WIRE_PLACE_SIMPLE = WIRE_POLICY_SIMPLE,
};

/* An object (executable, library, vDSO) that holds frames. A closed library keeps its entry. */
struct wire_module {
    uint64_t start, end; /* the mapped range */
    uint64_t bias;       /* address - bias = address in the file (ELF st_value) */
    uint32_t index;
    uint32_t path_bytes; /* bytes of the text that follows, with its final 0 */
    uint32_t build_id_bytes;
    uint8_t build_id[24];
    uint32_t closed; /* 1 after dlclose */
};

/* The heap that a thread uses now. A heap without a record belongs to no thread now: its threads
 * have exited, or it is the shared heap, number 0, which serves threads that have allocated little.
 */
struct wire_thread {
    uint32_t heap;
    uint32_t tid;
    char name[16];
};

/* Frees of chunks in pages of another heap. A heap's pages belong to the thread that uses the heap
 * now. */
struct wire_remote {
    uint32_t freed_by, owner; /* numbers of heaps, as in struct wire_thread */
    int64_t frees;            /* since the start */
};

/* Counts of realloc in a context; a context may have several records, which the reader adds up.
 * All counts begin at the start of the process, or at the last reset of the counters. */
struct wire_resizes {
    /* id; WIRE_NONE: `reallocs` counts calls of unknown contexts, for which the tables had no room
     */
    uint32_t context;
    uint32_t reserved;
    int64_t reallocs;         /* calls that resized a chunk and charged it to this context */
    int64_t copies;           /* calls among these that copied the chunk to another place */
    int64_t copied_bytes;     /* bytes that were copied */
    int64_t grows;            /* calls that made the chunk larger */
    int64_t grown_bytes;      /* requested bytes that the growing calls added */
    int64_t grown_from_bytes; /* requested bytes before the growing calls */
};

/* Sums over the contexts that a mark had no room for: those with the fewest live bytes. allocs,
 * frees and requested_cum_bytes count since the last reset before the mark, or since the start; a
 * reset after the mark makes them WIRE_UNKNOWN. */
struct wire_left_out {
    uint64_t contexts;  /* number of these contexts; 0: the other fields mean nothing */
    uint64_t ids_below; /* contexts with this id or a higher one did not exist then */
    int64_t most_bytes; /* the greatest requested bytes of one of these contexts */
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

/* Memory of the process that did not come from malloc, by the kernel's counters. If private_bytes
 * is WIRE_UNKNOWN, the other figures mean nothing. */
struct wire_elsewhere {
    int64_t private_bytes; /* resident, anonymous, and none of the library's own memory */
    int64_t shared_bytes;  /* resident shared memory, also files in a tmpfs */
    int64_t file_bytes;    /* resident pages of files */
    int64_t data_bytes;    /* size of all private, writable mappings but the library's */
    int64_t swap_bytes;    /* in swap, so not resident; chunks of malloc count, too */
};

struct wire_mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns; /* when the mark was set */
    uint64_t slept_ns;  /* as in struct wire_dump, when the mark was set */
    int64_t rss_bytes;  /* resident set of the process when the mark was set; may be WIRE_UNKNOWN */
    struct wire_elsewhere elsewhere; /* when the mark was set */
    struct wire_left_out left_out;
};

/* The figures of a context at the mark. A context without an entry had figures of 0, or was left
 * out. */
struct wire_mark_entry {
    uint32_t context;
    uint32_t reserved;
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

/* --- pages -------------------------------------------------------------------------------
 *
 * The contents of each page. One record shows its page at one moment; different records show
 * different moments. A record may name a context that did not exist yet when earlier pieces were
 * sent. The reader adds up these records to get what contexts hold: reserved, resident and pinned
 * bytes, and pages. */

#define WIRE_AGE_NS (1UL << 24) /* unit of ages */
/* A page may be this much younger than the clock that its age is computed with, in units of ages
 * (73 minutes): a large process is read from outside in several seconds. All larger differences are
 * ages, up to more than two years. */
#define WIRE_AGE_LAG (1U << 18)

enum wire_page_kind { WIRE_PAGE_OWN = 1, WIRE_PAGE_MIXED = 2, WIRE_PAGE_LARGE = 3 };
enum wire_page_state {
    WIRE_PAGE_CURRENT = 0, /* new chunks come from this page; it is kept when it is empty */
    WIRE_PAGE_FULL = 1,    /* has no free block, or too few to be listed */
    WIRE_PAGE_LISTED = 2,  /* has free blocks, and waits to become current */
};

#define WIRE_PAGE_ALIGNED 2 /* a value of wire_page.apart */

/* A page, or a run of adjacent pages of one context that are alike: full pages, or, with
 * WIRE_DUMP_LIGHT, pages in the same bin of occupancy. Ages are in units of WIRE_AGE_NS. In an
 * answer of the process with WIRE_DUMP_LIGHT, the ages, os_pages and spare_units are 0. */
struct wire_page {
    uint64_t start, bytes; /* address space */
    /* Bytes of the OS pages from which blocks were handed out, less those returned since. */
    uint64_t touched_bytes;
    uint64_t live_bytes;      /* bytes of the live blocks */
    uint64_t untouched_bytes; /* not written since the page was reserved */
    int64_t resident_bytes;   /* WIRE_UNKNOWN without WIRE_DUMP_RESIDENT */
    uint32_t context;         /* WIRE_NONE: a mixed page; the shares name its contexts */
    /* bytes of a block; in a serial page 16, the bytes of a unit; 0: a large chunk */
    uint32_t block_bytes;
    /* number of live blocks and of all blocks; in a serial page: of live chunks and of units */
    uint32_t live, capacity;
    uint32_t pages;       /* number of pages in the run */
    uint32_t first_share; /* 0; for the reader's own use */
    uint32_t share_count; /* number of struct wire_share that follow */
    /* id of the thread that owns the page; 0: that thread has exited, or no thread owns the page */
    uint32_t tid;
    uint32_t oldest_age; /* no chunk in the page is older */
    uint32_t newest_age; /* no chunk in the page is younger */
    /* OS pages by the share of their bytes that is live. The first bin also counts OS pages without
     * live bytes that a trim cannot return. */
    uint16_t os_pages[WIRE_OCCUPANCY_BINS];
    uint16_t os_empty;    /* OS pages without live bytes, which a trim of the context returns */
    uint16_t guard_bytes; /* large chunk: bytes of live_bytes that are guard, not rounding */
    uint16_t further;     /* 1: an earlier piece has the first shares of this page */
    uint8_t kind;         /* enum wire_page_kind */
    uint8_t state;        /* enum wire_page_state */
    /* In a mixed page: 1 if only contexts with WIRE_PLACE_APART share the page. In an own page:
     * WIRE_PAGE_ALIGNED if its context asked for alignments above 16 bytes, for which another
     * policy may need larger blocks. Otherwise 0. */
    uint8_t apart;
    /* In an own page: at least this many times 16 bytes of each block are spare. In a mixed page:
     * the number of free blocks that the owner freed last and has not given back to the page, at
     * most UINT8_MAX. Older libraries send 0 for a mixed page. */
    uint8_t spare_units;
};

/* The part of one context in a mixed page. The first share belongs to the context of the first
 * block. */
struct wire_share {
    uint32_t context;
    uint16_t live;     /* blocks */
    uint16_t resident; /* number of these blocks that are in memory; 0 without WIRE_DUMP_RESIDENT */
};

/* --- the small requests ------------------------------------------------------------------ */

struct wire_mark_request {
    char name[WIRE_MARK_NAME_MAX]; /* the new mark replaces a mark of this name; empty: "default" */
};

struct wire_reset_request {
    uint32_t context; /* id: this node and its descendants; WIRE_NONE: the whole tree */
    uint32_t reserved;
};

/* Trims only the listed contexts: returns to the kernel their empty memory, and the OS pages
 * without live bytes inside their pages. Without this flag a trim is for all contexts. */
#define WIRE_TRIM_CONTEXTS 1U
/* the next request has further contexts; the server acts on the last request */
#define WIRE_MORE (1U << 31)
#define WIRE_CONTEXTS_MAX 240U
#define WIRE_UNFOLD_SECONDS_MAX 86400U

struct wire_contexts_request {
    uint32_t verb, count;
    uint32_t contexts[]; /* `count` ids */
};

/* Ranges of a module's code that match rules, as the command found them (docs/rules.md). */
#define WIRE_RULE_RANGES_MAX 16384U /* upper bound for all modules together */
#define WIRE_RANGES_SENT_MAX 61U    /* upper bound for one request */

struct wire_rule_range {
    uint64_t start; /* address in the module's file */
    uint32_t bytes;
    uint32_t rule; /* number of the rule in the list, from 1 on */
};

struct wire_rule_ranges {
    uint32_t version;        /* version of the list of rules, from the answer to "unresolved" */
    uint32_t module;         /* index of struct wire_module */
    uint32_t at;             /* ranges of the module that were sent before; 0 begins anew */
    uint32_t last;           /* 1: these are the last ranges of the module */
    uint32_t count;          /* number of ranges that follow */
    uint32_t build_id_bytes; /* bytes of the module's build-id */
    uint8_t build_id[24];
    struct wire_rule_range ranges[]; /* sorted by start; no two ranges overlap */
};

/* The ranges for a program that `memctx run` starts are in the environment, as lines of text:
 * "1", the version;
 * "=RULE" for each rule, which the lines below number from 1 on;
 * "@b BUILD-ID" or "@f SIZE MTIME_NS PATH", an object;
 * "RULE GAP LENGTH RULE GAP LENGTH ...", the ranges of that object in hexadecimal. Each GAP is the
 * number of bytes between the end of one range and the start of the next. */
#define WIRE_RANGES_VARIABLE "MEMCTX_RULE_RANGES"
#define WIRE_RANGES_TEXT_MAX 98304U

struct wire_trim {
    int64_t released_bytes;        /* returned to the kernel by this request */
    int64_t punched_bytes;         /* part of released_bytes: empty OS pages inside pages in use */
    int64_t rss_before, rss_after; /* -1: the process cannot read the figure */
    uint32_t threads;              /* threads that have memory */
    /* Threads among these that have not allocated since the request. Each returns its memory with
     * its next allocation. */
    uint32_t threads_waiting;
};

#endif
