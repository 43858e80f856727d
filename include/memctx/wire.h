/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the frames that the library and the command exchange over the control socket.
 *
 * Purpose: the one description of the bytes on the socket. The library answers, the command asks;
 * they share nothing else.
 * Shape: the server speaks first (a HELLO frame). Then the client sends one request frame at a
 * time and reads one answer frame. Every frame starts with struct wire_frame. Both ends are on one
 * machine, so integers are little-endian in their natural alignment and structs travel as they are.
 * Pieces: no answer has more than WIRE_ANSWER_MAX bytes, whatever the target holds. What is longer is
 * read in pieces: each answer says where to go on, and the target keeps nothing between two of them, so
 * that every client goes at its own pace and who leaves leaves nothing behind.
 * Limits: a request body has at most WIRE_REQUEST_MAX bytes; an oversize, unknown or badly sized
 * request costs the client its connection. A client that sends half a frame, or does not read its
 * answer, for WIRE_DEADLINE_MS loses its connection too; and when all WIRE_CLIENTS_MAX places are taken
 * and another one waits, so does who has asked for nothing yet. Asking again elsewhere goes on from there.
 * Versions: WIRE_VERSION changes when a struct changes; each end refuses another version by name.
 */
#ifndef MEMCTX_WIRE_H
#define MEMCTX_WIRE_H

#include <stdint.h>

#define WIRE_MAGIC 0x5854434dU /* the bytes "MCTX" */
#define WIRE_VERSION 7
#define WIRE_ANSWER_MAX 24576U /* bytes behind the frame */
#define WIRE_REQUEST_MAX 1024U
#define WIRE_CLIENTS_MAX 8
#define WIRE_DEADLINE_MS 2000
#define WIRE_MARK_NAME_MAX 32 /* with the final 0 */
#define WIRE_MARKS_MAX 16
#define WIRE_NOTES_MAX 16 /* the oldest makes room */
#define WIRE_NOTE_BYTES 512
#define WIRE_OCCUPANCY_BINS 7  /* <=6, <=12, <=25, <=50, <=75, <100, 100 % of the blocks live */
#define WIRE_NONE UINT32_MAX   /* no such index or id */
#define WIRE_UNKNOWN INT64_MIN /* this figure was not computed: shown as null, never as 0 */

enum wire_type {
    WIRE_HELLO = 1, /* server, on connect: struct wire_hello */
    WIRE_DUMP = 2,  /* struct wire_dump_request -> struct wire_dump: the whole process's figures */
    WIRE_MARK = 3,  /* struct wire_mark_request -> text */
    WIRE_RESET = 4, /* struct wire_reset_request -> text */
    WIRE_TRIM = 5,  /* struct wire_contexts_request, verb: flags -> struct wire_trim */
    WIRE_SET = 6,   /* text "name=value" -> text, how the option stands now */
    WIRE_OPTIONS =
        7,          /* no body -> text, one "name\tvalue\tdefault\tsettable\thelp" line an option */
    WIRE_SELF = 8,  /* no body -> text, one "name\tvalue\thelp" line a statistic of ours */
    WIRE_PIECE = 9, /* struct wire_piece_request -> struct wire_piece and as many records as fit */
    WIRE_NOTE = 11, /* text, which the target keeps and shows in each dump -> text */
    WIRE_PLACE = 10, /* struct wire_contexts_request, verb: enum wire_placement -> text */
    WIRE_RULES =
        12, /* text: "list" -> text, one "rule\tcontexts\tlive bytes\tlive chunks" line a rule;
                        "clear", or a rule to add behind the others, "PATTERN=POLICY" -> text; "unresolved" -> text,
                        the version of the list of rules, then the index of each open module that some
                        rule was not resolved for, a line each */
    WIRE_RESET_NAMED =
        13, /* text: "ask NAME", that named contexts of that name be reset by the program, or
                            * "look NAME" -> text "asked\treset since\tbytes freed" */
    WIRE_UNFOLD =
        14, /* struct wire_contexts_request of recursive contexts, verb: seconds for which new paths are to have each
             * turn of their recursion, 0: none -> text "their functions\tunfolded functions of
             * all\tseconds until the last of these is folded again" */
    WIRE_RULE_RANGES = 15, /* struct wire_rule_ranges -> text */
};

