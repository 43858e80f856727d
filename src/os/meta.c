/* SPDX-License-Identifier: MIT */
/* Memory for the library's own tables; see meta.h. */
#include "os/meta.h"

#define CLASS_COUNT 12 /* 64 bytes << class; the last one is 128 KiB */
#define LARGEST (64UL << (CLASS_COUNT - 1))
#define DISCARD_MIN (16UL << 10)
#define MAPPINGS_MAX 4096 /* remembered for the residency figure */

struct lock meta_lock FORK_PAGE = LOCK_INIT(RANK_META);

static struct {
    char *next, *end; /* the current chunk */
    void *free[CLASS_COUNT];
    int64_t mapped_bytes, used_bytes;
    struct {
        char *start;
        size_t bytes;
    } * mappings; /* guarded by meta_lock, like all of this */
    size_t mapping_count;
} meta FORK_PAGE;

static unsigned class_of(size_t bytes) {
    return bytes <= 64 ? 0 : 58U - (unsigned)__builtin_clzl(bytes - 1);
}

static char *map_remembered(size_t bytes) {
    if (!meta.mappings)
        meta.mappings = os_map(MAPPINGS_MAX * sizeof *meta.mappings);
    char *start = os_map(bytes);
    if (!start)
        return NULL;
    meta.mapped_bytes += (int64_t)bytes;
    if (meta.mappings && meta.mapping_count < MAPPINGS_MAX) {
        meta.mappings[meta.mapping_count].start = start;
        meta.mappings[meta.mapping_count++].bytes = bytes;
    }
    return start;
}

static void unmap_remembered(char *start, size_t bytes) {
    for (size_t i = 0; i < meta.mapping_count; i++) {
        if (meta.mappings[i].start == start) {
            meta.mappings[i] = meta.mappings[--meta.mapping_count];
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
            char *chunk = map_remembered(META_CHUNK_BYTES);
            if (!chunk) {
                lock_release(&meta_lock);
                return NULL;
            }
            meta.next = chunk;
            meta.end = chunk + META_CHUNK_BYTES;
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
        usage.resident_bytes += os_resident_bytes(meta.mappings[i].start, meta.mappings[i].bytes);
    lock_release(&meta_lock);
    return usage;
}
