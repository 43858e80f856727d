/* SPDX-License-Identifier: MIT */
/*
 * segment.h - address space, segments, pages, pointer -> page, and the bounded freelist.
 *
 * A segment is 4 MiB of memory aligned to 4 MiB, cut into 256 slices of 16 KiB. Its first two
 * slices hold the headers: one struct page (128 bytes) for each slice, away from the data. A page
 * is a run of 1..MAX_SPAN_SLICES slices. A large chunk beyond that has a segment of its own
 * (struct page number 0 describes it, whatever its size).
 *
 * pointer -> page: a byte per 4 MiB of the 47-bit address space says whether it is a segment of
 * ours, so a foreign pointer is recognised before any of its memory is read. A huge chunk is looked up
 * by `p - 1`, because a chunk never starts at a segment's start, but one that is aligned to 4 MiB starts
 * at the end of its header's.
 *
 * The freelist: slices that pages gave back stay writable for MEMCTX_DECAY_MS and are the first to
 * be used again. At most max(512 items, 5 % of the slices in use) and max(MEMCTX_FREELIST_KIB, 5 %
 * of the bytes in use) stay; past that the oldest go to the kernel at once.
 *
 * Threads: any, under segment.lock; what a page header holds belongs to the page's owner.
 */
#ifndef MEMCTX_SEGMENT_H
#define MEMCTX_SEGMENT_H

#include "os/os.h"

#define SEGMENT_SHIFT 22
#define SEGMENT_BYTES (1UL << SEGMENT_SHIFT)
#define SLICE_SHIFT 14
#define SLICE_BYTES (1UL << SLICE_SHIFT)
#define SEGMENT_SLICES 256U
#define HEADER_SLICES 2U
#define MAX_SPAN_SLICES 64U /* 1 MiB */
#define ADDRESS_BITS 47
#define FREELIST_ITEMS_MIN 512

enum page_kind {
    PAGE_NONE = 0, /* free slices, or no chunk starts here */
    PAGE_OWN,      /* blocks of one context */
    PAGE_MIXED,    /* blocks of many contexts of one thread */
    PAGE_SPAN,     /* one large chunk, a run of slices */
    PAGE_HUGE,     /* one large chunk with its own segment */
    PAGE_SERIAL,   /* chunks of one context, one behind the other: region/serial.h */
    PAGE_WAITING,  /* held one chunk, which was freed: region/guard.h */
};

enum page_flag {
    PAGE_FULL = 1,    /* in no list of its owner, because it had no free block, and has few */
    PAGE_USED_UP = 2, /* all its blocks were handed out at least once */
    PAGE_LISTED = 8,  /* in its owner's list of pages with free blocks; neither: the current page */
    PAGE_TAIL = 16,   /* own page: its last touched OS page counts in heap.own_free */
    PAGE_EMERGENCY = 4, /* a huge chunk that stands in no books yet */
    PAGE_SIMPLE = 64,   /* its blocks have nodes of a list: region/simple.h; never changes */
    PAGE_GUARDED = 32,  /* a span whose end cannot be touched: region/guard.h */
};

struct heap;
struct view;

struct page {
    /* First line: what the owner's malloc and free touch; a stand-in has no more. */
    union {
        void *free;   /* owner: list of free blocks */
        uint64_t run; /* PAGE_SERIAL: atomic: see region/serial.h */
    };
    struct heap *heap; /* owner of the blocks; NULL for PAGE_SPAN and PAGE_HUGE */
    union {
        struct view *view;   /* PAGE_OWN and PAGE_SERIAL: whose chunks these are */
        struct page *behind; /* of a stand-in for a page: see heap.recent_room */
    };
    union {
        char *next_block; /* atomic for a dump: those before it were handed out at least once */
        char *chunk;      /* PAGE_SPAN and PAGE_HUGE */
    };
    uint32_t block_bytes; /* constant while the page is in use */
    union {
        uint32_t reciprocal; /* floor(2^32 / block_bytes) + 1: division by multiplication */
        uint32_t dead_bytes; /* PAGE_SERIAL, owner: before next_block, and not alive */
    };
    uint16_t waste_unit; /* block_bytes in what is or was PAGE_OWN, else 0: see heap.own_free */
    uint16_t used;       /* owner: live blocks, those freed by others not yet collected */
    uint16_t rare_at; /* owner: with a free down to so many, there is more to do: see flags_set */
    uint16_t fresh_left;   /* owner: blocks from next_block on to the end of its granule */
    uint16_t first;        /* bytes before the first block; 0 in narrow pages */
    uint16_t granule_mask; /* bytes of a granule - 1; narrow pages */
    union {
        uint16_t records; /* bytes before the records of a granule; 0 in a stand-in */
        uint16_t found;   /* PAGE_SERIAL, owner: the record that was looked for last */
    };
    uint8_t flags;      /* owner: enum page_flag */
    uint8_t kind;       /* enum page_kind */
    uint8_t meta_shift; /* of the block records; see region/blocks.h */
    uint8_t size_class;
    uint8_t granule_capacity; /* blocks, and those whose place the records take */
    uint8_t color_mask;       /* of a stand-in: see blocks_records_of */
    uint8_t back;             /* slices back to the page's first slice; 0 there */
    uint8_t fresh;            /* the memory was zero when the page was made */
    /* Second line: other threads, and rare work. */
    uint64_t remote __attribute__((aligned(CACHE_LINE))); /* atomic: list of blocks freed by others
                                                           * (48 bits), their number (16) */
    struct page *remote_next;                             /* next page in heap->remote_pages */
    struct page *next, *prev; /* owner: list of pages with free blocks */
    union {
        uint64_t requested_bytes; /* large chunks */
        uint64_t *gone;           /* PAGE_SERIAL: atomic: which chunks are not alive; NULL: none */
    };
    union {
        uint32_t context; /* large chunks: context id */
        uint32_t filled;  /* others: segment_clock when no block was free, the last time */
    };
    uint32_t slices;   /* of the page */
    uint32_t capacity; /* blocks */
    uint32_t born; /* segment_clock when it was made; of what is resized or moved, the first time */
    union {
        uint64_t mapped_bytes; /* PAGE_HUGE */
        struct owners *owners; /* META_OWNERS: see region/blocks.h */
        uint64_t punched;      /* META_PUNCHED: see region/punch.h */
    };
};