enum wire_status {
    WIRE_OK = 0,
    WIRE_REFUSED = 1,   /* body: a text that says why (unknown option, mark or context ...) */
    WIRE_NO_MEMORY = 2, /* the answer could not be built; body: text */
};

struct wire_frame {
    uint32_t magic;
    uint16_t version;
    uint16_t type;   /* enum wire_type; an answer repeats its request's */
    uint32_t status; /* enum wire_status; 0 in a request */
    uint32_t reserved;
    uint64_t length; /* bytes that follow */
};

struct wire_hello {
    uint32_t pid;         /* in the target's own pid namespace */
    uint32_t depth;       /* MEMCTX_DEPTH now */
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid */
    char library_version[32];
};

/* --- dump -------------------------------------------------------------------------------
 *
 * The head of a dump, whose size does not change; the rest of it comes in pieces. */

#define WIRE_DUMP_RESIDENT 1U /* ask the kernel (mincore): figures of what is resident */
#define WIRE_DUMP_THREADS 2U  /* of contexts: with each thread's part */
#define WIRE_DUMP_LIGHT 4U    /* of pages: only what it takes to add up what contexts hold */
#define WIRE_DUMP_BEGIN                                                                            \
    8U /* pieces follow: until the end, or WIRE_DUMP_QUIET_MS pass without one, ids
                               * keep their meaning */
#define WIRE_DUMP_END 16U  /* that was the last piece */
#define WIRE_DUMP_SUMS 32U /* fill in the sums: reads all that threads count */
#define WIRE_DUMP_QUIET_MS 10000

struct wire_dump_request {
    uint32_t flags;
    uint32_t reserved;
};

struct wire_dump {
    uint64_t uptime_ns;
    uint32_t pid;
    uint32_t depth;
    uint32_t exact;    /* 1: no operation was lost (no full table, no foreign pointer) */
    uint32_t flags;    /* the request's */
    uint32_t contexts; /* ids are below it */
    uint32_t took_ns;  /* to make this answer */
    /* Of the whole process; WIRE_UNKNOWN unless SUMS was asked. */
    int64_t requested_bytes, live_chunks, allocs, frees;

    /* The ledger of memory that is ours, in bytes, so that it can be held against the kernel's
     * figure. mapped = reserved by contexts + mixed free + freelist + segment headers + clean. What
     * only a look at the pages tells is for the reader to add up from them: 0 here. */
    struct wire_ledger {
        int64_t segments_mapped;   /* address space of segments and large chunks */
        int64_t segments_resident; /* from the pages; WIRE_UNKNOWN unless RESIDENT was asked */
        int64_t pages_reserved;    /* from the pages: those and large chunks that contexts own */
        int64_t mixed_reserved;    /* from the pages: mixed ones, whole */
        int64_t mixed_block_bytes; /* from the pages: live blocks in them */
        int64_t freelist_bytes;    /* empty memory kept for reuse, not given back yet */
        int64_t freelist_items;
        int64_t segment_headers; /* page headers in use */
        int64_t metadata_mapped; /* tree, views, caches, tables */
        int64_t metadata_used;
        int64_t metadata_resident; /* WIRE_UNKNOWN unless RESIDENT was asked */
        int64_t control_bytes;     /* stack and answer buffers of the control thread */
        int64_t untouched_bytes; /* from the pages: reserved, never written, costs no memory yet */
        int64_t returned_bytes;  /* empty memory given back to the kernel since the start */
        int64_t rss_bytes;       /* what the kernel says of the whole process, at this moment */
    } ledger;
    char exe[1024]; /* what is cut is cut */
};

/* --- pieces ------------------------------------------------------------------------------ */

enum wire_part {
    WIRE_PART_CONTEXTS = 0, /* struct wire_context and what follows it */
    WIRE_PART_MODULES = 1,  /* struct wire_module and its path */
    WIRE_PART_THREADS = 2,  /* struct wire_thread */
    WIRE_PART_REMOTES = 3,  /* struct wire_remote */
    WIRE_PART_MARKS = 4,    /* struct wire_mark */
    WIRE_PART_ENTRIES = 5,  /* struct wire_mark_entry, of one mark */
    WIRE_PART_NOTES = 6,    /* texts, each ended by a 0 byte */
    WIRE_PART_PAGES = 7,    /* struct wire_page and its shares */
    WIRE_PART_BEST =
        8, /* struct wire_survey, then as CONTEXTS those of which one figure is large */
    WIRE_PART_PATH = 9, /* as CONTEXTS: the way from the root to a context, and that one */
    WIRE_PARTS = 10,
};

