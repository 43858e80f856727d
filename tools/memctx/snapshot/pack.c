/* SPDX-License-Identifier: MIT */
/* pack.c - gathers columns in memory, and compresses full blocks into the stream. */
#include "snapshot/pack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/varint.h"
#include "snapshot/zstd_file.h"

/* a higher level makes files 3 to 12 % smaller, but writing takes four times as long */
#define LEVEL 3
#define FLUSH_BYTES (1U << 20) /* texts can be long: a block of texts ends at this many bytes */

struct pack_column {
    uint8_t *bytes;
    size_t used, capacity;
    bool needed; /* a value of the column is not 0; a column of zeros is not written */
};

struct pack {
    struct zstd_file to;
    uint64_t body_bytes, all_rows;
    enum snapshot_table table;
    uint32_t rows;
    struct pack_column columns[SNAPSHOT_COLUMNS_MAX];
};

static void add_to_body(struct pack *pack, const void *bytes, size_t length) {
    pack->body_bytes += length;
    zstd_file_put(&pack->to, bytes, length);
}

struct pack *pack_begin(FILE *file) {
    struct pack *pack = cli_alloc(1, sizeof *pack);
    const uint8_t version[4] = {SNAPSHOT_VERSION & 255, SNAPSHOT_VERSION >> 8 & 255,
                                SNAPSHOT_VERSION >> 16 & 255, SNAPSHOT_VERSION >> 24 & 255};
    zstd_file_begin(&pack->to, file, LEVEL, SNAPSHOT_WINDOW_LOG);
    zstd_file_put_plain(&pack->to, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES);
    zstd_file_put_plain(&pack->to, version, sizeof version);
    return pack;
}

/* Makes the file longer with a skippable frame of zstd, if a reader would otherwise refuse the file
 * because its body unpacks to too many bytes or rows for its length (snapshot_format.h). */
static void write_padding(struct pack *pack) {
    static const uint8_t nothing[4096];
    uint64_t wanted = 0, by_rows = 0;
    if (pack->body_bytes > SNAPSHOT_BODY_FREE)
        wanted = (pack->body_bytes - SNAPSHOT_BODY_FREE) / SNAPSHOT_BODY_RATIO + 1;
    if (pack->all_rows > SNAPSHOT_ROWS_FREE)
        by_rows = (pack->all_rows - SNAPSHOT_ROWS_FREE) / SNAPSHOT_ROWS_RATIO + 1;
    wanted = wanted > by_rows ? wanted : by_rows;
    if (wanted <= pack->to.written)
        return;
    uint32_t length = (uint32_t)(wanted - pack->to.written);
    /* the magic number of a skippable frame, 0x184d2a50, and the length of the frame */
    const uint8_t head[8] = {0x50,
                             0x2a,
                             0x4d,
                             0x18,
                             length & 255,
                             length >> 8 & 255,
                             length >> 16 & 255,
                             length >> 24 & 255};
    zstd_file_put_plain(&pack->to, head, sizeof head);
    while (length > 0) {
        uint32_t part = length < sizeof nothing ? length : (uint32_t)sizeof nothing;
        zstd_file_put_plain(&pack->to, nothing, part);
        length -= part;
    }
}

/* --- columns ----------------------------------------------------------------------------- */

static uint8_t *room_for(struct pack_column *column, size_t bytes) {
    if (column->capacity - column->used < bytes) {
        column->capacity = 2 * column->capacity + bytes + 256;
        column->bytes = cli_grow(column->bytes, column->capacity, 1);
    }
    return column->bytes + column->used;
}

void pack_number(struct pack *pack, unsigned column, uint64_t value) {
    struct pack_column *to = &pack->columns[column];
    to->used += varint_put(room_for(to, VARINT_MAX), value);
    to->needed = to->needed || value != 0;
}

void pack_signed(struct pack *pack, unsigned column, uint64_t value) {
    pack_number(pack, column, snapshot_zigzag(value));
}

void pack_figure(struct pack *pack, unsigned column, int64_t figure, uint64_t expected) {
    uint64_t code = snapshot_zigzag((uint64_t)figure - expected);
    uint64_t unknown = snapshot_zigzag((uint64_t)WIRE_UNKNOWN - expected);
    pack_number(pack, column, code == unknown ? 0 : code + (code < unknown));
}

void pack_bytes(struct pack *pack, unsigned column, const void *bytes, size_t length) {
    struct pack_column *to = &pack->columns[column];
    memcpy(room_for(to, length), bytes, length);
    to->used += length;
    to->needed = true;
}

/* --- blocks ------------------------------------------------------------------------------ */

static void write_block(struct pack *pack) {
    uint8_t head[2 * VARINT_MAX], directory[2 * VARINT_MAX * (SNAPSHOT_COLUMNS_MAX + 1)];
    size_t count = 0, contents = 0;
    for (unsigned i = 0; i < SNAPSHOT_COLUMNS_MAX; i++) {
        struct pack_column *column = &pack->columns[i];
        column->used = column->needed ? column->used : 0;
        column->needed = false;
        count += column->used > 0;
        contents += column->used;
    }
    size_t length = varint_put(directory, pack->rows);
    length += varint_put(directory + length, count);
    for (unsigned i = 0; i < SNAPSHOT_COLUMNS_MAX; i++) {
        if (pack->columns[i].used > 0) {
            length += varint_put(directory + length, i);
            length += varint_put(directory + length, pack->columns[i].used);
        }
    }
    size_t head_bytes = varint_put(head, pack->table);
    head_bytes += varint_put(head + head_bytes, length + contents);
    add_to_body(pack, head, head_bytes);
    add_to_body(pack, directory, length);
    for (unsigned i = 0; i < SNAPSHOT_COLUMNS_MAX; i++) {
        add_to_body(pack, pack->columns[i].bytes, pack->columns[i].used);
        pack->columns[i].used = 0;
    }
    pack->all_rows += pack->rows;
    pack->rows = 0;
}

void pack_begin_table(struct pack *pack, enum snapshot_table table) {
    pack->table = table;
}

void pack_end_row(struct pack *pack) {
    pack->rows++;
    if (pack->rows == SNAPSHOT_ROWS_MAX ||
        (pack->table == SNAPSHOT_TEXTS && pack->columns[TEXTS_BYTES].used >= FLUSH_BYTES))
        write_block(pack);
}

void pack_end_table(struct pack *pack) {
    if (pack->rows > 0)
        write_block(pack);
}

void pack_finish(struct pack *pack) {
    pack_begin_table(pack, SNAPSHOT_END);
    write_block(pack);
    zstd_file_end_frame(&pack->to);
    write_padding(pack);
    for (unsigned i = 0; i < SNAPSHOT_COLUMNS_MAX; i++)
        free(pack->columns[i].bytes);
    zstd_file_free(&pack->to);
    free(pack);
}
