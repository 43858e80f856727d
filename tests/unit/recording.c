/* SPDX-License-Identifier: MIT */
/* recording.c - tests of a recording: which contexts of a moment have an entry. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <unistd.h>

#include "control/numbers.h"
#include "control/recorder.h"

#define FILLED 3

/* Writes a moment with contexts whose ids have their meaning since these moments, after a directory
 * that moment 5 followed. Reads the ids and live bytes of its entries; returns their number. */
static unsigned entries_of(const uint32_t since[FILLED], uint32_t *ids, int64_t *live_bytes) {
    char path[] = "/tmp/memctx-unit-XXXXXX";
    struct walk walk = {0};
    struct record_moment moment;
    uint8_t bytes[256];
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    unlink(path);
    recorder = calloc(1, sizeof *recorder);
    recorder->tables = calloc(1, sizeof *recorder->tables);
    recorder->ring =
        (struct ring){.most = RECORD_RING_BYTES, .step = RECORD_RING_BYTES, .unit = RECORD_ALIGN};
    recorder->listed = 5;
    recorder->count = FILLED;
    for (uint32_t i = 0; i < FILLED; i++)
        recorder->tables->watched[i] = (struct watched){
            .id = 10 * (i + 1),
            .since = since[i],
            .sum = {.allocs = 1, .live_bytes = 1 << i, .requested_cum_bytes = 1 << i}};
    cr_assert(descriptors_hold(&recorder->file, fd));
    recorder_write_moment(&walk, NULL);
    cr_assert_eq(recorder->moments, 1);
    size_t at = RECORD_RING_AT + sizeof(struct record_block);
    cr_assert_eq(pread(recorder->file.fd, &moment, sizeof moment, (off_t)at), sizeof moment);
    cr_assert(pread(recorder->file.fd, bytes, sizeof bytes, (off_t)(at + sizeof moment)) > 0);
    descriptors_let_go(&recorder->file);
    const uint8_t *next = bytes;
    uint32_t id = 0;
    for (unsigned i = 0; i < moment.entries; i++) {
        uint64_t step = number_get(&next);
        ids[i] = id += (uint32_t)(step >> 2);
        live_bytes[i] = number_unfolded(number_get(&next));
        cr_assert_eq(step & RECORD_FREED, 0);
        (void)number_get(&next); /* live chunks */
        if (step & RECORD_PEAK)
            (void)number_get(&next);
    }
    cr_assert_eq(next, bytes + moment.entry_bytes);
    free(recorder->tables);
    free(recorder);
    recorder = NULL;
    return moment.entries;
}

Test(record_moment, counts_paths_that_no_directory_has_as_forgotten) {
    uint32_t ids[FILLED + 1];
    int64_t live_bytes[FILLED + 1];
    cr_assert_eq(entries_of((const uint32_t[]){6, 5, 7}, ids, live_bytes), 2);
    cr_assert_eq(ids[0], 20);
    cr_assert_eq(live_bytes[0], 2);
    cr_assert_eq(ids[1], RECORD_FORGOTTEN);
    cr_assert_eq(live_bytes[1], 1 + 4);
}

Test(record_moment, lists_each_path_that_the_directory_has) {
    uint32_t ids[FILLED + 1];
    int64_t live_bytes[FILLED + 1];
    cr_assert_eq(entries_of((const uint32_t[]){0, 1, 5}, ids, live_bytes), 3);
    for (uint32_t i = 0; i < FILLED; i++)
        cr_assert(ids[i] == 10 * (i + 1) && live_bytes[i] == 1 << i);
}
