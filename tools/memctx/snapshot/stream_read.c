/* SPDX-License-Identifier: MIT */
/*
 * stream_read.c - reads the answers of a process from a file into a model.
 *
 * The file is not trusted: it may be cut off, damaged or made to do harm. zstd's checksum finds
 * damage; the loader checks each answer as if it came from a process. The number of unpacked bytes
 * is bounded by the length of the file.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "model/wire_load.h"
#include "snapshot/stream.h"

/* A file of N bytes may unpack to UNPACKED_FREE + N * UNPACKED_RATIO bytes. Contexts unpack to 20
 * to 40 times their compressed size. */
#define UNPACKED_FREE ((uint64_t)64 << 20)
#define UNPACKED_RATIO 256U
#define BODY_MAX (2 * WIRE_ANSWER_MAX)

struct stream_reader {
    struct model *model;
    struct cli_failure *failure;
    struct loader loader;
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer input;
    uint64_t left; /* bytes that the file may still unpack to */
    bool checked;  /* the frame has ended, and its checksum was right */
    bool has_facts, has_head, linked, sorted, ended;
    struct stream_facts facts;
    char body[BODY_MAX];
};

static bool damaged(const struct stream_reader *reader, const char *what) {
    return cli_fail(reader->failure, CLI_REFUSED,
                    "%s: damaged snapshot; %s; take it again with memctx dump -o",
                    reader->model->source, what);
}

/* Unpacks exactly `bytes` bytes. */
static bool unpack(struct stream_reader *reader, void *to, size_t bytes) {
    ZSTD_outBuffer output = {to, bytes, 0};
    if (bytes > reader->left)
        return damaged(reader, "it unpacks to more bytes than a snapshot has");
    reader->left -= bytes;
    while (output.pos < output.size) {
        size_t before = reader->input.pos, made = output.pos;
        size_t result = ZSTD_decompressStream(reader->zstd, &output, &reader->input);
        if (ZSTD_isError(result))
            return damaged(reader, "its compressed data is not valid");
        reader->checked = result == 0;
        if (reader->input.pos == before && output.pos == made)
            return damaged(reader, "it is cut off");
    }
    return true;
}

/* Links the contexts to their parents, before records that refer to contexts are read. */
static bool link_once(struct stream_reader *reader) {
    if (reader->linked)
        return true;
    reader->linked = true;
    return reader->has_head ? loader_link(&reader->loader) : damaged(reader, "it has no contexts");
}

static bool take_facts(struct stream_reader *reader, size_t length) {
    struct model *model = reader->model;
    if (length != sizeof reader->facts || reader->has_facts)
        return damaged(reader, "it does not name its process");
    struct stream_facts *facts = &reader->facts;
    memcpy(facts, reader->body, sizeof *facts);
    facts->library_version[sizeof facts->library_version - 1] = '\0';
    facts->program[sizeof facts->program - 1] = '\0';
    model->pid = facts->pid;
    model->start_ticks = facts->start_ticks;
    model->library_version = cli_clean(cli_copy(facts->library_version));
    if (facts->program[0] != '\0')
        model->program = cli_clean(cli_copy(facts->program));
    reader->has_facts = true;
    return true;
}

static bool take_mark(struct stream_reader *reader, size_t length) {
    struct model *model = reader->model;
    struct stream_mark wanted;
    if (length != sizeof wanted || !link_once(reader))
        return damaged(reader, "a mark is cut off");
    memcpy(&wanted, reader->body, sizeof wanted);
    wanted.name[sizeof wanted.name - 1] = '\0';
    cli_clean(wanted.name);
    if (!reader->sorted)
        model_sort_marks(model);
    reader->sorted = true;
    for (size_t i = 0; i < model->mark_count; i++) {
        struct model_mark *mark = &model->marks[i];
        if (mark->uptime_ns != wanted.uptime_ns || strcmp(mark->name, wanted.name) != 0 ||
            mark->has_entries)
            continue;
        mark->has_entries = true;
        reader->loader.mark = mark;
        reader->loader.entry_room = 0;
        return true;
    }
    return damaged(reader, "it has entries of a mark that is not there");
}

