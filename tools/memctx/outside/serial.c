/* SPDX-License-Identifier: MIT */
/* serial.c - reads the runs of chunks of a serial page; see serial.h. */
#include "outside/serial.h"

#include <stdlib.h>

#define BITS(name) CONSTANT(walk->tables, SERIAL_##name##_BITS)
#define SHIFT(name) CONSTANT(walk->tables, SERIAL_##name##_SHIFT)

/* Returns the field of `bits` bits that starts at bit `shift`. */
static uint32_t take_bits(uint64_t word, uint32_t shift, uint32_t bits) {
    return (uint32_t)(word >> shift & ((1UL << bits) - 1));
}

uint64_t serial_record_bytes(const struct tables *tables, uint64_t run) {
    return (run >> CONSTANT(tables, SERIAL_RECORDS_SHIFT)) * sizeof(uint32_t);
}

bool serial_begin(struct serial_walk *walk, struct tables *tables, uint64_t start, uint64_t bytes,
                  uint64_t run, uint64_t gone) {
    uint64_t record_bytes = serial_record_bytes(tables, run);
    *walk = (struct serial_walk){.tables = tables,
                                 .run = run,
                                 .units = (uint32_t)(bytes / CONSTANT(tables, SERIAL_UNIT)),
                                 .records = (uint32_t)(record_bytes / sizeof *walk->words)};
    walk->gone_words = (walk->units + 63) / 64;
    size_t gone_bytes = 2 * walk->gone_words * sizeof *walk->gone;
    if (record_bytes > bytes)
        return false;
    walk->words = cli_alloc(record_bytes + 1, 1);
    walk->gone = gone ? cli_alloc(gone_bytes + 1, 1) : NULL;
    if (reach_read_touched(&tables->reach, start + bytes - record_bytes, walk->words,
                           record_bytes) &&
        (!gone || reach_read_touched(&tables->reach, gone, walk->gone, gone_bytes)))
        return true;
    serial_end(walk);
    return false;
}

void serial_end(struct serial_walk *walk) {
    free(walk->words);
    free(walk->gone);
}

static uint32_t record(const struct serial_walk *walk) {
    return walk->words[walk->records - 1 - walk->number];
}

/* Goes to the next run. Returns false if there is none. */
static bool next_run(struct serial_walk *walk) {
    if (walk->number > walk->records)
        return false;
    if (walk->number == walk->records) {
        walk->each = take_bits(walk->run, SHIFT(SHAPE), BITS(UNITS));
        walk->left = take_bits(walk->run, SHIFT(COUNT), BITS(END));
        walk->first = take_bits(walk->run, 0, BITS(END)) - walk->each * walk->left;
    } else {
        uint32_t word = record(walk);
        walk->first = take_bits(word, 0, BITS(FIRST));
        walk->each = take_bits(word, BITS(FIRST), BITS(UNITS));
        walk->left = 1;
        if (word >> SHIFT(KIND) == CONSTANT(walk->tables, SERIAL_SEVERAL) &&
            ++walk->number < walk->records)
            walk->left = take_bits(record(walk), BITS(FIRST), BITS(END));
    }
    walk->number++;
    return walk->left > 0 && walk->each > 0 &&
           walk->first + (uint64_t)walk->each * walk->left <= walk->units;
}

bool serial_next(struct serial_walk *walk, struct serial_chunk *chunk) {
    if (walk->left == 0 && !next_run(walk)) {
        walk->left = 0;
        return false;
    }
    uint32_t unit = CONSTANT(walk->tables, SERIAL_UNIT), first = walk->first;
    const uint64_t *gone = walk->gone, *freed = gone ? gone + walk->gone_words : NULL;
    bool dead = gone && gone[first / 64] >> first % 64 & 1;
    *chunk = (struct serial_chunk){.offset = first * unit,
                                   .bytes = walk->each * unit,
                                   .freed = gone && !dead && freed[first / 64] >> first % 64 & 1};
    chunk->live = !dead && !chunk->freed;
    walk->first += walk->each;
    walk->left--;
    return true;
}
