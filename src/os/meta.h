/* SPDX-License-Identifier: MIT */
/*
 * meta.h - memory for the library's own tables: trees, views, caches, heaps.
 *
 * Any thread; one lock. Blocks are powers of two, zeroed, cut from mappings of META_CHUNK_BYTES
 * and kept in free lists by size; larger ones have a mapping of their own. NULL when the kernel
 * has no more. What is taken here stands in the dump's `metadata` line.
 */
#ifndef MEMCTX_META_H
#define MEMCTX_META_H

#include "os/os.h"

#define META_CHUNK_BYTES (256UL << 10)

struct meta_usage {
    int64_t mapped_bytes, used_bytes;
    int64_t resident_bytes; /* -1: not asked or not known */
};

void *meta_alloc(size_t bytes);
void meta_free(void *block, size_t bytes); /* `bytes` as asked for */
size_t meta_block_bytes(size_t bytes);     /* what so many take */
struct meta_usage meta_usage(bool with_resident);
INTERNAL struct lock meta_lock;

/* After a fork. False: what was left of chunks is lost to the child. */
bool meta_fork_done(bool child);

#endif