static bool take_piece(struct stream_reader *reader, uint32_t part, size_t length) {
    static const bool parts[WIRE_PARTS] = {
        [WIRE_PART_CONTEXTS] = true, [WIRE_PART_MODULES] = true, [WIRE_PART_MARKS] = true,
        [WIRE_PART_ENTRIES] = true,  [WIRE_PART_NOTES] = true,   [WIRE_PART_PAGES] = true,
        [WIRE_PART_RESIZES] = true};
    uint64_t next;
    if (part >= WIRE_PARTS || !parts[part] || !reader->has_head ||
        (part == WIRE_PART_ENTRIES && !reader->loader.mark) ||
        (part == WIRE_PART_MARKS && reader->sorted))
        return damaged(reader, "it has a part that does not belong there");
    bool first = part == WIRE_PART_CONTEXTS || part == WIRE_PART_MODULES;
    if (first && reader->linked)
        return damaged(reader, "its contexts stand behind its pages or marks");
    return (first || link_once(reader)) &&
           loader_take_piece(&reader->loader, (enum wire_part)part, reader->body, length, &next);
}

static bool take_how(struct stream_reader *reader, size_t length) {
    if (length == 0 || reader->body[length - 1] != '\0' || reader->model->how)
        return damaged(reader, "a text is cut off");
    reader->model->how = cli_clean(cli_copy(reader->body));
    return true;
}

static bool take_record(struct stream_reader *reader) {
    struct stream_record record;
    struct model *model = reader->model;
    if (!unpack(reader, &record, sizeof record))
        return false;
    if (record.bytes > sizeof reader->body)
        return damaged(reader, "a record is too long");
    if (!unpack(reader, reader->body, record.bytes))
        return false;
    if (!reader->has_facts && record.kind != STREAM_FACTS)
        return damaged(reader, "it does not name its process");
    switch (record.kind) {
    case STREAM_FACTS: return take_facts(reader, record.bytes);
    case STREAM_HEAD:
        reader->has_head = true;
        return loader_take_head(&reader->loader, reader->body, record.bytes);
    case STREAM_PIECE: return take_piece(reader, record.part, record.bytes);
    case STREAM_MARK: return take_mark(reader, record.bytes);
    case STREAM_MAPPINGS:
        if (record.bytes != sizeof model->mappings)
            return damaged(reader, "the kernel's map is cut off");
        memcpy(&model->mappings, reader->body, sizeof model->mappings);
        model->has_mappings = true;
        return true;
    case STREAM_HOW: return take_how(reader, record.bytes);
    case STREAM_END: reader->ended = true; return true;
    default: return damaged(reader, "it has a record of an unknown kind");
    }
}

/* Reads the end of the frame, with its checksum. */
static bool read_end(struct stream_reader *reader) {
    char byte;
    ZSTD_outBuffer output = {&byte, sizeof byte, 0};
    if (reader->checked)
        return true;
    size_t result = ZSTD_decompressStream(reader->zstd, &output, &reader->input);
    if (ZSTD_isError(result) || result != 0 || output.pos > 0)
        return damaged(reader, "its checksum is wrong");
    return true;
}

static void tame_mappings(struct model *model) {
#define X(name) model->mappings.name = model_tame(model->mappings.name);
    MODEL_MAPPINGS(X)
#undef X
}

static bool read_all(struct stream_reader *reader) {
    while (!reader->ended)
        if (!take_record(reader))
            return false;
    if (!link_once(reader) || !read_end(reader))
        return false;
    if (!reader->sorted)
        model_sort_marks(reader->model);
    tame_mappings(reader->model);
    loader_finish(&reader->loader, MODEL_RESIDENT | MODEL_PINNED);
    return true;
}

bool snapshot_read_stream(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure) {
    struct stream_reader *reader = cli_alloc(1, sizeof *reader);
    uint32_t versions[2];
    char *source = model->source;
    *reader = (struct stream_reader){.model = model,
                                     .failure = failure,
                                     .zstd = ZSTD_createDCtx(),
                                     .left = UNPACKED_FREE + (uint64_t)UNPACKED_RATIO * length};
    bool good = reader->zstd && length >= STREAM_HEAD_BYTES;
    if (good)
        memcpy(versions, bytes + STREAM_MAGIC_BYTES, sizeof versions);
    if (!good) {
        damaged(reader, "it is cut off");
    } else if (versions[0] != STREAM_VERSION || versions[1] != WIRE_VERSION) {
        good = cli_fail(failure, CLI_REFUSED,
                        "%s: a snapshot of version %u.%u; this memctx reads %u.%u; use the memctx "
                        "that wrote it",
                        source, versions[0], versions[1], STREAM_VERSION, WIRE_VERSION);
    } else {
        loader_begin(&reader->loader, model, source, failure);
        free(source);
        model->from_snapshot = true;
        reader->loader.keep_pages = true;
        reader->input = (ZSTD_inBuffer){bytes + STREAM_HEAD_BYTES, length - STREAM_HEAD_BYTES, 0};
        good = read_all(reader);
    }
    ZSTD_freeDCtx(reader->zstd);
    free(reader);
    return good;
}
