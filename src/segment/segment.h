/* SPDX-License-Identifier: MIT */
/*
 * segment.h - segments, pages, the way from a pointer to its page, and the bounded freelist.
 *
 * A segment is 4 MiB of memory aligned to 4 MiB, cut into 256 slices of 16 KiB. Its first two
 * slices hold the headers: one struct page (128 bytes) for each slice, away from the data. A page
 * is a run of 1..MAX_SPAN_SLICES slices. A chunk larger than MAX_SPAN_SLICES slices has a segment
 * of its own, of any size, which struct page number 0 describes.
 *
 * From a pointer to its page: a table holds one byte for each 4 MiB of the 47-bit address space.
 * The byte says whether these 4 MiB are a segment of the library, so that a foreign pointer is
 * recognised before any of its memory is read. A huge chunk `p` is looked up by `p - 1`: a chunk
 * never starts at the start of a segment, but a chunk aligned to 4 MiB starts where the segment of
 * its header ends.
 *
 * The freelist: slices that pages gave back stay writable for MEMCTX_DECAY_MS and are used again
 * first. The freelist keeps at most max(512 items, 5 % of the slices in use) and
 * max(MEMCTX_FREELIST_KIB, 5 % of the bytes in use). When it exceeds a bound, its oldest slices go
 * to the kernel at once.
 *
 * Threads: any thread may call these functions; segment.lock guards the segments. The fields of a
 * page header belong to the owner of the page.
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

enum page_kind_number {
    PAGE_NONE = 0, /* free slices, or no chunk starts here */
    PAGE_OWN,      /* blocks of one context */
    PAGE_MIXED,    /* blocks of many contexts of one thread */
    PAGE_SPAN,     /* one large chunk, a run of slices */
    PAGE_HUGE,     /* one large chunk with its own segment */
    PAGE_SERIAL,   /* chunks of one context, stored one after another: region/serial.h */
    PAGE_WAITING,  /* its only chunk was freed and waits: region/guard.h */
    PAGE_KINDS,
};

enum page_flag {
    PAGE_FULL = 1,    /* in no list of its owner: it had no free block, and has few now */
    PAGE_USED_UP = 2, /* all its blocks were handed out at least once */
    /* in the owner's list of pages with free blocks. A page that is neither full nor listed is a
     * current page. */
    PAGE_LISTED = 8,
    PAGE_TAIL = 16,     /* own page: its last touched OS page counts in heap.own_free */
    PAGE_EMERGENCY = 4, /* a huge chunk that is not accounted yet */
    PAGE_CHAINED = 64,  /* its blocks contain list nodes: region/simple.h; never changes */
    PAGE_GUARDED = 32,  /* a span with an inaccessible end: region/guard.h */
};

struct heap;
struct view;

