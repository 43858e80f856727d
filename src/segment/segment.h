/* SPDX-License-Identifier: MIT */
/*
 * segment.h - segments, pages, the way from a pointer to its page, and the bounded freelist.
 *
 * A segment is 4 MiB of memory aligned to 4 MiB, cut into 256 slices of 16 KiB. The first two
 * slices hold the headers, away from the data: one struct page (128 bytes) for each slice. A page
 * is a run of 1..MAX_SPAN_SLICES slices. A huge chunk, which needs more than MAX_SPAN_SLICES
 * slices, has a segment of its own, of any size; struct page number 0 describes the chunk.
 *
 * From a pointer to its page: a table holds one byte for each 4 MiB of the 47-bit address space.
 * The byte says whether a segment of the library starts at the address, so that a foreign pointer
 * is recognised before any of its memory is read. A huge chunk `p` is looked up by `p - 1`, because
 * a chunk with a large alignment starts exactly 4 MiB behind its header. No chunk starts at the
 * start of its own segment, so `p - 1` is always in the 4 MiB that begin with the header.
 *
 * The freelist: the memory of slices that pages gave back stays for MEMCTX_DECAY_MS, and new pages
 * use these slices first. The bytes of these slices have a bound: the larger of MEMCTX_FREELIST_KIB
 * and 5 % of the bytes in use. segment_freelist_bound (segment/internal.h) may raise the bound.
 * Slices beyond the bound go to the kernel at once, first those of the segment that has the oldest
 * empty slice. Freed mappings of huge chunks have a bound of the same size.
 *
 * Threads: any thread may call these functions; segment_global.lock guards the segments. The fields
 * of a page header belong to the owner of the page.
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

enum page_kind_number {
    PAGE_NONE = 0, /* no page: the slice is free, or is not the first slice of a page */
    PAGE_OWN,      /* a page of blocks for one context */
    PAGE_MIXED,    /* a page of blocks for many contexts of one thread */
    PAGE_SPAN,     /* one large chunk in a run of slices */
    PAGE_HUGE,     /* one large chunk with its own segment */
    PAGE_SERIAL,   /* chunks of one context, stored one after another: region/serial.h */
    PAGE_WAITING,  /* a guarded chunk was freed; the page waits: region/guard.h */
    PAGE_KINDS,
};

enum page_flag {
    /* the page ran out of free blocks, or gets no new chunks; it is in no list of its owner until a
     * free leaves only page.changes_at blocks in use */
    PAGE_FULL = 1,
    PAGE_USED_UP = 2, /* all blocks of the page were handed out at least once */
    /* the page is in the owner's list of pages with free blocks. A page that is neither full nor
     * listed is a current page. */
    PAGE_LISTED = 8,
    /* a page of kind PAGE_OWN is not used up: heap.own_free counts one OS page of it */
    PAGE_TAIL = 16,
    PAGE_EMERGENCY = 4, /* a huge chunk that is not accounted yet */
    PAGE_CHAINED = 64,  /* the blocks contain list nodes, see region/simple.h; never changes */
    PAGE_GUARDED = 32,  /* a span with an inaccessible end: region/guard.h */
    /* A huge chunk whose mapping had, and may still have, a spare end: memory behind mapped_bytes
     * that waits in the freelist, and that the chunk takes first when it grows. */
    PAGE_SPARE = 128,
    /* A large chunk that was larger than all large chunks freed before it got its size, see
     * segment_largest. No page of blocks has the flag, so it shares the bit of PAGE_USED_UP. */
    PAGE_LARGEST = 2,
};

struct heap;
struct view;

