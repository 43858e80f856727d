/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the frames that the library and the command exchange over the control socket.
 *
 * Purpose: the one description of the bytes on the socket. The library answers, the command asks;
 * they share nothing else.
 * Shape: the server speaks first (a HELLO frame). Then the client sends one request frame at a
 * time and reads one answer frame. Every frame starts with struct wire_frame. Both ends are on one
 * machine, so integers are little-endian in their natural alignment and structs travel as they are.
 * Limits: a request body has at most WIRE_REQUEST_MAX bytes; an oversize, unknown or badly sized
 * request costs the client its connection. A client that sends half a frame, or does not read its
 * answer, for WIRE_DEADLINE_MS loses its connection too.
 * Versions: WIRE_VERSION changes when a struct changes; each end refuses another version by name.
 */
#ifndef MEMCTX_WIRE_H
#define MEMCTX_WIRE_H

#include <stdint.h>

#define WIRE_MAGIC 0x5854434dU /* the bytes "MCTX" */
#define WIRE_VERSION 4
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
    WIRE_DUMP = 2,  /* struct wire_dump_request -> struct wire_dump and its sections */
    WIRE_MARK = 3,  /* struct wire_mark_request -> text */
    WIRE_RESET = 4, /* struct wire_reset_request -> text */
    WIRE_TRIM = 5,  /* struct wire_contexts_request, verb: flags -> struct wire_trim */
    WIRE_SET = 6,   /* text "name=value" -> text, how the option stands now */
    WIRE_OPTIONS =
        7,          /* no body -> text, one "name\tvalue\tdefault\tsettable\thelp" line an option */
    WIRE_SELF = 8,  /* no body -> text, one "name\tvalue\thelp" line a statistic of ours */
    WIRE_PAGES = 9, /* struct wire_pages_request -> struct wire_pages, wire_page[], wire_share[] */
    WIRE_NOTE = 11, /* text, which the target keeps and shows in each dump -> text */
    WIRE_PLACE = 10, /* struct wire_contexts_request, verb: enum wire_placement -> text */
    WIRE_RULES =
        12, /* text: "list" -> text, one "rule\tcontexts\tlive bytes\tlive chunks" line a rule;
                        "clear", or a rule to add behind the others, "PATTERN=POLICY" -> text */
    WIRE_RESET_NAMED =
        13, /* text: "ask NAME", that named contexts of that name be reset by the program, or
                            * "look NAME" -> text "asked\treset since\tbytes freed" */
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

/* --- dump ------------------------------------------------------------------------------- */

#define WIRE_DUMP_RESIDENT 1U /* ask the kernel (mincore): resident_bytes are filled in */
#define WIRE_DUMP_THREADS 2U  /* include the thread views */
#define WIRE_DUMP_PINNED 4U   /* scan the pages' blocks: pinned, sole-pinned, occupancy */

struct wire_dump_request {
    uint32_t flags;
    uint32_t reserved;
    char mark[WIRE_MARK_NAME_MAX]; /* include this mark's counters; empty: none */
};

/* The figures of one context or one thread view, in bytes and counts. Signed, because a thread
 * that frees what others allocated has negative live figures; sums over threads are not. */
struct wire_totals {
    int64_t requested_bytes; /* live */
    int64_t block_bytes;     /* live, with rounding */
    int64_t reserved_bytes;  /* its own pages, whole, and its blocks in mixed pages */
    int64_t resident_bytes;
    int64_t pinned_bytes;
    int64_t sole_pinned_bytes;
    int64_t live_chunks;
    int64_t allocs; /* since start or the last reset; so are the next two */
    int64_t frees;
    int64_t requested_cum_bytes;
    int64_t peak_requested_bytes; /* WIRE_UNKNOWN where several threads make it inexact */
    int64_t pages;                /* pages of its own */
};