struct page {
    /* First cache line: the fields that the owner's malloc and free touch. A stand-in for a page
     * (heap.recent_room) consists of this line alone. */
    union {
        void *free;   /* owner: list of free blocks */
        uint64_t run; /* PAGE_SERIAL: atomic: see region/serial.h */
    };
    struct heap *heap; /* owner of the blocks; NULL for PAGE_SPAN and PAGE_HUGE */
    union {
        struct view *view;   /* PAGE_OWN and PAGE_SERIAL: the view that the chunks belong to */
        struct page *behind; /* in a stand-in: the page it stands for; see heap.recent_room */
    };
    union {
        /* atomic, a dump reads it: all blocks before it were handed out at least once */
        char *next_block;
        char *chunk; /* PAGE_SPAN and PAGE_HUGE */
    };
    uint32_t block_bytes; /* constant while the page is in use */
    union {
        uint32_t reciprocal; /* floor(2^32 / block_bytes) + 1: division by multiplication */
        /* PAGE_SERIAL, owner: bytes before next_block that hold no live chunk */
        uint32_t dead_bytes;
    };
    uint16_t waste_unit; /* block_bytes if the page is or was PAGE_OWN, else 0: see heap.own_free */
    /* owner: live blocks, and blocks that other threads freed and the owner has not collected */
    uint16_t used;
    /* owner: a free that leaves this many blocks in use has more to do: see flags_set */
    uint16_t rare_at;
    uint16_t fresh_left;   /* owner: blocks from next_block to the end of its granule */
    uint16_t first;        /* bytes before the first block; 0 in narrow pages */
    uint16_t granule_mask; /* narrow pages: bytes of a granule, minus 1 */
    union {
        uint16_t records; /* bytes before the records of a granule; 0 in a stand-in */
        uint16_t found;   /* PAGE_SERIAL, owner: the record found by the last search */
    };
    uint8_t flags;      /* owner: enum page_flag */
    uint8_t kind;       /* enum page_kind_number; what it can do: region/kinds.h */
    uint8_t meta_shift; /* of the block records; see region/blocks.h */
    uint8_t size_class;
    uint8_t granule_capacity; /* blocks in a granule, counting those that its records displace */
    uint8_t color_mask;       /* in a stand-in: see blocks_records_of */
    /* slices from here back to the first slice of the page; 0 in the first */
    uint8_t back;
    uint8_t fresh; /* the memory was zero when the page was made */
    /* Second cache line: fields for other threads and for rare work. */
    /* atomic: list of blocks that other threads freed (48 bits), and their number (16 bits) */
    uint64_t remote __attribute__((aligned(CACHE_LINE)));
    struct page *remote_next; /* next page in heap->remote_pages */
    struct page *next, *prev; /* owner: list of pages with free blocks */
    union {
        uint64_t requested_bytes; /* large chunks */
        /* PAGE_SERIAL, atomic: map of the chunks that are not alive; NULL: all are alive */
        uint64_t *gone;
    };
    union {
        uint32_t context; /* large chunks: context id */
        uint32_t filled;  /* others: segment_clock when the page last ran out of free blocks */
    };
    uint32_t slices;   /* of the page */
    uint32_t capacity; /* blocks */
    uint32_t born; /* segment_clock when the page was made; resizing or moving a chunk keeps it */
    union {
        uint64_t mapped_bytes; /* PAGE_HUGE */
        struct owners *owners; /* META_OWNERS: see region/blocks.h */
        uint64_t punched;      /* META_PUNCHED: see region/punch.h */
    };
};