struct page {
    /* In the comments below, "owner" means that only the thread that owns the page writes the
     * field. "atomic" means that other threads access the field, too.
     *
     * First cache line: the fields that the owner's malloc and free touch. A stand-in is a page
     * header without a page, which holds freed blocks of other pages (heap.recent_room). A stand-in
     * consists of this cache line alone. */
    union {
        void *free;   /* owner: list of free blocks */
        uint64_t run; /* PAGE_SERIAL, atomic: the page's last run of chunks, see region/serial.h */
    };
    struct heap *heap; /* the heap that owns the blocks; NULL for PAGE_SPAN and PAGE_HUGE */
    union {
        struct view *view;   /* PAGE_OWN and PAGE_SERIAL: the view that pays for the chunks */
        struct page *behind; /* in a stand-in: the heap's real current page, see heap.recent_room */
    };
    union {
        /* atomic: all blocks before this address were handed out at least once */
        char *next_block;
        void *free_with_owners; /* in a stand-in: list of free blocks, see heap.recent_room */
        char *chunk;            /* PAGE_SPAN and PAGE_HUGE: start of the chunk */
    };
    uint32_t block_bytes; /* constant while the page is in use */
    union {
        uint32_t reciprocal; /* floor(2^32 / block_bytes) + 1, to divide by a multiplication */
        /* PAGE_SERIAL, owner: bytes before next_block that hold no live chunk */
        uint32_t dead_bytes;
    };
    uint16_t waste_unit; /* block_bytes if the page is or was PAGE_OWN, else 0; see heap.own_free */
    /* owner: number of blocks, or PAGE_SERIAL: of chunks, in use. Recent blocks (heap.recent_room)
     * count as in use, and so does what other threads freed and the owner has not collected yet. In
     * a stand-in: how many further blocks its two lists may take. */
    uint16_t used;
    /* owner: a free that leaves this many blocks in use calls page_after_free; see flags_set */
    uint16_t changes_at;
    /* owner: number of blocks from next_block to the granule's records, or to the granule's end */
    uint16_t fresh_left;
    uint16_t first;        /* bytes in a granule before its first block; 0 in narrow pages */
    uint16_t granule_mask; /* bytes of a granule, minus 1; see region/blocks.h */
    union {
        uint16_t records; /* bytes in a granule before its records; 0 in a stand-in */
        uint16_t found;   /* PAGE_SERIAL: number of the record that the owner's last free found */
    };
    uint8_t flags;      /* owner: enum page_flag */
    uint8_t kind;       /* atomic: enum page_kind_number; its functions: region/page_kinds.h */
    uint8_t meta_shift; /* kind of the block records, and flags META_...; see region/blocks.h */
    uint8_t size_class;
    /* number of blocks in a granule, including those whose room the records take */
    uint8_t granule_capacity;
    /* in a stand-in: which bits of a slice's number shift the slice's records; see
     * blocks_color_of */
    uint8_t color_mask;
    /* number of slices from this slice back to the first slice of the page; 0 in the first slice */
    uint8_t back;
    uint8_t fresh; /* memory of the page that was never handed out is zero */
    /* Second cache line: the fields for other threads, for lists of pages, and for large chunks. */
    /* atomic: the list of blocks that other threads freed (48 bits), and their number (16 bits) */
    uint64_t remote __attribute__((aligned(CACHE_LINE)));
    union {
        struct page *remote_next; /* the next page in the list heap->remote_pages */
        /* PAGE_HUGE: when the chunk was allocated, its bytes from here on were zero */
        uint64_t stale_bytes;
    };
    struct page *next, *prev; /* owner: neighbours in the list of pages with free blocks */
    union {
        uint64_t requested_bytes; /* large chunks: bytes that the program asked for */
        /* PAGE_SERIAL, atomic: map of the chunks that are not alive; NULL: all chunks are alive */
        uint64_t *gone;
        /* PAGE_OWN, PAGE_MIXED, atomic: state of the page when context/holes.c last looked at it,
         * or PAGE_NOT_SEEN */
        uint64_t seen;
    };
    union {
        uint32_t context; /* large chunks: id of the context */
        uint32_t filled;  /* other pages: segment_clock when the page last ran out of free blocks */
    };
    uint16_t slices;   /* atomic: number of slices of the page */
    uint16_t capacity; /* atomic: number of blocks that the page can hand out */
    /* segment_clock when the page was made, or when a page that was kept empty got chunks again
     * (region/serial_pages.c); resizing or moving a chunk keeps the value */
    uint32_t born;
    uint32_t remote_last; /* the last block in the list `remote`: bytes from the page's start */
    union {
        uint64_t mapped_bytes; /* PAGE_HUGE: bytes of the mapping, with this header */
        struct owners *owners; /* META_OWNERS: table of the blocks' owners, see region/blocks.h */
        uint64_t punched;      /* META_PUNCHED: OS pages that were given back, see region/punch.h */
    };
};

/* In page.seen: context/holes.c has not looked at the page yet. All values of page.seen are 1 << 48
 * or more. The fields that share its word are pointers and sizes, which are less. */
#define PAGE_NOT_SEEN (1UL << 63)

