/* SPDX-License-Identifier: MIT */
/* unpack.c - decompresses a body block by block and reads the values of columns. */
#include "snapshot/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/varint.h"

#define AGAIN "take it again with memctx dump -o"

/* Offset of the byte of flags in a zstd frame, and the flag for a checksum. */
#define FRAME_FLAGS 4U
#define FRAME_HAS_CHECKSUM 4U

struct unpack {
    const char *source;
    struct cli_failure *failure;
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer input; /* the whole file */
    uint64_t body_bytes, body_most;
    uint64_t rows, rows_most;
    uint8_t *block; /* contents of the current block */
    size_t capacity;
    bool frame_ended, failed, ended;
};

static bool fail(struct unpack *unpack, const char *what) {
    unpack->failed = true;
    return cli_fail(unpack->failure, CLI_REFUSED, "%s: damaged snapshot; %s; " AGAIN,
                    unpack->source, what);
}

static bool fail_truncated(struct unpack *unpack) {
    unpack->failed = true;
    return cli_fail(unpack->failure, CLI_REFUSED,
                    "%s: truncated snapshot; it ends too early, after %zu bytes; " AGAIN,
                    unpack->source, unpack->input.size);
}

/* --- the file ---------------------------------------------------------------------------- */

struct unpack *unpack_begin(const void *bytes, size_t length, const char *source,
                            struct cli_failure *failure) {
    struct unpack *unpack = cli_alloc(1, sizeof *unpack);
    const uint8_t *head = bytes;
    *unpack = (struct unpack){.source = source, .failure = failure};
    unpack->input = (ZSTD_inBuffer){bytes, length, SNAPSHOT_HEAD_BYTES};
    unpack->body_most = SNAPSHOT_BODY_FREE + (uint64_t)SNAPSHOT_BODY_RATIO * length;
    unpack->rows_most = SNAPSHOT_ROWS_FREE + (uint64_t)SNAPSHOT_ROWS_RATIO * length;
    if (length < SNAPSHOT_HEAD_BYTES) {
        fail_truncated(unpack);
        free(unpack);
        return NULL;
    }
    head += SNAPSHOT_MAGIC_BYTES;
    uint32_t version =
        head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    if (version != SNAPSHOT_VERSION) {
        cli_set_failure(failure, CLI_REFUSED,
                        "%s: snapshot of version %u; this memctx (%s) reads version %u; use the "
                        "memctx that wrote it",
                        source, version, CLI_VERSION, SNAPSHOT_VERSION);
        free(unpack);
        return NULL;
    }
    if (length > SNAPSHOT_HEAD_BYTES + FRAME_FLAGS &&
        (head[4 + FRAME_FLAGS] & FRAME_HAS_CHECKSUM) == 0) {
        fail(unpack, "it has no checksum");
        free(unpack);
        return NULL;
    }
    unpack->capacity = 1 << 16;
    unpack->block = cli_alloc(unpack->capacity, 1);
    unpack->zstd = ZSTD_createDCtx();
    if (!unpack->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(unpack->zstd, ZSTD_d_windowLogMax,
                                                             SNAPSHOT_WINDOW_LOG)))
        cli_die(
            CLI_REFUSED,
            "out of memory; the snapshot could not be unpacked; free some memory and try again");
    return unpack;
}

/* Reads up to `length` bytes of the body; fewer only at the end of the body or after a failure. */
static size_t read_body(struct unpack *unpack, void *bytes, size_t length) {
    ZSTD_outBuffer output = {bytes, length, 0};
    while (output.pos < length && !unpack->frame_ended && !unpack->failed) {
        size_t before = output.pos, from = unpack->input.pos;
        size_t hint = ZSTD_decompressStream(unpack->zstd, &output, &unpack->input);
        if (ZSTD_isError(hint))
            fail(unpack, ZSTD_getErrorName(hint));
        else if (hint == 0)
            unpack->frame_ended = true;
        else if (output.pos == before && unpack->input.pos == from)
            fail_truncated(unpack);
    }
    unpack->body_bytes += output.pos;
    if (!unpack->failed && unpack->body_bytes > unpack->body_most)
        fail(unpack, "it unpacks to more bytes than a snapshot of its length has");
    return unpack->failed ? 0 : output.pos;
}

/* Reads a varint of the body that stands before a block. */
static bool read_head_number(struct unpack *unpack, uint64_t *value) {
    uint8_t byte = 0x80;
    *value = 0;
    for (unsigned shift = 0; shift < 63 && (byte & 0x80) != 0; shift += 7) {
        if (read_body(unpack, &byte, 1) != 1)
            return unpack->failed ? false : fail(unpack, "its last block is missing");
        *value |= (uint64_t)(byte & 0x7f) << shift;
    }
    return (byte & 0x80) == 0 || fail(unpack, "a length is too long");
}