/* The fields of a segment are stored in the header of slice 1, because no page can start there. */
struct segment_state {
    uint64_t free[SEGMENT_SLICES / 64]; /* slices that no page uses */
    /* free slices that were used and not given back to the kernel yet */
    uint64_t dirty[SEGMENT_SLICES / 64];
    struct segment *next, *prev; /* list of segments with free slices */
    uint64_t dirty_ns;           /* when the oldest dirty slice became dirty */
    uint32_t free_count, dirty_count;
    uint32_t longest_free; /* upper bound: no run of free slices is longer than this */
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

/* The table of segments. A leaf has one atomic byte of flags for each 4 MiB of a range of 128 GiB.
 * A byte is set before the first chunk of its segment is handed out. The near leaf is the 128 GiB
 * around the first segment, where the kernel puts nearly all mappings. The root points to the
 * leaves of all other ranges. These leaves are made when needed and never freed. The number of a
 * segment is its address >> SEGMENT_SHIFT. */
enum segment_map { SEGMENT_SLICED = 1, SEGMENT_HUGE = 2 };
#define SEGMENT_LEAF_SHIFT 15
#define SEGMENT_LEAF_COUNT (1UL << SEGMENT_LEAF_SHIFT)
#define SEGMENT_ROOT_BITS (ADDRESS_BITS - SEGMENT_SHIFT - SEGMENT_LEAF_SHIFT)
struct segment_leaf {
    uint8_t flags[SEGMENT_LEAF_COUNT];
};
INTERNAL struct segment_leaf *segment_root[1U << SEGMENT_ROOT_BITS]; /* atomic */
INTERNAL struct segment_leaf segment_near;
/* number of the first segment in the near leaf; atomic, set once, 0 before */
INTERNAL uintptr_t segment_near_first;

/* The byte of segment `number` in the near leaf; NULL: the segment is outside the near leaf. */
INLINE uint8_t *segment_near_flags(uintptr_t number) {
    uintptr_t place = number - load_plain(&segment_near_first);
    return LIKELY(place < SEGMENT_LEAF_COUNT) ? &segment_near.flags[place] : NULL;
}

bool segment_map_test_far(enum segment_map map, uintptr_t number);
INLINE bool segment_map_test(enum segment_map map, uintptr_t number) {
    const uint8_t *flags = segment_near_flags(number);
    return LIKELY(flags != NULL) ? load_plain(flags) & map : segment_map_test_far(map, number);
}

/* True when the pointer is in a sliced segment of the near leaf. Tests a single byte. */
INLINE bool segment_is_near(const void *pointer) {
    const uint8_t *flags = segment_near_flags((uintptr_t)pointer >> SEGMENT_SHIFT);
    return LIKELY(flags != NULL) && LIKELY(load_plain(flags) & SEGMENT_SLICED);
}

/* Returns the header of the slice that contains `pointer`, which must be in a sliced segment. The
 * page's own header is `back` headers before that. `heap` is NULL in every header of the page but
 * its first, and in the header of a segment's slice 0, which contains no chunk. */
INLINE struct page *segment_slice_of(const void *pointer) {
    struct segment *segment = (struct segment *)((uintptr_t)pointer & ~(SEGMENT_BYTES - 1));
    return &segment->pages[((uintptr_t)pointer >> SLICE_SHIFT) & (SEGMENT_SLICES - 1)];
}

/* The page that contains `pointer`; NULL: the pointer is in no sliced segment. */
INLINE struct page *segment_page_of(const void *pointer) {
    if (UNLIKELY(!segment_map_test(SEGMENT_SLICED, (uintptr_t)pointer >> SEGMENT_SHIFT)))
        return NULL;
    struct page *page = segment_slice_of(pointer);
    return page - page->back;
}

/* The header of the huge chunk that starts at `pointer`; NULL: no huge chunk starts there. */
struct page *segment_huge_of(const void *pointer);

/* Makes a page of `slices` slices. Its header is zero except for slices, back, fresh and born.
 * NULL: out of memory. */
struct page *segment_span_alloc(uint32_t slices);
/* As segment_span_alloc, for one of many pages of one kind. Such pages fill groups of `group`
 * slices (a power of two, at most 64), so that the few that stay in use are not spread over all
 * segments. *next is the address of the header behind the last such page (0: no page yet); the
 * function updates it. The segment of *next may have been unmapped. */
struct page *segment_span_alloc_grouped(uint32_t slices, uint32_t group, uintptr_t *next);
/* Gives the slices of a page to the freelist. May give memory back to the kernel. */
void segment_span_free(struct page *page);
/* Grows a span to `slices` slices, into the free ones behind it; false: they are not free. */
bool segment_span_extend(struct page *page, uint32_t slices);
/* Shortens a span to its first `slices` slices. The others go to the freelist. */
void segment_span_shrink(struct page *page, uint32_t slices);
/* The address of the first slice of a page. */
INLINE char *segment_span_start(const struct page *page) {
    uintptr_t base = (uintptr_t)page & ~(SEGMENT_BYTES - 1);
    return (char *)(base + (((uintptr_t)page - base) / sizeof *page << SLICE_SHIFT));
}

/* Allocates a huge chunk; header->chunk points to it, aligned. NULL: out of memory. */
struct page *segment_huge_alloc(size_t bytes, size_t alignment);
/* Frees a huge chunk. Its mapping waits in the freelist or goes back to the kernel. */
void segment_huge_free(struct page *header);
/* Resizes a huge chunk, keeps its contents and returns its header. The chunk and its header may
 * move. NULL: failed, the old chunk is unchanged. */
struct page *segment_huge_resize(struct page *header, size_t bytes);
/* Allocates a huge chunk without taking a lock, for a signal handler that interrupted a thread
 * holding a lock. The chunk is not accounted until segment_emergency_booked(). */
struct page *segment_emergency_alloc(size_t bytes, size_t alignment, uint32_t context);
/* The emergency chunks that are not accounted, as a list linked by `next`. The caller must be
 * allowed to take locks. For each chunk it first charges the context, then calls
 * segment_emergency_booked(); from then on another thread may free the chunk. */
bool segment_emergency_waits(void); /* true: there are such chunks */
struct page *segment_emergency_take(void);
void segment_emergency_booked(struct page *header);
/* Bytes from the start of a huge chunk to the end of its mapping. */
INLINE size_t segment_huge_capacity(const struct page *header) {
    return header->mapped_bytes - (size_t)(header->chunk - (const char *)header);
}

/* A coarse monotonic clock that gives the age of pages, in ticks of 2^24 ns. It holds the time when
 * the control thread, or another thread that needed the time, last read the system's clock, so it
 * may be a second late. */
#define SEGMENT_TICK_SHIFT 24
INTERNAL uint32_t segment_clock; /* atomic */
/* Moves segment_clock forward to `now_ns` (os_now_ns); never moves it back. */
void segment_clock_set(uint64_t now_ns);

/* Gives empty memory back to the kernel: memory older than the decay time, and memory beyond the
 * freelist's bounds; with `all`, all of it. Returns the bytes given back. */
size_t segment_purge(bool all);
/* Calls segment_purge(false) when the next purge is due; costs little otherwise. */
void segment_purge_when_due(void);
/* For the next SEGMENT_LATER_NS, leaves memory beyond the freelist's bounds to a thread that
 * regularly gives memory back (segment_purger). Until that thread does so, the memory may be used
 * again. So a thread that frees very much at once does not wait for the kernel. Without such a
 * thread this call does nothing. */
#define SEGMENT_LATER_NS 1200000000ULL
INTERNAL uint32_t segment_purger; /* atomic: process id of the purging thread; 0: there is none */
void segment_purge_later(void);

struct segment_usage {
    int64_t mapped_bytes, used_bytes, header_bytes;
    int64_t freelist_bytes, freelist_items;
    int64_t returned_bytes; /* given back to the kernel since the start */
};
struct segment_usage segment_usage(void);
int64_t segment_used_bytes(void); /* bytes in pages and huge chunks; a relaxed read */

/* Calls `visit` for every segment, sliced or huge. No segment is unmapped meanwhile. */
void segment_each(void (*visit)(struct segment *segment, bool huge, void *context), void *context);
/* As segment_each, but starts at `place` and stops when `visit` returns false, so that a long
 * report can be cut into parts. The place of a segment is its address, with SEGMENT_FAR set if the
 * segment is outside the near leaf. Place 0 comes before all segments. */
#define SEGMENT_FAR (1UL << 62)
void segment_each_from(uint64_t place,
                       bool (*visit)(struct segment *segment, bool huge, void *context),
                       void *context);
/* The place of a segment, for segment_each_from. */
INLINE uint64_t segment_place(const struct segment *segment) {
    bool near = segment_near_flags((uintptr_t)segment >> SEGMENT_SHIFT) != NULL;
    return (uint64_t)segment | (near ? 0 : SEGMENT_FAR);
}

/* Called for every free in a watched page. The path layer sets it once. */
INTERNAL void (*segment_watch)(const void *chunk);

void segment_fork_prepare(bool interrupted); /* see lock_fork_prepare in os.h */
bool segment_fork_done(bool child);          /* false: the child cannot use the free slices */

#endif
