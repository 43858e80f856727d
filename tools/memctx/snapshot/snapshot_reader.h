/* SPDX-License-Identifier: MIT */
/*
 * snapshot_reader.h - what snapshot_read.c and snapshot_names.c share: the state of a reader of a
 * snapshot file, and functions that read a value of the present row.
 *
 * A function that reads a value sets reader->wrong if the value cannot be right, and then returns a
 * value that harms nothing.
 */
#ifndef MEMCTX_SNAPSHOT_READER_H
#define MEMCTX_SNAPSHOT_READER_H

#include "model/tails.h"
#include "snapshot/snapshot.h"
#include "snapshot/unpack.h"

struct snapshot_frame {
    uint64_t address;
    uint32_t module, list; /* WIRE_NONE: none */
    /* made[exact_address]: the model's frame for this row; NULL: no context has needed it yet */
    struct model_frame *made[2];
};

struct snapshot_reader {
    struct model *model;
    struct cli_failure *failure;
    struct unpack_block block;
    const char *wrong; /* what is wrong with the block; NULL: nothing yet */
    uint64_t table;    /* number of the table that was read last */
    char **texts;
    struct model_function *functions;
    uint32_t *list_starts; /* index of the first function of each list */
    struct model_names *names;
    struct snapshot_frame *frames;
    size_t text_count, function_count, list_count, frame_count, entry_count, process_count;
    struct wire_mark_entry *entries;
    uint64_t shares_told, entries_told;
    struct model_tails tails; /* functions between the pair of frames whose rows are being read */
    size_t tail_room;         /* number of functions that tails.frames has room for */
    /* Values of the previous row, to which the next row is relative. */
    uint64_t address, page_end, id_expected;
    uint32_t view_context, entry_context, resizes_context;
    uint64_t rest[SNAPSHOT_TOTALS_COUNT];
};

/* Returns the array, grown to room for `count` elements and all rows of the present block. */
void *snapshot_make_room(const struct snapshot_reader *reader, void *array, size_t count,
                         size_t size_bytes);
/* Reads the text of a column; NULL: none. */
char *snapshot_text(struct snapshot_reader *reader, unsigned column);
/* Reads an index below `count`. Sets reader->wrong to `wrong` and returns 0 if it is greater. */
uint32_t snapshot_index(struct snapshot_reader *reader, unsigned column, size_t count,
                        const char *wrong);
/* Like snapshot_index, for an index or none; WIRE_NONE: none, or the index is too great. */
uint32_t snapshot_index_or_none(struct snapshot_reader *reader, unsigned column, size_t count,
                                const char *wrong);

/* Each reads all rows of the present block of its table. */
void snapshot_read_texts(struct snapshot_reader *reader);
void snapshot_read_functions(struct snapshot_reader *reader);
void snapshot_read_frames(struct snapshot_reader *reader);
/* The rows of a pair of frames are neighbours, so the functions of the last pair wait in
 * reader->tails for its further rows. */
void snapshot_read_tails(struct snapshot_reader *reader);
/* Makes the lists of names. Called when all functions are read, because the array no longer moves
 * then. */
void snapshot_make_names(struct snapshot_reader *reader);

#endif
