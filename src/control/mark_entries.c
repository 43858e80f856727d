/* SPDX-License-Identifier: MIT */
/*
 * mark_entries.c - writes and reads the entries of a mark.
 *
 * An entry is a few numbers in a variable-length code (numbers.h), mostly 4 to 10 bytes in all: the
 * step from the context id of the entry before, the live bytes and the live chunks, and, if
 * anything was ever freed, the chunks and the bytes ever allocated.
 */
#include "control/mark_entries.h"
#include "context/tree.h"
#include "control/marks.h"
#include "control/numbers.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "region/tables.h"

#define NUMBERS 5U                          /* numbers in an entry, at most */
#define ENTRY_MAX ((uint64_t)NUMBERS * 10U) /* bytes of an entry, at most */

int64_t marks_bytes;

/* Returns the number of bits of the live bytes. */
static unsigned class_of(int64_t live_bytes) {
    return live_bytes > 0 ? 64 - (unsigned)__builtin_clzl((uint64_t)live_bytes) : 0;
}

static bool next_chunk(struct mark_writer *writer) {
    struct mark_chunk *chunk = NULL;
    if (writer->bytes + MARK_CHUNK_BYTES <= writer->limit &&
        tables_take(MARK_CHUNK_BYTES, TABLES_ASKED)) {
        chunk = meta_alloc(MARK_CHUNK_BYTES);
        writer->failed |= !chunk;
        tables_add(chunk ? 0 : -(int64_t)MARK_CHUNK_BYTES);
    }
    if (!chunk)
        return false;
    asked_bytes += MARK_CHUNK_BYTES;
    marks_bytes += MARK_CHUNK_BYTES;
    if (writer->last)
        writer->last->next = chunk;
    else
        writer->first = chunk;
    writer->last = chunk;
    writer->bytes += MARK_CHUNK_BYTES;
    writer->previous = 0;
    return true;
}

static uint32_t make_entry(const struct mark_writer *writer, uint32_t context,
                           const struct sum *sum, uint8_t entry[ENTRY_MAX]) {
    /* If nothing was freed, the bytes ever allocated equal the live bytes. */
    bool freed = sum->frees || sum->requested_cum_bytes != sum->live_bytes;
    uint32_t length = number_put(entry, (uint64_t)(context - writer->previous) << 1 | freed);
    length += number_put(entry + length, number_folded(sum->live_bytes));
    length += number_put(entry + length, number_folded(sum->allocs - sum->frees));
    if (freed) {
        length += number_put(entry + length, (uint64_t)sum->allocs);
        length += number_put(entry + length, (uint64_t)sum->requested_cum_bytes);
    }
    return length;
}

static void leave_out(struct mark_writer *writer, const struct sum *sum) {
    struct wire_left_out *out = &writer->left_out;
    out->contexts++;
    out->requested_bytes += sum->live_bytes;
    out->live_chunks += sum->allocs - sum->frees;
    /* since the last reset: a later reset makes these sums unknown (marks_forget_counters) */
    out->allocs += sum->allocs - sum->base_allocs;
    out->frees += sum->frees - sum->base_frees;
    out->requested_cum_bytes += sum->requested_cum_bytes - sum->base_requested_cum_bytes;
    if (sum->live_bytes > out->most_bytes)
        out->most_bytes = sum->live_bytes;
}

static void write_entry(struct mark_writer *writer, uint32_t context, const struct sum *sum) {
    uint8_t entry[ENTRY_MAX];
    bool full = !writer->last || writer->last->used + ENTRY_MAX > sizeof writer->last->bytes;
    unsigned class = class_of(sum->live_bytes);
    if (class < writer->least || (class == writer->least && writer->spare < ENTRY_MAX) ||
        (full && !next_chunk(writer))) {
        leave_out(writer, sum);
        return;
    }
    uint32_t length = make_entry(writer, context, sum, entry);
    writer->spare -= class == writer->least ? length : 0;
    writer->previous = context;
    __builtin_memcpy(writer->last->bytes + writer->last->used, entry, length);
    writer->last->used += length;
    tree_flag(context, TREE_MARKED);
}

void mark_entries_free(struct mark_chunk *chunk) {
    while (chunk) {
        struct mark_chunk *next = chunk->next;
        meta_free(chunk, MARK_CHUNK_BYTES);
        tables_add(-(int64_t)MARK_CHUNK_BYTES);
        asked_bytes -= MARK_CHUNK_BYTES;
        marks_bytes -= MARK_CHUNK_BYTES;
        chunk = next;
    }
}

/* Counts the bytes of an entry: in `needed`, as if no context were left out, and in `alone`, as if
 * the entry were the first of a chunk. */