/* The runs of slices by which segments are found: see struct lists in segment.c. */
enum segment_run { SEGMENT_FREE, SEGMENT_DIRTY, SEGMENT_RUNS };
/* Neighbours in a list of segments, by the segments' numbers (address >> SEGMENT_SHIFT); 0: none.
 */
struct segment_link {
    uint32_t next, prev;
};

/* The fields of a segment are stored in the place of the header of slice 1, because no page can
 * start at that slice. A program may free a wild pointer into slice 1. So the fields of struct page
 * that name a page's heap, its kind and its first slice are 0 here, as in the header of slice 0. */
struct segment_state {
    uint64_t dirty_ns; /* when the oldest dirty slice became dirty */
    uint64_t no_heap;  /* 0, in the place of page.heap */
    struct segment_link in_list[SEGMENT_RUNS], by_age;
    uint16_t free_count, dirty_count;   /* number of slices in each map */
    uint16_t longest[SEGMENT_RUNS];     /* no run in the map is longer than this */
    bool small_pages;                   /* atomic: the kernel shall put no huge pages here */
    bool gaps_are_empty;                /* no huge page makes free slices resident; see purge.c */
    uint8_t no_page[14];                /* 0, in the place of page.flags to page.fresh */
    uint64_t free[SEGMENT_SLICES / 64]; /* map of the slices that no page uses */
    /* map of the free slices that were used and not given back to the kernel since */
    uint64_t dirty[SEGMENT_SLICES / 64];
};
_Static_assert(offsetof(struct segment_state, no_heap) == offsetof(struct page, heap) &&
                   offsetof(struct segment_state, no_page) <= offsetof(struct page, flags) &&
                   offsetof(struct segment_state, free) > offsetof(struct page, fresh),
               "the state looks like the header of a slice without a page");

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

/* The table of segments has one atomic byte of flags for each 4 MiB of address space. A leaf is the
 * part of the table for 128 GiB. The near leaf covers the 128 GiB around the first segment, where
 * the kernel puts nearly all mappings. The root points to the leaves of all other ranges; these
 * leaves are made when needed and never freed. The byte of a segment is set before the segment's
 * first chunk is handed out, and cleared before the segment is unmapped. The number of a segment is
 * its address >> SEGMENT_SHIFT. */
/* The flags of a byte: a segment of slices starts at the byte's address (SEGMENT_SLICED), or a huge
 * chunk's mapping does (SEGMENT_HUGE). */
enum segment_map { SEGMENT_SLICED = 1, SEGMENT_HUGE = 2 };
#define SEGMENT_LEAF_SHIFT 15
#define SEGMENT_LEAF_COUNT (1UL << SEGMENT_LEAF_SHIFT)
#define SEGMENT_ROOT_BITS (ADDRESS_BITS - SEGMENT_SHIFT - SEGMENT_LEAF_SHIFT)
struct segment_leaf {
    uint8_t flags[SEGMENT_LEAF_COUNT] __attribute__((aligned(8))); /* also read as words */
};
INTERNAL struct segment_leaf *segment_root[1U << SEGMENT_ROOT_BITS]; /* atomic */
INTERNAL struct segment_leaf segment_near;
/* atomic, set once, 0 before: the lowest segment number that the near leaf covers */
INTERNAL uintptr_t segment_near_first;

/* Returns the byte of segment `number` in the near leaf; NULL: the near leaf does not cover the
 * segment. */
INLINE uint8_t *segment_near_flags(uintptr_t number) {
    uintptr_t place = number - load_plain(&segment_near_first);
    return LIKELY(place < SEGMENT_LEAF_COUNT) ? &segment_near.flags[place] : NULL;
}

/* Like segment_map_test, for a segment that the near leaf does not cover: reads the root table. */
bool segment_map_test_by_root(enum segment_map map, uintptr_t number);
INLINE bool segment_map_test(enum segment_map map, uintptr_t number) {
    const uint8_t *flags = segment_near_flags(number);
    return LIKELY(flags != NULL) ? load_plain(flags) & map : segment_map_test_by_root(map, number);
}

/* True when the near leaf covers the pointer and the pointer is in a segment of slices. Tests a
 * single byte. */
INLINE bool segment_is_near(const void *pointer) {
    const uint8_t *flags = segment_near_flags((uintptr_t)pointer >> SEGMENT_SHIFT);
    return LIKELY(flags != NULL) && LIKELY(load_plain(flags) & SEGMENT_SLICED);
}

