/* SPDX-License-Identifier: MIT */
/*
 * Writes the directories of a recording. A directory is a part of the file that lists the watched
 * contexts with all of their callers, and the modules.
 *
 * A directory is written piece by piece. The struct record_block at its start, which makes it
 * valid, is written last. The file has places for two directories, which are used in turns, so one
 * directory is valid at any time.
 */
#include "context/tree.h"
#include "control/dump.h"
#include "control/recorder.h"
#include "figures/buffers.h"
#include "named/named.h"
#include "path/unwind_rules.h"

#include <errno.h>

#define AGAIN_NS 60000000000ULL /* the newest directory is replaced at this age */

struct listing {
    uint64_t at, end; /* next place in the file; end of the directory's part */
    uint64_t sum;     /* checksum over the pieces so far */
    size_t bytes;     /* length of the pieces so far */
    struct answer answer;
};

/* Writes the piece that is complete, and empties the buffer for the next one. */
static bool flush(struct listing *listing, uint32_t part) {
    struct record_piece *head = (void *)recorder->tables->piece;
    size_t bytes = sizeof *head + listing->answer.length;
    *head = (struct record_piece){.part = part, .bytes = (uint32_t)listing->answer.length};
    listing->answer.length = 0;
    if (listing->at + bytes > listing->end)
        return recorder_failed(-EFBIG);
    listing->sum = recorder_sum(head, bytes, listing->sum);
    if (!recorder_write(head, bytes, listing->at))
        return false;
    listing->at += bytes;
    listing->bytes += bytes;
    return true;
}

static void begin_piece(struct listing *listing, struct piece *piece,
                        const struct wire_piece_request *request) {
    listing->answer = (struct answer){
        .bytes = recorder->tables->piece + sizeof(struct record_piece), .capacity = PIECE_BYTES};
    *piece = (struct piece){.request = request, .answer = &listing->answer};
    answer_add(piece->answer, sizeof(struct wire_piece));
}

static bool end_piece(struct listing *listing, const struct piece *piece, enum wire_part part) {
    *(struct wire_piece *)(void *)listing->answer.bytes =
        (struct wire_piece){.count = piece->count};
    return flush(listing, part);
}

/* Returns a bit for each context: set for the watched contexts, all their callers, and the fixed
 * nodes such as [unknown]. NULL: no memory. */
static uint64_t *find_callers(uint32_t count) {
    uint64_t *wanted = buffers_map(count / 8 + sizeof *wanted, false);
    for (uint32_t i = 0; wanted && i < recorder->count; i++)
        for (uint32_t id = recorder->tables->watched[i].id;
             id < count && !(wanted[id / 64] >> id % 64 & 1); id = tree_node(id)->parent) {
            wanted[id / 64] |= 1UL << id % 64;
            if (id == TREE_ROOT)
                break;
        }
    if (wanted)
        wanted[0] |= (1UL << TREE_FIXED_COUNT) - 1;
    return wanted;
}

static void add_sum(struct piece *piece, uint32_t id, const char *label) {
    size_t label_bytes = text_length(label) + 1;
    struct wire_context *sum = piece_record(piece, align_up(sizeof *sum + label_bytes, 8));
    if (!sum)
        return;
    *sum = (struct wire_context){.id = id,
                                 .parent = TREE_ROOT,
                                 .module = WIRE_NONE,
                                 .recursive_from = WIRE_NONE,
                                 .bytes = (uint16_t)align_up(sizeof *sum + label_bytes, 8),
                                 .kind = WIRE_KIND_UNKNOWN,
                                 .label_bytes = (uint16_t)label_bytes};
    __builtin_memcpy(sum + 1, label, label_bytes);
}

