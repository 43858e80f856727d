/* SPDX-License-Identifier: MIT */
/* recording.c - tests of a recording: which contexts of a moment have an entry. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <unistd.h>

#include "control/numbers.h"
#include "control/recorder.h"

#define FILLED 3

/* Makes a recorder whose directory moment 5 followed, and which watches `count` contexts. */
static void begin_recorder(uint32_t count) {
    char path[] = "/tmp/memctx-unit-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    unlink(path);
    recorder = calloc(1, sizeof *recorder);
    recorder->tables = calloc(1, sizeof *recorder->tables);
    recorder->ring =
        (struct ring){.most = RECORD_RING_BYTES, .step = RECORD_RING_BYTES, .unit = RECORD_ALIGN};
    recorder->listed = 5;
    recorder->count = count;
    cr_assert(descriptors_hold(&recorder->file, fd));
}

/* Writes a moment and reads it back; `bytes` gets what follows the struct. Ends the recorder. */
static struct record_moment written_moment(struct record_pages *pages, uint8_t *bytes,
                                           size_t room) {
    struct walk walk = {0};
    struct record_moment moment;
    recorder_write_moment(&walk, pages);
    cr_assert_eq(recorder->moments, 1);
    size_t at = RECORD_RING_AT + sizeof(struct record_block);
    cr_assert_eq(pread(recorder->file.fd, &moment, sizeof moment, (off_t)at), sizeof moment);
    cr_assert(pread(recorder->file.fd, bytes, room, (off_t)(at + sizeof moment)) > 0);
    descriptors_let_go(&recorder->file);
    free(recorder->tables);
    free(recorder);
    recorder = NULL;
    return moment;
}

/* Writes a moment with contexts whose ids have their meaning since these moments. Reads the ids and
 * live bytes of its entries; returns their number. */
static unsigned entries_of(const uint32_t since[FILLED], uint32_t *ids, int64_t *live_bytes) {
    uint8_t bytes[256];
    begin_recorder(FILLED);
    for (uint32_t i = 0; i < FILLED; i++)
        recorder->tables->watched[i] = (struct watched){
            .id = 10 * (i + 1),
            .since = since[i],
            .sum = {.allocs = 1, .live_bytes = 1 << i, .requested_cum_bytes = 1 << i}};
    struct record_moment moment = written_moment(NULL, bytes, sizeof bytes);
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

/* The entry of forgotten paths has what they hold in pages, too. */
Test(record_moment, adds_up_what_forgotten_paths_hold) {
    struct record_pages pages = {0};
    uint8_t bytes[sizeof pages + 256];
    begin_recorder(2);
    for (uint32_t i = 0; i < 2; i++) {
        recorder->tables->watched[i] = (struct watched){
            .id = i + 1,
            .since = 6,
            .sum = {.allocs = 1, .live_bytes = 10, .requested_cum_bytes = 10, .views = 2}};
        recorder->tables->held[i] = (struct record_held){.block_bytes = 16 << i,
                                                         .reserved_bytes = 100 << i,
                                                         .alone_bytes = 1000 << i,
                                                         .alone_free_bytes = 10000 << i,
                                                         .shared_free_bytes = 100000 << i};
    }
    struct record_moment moment = written_moment(&pages, bytes, sizeof bytes);
    cr_assert_eq(moment.entries, 1);
    const uint8_t *next = bytes + sizeof pages;
    cr_assert_eq(number_get(&next) >> 2, RECORD_FORGOTTEN);
    const int64_t numbers[] = {20, 2, 48 - 20, 300 - 48, 3000, 30000, 300000};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_assert_eq(number_unfolded(number_get(&next)), numbers[i], "number %u", i);
    cr_assert_eq(next, bytes + sizeof pages + moment.entry_bytes);
}

/* The longest entries fill the moment, and the entry of forgotten paths still has room. */
Test(record_moment, has_room_for_forgotten_paths_behind_the_longest_entries) {
    static uint8_t bytes[2 * MOMENT_BYTES];
    struct record_pages pages = {0};
    const int64_t large = INT64_MIN / 4;
    begin_recorder(WATCHED_MAX);
    for (uint32_t i = 0; i < WATCHED_MAX; i++) {
        recorder->tables->watched[i] = (struct watched){.id = (i + 1) << 20,
                                                        .since = i == 0 ? 6 : 5,
                                                        .sum = {.allocs = large,
                                                                .frees = 1,
                                                                .live_bytes = large,
                                                                .requested_cum_bytes = large,
                                                                .views = 1,
                                                                .peak_bytes = large}};
        recorder->tables->held[i] = (struct record_held){
            .alone_bytes = large, .alone_free_bytes = large, .shared_free_bytes = large};
    }
    struct record_moment moment = written_moment(&pages, bytes, sizeof bytes);
    size_t used = sizeof(struct record_block) + sizeof moment + sizeof pages + moment.entry_bytes;
    cr_assert(moment.entries < WATCHED_MAX && used <= MOMENT_BYTES, "%zu bytes", used);
    cr_assert(used > MOMENT_BYTES - 200, "only %zu bytes", used);
}
