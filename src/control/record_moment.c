/* SPDX-License-Identifier: MIT */
/*
 * Writes a moment of the recording: the totals, and an entry for each watched context.
 *
 * A moment is built in memory and written with one pwrite.
 */
#include "control/control.h"
#include "control/dump.h"
#include "control/numbers.h"
#include "control/recorder.h"
#include "os/syscall.h"
#include "segment/segment.h"

#define ENTRY_MAX 110U /* bytes of an entry: six numbers, and those of a struct record_held */

/* Not inlined, so that the library has this code once. */
static NOINLINE uint8_t *put(uint8_t *to, uint64_t value) {
    return to + number_put(to, value);
}

/* Writes an entry and returns its end. */
static uint8_t *make_entry(uint8_t *to, uint32_t step, const struct sum *sum,
                           const struct record_held *held) {
    bool freed = sum->frees || sum->requested_cum_bytes != sum->live_bytes;
    bool peak = sum->views == 1 && sum->peak_bytes != WIRE_UNKNOWN;
    to = put(to, (uint64_t)step << 2 | (freed ? RECORD_FREED : 0) | (peak ? RECORD_PEAK : 0));
    to = put(to, number_folded(sum->live_bytes));
    to = put(to, number_folded(sum->allocs - sum->frees));
    if (freed) {
        to = put(to, (uint64_t)sum->allocs);
        to = put(to, (uint64_t)sum->requested_cum_bytes);
    }
    if (peak)
        to = put(to, (uint64_t)sum->peak_bytes);
    if (held) {
        const int64_t numbers[RECORD_HELD_NUMBERS] = {
            held->block_bytes - sum->live_bytes, held->reserved_bytes - held->block_bytes,
            held->alone_bytes, held->alone_free_bytes, held->shared_free_bytes};
        for (unsigned i = 0; i < RECORD_HELD_NUMBERS; i++)
            to = put(to, number_folded(numbers[i]));
    }
    return to;
}

static struct wire_sums sums_of_rest(const struct sum *sum) {
    return (struct wire_sums){.requested_bytes = sum->live_bytes,
                              .live_chunks = sum->allocs - sum->frees,
                              .allocs = sum->allocs,
                              .frees = sum->frees,
                              .requested_cum_bytes = sum->requested_cum_bytes,
                              .peak_requested_bytes = WIRE_UNKNOWN};
}

static void fill_dump(struct record_moment *moment, const struct sum *all) {
    struct wire_dump_request request = {0};
    struct wire_dump dump = {0};
    dump_head(&request, &dump);
    dump.requested_bytes = all->live_bytes;
    dump.live_chunks = all->allocs - all->frees;
    dump.allocs = all->allocs;
    dump.frees = all->frees;
    dump.ledger.pages_reserved = segment_usage().used_bytes;
    __builtin_memcpy(moment->dump, &dump, sizeof moment->dump);
}

void recorder_write_moment(struct walk *walk, struct record_pages *pages) {
    char *room = recorder->tables->moment;
    struct record_block *block = (void *)room;
    struct record_moment *moment = (void *)(block + 1);
    size_t before = sizeof *moment + (pages ? sizeof *pages : 0); /* bytes before the entries */
    uint8_t *entries = (uint8_t *)moment + before, *at = entries;
    uint8_t *end = (uint8_t *)room + MOMENT_BYTES - (size_t)2 * ENTRY_MAX; /* one for `forgotten` */
    struct sum forgotten = {0};
    struct record_held forgotten_held = {0};
    uint32_t previous = 0;
    *moment = (struct record_moment){.wall_ns = recorder_wall_ns(),
                                     .uptime_ns = control_uptime_ns(),
                                     .paged = pages != NULL,
                                     .lost = (uint32_t)recorder->lost,
                                     .uid = (uint32_t)OS_CALL(SYS_geteuid, 0, 0, 0, 0, 0, 0)};
    recorder_read_cgroup(moment);
    for (uint32_t i = 0; i < recorder->count; i++) {
        const struct watched *watched = &recorder->tables->watched[i];
        const struct record_held *held = pages ? &recorder->tables->held[i] : NULL;
        /* The last directory could not be written, and an older one may have another path under
         * this id. */
        if (watched->since > recorder->listed) {
            sums_add(&forgotten, &watched->sum);
            if (held)
                recorder_add_held(&forgotten_held, held);
            continue;
        }
        /* No room is left: the moment counts the context among those that are not watched. */
        if (at > end) {
            sums_add(&walk->rest, &watched->sum);
            if (held)
                recorder_add_held(&pages->rest, held);
            continue;
        }
        at = make_entry(at, watched->id - previous, &watched->sum, held);
        previous = watched->id;
        moment->entries++;
    }
    if (forgotten.allocs) {
        at =
            make_entry(at, RECORD_FORGOTTEN - previous, &forgotten, pages ? &forgotten_held : NULL);
        moment->entries++;
    }
    moment->entry_bytes = (uint32_t)(at - entries);
    moment->rest = sums_of_rest(&walk->rest);
    fill_dump(moment, &walk->all);
    if (pages)
        __builtin_memcpy(moment + 1, pages, sizeof *pages);
    size_t bytes = before + moment->entry_bytes;
    *block = recorder_block(RECORD_MOMENT, recorder->sequence, bytes,
                            recorder_sum(moment, bytes, RECORD_SUM_SEED));
    if (recorder_write_in_ring(block, sizeof *block + bytes)) {
        recorder->moments++;
        recorder->error = 0;
    }
}