/* The fields of a segment stand in the header of its slice 1, which no page can start at. */
struct segment_state {
    uint64_t free[SEGMENT_SLICES / 64];  /* slices in no page */
    uint64_t dirty[SEGMENT_SLICES / 64]; /* of these: not given back to the kernel yet */
    struct segment *next, *prev;         /* list of segments with free slices */
    uint64_t dirty_ns;                   /* when the oldest of them became dirty */
    uint32_t free_count, dirty_count;
    uint32_t longest_free; /* no run of free slices is longer; may be too high */
    uint32_t spare;
};

struct segment {
    union {
        struct page pages[SEGMENT_SLICES];
        struct {
            struct page huge;
            struct segment_state state;
        };
    };
};
_Static_assert(sizeof(struct page) == 128, "page headers are two cache lines");
_Static_assert(sizeof(struct segment_state) <= 128, "fits the header of slice 1");
_Static_assert(sizeof(struct segment) == HEADER_SLICES * SLICE_BYTES, "headers fill their slices");

/* Which 4 MiB of the address space are ours: a leaf with an atomic byte of flags for each of 128 GiB, set
 * before the first chunk is handed out. The near leaf is the 128 GiB around the first segment, where the kernel
 * puts nearly all; for others there is a root of leaves, which are made when needed and stay. */
enum segment_map { SEGMENT_SLICED = 1, SEGMENT_HUGE = 2 };
#define SEGMENT_LEAF_SHIFT 15
#define SEGMENT_LEAF_COUNT (1UL << SEGMENT_LEAF_SHIFT)
#define SEGMENT_ROOT_BITS (ADDRESS_BITS - SEGMENT_SHIFT - SEGMENT_LEAF_SHIFT)
struct segment_leaf {
    uint8_t flags[SEGMENT_LEAF_COUNT];
};
INTERNAL struct segment_leaf *segment_root[1U << SEGMENT_ROOT_BITS]; /* atomic */
INTERNAL struct segment_leaf segment_near;
INTERNAL uintptr_t segment_near_first; /* its first number; atomic, set once, 0 before */

/* Its byte in the near leaf; NULL: it is elsewhere. */
INLINE uint8_t *segment_near_flags(uintptr_t number) {
    uintptr_t place = number - load_plain(&segment_near_first);
    return LIKELY(place < SEGMENT_LEAF_COUNT) ? &segment_near.flags[place] : NULL;
}

bool segment_map_test_far(enum segment_map map, uintptr_t number);
INLINE bool segment_map_test(enum segment_map map, uintptr_t number) {
    const uint8_t *flags = segment_near_flags(number);
    return LIKELY(flags != NULL) ? load_plain(flags) & map : segment_map_test_far(map, number);
}

/* Whether it is in a sliced segment of the near leaf: one byte's test. */
INLINE bool segment_is_near(const void *pointer) {
    const uint8_t *flags = segment_near_flags((uintptr_t)pointer >> SEGMENT_SHIFT);
    return LIKELY(flags != NULL) && LIKELY(load_plain(flags) & SEGMENT_SLICED);
}

/* The header of the slice that a pointer into a sliced segment is in; `back` slices before it is the page's
 * header; `heap` is NULL in all but that, and in the one of a segment's start, where no chunk is. */
INLINE struct page *segment_slice_of(const void *pointer) {
    struct segment *segment = (struct segment *)((uintptr_t)pointer & ~(SEGMENT_BYTES - 1));
    return &segment->pages[((uintptr_t)pointer >> SLICE_SHIFT) & (SEGMENT_SLICES - 1)];
}