/* Returns the header of the slice that contains `pointer`, which must be in a segment of slices.
 * The page's own header, that of its first slice, stands `back` headers before the returned one.
 * `heap` is NULL in all other headers of the page. It is also NULL in the headers of slices 0 and
 * 1, because these slices hold headers and no chunk; see struct segment_state. */
INLINE struct page *segment_slice_of(const void *pointer) {
    struct segment *segment = (struct segment *)((uintptr_t)pointer & ~(SEGMENT_BYTES - 1));
    return &segment->pages[((uintptr_t)pointer >> SLICE_SHIFT) & (SEGMENT_SLICES - 1)];
}

/* Returns the page that contains `pointer`; NULL: the pointer is in no segment of slices. */
INLINE struct page *segment_page_of(const void *pointer) {
    if (UNLIKELY(!segment_map_test(SEGMENT_SLICED, (uintptr_t)pointer >> SEGMENT_SHIFT)))
        return NULL;
    struct page *page = segment_slice_of(pointer);
    return page - page->back;
}

/* Returns the header of the huge chunk that starts at `pointer`; NULL: no huge chunk starts
 * there. */
struct page *segment_huge_of(const void *pointer);

/* Makes a page of `slices` slices, from dirty slices if there are enough in a row. The fields of
 * the page's header are zero, except slices, fresh and born. NULL: out of memory. */
struct page *segment_span_alloc(uint32_t slices);
/* Like segment_span_alloc, but for one of many pages of one kind. If no dirty slices fit, such
 * pages fill groups of `group` slices (a power of two from 2 to 64) one after the other. So the few
 * pages that stay in use later are not spread over all segments. *next is the address of the header
 * behind the last such page (0: there is no page yet); the function updates *next. The segment of
 * *next may have been unmapped. */
struct page *segment_span_alloc_grouped(uint32_t slices, uint32_t group, uintptr_t *next);
/* Gives the slices of a page to the freelist, and may give memory back to the kernel. */
void segment_span_free(struct page *page);
/* Freed spans that the user of a heap keeps (span_cache.c): the owner, or the thread that holds the
 * heap's lock. The next pages and large chunks of these lengths take the spans without the
 * segments' lock. A cache has places for each length, at first none. At one in 16 frees of a span
 * that finds no place, the cache tries to get places for the length: two, then four, then eight. It
 * gets them if it lacked a span of that length since it last tried, if a control thread purges the
 * freelist, and if the freelist's bound has room for the places of all caches. segment_purge looks
 * at the caches once in a quarter of the decay time, or later if it is not called. It takes away
 * the places of each length that was not taken since the last look, and further places if all
 * places exceed half of the freelist's bound. */
#define SPAN_CACHE_SLICES 8U /* a longer span is not kept */
#define SPAN_CACHE_EACH 8U   /* greatest number of spans of each length */
#define SPAN_CACHE_SPANS (SPAN_CACHE_SLICES * SPAN_CACHE_EACH)
struct span_cache {
    /* Atomic. Place i is for a span of i / SPAN_CACHE_EACH + 1 slices; NULL: the place is empty.
     * Only the heap's user fills a place, but any thread may empty it. The places of a length are
     * filled from the first one on and emptied from the last one on. */
    struct page *spans[SPAN_CACHE_SPANS] __attribute__((aligned(CACHE_LINE)));
    struct span_cache *next; /* in segment_global.span_caches */
    /* atomic: the number of places for each length; the first one: 1 slice */
    uint8_t places[SPAN_CACHE_SLICES];
    /* atomic: for each length, the place behind the last one that may be filled; only the heap's
     * user writes it */
    uint8_t filled[SPAN_CACHE_SLICES];
    uint8_t misses[SPAN_CACHE_SLICES]; /* owner: frees of each length that found no empty place */
    bool is_listed;                    /* the cache is in segment_global.span_caches */
    /* Sets of lengths; bit 0: 1 slice. */
    uint8_t lacked; /* owner: the cache had no span for a request since it last tried to grow */
    uint8_t used;   /* atomic: spans were taken since segment_purge last looked */
};
/* Like segment_span_alloc_grouped, but takes a span from the cache if it has one. The caller is the
 * only user of the heap that the cache belongs to. */
