/* SPDX-License-Identifier: MIT */
/* Memory for the library's own tables; see meta.h. */
#include "os/meta.h"

#define CLASS_COUNT 13 /* a class has blocks of 64 << class bytes, at most 256 KiB */
#define LARGEST (64UL << (CLASS_COUNT - 1))
#define DISCARD_MIN OS_PAGE_BYTES /* freed blocks of at least this many bytes are discarded */

struct lock meta_lock FORK_PAGE = LOCK_INIT(RANK_META);

struct room { /* memory that blocks are cut from; [next, end) is not cut yet */
    char *next, *end;
};
static struct {
    struct room chunk; /* the rest of the chunk that blocks are cut from */
    /* the OS page from which blocks smaller than an OS page are cut */
    struct room page;
    void *free[CLASS_COUNT]; /* for each class, the list of its free blocks: see struct note */
    int64_t mapped_bytes, used_bytes;
    size_t mapping_count;
} meta FORK_PAGE; /* meta_lock guards this variable, `mappings` and `first_chunk` */
static struct meta_mapping mappings[META_MAPPINGS_MAX];
static char first_chunk[META_FIRST_BYTES + OS_PAGE_BYTES];
const int64_t *const meta_usage_shown = &meta.mapped_bytes; /* meta.used_bytes is the next word */
const size_t *const meta_mapping_count_shown = &meta.mapping_count;
const struct meta_mapping *const meta_mappings_shown = mappings;
const char *const meta_first_shown = first_chunk;

/* Returns the least class whose blocks, of 64 << class bytes, have room for `bytes`. */
static unsigned class_of(size_t bytes) {
    return bytes <= 64 ? 0 : 58U - (unsigned)__builtin_clzl(bytes - 1);
}

size_t meta_block_bytes(size_t bytes) {
    return bytes > LARGEST ? align_up(bytes, OS_PAGE_BYTES) : 64UL << class_of(bytes);
}

static void remember(char *start, size_t bytes) {
    meta.mapped_bytes += (int64_t)bytes;
    if (meta.mapping_count < META_MAPPINGS_MAX) {
        mappings[meta.mapping_count].start = start;
        mappings[meta.mapping_count++].bytes = bytes;
    }
}

static char *first_start(void) {
    return (char *)align_up((uintptr_t)first_chunk, OS_PAGE_BYTES);
}

static char *map_remembered(size_t bytes) {
    char *start = os_map(bytes);
    if (!start)
        return NULL;
    /* The kernel joins adjacent mappings. In the tables of many threads, of which each is touched
     * only at its start, huge pages would make everything resident. */
    os_advise_huge(start, bytes, false);
    remember(start, bytes);
    return start;
}

static bool next_chunk(void) {
    bool first = !meta.chunk.end;
    size_t bytes = first ? META_FIRST_BYTES : META_CHUNK_BYTES;
    char *chunk = first ? first_start() : map_remembered(bytes);
    if (!chunk)
        return false;
    /* The first chunk is not remembered in `mappings`: that would make every start write one more
     * OS page. */
    if (first)
        meta.mapped_bytes += (int64_t)bytes;
    meta.chunk = (struct room){chunk, chunk + bytes};
    return true;
}

/* Cuts a block off the room; NULL: fewer than `bytes` bytes are left. */
static void *cut(struct room *room, size_t bytes) {
    char *block = room->next;
    if ((size_t)(room->end - block) < bytes)
        return NULL;
    room->next += bytes;
    return block;
}

/* Cuts a new block. If the rest of the chunk is too small for the block, that rest is lost. Blocks
 * smaller than an OS page are cut from one OS page at a time. When a second OS page is needed, the
 * rest of the OS page with less room is lost. */
static void *cut_block(size_t bytes) {
    bool small = bytes < OS_PAGE_BYTES;
    if (small) {
        char *block = cut(&meta.page, bytes);
        if (block)
            return block;
    }
    size_t whole = small ? OS_PAGE_BYTES : bytes;
    char *start = cut(&meta.chunk, whole);
    if (!start && next_chunk())
        start = cut(&meta.chunk, whole);
    if (!start || !small)
        return start;
    struct room page = {start + bytes, start + OS_PAGE_BYTES};
    if (page.end - page.next > meta.page.end - meta.page.next)
        meta.page = page;
    return start;
}