struct wire_piece_request {
    uint32_t part;  /* enum wire_part */
    uint32_t flags; /* WIRE_DUMP_RESIDENT, THREADS, LIGHT */
    uint64_t
        from; /* 0: from the start; next of the answer before; of contexts and a path also WIRE_FROM_ID(id) */
    uint32_t most;                 /* records; 0: as many as fit */
    uint32_t figure;               /* of BEST: enum wire_figure, ... */
    int64_t least;                 /* ... of which a context has to have so much */
    uint64_t ids_below;            /* of BEST: contexts with higher ids are newer than the dump */
    uint64_t mark_uptime_ns;       /* of the entries: which mark of that name */
    char mark[WIRE_MARK_NAME_MAX]; /* of the entries */
};
#define WIRE_FROM_ID(id) ((uint64_t)(id) << 16)

enum wire_figure {
    WIRE_FIGURE_REQUESTED = 0,
    WIRE_FIGURE_CHUNKS = 1,
    WIRE_FIGURE_ALLOCS = 2,
    WIRE_FIGURE_FREES = 3,
    WIRE_FIGURE_PEAK = 4, /* what is not known counts as 0 */
    WIRE_FIGURES = 5,
};

/* Records follow, each at a multiple of 8 bytes. */
struct wire_piece {
    uint64_t next; /* greater than the request's; 0: that was all */
    uint32_t count;
    uint32_t took_ns;
    int64_t segments_resident; /* of pages, with RESIDENT: of segments that this piece began */
};

/* The figures of one context or one thread's part of it, in bytes and counts. Signed, because a thread
 * that frees what others allocated has negative live figures; sums over threads are not. */
struct wire_sums {
    int64_t requested_bytes; /* live */
    int64_t live_chunks;
    int64_t allocs; /* since start or the last reset; so are the next two */
    int64_t frees;
    int64_t requested_cum_bytes;
    int64_t peak_requested_bytes; /* WIRE_UNKNOWN where several threads make it inexact */
};

/* Of all contexts that were looked at for a piece of BEST, whether they are told or not. */
struct wire_survey {
    uint64_t contexts, with_figures;
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
    /* Of these, what stands below a label such as [truncated], and below [other callers]. */
    int64_t labelled_bytes, labelled_allocs, merged_bytes, merged_allocs;
    int64_t root_peak_bytes; /* WIRE_UNKNOWN, unless the root was among them */
};

enum wire_context_kind {
    WIRE_KIND_ROOT = 0,    /* the root of the tree; has no frame */
    WIRE_KIND_PATH = 1,    /* a frame of a call path: address is its return address */
    WIRE_KIND_NAMED = 2,   /* made through the API: label is its name */
    WIRE_KIND_UNKNOWN = 3, /* a labelled node such as [unknown] or [truncated]: label says which */
};

/* Its figures and texts follow: struct wire_sums where `holds` says so, `views` times struct wire_view,
 * the texts. Where threads are so many that their parts need several records, each has the figures of
 * some threads, and all but the first are WIRE_CONTEXT_FURTHER. */
#define WIRE_CONTEXT_SUMS 1U
#define WIRE_CONTEXT_FURTHER 2U
/* Flags of a context. The figures of a partial one, with all below it, may be too small: for lack of room
 * some of its call paths were charged to [other callers] of a context further out, which bounds how much
 * is missing. A late one's figures begin when its path was admitted; what the path allocated before is in
 * [other callers] of an ancestor. The function of a recursive one stands on deeper call paths again: they
 * go on from here, see recursive_from. */
#define WIRE_CONTEXT_PARTIAL 1U
#define WIRE_CONTEXT_LATE 2U
#define WIRE_CONTEXT_RECURSIVE 4U