/* Checks that only skippable zstd frames follow the body. */
static bool check_rest(struct unpack *unpack) {
    uint8_t byte;
    if (read_body(unpack, &byte, 1) != 0)
        return fail(unpack, "something follows its last block");
    while (!unpack->failed && unpack->input.pos < unpack->input.size) {
        const uint8_t *at = (const uint8_t *)unpack->input.src + unpack->input.pos;
        size_t left = unpack->input.size - unpack->input.pos;
        if (left < 8)
            return fail_truncated(unpack);
        uint32_t length =
            at[4] | (uint32_t)at[5] << 8 | (uint32_t)at[6] << 16 | (uint32_t)at[7] << 24;
        if ((at[0] & 0xf0) != 0x50 || memcmp(at + 1, "\x2a\x4d\x18", 3) != 0)
            return fail(unpack, "something follows its end");
        if (length > left - 8)
            return fail_truncated(unpack);
        unpack->input.pos += 8 + (size_t)length;
    }
    return !unpack->failed;
}

bool unpack_finish(struct unpack *unpack) {
    bool good = !unpack->failed && unpack->ended;
    ZSTD_freeDCtx(unpack->zstd);
    free(unpack->block);
    free(unpack);
    return good;
}

/* --- blocks ------------------------------------------------------------------------------ */

static uint64_t read_varint(struct unpack_column *column, bool *bad) {
    uint64_t value;
    if (varint_get(&column->at, column->end, &value))
        return value;
    *bad = true;
    column->at = column->end;
    return 0;
}

/* Sets the bounds of each column in the contents of a block. */
static bool open_columns(struct unpack_block *block, const uint8_t *bytes, size_t length) {
    struct unpack_column directory = {bytes, bytes, bytes + length};
    unsigned numbers[SNAPSHOT_COLUMNS_MAX];
    uint64_t lengths[SNAPSHOT_COLUMNS_MAX];
    bool bad = false;
    uint64_t rows = read_varint(&directory, &bad), count = read_varint(&directory, &bad);
    if (rows > SNAPSHOT_ROWS_MAX || count > SNAPSHOT_COLUMNS_MAX)
        return false;
    block->rows = (uint32_t)rows;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = read_varint(&directory, &bad);
        lengths[i] = read_varint(&directory, &bad);
        if (number >= SNAPSHOT_COLUMNS_MAX)
            return false;
        numbers[i] = (unsigned)number;
    }
    const uint8_t *at = directory.at;
    for (size_t i = 0; i < count; i++) {
        struct unpack_column *column = &block->columns[numbers[i]];
        if (bad || column->start || lengths[i] > (uint64_t)(directory.end - at))
            return false;
        *column = (struct unpack_column){at, at, at + lengths[i]};
        at += lengths[i];
    }
    return !bad && at == directory.end;
}

bool unpack_next_block(struct unpack *unpack, struct unpack_block *block) {
    uint64_t length;
    memset(block, 0, sizeof *block);
    if (!read_head_number(unpack, &block->table) || !read_head_number(unpack, &length))
        return false;
    if (length > SNAPSHOT_BLOCK_MAX)
        return fail(unpack, "a block is too long");
    if (length > unpack->capacity) {
        unpack->capacity = length;
        unpack->block = cli_grow(unpack->block, length, 1);
    }
    if (read_body(unpack, unpack->block, length) != length)
        return unpack->failed ? false : fail(unpack, "a block is cut off");
    if (!open_columns(block, unpack->block, length))
        return fail(unpack, "a block's columns do not fit into it");
    unpack->rows += block->rows;
    if (unpack->rows > unpack->rows_most)
        return fail(unpack, "it unpacks to more rows than a snapshot of its length has");
    if (block->table == SNAPSHOT_END) {
        unpack->ended = check_rest(unpack);
        return false;
    }
    return true;
}

bool unpack_is_used_up(const struct unpack_block *block) {
    for (unsigned i = 0; i < SNAPSHOT_COLUMNS_MAX; i++) {
        const struct unpack_column *column = &block->columns[i];
        /* a part of the column was read and a part was not; a column of which nothing was read may
         * be of a later version */
        if (column->at != column->end && column->at != column->start)
            return false;
    }
    return true;
}

/* --- values ------------------------------------------------------------------------------ */

uint64_t unpack_number(struct unpack_block *block, unsigned column) {
    struct unpack_column *from = &block->columns[column];
    if (!from->start)
        return 0;
    if (from->at < from->end && *from->at < 0x80)
        return *from->at++;
    return read_varint(from, &block->bad);
}

uint64_t unpack_at_most(struct unpack_block *block, unsigned column, uint64_t most) {
    uint64_t value = unpack_number(block, column);
    if (value > most) {
        block->bad = true;
        return 0;
    }
    return value;
}

uint64_t unpack_signed(struct unpack_block *block, unsigned column) {
    return snapshot_unzigzag(unpack_number(block, column));
}

int64_t unpack_figure(struct unpack_block *block, unsigned column, uint64_t expected) {
    uint64_t code = unpack_number(block, column);
    uint64_t unknown = snapshot_zigzag((uint64_t)WIRE_UNKNOWN - expected);
    return code == 0 ? WIRE_UNKNOWN
                     : (int64_t)(expected + snapshot_unzigzag(code - (code <= unknown)));
}

size_t unpack_left(const struct unpack_block *block, unsigned column) {
    return (size_t)(block->columns[column].end - block->columns[column].at);
}

const uint8_t *unpack_bytes(struct unpack_block *block, unsigned column, size_t length) {
    struct unpack_column *from = &block->columns[column];
    if (length > unpack_left(block, column)) {
        block->bad = true;
        return NULL;
    }
    if (length == 0) /* the block may not have the column */
        return NULL;
    from->at += length;
    return from->at - length;
}