/* The page that it is in; NULL: in no sliced segment. */
INLINE struct page *segment_page_of(const void *pointer) {
    if (UNLIKELY(!segment_map_test(SEGMENT_SLICED, (uintptr_t)pointer >> SEGMENT_SHIFT)))
        return NULL;
    struct page *page = segment_slice_of(pointer);
    return page - page->back;
}

/* The header of a huge chunk; NULL: not one. */
struct page *segment_huge_of(const void *pointer);

/* A run of slices as a page: header zeroed but for slices, back and fresh. NULL: out of memory. */
struct page *segment_span_alloc(uint32_t slices);
/* The same for one of many pages of one kind, which are to stand in groups of slices of their own (a power of two, 64 at
 * the most), so that what stays of one kind does not stand in all segments. *next is where the header of the slice behind the last one
 * is (0: none yet), and is set; its segment may be gone. */
struct page *segment_span_alloc_grouped(uint32_t slices, uint32_t group, uintptr_t *next);
void segment_span_free(struct page *page);
/* Grows a span into the free slices behind it; false: they are not free. */
bool segment_span_extend(struct page *page, uint32_t slices);
void segment_span_shrink(struct page *page, uint32_t slices);
INLINE char *segment_span_start(const struct page *page) {
    uintptr_t base = (uintptr_t)page & ~(SEGMENT_BYTES - 1);
    return (char *)(base + (((uintptr_t)page - base) / sizeof *page << SLICE_SHIFT));
}

/* A huge chunk: header->chunk is the chunk, aligned. NULL: out of memory. */
struct page *segment_huge_alloc(size_t bytes, size_t alignment);
void segment_huge_free(struct page *header);
/* Resizes, perhaps by moving (contents kept); the header may move. NULL: the old one is intact. */
struct page *segment_huge_resize(struct page *header, size_t bytes);
/* A huge chunk without taking a lock, for a signal handler that interrupted a holder of one. It
 * stands in no books until it is settled. */
struct page *segment_emergency_alloc(size_t bytes, size_t alignment, uint32_t context);
/* Those that stand in no books, as a list through `next`; the caller, who may take locks, accounts
 * each to its context and then books it: after that another thread may free it. */
bool segment_emergency_waits(void); /* there are some */
struct page *segment_emergency_take(void);
void segment_emergency_booked(struct page *header);
INLINE size_t segment_huge_capacity(const struct page *header) {
    return header->mapped_bytes - (size_t)(header->chunk - (const char *)header);
}

/* A coarse clock, to tell how old a page is: monotonic, in ticks of 2^24 ns, as it was when the control thread, or
 * somebody who had to know anyway, last looked. So it may be a second behind. */
#define SEGMENT_TICK_SHIFT 24
INTERNAL uint32_t segment_clock; /* atomic */
void segment_clock_set(uint64_t now_ns);

/* Gives empty memory back: what is older than the decay time and what is over the bounds; with
 * `all`, everything. Bytes given back. */
size_t segment_purge(bool all);
/* The same, when the clock says that it is time; cheap otherwise. */
void segment_purge_when_due(void);
/* What is over the bounds for the next moment goes back by the hand of a thread that gives memory back regularly
 * (segment_purger), within SEGMENT_LATER_NS, and may be used again until then: who frees very much at once
 * need not wait for the kernel. Without such a thread nothing changes. */
#define SEGMENT_LATER_NS 1200000000ULL
INTERNAL uint32_t segment_purger; /* atomic: its process; 0: there is none */
void segment_purge_later(void);

struct segment_usage {
    int64_t mapped_bytes, used_bytes, header_bytes;
    int64_t freelist_bytes, freelist_items;
    int64_t returned_bytes; /* to the kernel since the start */
};
struct segment_usage segment_usage(void);
int64_t segment_used_bytes(void); /* slices in pages and huge chunks; a relaxed read */

/* Calls `visit` for every segment, sliced or huge; none is unmapped meanwhile. */
void segment_each(void (*visit)(struct segment *segment, bool huge, void *context), void *context);
/* The same from a place in that order on, until `visit` says false: what is told can be cut into parts. A segment's place is its
 * address, with SEGMENT_FAR set where it is not in the near leaf; 0 is before all. */
#define SEGMENT_FAR (1UL << 62)
void segment_each_from(uint64_t place,
                       bool (*visit)(struct segment *segment, bool huge, void *context),
                       void *context);
INLINE uint64_t segment_place(const struct segment *segment) {
    bool near = segment_near_flags((uintptr_t)segment >> SEGMENT_SHIFT) != NULL;
    return (uint64_t)segment | (near ? 0 : SEGMENT_FAR);
}

/* Told of every free in a watched page; set once by the path layer. */
INTERNAL void (*segment_watch)(const void *chunk);

void segment_fork_prepare(bool interrupted); /* os.h */
bool segment_fork_done(bool child);          /* false: what was free is lost to the child */

#endif