struct wire_context {
    uint32_t id;     /* stable for the life of the process */
    uint32_t parent; /* id, or WIRE_NONE for the root; a parent comes before its children */
    uint32_t module; /* index into the modules, or WIRE_NONE */
    uint32_t flags;  /* WIRE_CONTEXT_PARTIAL and so on */
    uint32_t
        recursive_from; /* of a recursive one: the context of which the function was called again, when
                              * that was seen first; from there outwards to this one's parent stand the
                              * functions of the loop. WIRE_NONE: not known */
    uint16_t bytes;     /* of the record with what follows: to the next one */
    uint16_t views;
    uint64_t address;      /* as it was in the process; 0 without a frame */
    uint8_t kind;          /* enum wire_context_kind */
    uint8_t exact_address; /* 1: the frame was interrupted by a signal, so address is the
                            * instruction itself; 0: a return address (look up address - 1) */
    uint8_t placement;     /* enum wire_placement */
    uint8_t holds;         /* WIRE_CONTEXT_SUMS, WIRE_CONTEXT_FURTHER */
    uint16_t label_bytes;  /* a text with its 0 byte; 0: none */
    uint16_t why_bytes;    /* the same behind it: a rule, or another reason for its placement */
};

struct wire_view { /* what one thread did in the context */
    uint32_t heap; /* see the threads */
    uint32_t reserved;
    struct wire_sums sums;
};

/* Where its chunks stand, as the reader finds from its pages: in none, in its own, in mixed ones; in its own, by the
 * policy that was set. */
enum wire_policy {
    WIRE_POLICY_NONE = 0,
    WIRE_POLICY_ASET = 1,
    WIRE_POLICY_MIXED = 2,
    WIRE_POLICY_SLAB = 3,
    WIRE_POLICY_GENERATION = 4,
    WIRE_POLICY_BUMP = 5,
    WIRE_POLICY_SIMPLE = 6,
};
/* Where its next chunks are to stand: as the allocator decides; apart from contexts that are not; in no new pages of its
 * own; in pages of its own by a policy. */
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
    uint32_t path_bytes; /* a text with its 0 byte, which follows */
    uint32_t build_id_bytes;
    uint8_t build_id[24];
    uint32_t closed; /* 1 after dlclose */
};

/* The heap that a thread has now. A heap that no thread has is in no record: it is that of threads that have exited. */
struct wire_thread {
    uint32_t heap;
    uint32_t tid;
    char name[16];
};

/* The frees of chunks that stand in another thread's pages: a heap's pages belong to the thread that has it now. */
struct wire_remote {
    uint32_t freed_by, owner; /* heaps */
    int64_t frees;            /* since the start */
};

/* Of a mark for whose contexts there was not room: those that held least, in sums since the start. */
struct wire_left_out {
    uint64_t contexts;  /* 0: none; the rest means nothing then */
    uint64_t ids_below; /* a context with a higher id was not there yet */
    int64_t most_bytes; /* none held more */
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

struct wire_mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns; /* when it was set */
    struct wire_left_out left_out;
};