enum wire_context_kind {
    WIRE_KIND_ROOT = 0,    /* the root of the tree; has no frame */
    WIRE_KIND_PATH = 1,    /* a frame of a call path: address is its return address */
    WIRE_KIND_NAMED = 2,   /* made through the API: label is its name */
    WIRE_KIND_UNKNOWN = 3, /* a labelled node such as [unknown] or [truncated]: label says which */
};

struct wire_context {
    uint32_t id;           /* stable for the life of the process */
    uint32_t parent;       /* id, or WIRE_NONE for the root; a parent comes before its children */
    uint8_t kind;          /* enum wire_context_kind */
    uint8_t exact_address; /* 1: the frame was interrupted by a signal, so address is the
                            * instruction itself; 0: a return address (look up address - 1) */
    uint8_t policy;        /* enum wire_policy */
    uint8_t placement;     /* enum wire_placement */
    uint32_t module;       /* index into the modules, or WIRE_NONE */
    uint64_t address;      /* as it was in the process; 0 without a frame */
    uint32_t label;        /* offset into the strings, or WIRE_NONE */
    uint32_t why;          /* the same: a rule, or another reason for its placement */
    uint32_t reserved;
    uint32_t occupancy[WIRE_OCCUPANCY_BINS]; /* own pages per bin; zeros unless PINNED was asked */
    struct wire_totals self;
};

/* Where its chunks stand: in no page, in pages of its own, in mixed pages; of its own, by the policy that was set. */
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
    uint32_t path;       /* offset into the strings */
    uint32_t build_id_bytes;
    uint8_t build_id[24];
    uint32_t closed; /* 1 after dlclose */
    uint32_t reserved;
};

struct wire_thread {
    uint32_t tid; /* 0: all threads that have exited */
    uint32_t reserved;
    char name[16];
};

struct wire_view {             /* what one thread did in one context */
    uint32_t context;          /* id */
    uint32_t thread;           /* index into the threads */
    struct wire_totals totals; /* reserved, resident, pinned and pages are WIRE_UNKNOWN */
};

/* The frees of chunks that stand in another thread's pages: a heap's pages belong to the thread that has it now. */
struct wire_remote {
    uint32_t freed_by, owner; /* indices into the threads */
    int64_t frees;            /* since the start */
};

struct wire_mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns; /* when it was set */
};

struct wire_mark_entry { /* how a context stood at the mark; a context that is missing stood at 0 */
    uint32_t context;
    uint32_t reserved;
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

/* The head of a dump. Each section is an array at `offset` bytes from this struct's start. */
struct wire_section {
    uint64_t offset;
    uint64_t count; /* elements; bytes for the strings */
};

struct wire_dump {
    uint64_t uptime_ns;
    uint64_t build_ns; /* what making this dump took */
    uint32_t pid;
    uint32_t depth;
    uint32_t exact;      /* 1: no operation was lost (no full table, no foreign pointer) */
    uint32_t flags;      /* the request's */
    uint32_t exe;        /* offset into the strings */
    uint32_t mark_found; /* 1: the marked counters are in mark_entries */

    /* The ledger of memory that is ours, in bytes, so that it can be held against the kernel's
     * figure. mapped = reserved by contexts + mixed free + freelist + segment headers + clean. */
    struct wire_ledger {
        int64_t segments_mapped;   /* address space of segments and large chunks */
        int64_t segments_resident; /* WIRE_UNKNOWN unless RESIDENT was asked */
        int64_t pages_reserved;    /* pages and large chunks that contexts own */
        int64_t mixed_reserved;    /* mixed pages, whole */
        int64_t mixed_block_bytes; /* live blocks in them */
        int64_t freelist_bytes;    /* empty memory kept for reuse, not given back yet */
        int64_t freelist_items;
        int64_t segment_headers; /* page headers in use */
        int64_t metadata_mapped; /* tree, views, caches, tables */
        int64_t metadata_used;
        int64_t metadata_resident; /* WIRE_UNKNOWN unless RESIDENT was asked */
        int64_t control_bytes;     /* stack and answer buffers of the control thread */
        int64_t untouched_bytes;   /* in reserved pages, never written: costs no memory yet */
        int64_t returned_bytes;    /* empty memory given back to the kernel since the start */
        int64_t rss_bytes;         /* what the kernel says of the whole process, at this moment */
    } ledger;