struct page *segment_span_alloc_by(struct span_cache *cache, uint32_t slices, uint32_t group,
                                   uintptr_t *next);
/* Like segment_span_free, but puts the span into the cache if there is room. */
void segment_span_free_by(struct span_cache *cache, struct page *page);
/* Closes the cache of a heap whose thread ends: takes all places away, and gives their spans to the
 * freelist. */
void segment_span_cache_end(struct span_cache *cache);
/* Grows a span to `slices` slices, by the slices behind it. False: these slices are not free, the
 * segment ends there, or `slices` exceeds MAX_SPAN_SLICES; nothing changed. */
bool segment_span_extend(struct page *page, uint32_t slices);
/* Shortens a span to its first `slices` slices. The other slices go to the freelist. */
void segment_span_shrink(struct page *page, uint32_t slices);
/* glibc unmaps a freed chunk of 128 KiB or more, if it was larger than all such chunks that had
 * been freed when it was allocated. So a program may free such a chunk although it has protected OS
 * pages of it, unmapped some, or mapped a file there. Any other chunk may have been in glibc's
 * heap. */
#define LIBC_MAPS_BYTES (128UL << 10)
INTERNAL size_t segment_freed_most; /* atomic: size of the largest span or mapping freed so far */
/* Returns the flag for a large chunk that gets this size. */
INLINE uint8_t segment_largest(size_t bytes) {
    return bytes >= LIBC_MAPS_BYTES && bytes > load_relaxed(&segment_freed_most) ? PAGE_LARGEST : 0;
}
/* Makes the slices of a chunk with PAGE_LARGEST ordinary memory again, before they are freed.
 * False: the kernel refused, and the slices must not be used again. */
bool segment_span_mend(struct page *page);
/* Returns the address of the first slice of a page. */
INLINE char *segment_span_start(const struct page *page) {
    uintptr_t base = (uintptr_t)page & ~(SEGMENT_BYTES - 1);
    return (char *)(base + (((uintptr_t)page - base) / sizeof *page << SLICE_SHIFT));
}

/* Allocates a huge chunk, and returns its header; header->chunk is the aligned chunk. The caller
 * sets requested_bytes and context. NULL: out of memory. */
struct page *segment_huge_alloc(size_t bytes, size_t alignment);
/* Frees a huge chunk. The mapping waits in the freelist or goes back to the kernel. */
void segment_huge_free(struct page *header);
/* Resizes a huge chunk, keeps its contents and returns its header. The chunk and its header may
 * move. NULL: the resize failed, and the old chunk is unchanged. */
struct page *segment_huge_resize(struct page *header, size_t bytes);
/* Shrinks a huge chunk where it is, and leaves the end of its mapping in the freelist, as a spare
 * end (PAGE_SPARE). False: nothing has changed, because the freelist has no room, MEMCTX_DECAY_MS
 * is 0, or the chunk has an alignment above an OS page. */
bool segment_huge_shrink_to_spare(struct page *header, size_t bytes);
/* True while there are fewer than FEW_CHUNKS (huge.c) huge chunks. Then a huge chunk may keep its
 * mapping after it has shrunk. With more chunks this is too dear, because the kernel allows a
 * process only some 65 000 mappings. */
bool segment_huge_are_few(void);
/* Allocates a huge chunk without taking a lock, for a signal handler that interrupted a thread
 * which holds a lock. The chunk is not accounted until segment_emergency_booked() is called. NULL:
 * out of memory, or `alignment` exceeds SEGMENT_BYTES. */
struct page *segment_emergency_alloc(size_t bytes, size_t alignment, uint32_t context);
/* segment_emergency_take returns all emergency chunks that are not accounted, as a list linked by
 * `next`. The caller must be allowed to take locks. For each chunk the caller first charges the
 * context, then calls segment_emergency_booked. From then on another thread may free the chunk. */
INTERNAL struct page *segment_emergencies;  /* atomic: the list */
INLINE bool segment_emergency_waits(void) { /* true: some chunks are not accounted */
    return load_relaxed(&segment_emergencies) != NULL;
}
struct page *segment_emergency_take(void);
void segment_emergency_booked(struct page *header);
/* Returns the bytes from the start of a huge chunk to the end of its mapping. */
INLINE size_t segment_huge_capacity(const struct page *header) {
    return header->mapped_bytes - (size_t)(header->chunk - (const char *)header);
}

