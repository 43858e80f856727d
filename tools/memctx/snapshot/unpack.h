/* SPDX-License-Identifier: MIT */
/*
 * unpack.h - reads the blocks of a snapshot's body (snapshot_format.h).
 *
 * The file is not trusted: every length is checked, and memory is allocated for one block at a
 * time. A value that cannot be read is 0 and sets block->bad, so the reader of rows need not check
 * each value.
 */
#ifndef MEMCTX_UNPACK_H
#define MEMCTX_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"
#include "snapshot/snapshot_format.h"

struct unpack_column {
    /* bounds of the column's bytes, and the place of the next value; all NULL: the block has no
     * such column */
    const uint8_t *start, *at, *end;
};

struct unpack_block {
    uint64_t table;
    uint32_t rows;
    bool bad;
    struct unpack_column columns[SNAPSHOT_COLUMNS_MAX];
};

struct unpack;

/* Begins to read a file in memory; the caller frees `bytes` after unpack_finish. Returns NULL and
 * sets the failure if the file has no body of a known version. */
struct unpack *unpack_begin(const void *bytes, size_t length, const char *source,
                            struct cli_failure *failure);
/* Reads the next block, which is valid until the next call. Returns false at the end and after a
 * failure. */
bool unpack_next_block(struct unpack *unpack, struct unpack_block *block);
/* Returns true if no column was read in part: each was read to its end or not at all. */
bool unpack_is_used_up(const struct unpack_block *block);
/* Frees the reader. Returns false if the body was damaged or was not read to its end. */
bool unpack_finish(struct unpack *unpack);

/* Return the next value of a column, which has the kind "number", "signed" or "figure"
 * (snapshot_format.h). */
uint64_t unpack_number(struct unpack_block *block, unsigned column);
/* Like unpack_number, but a value above `most` makes the block bad. */
uint64_t unpack_at_most(struct unpack_block *block, unsigned column, uint64_t most);
uint64_t unpack_signed(struct unpack_block *block, unsigned column);
int64_t unpack_figure(struct unpack_block *block, unsigned column, uint64_t expected);
/* Returns how many bytes of a column are left. */
size_t unpack_left(const struct unpack_block *block, unsigned column);
/* Returns the next `length` bytes of a column in place. Returns NULL for length 0, and if fewer
 * bytes are left, which makes the block bad. */
const uint8_t *unpack_bytes(struct unpack_block *block, unsigned column, size_t length);

#endif