static void count_entry(struct mark_writer *writer, uint32_t context, const struct sum *sum) {
    uint8_t entry[ENTRY_MAX];
    if (!writer->needed || writer->used + ENTRY_MAX > sizeof writer->last->bytes) {
        writer->needed += MARK_CHUNK_BYTES;
        writer->used = writer->previous = 0;
    }
    writer->used += make_entry(writer, context, sum, entry);
    writer->previous = 0;
    writer->alone[class_of(sum->live_bytes)] += make_entry(writer, context, sum, entry);
    writer->previous = context;
}

/* Writes the entries of all contexts, or only counts the bytes that they need. */
static void write_all(struct mark_writer *writer, bool only_count) {
    uint32_t count = tree_count();
    sums_begin();
    for (uint32_t id = 0; id < count; id++) {
        struct sum sum;
        sums_pause(id);
        sums_read(id, &sum, NULL);
        if (!sum.allocs && !sum.frees)
            continue;
        if (only_count)
            count_entry(writer, id, &sum);
        else
            write_entry(writer, id, &sum);
    }
    sums_end();
    writer->previous = 0;
}

/* Finds the class (class_of) whose entries are written as long as there is room. Entries of higher
 * classes are all written, and entries of lower classes are all left out. */
static void find_least(struct mark_writer *writer) {
    uint64_t room = writer->limit - writer->limit / 32, sum = 0; /* the ends of chunks stay empty */
    unsigned class = MARK_CLASSES - 1;
    while (writer->needed > writer->limit && class > 0 && sum + writer->alone[class] <= room)
        sum += writer->alone[class --];
    writer->least = writer->needed > writer->limit ? class : 0;
    writer->spare = writer->needed > writer->limit ? room - sum : UINT64_MAX;
}

void mark_entries_measure(struct mark_writer *writer) {
    write_all(writer, true);
    find_least(writer);
}

void mark_entries_write(struct mark_writer *writer) {
    write_all(writer, false);
}

void mark_entries_pin(const struct mark_chunk *first) {
    for (const struct mark_chunk *chunk = first; chunk; chunk = chunk->next) {
        const uint8_t *at = chunk->bytes;
        for (uint32_t context = 0; at < chunk->bytes + chunk->used;) {
            uint64_t step = number_get(&at);
            context += (uint32_t)(step >> 1);
            tree_flag(context, TREE_MARKED);
            for (unsigned number = 1; number < (step & 1 ? NUMBERS : NUMBERS - 2); number++)
                number_get(&at);
        }
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool tell_entry(struct piece *piece, uint32_t context, bool freed, const uint8_t **at) {
    struct wire_mark_entry *out = piece_record(piece, sizeof *out);
    if (!out)
        return false;
    /* A reset after the mark lowered the counters of dumps. The entry is lowered by equal amounts,
     * so that the differences between a dump and the mark stay right. */
    struct sum now = sums_base(context);
    int64_t live = number_unfolded(number_get(at)), chunks = number_unfolded(number_get(at));
    int64_t allocs = freed ? (int64_t)number_get(at) : chunks;
    int64_t bytes = freed ? (int64_t)number_get(at) : live;
    *out = (struct wire_mark_entry){.context = context,
                                    .requested_bytes = live,
                                    .live_chunks = chunks,
                                    .allocs = allocs - now.base_allocs,
                                    .frees = allocs - chunks - now.base_frees,
                                    .requested_cum_bytes = bytes - now.base_requested_cum_bytes};
    return true;
}

/* The cursor of a piece holds, from the highest bits on: the number of the mark's chunk, the place
 * in the chunk, and the context id of the entry before that place. */
#define CURSOR_CHUNK 44
#define CURSOR_PLACE 32

/* Writes the entries of one chunk. False: the answer has no room for all of them. */
static bool tell_chunk(struct piece *piece, const struct mark_chunk *chunk, uint64_t number,
                       uint32_t place, uint32_t previous) {
    /* The client may have forged the cursor, so `place` is checked. */
    while (place < chunk->used && place + ENTRY_MAX <= sizeof chunk->bytes) {
        const uint8_t *at = chunk->bytes + place;
        uint64_t step = number_get(&at);
        uint32_t context = previous + (uint32_t)(step >> 1);
        if (!tell_entry(piece, context, step & 1, &at)) {
            piece->next = number << CURSOR_CHUNK | (uint64_t)place << CURSOR_PLACE | previous;
            return false;
        }
        place = (uint32_t)(at - chunk->bytes);
        previous = context;
    }
    return true;
}

void mark_entries_tell(struct piece *piece, const struct mark_chunk *first) {
    uint64_t cursor = piece->request->from, number = 0, from = cursor >> CURSOR_CHUNK;
    uint32_t place = (uint32_t)(cursor >> CURSOR_PLACE) % MARK_CHUNK_BYTES;
    uint32_t previous = (uint32_t)cursor;
    sums_begin();
    for (const struct mark_chunk *chunk = first; chunk; chunk = chunk->next, number++) {
        if (number < from)
            continue;
        if (!tell_chunk(piece, chunk, number, place, previous))
            break;
        place = previous = 0;
    }
    sums_end();
}