/* A coarse monotonic clock that gives the age of pages, in ticks of 2^24 ns (17 ms). The clock
 * shows the time at which the control thread, or a thread that purged the freelist, last read the
 * system's clock. So segment_clock may be a second late, and in a process without a control thread
 * it moves only at purges. */
#define SEGMENT_TICK_SHIFT 24
INTERNAL uint32_t segment_clock; /* atomic */
/* Moves segment_clock forward to `now_ns` (from os_now_ns), never back. */
void segment_clock_set(uint64_t now_ns);

/* Gives empty memory back to the kernel: memory that has been empty for longer than the decay time,
 * and memory beyond the freelist's bound; with `all`, all empty memory. Returns the bytes given
 * back. The caller holds no lock of this layer. */
size_t segment_purge(bool all);
/* Calls segment_purge(false) if the time for the next purge has come. Reads the clock only in one
 * of PURGE_CHECK_EVERY calls (purge.c). */
void segment_purge_when_due(void);
/* Learns whether the kernel uses huge pages without being asked. Reads a file, so only the control
 * thread calls it. Without a call the library assumes that the kernel does not. */
void segment_learn_huge_pages(void);
/* Called with a segment, or an address in one of its pages, before memory of the segment goes back
 * to the kernel while other memory of the segment stays in use. Where the kernel uses huge pages
 * without being asked, it would soon put a huge page there, and the empty memory would be resident
 * again. So the kernel is told to put no huge pages into this segment any more. */
void segment_keep_gaps(const void *address);
/* segment_purge_later is called by a thread that frees many MiB at once (region/reset.c), so that
 * the thread need not wait for the kernel. During the next SEGMENT_LATER_NS, frees of pages give no
 * memory to the kernel, not even beyond the freelist's bound. The control thread gives the memory
 * beyond the bound back at its next call of segment_purge; until then the memory may be used again.
 * If no control thread purges (segment_purger), the function does nothing. */
#define SEGMENT_LATER_NS 1200000000ULL
/* atomic: id of the process whose control thread purges; 0: none */
INTERNAL uint32_t segment_purger;
/* True if a control thread of this process calls segment_purge regularly. */
INLINE bool segment_is_purged(void) {
    uint32_t purger = load_relaxed(&segment_purger);
    return purger && !load_relaxed(&os_restricted) && purger == os_process_recorded();
}
void segment_purge_later(void);

struct segment_usage {
    int64_t mapped_bytes, used_bytes, header_bytes;
    int64_t freelist_bytes, freelist_items;
    int64_t returned_bytes; /* given back to the kernel since the program started */
};
struct segment_usage segment_usage(void);
/* Returns the resident bytes of the mappings and spare ends that wait in the freelist. While other
 * threads allocate and free, the sum may count a mapping that was taken again, or leave one out. */
int64_t segment_huge_cached_resident(void);
INTERNAL int64_t segment_returned; /* atomic: bytes given back to the kernel since the start */
/* Returns the bytes in pages, huge chunks and span caches, by a relaxed read. */
int64_t segment_used_bytes(void);

/* Calls `visit` for every segment; `huge`: the segment is a huge chunk. Holds the unmap lock, so no
 * segment is unmapped meanwhile. */
void segment_each(void (*visit)(struct segment *segment, bool huge, void *context), void *context);
/* Like segment_each, but starts at `place` and stops when `visit` returns false, so that a long
 * report can be cut into parts. The place of a segment is its address, with SEGMENT_FAR set if the
 * near leaf does not cover the segment. Place 0 comes before all segments. */
#define SEGMENT_FAR (1UL << 62)
void segment_each_from(uint64_t place,
                       bool (*visit)(struct segment *segment, bool huge, void *context),
                       void *context);
/* Returns the place of a segment, for segment_each_from. */
INLINE uint64_t segment_place(const struct segment *segment) {
    bool near = segment_near_flags((uintptr_t)segment >> SEGMENT_SHIFT) != NULL;
    return (uint64_t)segment | (near ? 0 : SEGMENT_FAR);
}

/* Called for every free in a page that blocks_watch marked. The path layer sets the pointer
 * once. */
INTERNAL void (*segment_watch)(const void *chunk);

void segment_fork_prepare(bool interrupted); /* `interrupted`: see lock_fork_prepare in os.h */
bool segment_fork_done(bool child);          /* false: the child cannot use the free slices */

#endif
