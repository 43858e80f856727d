/* SPDX-License-Identifier: MIT */
/*
 * meta.h - memory for the library's own tables: trees, views, caches, heaps.
 *
 * Threads: any; one lock guards everything. Blocks are zeroed. The size of a block is a power of
 * two, from 64 bytes to META_CHUNK_BYTES. Blocks are cut from a first chunk in the library's data,
 * then from mappings of META_CHUNK_BYTES; free blocks are kept in lists by size. A larger block has
 * a mapping of its own, of whole OS pages. meta_alloc returns NULL when the kernel has no more
 * memory. The `metadata` line of a dump counts the memory taken here.
 */
#ifndef MEMCTX_META_H
#define MEMCTX_META_H

#include "os/os.h"

#define META_CHUNK_BYTES (256UL << 10)
/* The first chunk is part of the library's own data, because each additional mapping costs a fork
 * about 4 us. */
#define META_FIRST_BYTES (832UL << 10)
#define META_MAPPINGS_MAX 3840 /* mappings listed for their resident bytes and for outside.c */

struct meta_mapping {
    char *start;
    size_t bytes;
};

struct meta_usage {
    int64_t mapped_bytes, used_bytes;
    int64_t resident_bytes; /* -1: not requested or not known */
};

void *meta_alloc(size_t bytes);
void meta_free(void *block, size_t bytes); /* `bytes`: the size passed to meta_alloc */
size_t meta_block_bytes(size_t bytes);     /* size of the block that meta_alloc(bytes) uses */
struct meta_usage meta_usage(bool with_resident);
/* For control/outside.c: the addresses of mapped_bytes and used_bytes, of the number of mappings,
 * of the mappings, and of the first chunk, which begins at the next boundary of an OS page. */
INTERNAL const int64_t *const meta_usage_shown;
INTERNAL const size_t *const meta_mapping_count_shown;
INTERNAL const struct meta_mapping *const meta_mappings_shown;
INTERNAL const char *const meta_first_shown;
INTERNAL struct lock meta_lock;

/* Called after a fork. False: another thread was changing the tables at the fork. In the child, the
 * rest of the current chunk is then lost. */
bool meta_fork_done(bool child);

#endif
