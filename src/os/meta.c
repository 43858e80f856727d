/* SPDX-License-Identifier: MIT */
/* Memory for the library's own tables; see meta.h. */
#include "os/meta.h"

#define CLASS_COUNT 13 /* 64 bytes << class; the last one is 256 KiB */
#define LARGEST (64UL << (CLASS_COUNT - 1))
#define DISCARD_MIN (16UL << 10)
#define MAPPINGS_MAX 4096 /* remembered for the residency figure */
/* The first chunk is part of the library: every mapping more costs a fork some 4 us. */
#define FIRST_BYTES (1UL << 20)

struct lock meta_lock FORK_PAGE = LOCK_INIT(RANK_META);

static struct {
    char *next, *end; /* the current chunk */
    void *free[CLASS_COUNT];
    int64_t mapped_bytes, used_bytes;
    size_t mapping_count;
} meta FORK_PAGE; /* guarded by meta_lock, like the next two */
static struct {
    char *start;
    size_t bytes;
} mappings[MAPPINGS_MAX];
static char first_chunk[FIRST_BYTES + OS_PAGE_BYTES];

static unsigned class_of(size_t bytes) {
    return bytes <= 64 ? 0 : 58U - (unsigned)__builtin_clzl(bytes - 1);
}

static void remember(char *start, size_t bytes) {
    meta.mapped_bytes += (int64_t)bytes;
    if (meta.mapping_count < MAPPINGS_MAX) {
        mappings[meta.mapping_count].start = start;
        mappings[meta.mapping_count++].bytes = bytes;
    }
}

static char *map_remembered(size_t bytes) {
    char *start = os_map(bytes);
    if (start)
        remember(start, bytes);
    return start;
}

static bool next_chunk(void) {
    bool first = !meta.end;
    size_t bytes = first ? FIRST_BYTES : META_CHUNK_BYTES;
    char *chunk =
        first ? (char *)align_up((uintptr_t)first_chunk, OS_PAGE_BYTES) : map_remembered(bytes);
    if (!chunk)
        return false;
    if (first)
        remember(chunk, bytes);
    meta.next = chunk;
    meta.end = chunk + bytes;
    return true;
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
    size_t block_bytes = 64UL << class;
    block = meta.free[class];
    if (block) {
        meta.free[class] = *(void **)block;
    } else {
        if (block_bytes >= OS_PAGE_BYTES) /* whole OS pages: nothing else is copied with them */
            meta.next = (char *)align_up((uintptr_t)meta.next, OS_PAGE_BYTES);
        if (meta.next > meta.end || (size_t)(meta.end - meta.next) < block_bytes) {
            /* The rest of the old chunk is lost to big blocks only: at most half a chunk. */
            if (!next_chunk()) {
                lock_release(&meta_lock);
                return NULL;
            }
        }
        block = meta.next;
        meta.next += block_bytes;
    }
    meta.used_bytes += (int64_t)block_bytes;
    lock_release(&meta_lock);
    *(void **)block = NULL; /* the rest was zeroed when it was freed, or is fresh */
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
    if (64UL << class >= DISCARD_MIN)
        os_discard(block, 64UL << class); /* whole OS pages, perhaps hardly used */
    else
        __builtin_memset(block, 0, 64UL << class);
    lock_take(&meta_lock);
    meta.used_bytes -= (int64_t)(64UL << class);
    *(void **)block = meta.free[class];
    meta.free[class] = block;
    lock_release(&meta_lock);
}

struct meta_usage meta_usage(bool with_resident) {
    lock_take(&meta_lock);
    struct meta_usage usage = {meta.mapped_bytes, meta.used_bytes, with_resident ? 0 : -1};
    for (size_t i = 0; with_resident && i < meta.mapping_count; i++)
        usage.resident_bytes += os_resident_bytes(mappings[i].start, mappings[i].bytes);
    lock_release(&meta_lock);
    return usage;
}
