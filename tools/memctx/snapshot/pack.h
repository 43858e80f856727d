/* SPDX-License-Identifier: MIT */
/*
 * pack.h - writes tables, column by column, as blocks of a snapshot's body (snapshot_format.h).
 *
 * The caller adds the rows of a table value by value; each full block is compressed and written at
 * once. So packing needs memory for one block and the compressor's window, whatever the size of the
 * table. After a write error ferror(file) is set; the caller checks it at the end.
 */
#ifndef MEMCTX_PACK_H
#define MEMCTX_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <memctx/wire.h>

#include "snapshot/snapshot_format.h"

struct pack;

/* Writes the head of the file, and begins the body. */
struct pack *pack_begin(FILE *file);
/* Ends the body and the file. */
void pack_finish(struct pack *pack);

void pack_begin_table(struct pack *pack, enum snapshot_table table);
void pack_end_row(struct pack *pack);
void pack_end_table(struct pack *pack);

/* Sets the value of a column in the present row, in the encoding of the kind "number", "signed",
 * "figure" or "bytes" (snapshot_format.h). The caller gives a column a value in all rows of the
 * table or in none. */
void pack_number(struct pack *pack, unsigned column, uint64_t value);
void pack_signed(struct pack *pack, unsigned column, uint64_t value);
void pack_figure(struct pack *pack, unsigned column, int64_t figure, uint64_t expected);
void pack_bytes(struct pack *pack, unsigned column, const void *bytes, size_t length);

#endif