static void unmap_remembered(char *start, size_t bytes) {
    for (size_t i = 0; i < meta.mapping_count; i++) {
        if (mappings[i].start == start) {
            mappings[i] = mappings[--meta.mapping_count];
            break;
        }
    }
    meta.mapped_bytes -= (int64_t)bytes;
    os_unmap(start, bytes);
}

/* The first word of a free block leads to the next one of its class. In a discarded block, that
 * word would keep an OS page in memory. So a note, which is a block of the smallest class, takes
 * the discarded block's place in the list. */
struct note {
    void *block, *next;
};
#define NOTE_CLASS 0U
#define NOTED 1UL /* marks an address in meta.free as that of a note */

static void push(unsigned class, void *block) {
    *(void **)block = meta.free[class];
    meta.free[class] = block;
}

/* Returns a free block, or a new one. NULL: no memory. */
static void *pop(unsigned class) {
    char *block = meta.free[class];
    if (!block)
        return cut_block(64UL << class);
    if (!((uintptr_t)block & NOTED)) {
        meta.free[class] = *(void **)block;
        *(void **)block = NULL; /* all other bytes were zeroed when the block was freed */
        return block;
    }
    struct note *note = (void *)(block - NOTED);
    block = note->block;
    meta.free[class] = note->next;
    *note = (struct note){0};
    push(NOTE_CLASS, note);
    return block;
}

/* Puts a free block into the list of its class by a note, so that no byte of the block is written.
 * Without memory for a note, links the block itself. */
static void push_discarded(unsigned class, void *block) {
    struct note *note = pop(NOTE_CLASS);
    if (!note) {
        push(class, block);
        return;
    }
    *note = (struct note){block, meta.free[class]};
    meta.free[class] = (char *)note + NOTED;
}

void *meta_alloc(size_t bytes) {
    char *block;
    lock_take(&meta_lock);
    if (bytes > LARGEST) {
        bytes = align_up(bytes, OS_PAGE_BYTES);
        block = map_remembered(bytes);
        if (block)
            meta.used_bytes += (int64_t)bytes;
        lock_release(&meta_lock);
        return block;
    }
    unsigned class = class_of(bytes);
    block = pop(class);
    meta.used_bytes += block ? (int64_t)(64UL << class) : 0;
    lock_release(&meta_lock);
    return block;
}

void meta_free(void *block, size_t bytes) {
    if (!block)
        return;
    if (bytes > LARGEST) {
        bytes = align_up(bytes, OS_PAGE_BYTES);
        lock_take(&meta_lock);
        meta.used_bytes -= (int64_t)bytes;
        unmap_remembered(block, bytes);
        lock_release(&meta_lock);
        return;
    }
    unsigned class = class_of(bytes);
    /* clearing all bytes would map OS pages of the block that were never touched */
    bool discarded = 64UL << class >= DISCARD_MIN;
    if (discarded)
        os_discard(block, 64UL << class);
    else
        __builtin_memset(block, 0, 64UL << class);
    lock_take(&meta_lock);
    meta.used_bytes -= (int64_t)(64UL << class);
    if (discarded)
        push_discarded(class, block);
    else
        push(class, block);
    lock_release(&meta_lock);
}

struct meta_usage meta_usage(bool with_resident) {
    lock_take(&meta_lock);
    struct meta_usage usage = {meta.mapped_bytes, meta.used_bytes, with_resident ? 0 : -1};
    if (with_resident && meta.chunk.end)
        usage.resident_bytes += os_resident_bytes(first_start(), META_FIRST_BYTES);
    for (size_t i = 0; with_resident && i < meta.mapping_count; i++)
        usage.resident_bytes += os_resident_bytes(mappings[i].start, mappings[i].bytes);
    lock_release(&meta_lock);
    return usage;
}

bool meta_fork_done(bool child) {
    bool whole = lock_fork_done(&meta_lock, child);
    /* `next` and `end` may belong to different chunks: the fork came between their changes */
    if (child && !whole) {
        meta.chunk.next = meta.chunk.end;
        meta.page.next = meta.page.end;
    }
    return whole;
}
