/* SPDX-License-Identifier: MIT */
/*
 * recording_entries.c - reads the entries of a moment of a recording (memctx/record.h): the figures
 * of contexts, as numbers of 7 bits a byte.
 */
#include "snapshot/recording.h"

struct numbers {
    const unsigned char *at, *end;
    bool good;
};

static uint64_t next_number(struct numbers *numbers) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (numbers->at == numbers->end) {
            numbers->good = false;
            return 0;
        }
        unsigned char byte = *numbers->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            break;
    }
    return value;
}

static int64_t next_signed(struct numbers *numbers) {
    uint64_t value = next_number(numbers);
    return model_tame((int64_t)(value >> 1 ^ -(value & 1)));
}

static struct record_held next_held(struct numbers *numbers, int64_t live_bytes) {
    struct record_held held;
    held.block_bytes = model_tame(live_bytes + next_signed(numbers));
    held.reserved_bytes = model_tame(held.block_bytes + next_signed(numbers));
    held.alone_bytes = next_signed(numbers);
    held.alone_free_bytes = next_signed(numbers);
    held.shared_free_bytes = next_signed(numbers);
    return held;
}

/* Reads one entry of a moment. *id is the id of the previous entry, and becomes the id of this
 * entry. Without RECORD_FREED nothing was ever freed, so the sums of all allocations equal the live
 * figures. */
static struct recording_entry next_entry(struct numbers *numbers, uint32_t *id, bool paged) {
    uint64_t step = next_number(numbers);
    struct recording_entry entry = {0};
    struct wire_sums sums = {.peak_requested_bytes = WIRE_UNKNOWN};
    *id += (uint32_t)(step >> 2);
    sums.requested_bytes = sums.requested_cum_bytes = next_signed(numbers);
    sums.live_chunks = sums.allocs = next_signed(numbers);
    if (step & RECORD_FREED) {
        sums.allocs = model_tame((int64_t)next_number(numbers));
        sums.requested_cum_bytes = model_tame((int64_t)next_number(numbers));
    }
    sums.frees = sums.allocs - sums.live_chunks;
    if (step & RECORD_PEAK)
        sums.peak_requested_bytes = model_tame((int64_t)next_number(numbers));
    entry.sums = sums;
    if (paged)
        entry.held = next_held(numbers, sums.requested_bytes);
    return entry;
}

static void add_held(struct record_held *sum, const struct record_held *part) {
    sum->block_bytes = model_add(sum->block_bytes, part->block_bytes);
    sum->reserved_bytes = model_add(sum->reserved_bytes, part->reserved_bytes);
    sum->alone_bytes = model_add(sum->alone_bytes, part->alone_bytes);
    sum->alone_free_bytes = model_add(sum->alone_free_bytes, part->alone_free_bytes);
    sum->shared_free_bytes = model_add(sum->shared_free_bytes, part->shared_free_bytes);
}

static struct record_held tamed_held(const struct record_held *held) {
    return (struct record_held){model_tame(held->block_bytes), model_tame(held->reserved_bytes),
                                model_tame(held->alone_bytes), model_tame(held->alone_free_bytes),
                                model_tame(held->shared_free_bytes)};
}

static void add_sums(struct wire_sums *sum, const struct wire_sums *part) {
    sum->requested_bytes = model_add(sum->requested_bytes, part->requested_bytes);
    sum->live_chunks = model_add(sum->live_chunks, part->live_chunks);
    sum->allocs = model_add(sum->allocs, part->allocs);
    sum->frees = model_add(sum->frees, part->frees);
    sum->requested_cum_bytes = model_add(sum->requested_cum_bytes, part->requested_cum_bytes);
}

static struct wire_sums tamed(const struct wire_sums *sums) {
    return (struct wire_sums){model_tame(sums->requested_bytes),
                              model_tame(sums->live_chunks),
                              model_tame(sums->allocs),
                              model_tame(sums->frees),
                              model_tame(sums->requested_cum_bytes),
                              WIRE_UNKNOWN};
}

/* Returns the index of the context of an entry. WIRE_NONE: the directory does not have the context,
 * or has another one under this id. */
static uint32_t find_context(const struct snapshot_replay *reader,
                             const struct recording_moment *found, uint32_t id) {
    size_t low = 0, high = reader->since_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->since[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool listed = low < reader->since_count && reader->since[low].id == id;
    if (id >= RECORD_FORGOTTEN ||
        (reader->since_count > 0 && (!listed || reader->since[low].since > found->sequence)))
        return WIRE_NONE;
    return model_find_context(reader->model, id);
}

bool recording_each_entry(struct snapshot_replay *reader, const struct recording_moment *found,
                          void (*take)(struct snapshot_replay *, uint32_t index,
                                       const struct recording_entry *)) {
    struct numbers numbers = {(const unsigned char *)found->body,
                              (const unsigned char *)found->body + found->bytes, true};
    struct recording_entry rest = {tamed(&found->moment.rest), tamed_held(&found->pages.rest)};
    struct recording_entry forgotten = {0};
    uint32_t id = 0, rest_index = model_find_context(reader->model, RECORD_REST);
    uint32_t forgotten_index = model_find_context(reader->model, RECORD_FORGOTTEN);
    forgotten.sums.peak_requested_bytes = WIRE_UNKNOWN;
    for (uint32_t i = 0; i < found->moment.entries && numbers.good; i++) {
        struct recording_entry entry = next_entry(&numbers, &id, found->moment.paged != 0);
        uint32_t index = find_context(reader, found, id);
        if (index == WIRE_NONE) {
            add_sums(&forgotten.sums, &entry.sums);
            add_held(&forgotten.held, &entry.held);
        } else if (numbers.good) {
            take(reader, index, &entry);
        }
    }
    if (!numbers.good || rest_index == WIRE_NONE || forgotten_index == WIRE_NONE)
        return recording_damaged(reader, "a moment is cut off");
    take(reader, rest_index, &rest);
    if (forgotten.sums.allocs != 0)
        take(reader, forgotten_index, &forgotten);
    return true;
}