struct
    wire_mark_entry { /* how a context stood at the mark; one that is missing at 0, or it was left out */
    uint32_t context;
    uint32_t reserved;
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

/* --- pages -------------------------------------------------------------------------------
 *
 * What stands in which page. Each page is as it was at one moment, all of them are not; contexts may be newer than those
 * of the pieces before. What contexts hold (reserved, resident, pinned bytes, pages) is the sum over these records:
 * tools/memctx/model/figures.c. */

#define WIRE_AGE_NS (1UL << 24) /* unit of ages */

enum wire_page_kind { WIRE_PAGE_OWN = 1, WIRE_PAGE_MIXED = 2, WIRE_PAGE_LARGE = 3 };
enum wire_page_state {
    WIRE_PAGE_CURRENT =
        0, /* new chunks are handed out from it; with none alive it is kept for the next ones */
    WIRE_PAGE_FULL = 1,   /* no free blocks, or too few to wait */
    WIRE_PAGE_LISTED = 2, /* it has free blocks, and waits to be current */
};

/* A page, or a run of alike ones of one context side by side: full ones; with LIGHT, of one occupancy. Ages are in units
 * of WIRE_AGE_NS. With LIGHT ages, OS pages and spare units of its own pages are 0. */
struct wire_page {
    uint64_t start, bytes; /* address space */
    uint64_t
        touched_bytes; /* in OS pages of which blocks were handed out, without those given back since */
    uint64_t live_bytes;      /* of the blocks that are alive */
    uint64_t untouched_bytes; /* never written since it was reserved */
    int64_t resident_bytes;   /* WIRE_UNKNOWN unless asked */
    uint32_t context;         /* WIRE_NONE: of several, see the shares */
    uint32_t block_bytes;     /* 0: a large chunk; with chunks one behind the other: of a unit */
    uint32_t live, capacity;  /* blocks; with chunks one behind the other: chunks, units */
    uint32_t pages;           /* in the run */
    uint32_t first_share;     /* for the reader; 0 */
    uint32_t share_count;     /* they follow */
    uint32_t tid;             /* of the thread whose it is; 0: of none that lives, or any's */
    uint32_t oldest_age;      /* no chunk in it is older */
    uint32_t newest_age;      /* nor younger */
    uint16_t os_pages
        [WIRE_OCCUPANCY_BINS]; /* its OS pages by how much of them is alive; the first has those that the
                                             * page cannot give back although nothing is */
    uint16_t os_empty;         /* nothing in them is alive: what a trim of the context gives back */
    uint16_t guard_bytes; /* of a large chunk: of its live bytes, its guard's and no rounding */
    uint16_t
        further;   /* 1: not the page again, only more of its shares than one answer has room for */
    uint8_t kind;  /* enum wire_page_kind */
    uint8_t state; /* enum wire_page_state */
    uint8_t apart; /* mixed, of contexts with WIRE_PLACE_APART only */
    uint8_t spare_units; /* own: so many times 16 bytes of each block nobody asked for, at least */
};

struct wire_share { /* of a mixed page; the first of all is whose block stands first */
    uint32_t context;
    uint16_t live;     /* blocks */
    uint16_t resident; /* of these, if asked */
};

/* --- the small requests ------------------------------------------------------------------ */

struct wire_mark_request {
    char name[WIRE_MARK_NAME_MAX]; /* an existing mark of this name moves; empty: "default" */
};

struct wire_reset_request {
    uint32_t context; /* id: this node and all below it; WIRE_NONE: the whole tree */
    uint32_t reserved;
};

#define WIRE_TRIM_CONTEXTS                                                                         \
    1U /* of these contexts (else: of all) what is kept empty, and OS pages in which nothing is */
#define WIRE_MORE (1U << 31) /* more contexts come with the next request, which then does it */
#define WIRE_CONTEXTS_MAX 240U
#define WIRE_UNFOLD_SECONDS_MAX 86400U

struct wire_contexts_request {
    uint32_t verb, count;
    uint32_t contexts[]; /* ids; so many */
};

/* The code of a module that rules hold for, as the command found it (docs/rules.md). */
#define WIRE_RULE_RANGES_MAX 16384U /* that the library keeps, of all modules */
#define WIRE_RANGES_SENT_MAX 61U    /* in one request */

struct wire_rule_range {
    uint64_t start; /* address in the module's file */
    uint32_t bytes;
    uint32_t rule; /* its place in the list of rules, from 1 on */
};

struct wire_rule_ranges {
    uint32_t version;        /* of the list of rules, as "unresolved" told */
    uint32_t module;         /* index of struct wire_module */
    uint32_t at;             /* ranges of the module that were sent before; 0 begins anew */
    uint32_t last;           /* 1: with these the module is resolved */
    uint32_t count;          /* ranges that follow */
    uint32_t build_id_bytes; /* the module's */
    uint8_t build_id[24];
    struct wire_rule_range ranges[]; /* by rising start, none overlaps */
};

/* The same for a program that `memctx run` starts, in the environment: lines of text. "1", the version;
 * "=RULE" for each rule, which the lines below number from 1 on; "@b BUILD-ID" or "@f SIZE MTIME_NS PATH",
 * an object; "RULE GAP LENGTH RULE GAP LENGTH ...", its ranges in hexadecimal, each GAP bytes behind the end
 * of the one before. */
#define WIRE_RANGES_VARIABLE "MEMCTX_RULE_RANGES"
#define WIRE_RANGES_TEXT_MAX 98304U

struct wire_trim {
    int64_t released_bytes; /* handed to the kernel by this request */
    int64_t punched_bytes;  /* of these: empty OS pages of pages that are in use */
    int64_t rss_before, rss_after;
    uint32_t threads; /* that have memory */
    uint32_t
        threads_waiting; /* of these: have not allocated since, so that theirs is still there; they will do it then */
};

#endif
