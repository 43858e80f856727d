/* SPDX-License-Identifier: MIT */
/*
 * stream.h - the stream form of a snapshot: the answers of the process, one behind the other,
 * compressed by zstd.
 *
 * The packed form (snapshot_format.h) needs the whole model in memory, and names of functions. The
 * stream form is written while the answers arrive. So the writer needs about 1 MiB, for one answer
 * and the compressor, whatever the number of contexts. A stream has no names of functions; its
 * reader looks them up. Its structs are those of memctx/wire.h, so a memctx with another
 * WIRE_VERSION refuses it.
 *
 * The file: STREAM_MAGIC, a uint32_t with STREAM_VERSION, a uint32_t with WIRE_VERSION, then one
 * zstd frame of records: struct stream_record and its body. The order of the records is
 * STREAM_FACTS, STREAM_HEAD, the pieces of contexts and modules, the pieces of marks, notes and
 * resizes; for each mark STREAM_MARK and its entries; STREAM_MAPPINGS, if known; the pages;
 * STREAM_HEAD; STREAM_HOW, if the process's memory was read from outside; STREAM_END. A file
 * without STREAM_END is damaged.
 */
#ifndef MEMCTX_STREAM_H
#define MEMCTX_STREAM_H

#include <stdio.h>

#include "model/model.h"

#define STREAM_MAGIC "\x89mctxstr"
#define STREAM_MAGIC_BYTES 8U
#define STREAM_VERSION 1U
#define STREAM_HEAD_BYTES (STREAM_MAGIC_BYTES + 8U)

enum stream_kind {
    STREAM_FACTS = 1,    /* struct stream_facts */
    STREAM_HEAD = 2,     /* struct wire_dump */
    STREAM_PIECE = 3,    /* the answer to a request for a piece of `part` */
    STREAM_MARK = 4,     /* struct stream_mark: the entries that follow are of this mark */
    STREAM_MAPPINGS = 5, /* struct model_mappings */
    STREAM_END = 6,      /* no body */
    /* a text with its final 0: how the process's memory was read, because it did not answer */
    STREAM_HOW = 7,
};

struct stream_record {
    uint32_t kind; /* enum stream_kind */
    uint32_t part; /* in a STREAM_PIECE: enum wire_part */
    uint32_t bytes;
    uint32_t reserved;
};

struct stream_facts {
    int64_t pid;
    uint64_t start_ticks;
    char library_version[32];
    char program[256]; /* name of the program as the user started it; empty: not known */
};

struct stream_mark {
    uint64_t uptime_ns;
    char name[WIRE_MARK_NAME_MAX];
};

struct stream_writer;

/* Begins a file. If memory runs out, the command ends with a message. */
struct stream_writer *stream_begin(FILE *file);
/* Writes one record. `part`: an enum wire_part in a STREAM_PIECE, else 0. */
void stream_put(struct stream_writer *writer, enum stream_kind kind, uint32_t part,
                const void *bytes, size_t length);
/* Ends the file. After a failed write ferror(file) is set. */
void stream_finish(struct stream_writer *writer);

/* Fills in a model. `bytes` is the whole file; the caller frees it. */
bool snapshot_read_stream(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure);

#endif
