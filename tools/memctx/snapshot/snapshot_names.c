/* SPDX-License-Identifier: MIT */
/*
 * snapshot_names.c - reads the tables of a snapshot file that name frames: texts, functions and
 * their lists, frames, and the functions that ended in tail calls between two frames.
 */
#include <stdlib.h>
#include <string.h>

#include "snapshot/snapshot_reader.h"

/* All texts of a block share one piece of memory. */
void snapshot_read_texts(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    char *at = cli_alloc(unpack_left(block, TEXTS_BYTES) + block->rows, 1);
    reader->texts =
        snapshot_make_room(reader, reader->texts, reader->text_count, sizeof *reader->texts);
    for (uint32_t i = 0; i < block->rows; i++) {
        size_t length = unpack_at_most(block, TEXTS_LENGTH, SNAPSHOT_TEXT_MAX);
        const uint8_t *text = unpack_bytes(block, TEXTS_BYTES, length);
        if (!text) /* the text is empty or cannot be read */
            length = 0;
        else if (memchr(text, 0, length))
            reader->wrong = "a text has a 0 byte";
        else
            memcpy(at, text, length);
        reader->texts[reader->text_count++] = cli_clean(at);
        at += length + 1;
    }
}

void snapshot_read_functions(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    reader->functions = snapshot_make_room(reader, reader->functions, reader->function_count,
                                           sizeof *reader->functions);
    reader->list_starts = snapshot_make_room(reader, reader->list_starts, reader->list_count,
                                             sizeof *reader->list_starts);
    for (uint32_t i = 0; i < block->rows; i++) {
        struct model_function *function = &reader->functions[reader->function_count];
        function->name = snapshot_text(reader, FUNCTIONS_NAME);
        function->file = snapshot_text(reader, FUNCTIONS_FILE);
        function->line = (int64_t)unpack_at_most(block, FUNCTIONS_LINE, INT64_MAX);
        if (unpack_at_most(block, FUNCTIONS_INLINED, 1) == 0)
            reader->list_starts[reader->list_count++] = (uint32_t)reader->function_count;
        else if (reader->list_count == 0)
            reader->wrong = "a function is inlined into nothing";
        reader->function_count++;
    }
}

/* Makes the lists of names. Called when all functions are read, because the array no longer moves
 * then. */
void snapshot_make_names(struct snapshot_reader *reader) {
    reader->names = cli_alloc(reader->list_count, sizeof *reader->names);
    for (size_t i = 0; i < reader->list_count; i++) {
        uint32_t start = reader->list_starts[i];
        size_t end =
            i + 1 < reader->list_count ? reader->list_starts[i + 1] : reader->function_count;
        reader->names[i] = (struct model_names){(uint32_t)(end - start), &reader->functions[start]};
    }
    free(reader->list_starts);
    reader->list_starts = NULL;
}

void snapshot_read_frames(struct snapshot_reader *reader) {
    reader->frames =
        snapshot_make_room(reader, reader->frames, reader->frame_count, sizeof *reader->frames);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        struct snapshot_frame *frame = &reader->frames[reader->frame_count++];
        reader->address += unpack_signed(&reader->block, FRAMES_ADDRESS);
        frame->address = reader->address;
        frame->module = snapshot_index_or_none(reader, FRAMES_MODULE, reader->model->module_count,
                                               "a frame lies in a module that is not listed");
        frame->made[0] = frame->made[1] = NULL;
        frame->list = snapshot_index_or_none(reader, FRAMES_LIST, reader->list_count,
                                             "a frame has names that are not listed");
    }
}

/* Returns the model's frame for a row of the frames; NULL: no context has this frame. */
static struct model_frame *made_frame(const struct snapshot_reader *reader, uint32_t index) {
    return reader->frames[index].made[0];
}

/* Reads functions that ended in tail calls. The rows of a pair of frames are neighbours. */
void snapshot_read_tails(struct snapshot_reader *reader) {
    struct model_tails *tails = &reader->tails;
    const char *wrong = "a tail call belongs to a frame that is not listed";
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        uint32_t outer = snapshot_index(reader, TAILS_OUTER, reader->frame_count, wrong);
        uint32_t inner = snapshot_index_or_none(reader, TAILS_INNER, reader->frame_count, wrong);
        uint32_t at = snapshot_index(reader, TAILS_FUNCTION, reader->frame_count, wrong);
        if (reader->wrong)
            return;
        const struct snapshot_frame *from = &reader->frames[at];
        const struct model_frame *caller = made_frame(reader, outer);
        const struct model_frame *callee = inner != WIRE_NONE ? made_frame(reader, inner) : NULL;
        if (!caller || (inner != WIRE_NONE && !callee) || from->module == WIRE_NONE ||
            from->list == WIRE_NONE)
            continue;
        uint32_t number = callee ? callee->number : WIRE_NONE;
        if (tails->count > 0 && (tails->outer != caller->number || tails->inner != number)) {
            tails_add(reader->model, tails);
            *tails = (struct model_tails){0};
            reader->tail_room = 0;
        }
        tails->outer = caller->number;
        tails->inner = number;
        if (tails->count == reader->tail_room) { /* most pairs have one function */
            reader->tail_room = 2 * reader->tail_room + 1;
            tails->frames = cli_grow(tails->frames, reader->tail_room, sizeof *tails->frames);
        }
        tails->frames[tails->count++] = (struct model_frame){.address = from->address,
                                                             .module = from->module,
                                                             .kind = WIRE_KIND_PATH,
                                                             .names = &reader->names[from->list]};
    }
}