    struct wire_section contexts, modules, threads, views, remotes, marks, mark_entries, strings;
    struct wire_section notes; /* texts, each ended by a 0 byte: bytes */
};

/* --- pages -------------------------------------------------------------------------------
 *
 * What stands in which page, a part of the address space at a time, so that the answer has a bound: a request goes on
 * from where the last answer ended. Each page is as it was at one moment, all of them are not; contexts may be newer
 * than those of a dump before. */

#define WIRE_PAGES_MAX 16384U   /* about so many in an answer, which ends with a segment */
#define WIRE_AGE_NS (1UL << 24) /* unit of ages */

struct wire_pages_request {
    uint64_t from;  /* 0, or next of the answer before */
    uint32_t flags; /* WIRE_DUMP_RESIDENT or 0 */
    uint32_t reserved;
};

struct wire_pages {
    uint64_t next; /* 0: that was all */
    uint32_t count, share_count;
};

enum wire_page_kind { WIRE_PAGE_OWN = 1, WIRE_PAGE_MIXED = 2, WIRE_PAGE_LARGE = 3 };
enum wire_page_state {
    WIRE_PAGE_CURRENT =
        0, /* new chunks are handed out from it; with none alive it is kept for the next ones */
    WIRE_PAGE_FULL = 1,   /* no free blocks, or too few to wait */
    WIRE_PAGE_LISTED = 2, /* it has free blocks, and waits to be current */
};

/* A page, or a run of full ones of one context side by side. Ages are in units of WIRE_AGE_NS. */
struct wire_page {
    uint64_t start, bytes; /* address space */
    uint64_t
        touched_bytes; /* in OS pages of which blocks were handed out, without those given back since */
    uint64_t live_bytes;     /* of the blocks that are alive */
    int64_t resident_bytes;  /* WIRE_UNKNOWN unless asked */
    uint32_t context;        /* WIRE_NONE: of several, see the shares */
    uint32_t block_bytes;    /* 0: a large chunk; with chunks one behind the other: of a unit */
    uint32_t live, capacity; /* blocks; with chunks one behind the other: chunks, units */
    uint32_t first_share, share_count;
    uint32_t tid;        /* of the thread whose it is; 0: of none that lives, or any's */
    uint32_t oldest_age; /* no chunk in it is older */
    uint32_t newest_age; /* nor younger */
    uint16_t os_pages
        [WIRE_OCCUPANCY_BINS]; /* its OS pages by how much of them is alive; the first has those that the
                                             * page cannot give back although nothing is */
    uint16_t os_empty;         /* nothing in them is alive: what a trim of the context gives back */
    uint8_t kind;              /* enum wire_page_kind */
    uint8_t state;             /* enum wire_page_state */
    uint8_t apart;             /* mixed, of contexts with WIRE_PLACE_APART only */
    uint8_t spare_units; /* own: so many times 16 bytes of each block nobody asked for, at least */
};

struct wire_share { /* of a mixed page */
    uint32_t context, live;
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

struct wire_contexts_request {
    uint32_t verb, count;
    uint32_t contexts[]; /* ids; so many */
};

struct wire_trim {
    int64_t released_bytes; /* handed to the kernel by this request */
    int64_t punched_bytes;  /* of these: empty OS pages of pages that are in use */
    int64_t rss_before, rss_after;
    uint32_t threads; /* that have memory */
    uint32_t
        threads_waiting; /* of these: have not allocated since, so that theirs is still there; they will do it then */
};

#endif
