/* SPDX-License-Identifier: MIT */
/*
 * unpack.h - reads the blocks of a snapshot's body (snapshot_format.h).
 *
 * The file is not trusted: every length is checked, memory is taken for one block at a time, and a
 * value that cannot be read makes the block bad and is 0. So who reads rows needs no check a value.
 */
#ifndef MEMCTX_UNPACK_H
#define MEMCTX_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"
#include "snapshot/snapshot_format.h"

struct unpack_column {
    const uint8_t *start, *at, *end; /* all NULL: it is not there */
};

struct unpack_block {
    uint64_t table;
    uint32_t rows;
    bool bad;
    struct unpack_column columns[SNAPSHOT_COLUMNS_MAX];
};

struct unpack;

/* Begins with a file in memory, which stays the caller's; NULL and a failure where it has no body
 * of a version that is known. */
struct unpack *unpack_begin(const void *bytes, size_t length, const char *source,
                            struct cli_failure *failure);
/* The next block; its contents stay until the next call. False at the end, and with a failure. */
bool unpack_next_block(struct unpack *unpack, struct unpack_block *block);
/* True unless something is left over in a column that values were read of. */
bool unpack_is_used_up(const struct unpack_block *block);
/* Gives back what it holds. False where the body did not end as it should: the failure is set. */
bool unpack_finish(struct unpack *unpack);

/* The next value of a column. */
uint64_t unpack_number(struct unpack_block *block, unsigned column);
/* The same; more than `most` is bad. */
uint64_t unpack_at_most(struct unpack_block *block, unsigned column, uint64_t most);
uint64_t unpack_signed(struct unpack_block *block, unsigned column);
int64_t unpack_figure(struct unpack_block *block, unsigned column, uint64_t expected);
/* How many bytes of a column are left. */
size_t unpack_left(const struct unpack_block *block, unsigned column);
/* So many bytes, which stay where they are; NULL for 0, and where fewer are left: that is bad. */
const uint8_t *unpack_bytes(struct unpack_block *block, unsigned column, size_t length);

#endif