static bool list_contexts(struct listing *listing) {
    static const struct wire_piece_request request = {.part = WIRE_PART_CONTEXTS};
    uint32_t count = tree_count();
    uint64_t *wanted = find_callers(count);
    struct piece piece;
    bool good = wanted;
    begin_piece(listing, &piece, &request);
    for (uint32_t id = 0; good && (id = recorder_next_id(wanted, id, count)) < count; id++) {
        if (dump_node(&piece, id))
            continue;
        good = end_piece(listing, &piece, WIRE_PART_CONTEXTS);
        begin_piece(listing, &piece, &request);
        good &= dump_node(&piece, id);
    }
    /* The two records below take less than 512 bytes. */
    if (good && piece.answer->capacity - piece.answer->length < 512) {
        good = end_piece(listing, &piece, WIRE_PART_CONTEXTS);
        begin_piece(listing, &piece, &request);
    }
    add_sum(&piece, RECORD_FORGOTTEN, "[forgotten paths]");
    add_sum(&piece, RECORD_REST, "[smaller contexts]");
    buffers_unmap(wanted);
    return good     ? end_piece(listing, &piece, WIRE_PART_CONTEXTS)
           : wanted ? false
                    : recorder_failed(-ENOMEM);
}

/* Lists for each watched context since which moment its id has its present meaning. */
static bool list_since(struct listing *listing) {
    struct answer *answer = &listing->answer;
    bool good = true;
    for (uint32_t i = 0; good && tree_reused() && i < recorder->count;) {
        *answer = (struct answer){.bytes = recorder->tables->piece + sizeof(struct record_piece),
                                  .capacity = PIECE_BYTES};
        struct record_since *since;
        for (; i < recorder->count && (since = answer_add(answer, sizeof *since)); i++)
            *since = (struct record_since){recorder->tables->watched[i].id,
                                           recorder->tables->watched[i].since};
        good = flush(listing, RECORD_SINCE);
    }
    return good;
}

static bool list_modules(struct listing *listing) {
    struct wire_piece_request request = {.part = WIRE_PART_MODULES};
    do {
        struct wire_piece head;
        struct answer *answer = &listing->answer;
        *answer = (struct answer){.bytes = recorder->tables->piece + sizeof(struct record_piece),
                                  .capacity = PIECE_BYTES};
        if (piece_run(&request, answer) != WIRE_OK)
            return recorder_failed(-ENOMEM);
        __builtin_memcpy(&head, answer->bytes, sizeof head);
        request.from = head.next;
        if (!flush(listing, WIRE_PART_MODULES))
            return false;
    } while (request.from);
    return true;
}

static uint32_t closed_modules(void) {
    uint32_t count = unwind_rules_module_count(), closed = 0;
    for (uint32_t i = 0; i < count; i++)
        closed += load_relaxed(&unwind_rules_module(i)->closed) != 0;
    return closed;
}

/* Returns a checksum over the identifiers of the watched contexts and of the named contexts above
 * them. */
static uint64_t sum_identifiers(void) {
    uint64_t sum = RECORD_SUM_SEED;
    for (uint32_t i = 0; i < recorder->count; i++)
        for (uint32_t id = recorder->tables->watched[i].id; tree_is_named(id);
             id = tree_node(id)->parent) {
            const struct named *named = named_at((uint32_t)tree_node(id)->address);
            if (load_relaxed(&named->generation) & 1 && named->identifier[0])
                sum = recorder_sum(named->identifier, sizeof named->identifier, sum + id);
        }
    return sum;
}

bool recorder_write_directory(uint64_t now) {
    uint64_t start = RECORD_DIRECTORY_AT + recorder->directories % 2 * RECORD_DIRECTORY_BYTES;
    struct record_block block = {0};
    struct listing listing = {
        .at = start + sizeof block, .end = start + RECORD_DIRECTORY_BYTES, .sum = RECORD_SUM_SEED};
    uint32_t modules = unwind_rules_module_count(), closed = closed_modules();
    uint64_t identifiers = sum_identifiers();
    if (!recorder->changed && modules == recorder->modules && closed == recorder->closed &&
        identifiers == recorder->identifiers && now < recorder->directory_ns + AGAIN_NS)
        return true;
    if (!recorder_write(&block, sizeof block, start) || !list_contexts(&listing) ||
        !list_since(&listing) || !list_modules(&listing))
        return false;
    block = recorder_block(RECORD_DIRECTORY, recorder->directories + 1, listing.bytes, listing.sum);
    if (!recorder_write(&block, sizeof block, start))
        return false;
    recorder->directories++;
    recorder->listed = recorder->sequence;
    recorder->directory_ns = now;
    recorder->modules = modules;
    recorder->closed = closed;
    recorder->identifiers = identifiers;
    recorder->changed = false;
    return true;
}
