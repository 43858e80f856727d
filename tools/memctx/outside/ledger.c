/* SPDX-License-Identifier: MIT */
/*
 * ledger.c - reads how much memory the library has mapped, and how much of its own tables and of
 * its control thread is resident.
 */
#include <stdlib.h>
#include <string.h>

#include "outside/tables.h"

#define OS_PAGE_BYTES 4096U
#define OS_PAGES_AT_ONCE 1024U
#define TABLES_MOST (1L << 38) /* greatest number of bytes that the library's tables may have */

/* Returns the resident bytes in a range of whole OS pages; WIRE_UNKNOWN if the kernel does not
 * tell. */
static int64_t resident_in(const struct reach *reach, uint64_t start, uint64_t bytes) {
    unsigned char resident[OS_PAGES_AT_ONCE];
    int64_t sum = 0;
    for (uint64_t left = bytes / OS_PAGE_BYTES; left > 0;) {
        size_t part = left < OS_PAGES_AT_ONCE ? left : OS_PAGES_AT_ONCE;
        if (!reach_read_resident(reach, start, resident, part))
            return WIRE_UNKNOWN;
        for (size_t i = 0; i < part; i++)
            sum += resident[i] ? OS_PAGE_BYTES : 0;
        start += part * OS_PAGE_BYTES;
        left -= part;
    }
    return sum;
}

/* Adds the resident bytes of a mapping to *sum. *mapped: bytes of all mappings that are still to be
 * added; a mapping with more is damaged. */
static void add_resident(struct tables *tables, uint64_t start, uint64_t bytes, int64_t *mapped,
                         int64_t *sum) {
    if (*sum == WIRE_UNKNOWN)
        return;
    int64_t resident = WIRE_UNKNOWN;
    if (start % OS_PAGE_BYTES == 0 && *mapped >= 0 && bytes <= (uint64_t)*mapped)
        resident = resident_in(&tables->reach, start, bytes);
    else
        tables_miss(tables, "mappings of the library", start);
    *sum = resident == WIRE_UNKNOWN ? WIRE_UNKNOWN : *sum + resident;
    *mapped -= (int64_t)bytes;
}

/* Returns the resident bytes of the library's tables; WIRE_UNKNOWN: it cannot be found out. */
static int64_t resident_tables(struct tables *tables, int64_t mapped) {
    uint64_t count = tables_word(tables, ADDRESS(tables, meta_mapping_count_shown), sizeof count);
    size_t size = SIZE(tables, meta_mapping);
    uint64_t first = (ADDRESS(tables, meta_first_shown) + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES;
    int64_t sum = 0;
    if (count > CONSTANT(tables, META_MAPPINGS_MAX) || mapped < 0 || mapped > TABLES_MOST) {
        tables_miss(tables, "mappings of the library", ADDRESS(tables, meta_mappings_shown));
        return WIRE_UNKNOWN;
    }
    if (mapped > 0) /* 0: no table was ever made */
        add_resident(tables, first * OS_PAGE_BYTES, CONSTANT(tables, META_FIRST_BYTES), &mapped,
                     &sum);
    char *list = cli_alloc(count + 1, size);
    if (!reach_read(&tables->reach, ADDRESS(tables, meta_mappings_shown), list, count * size)) {
        tables_miss(tables, "mappings of the library", ADDRESS(tables, meta_mappings_shown));
        sum = WIRE_UNKNOWN;
    }
    for (uint64_t i = 0; i < count; i++)
        add_resident(tables, FIELD(tables, list + i * size, meta_mapping, start),
                     FIELD(tables, list + i * size, meta_mapping, bytes), &mapped, &sum);
    free(list);
    return sum;
}

/* Returns the resident bytes of the control thread's stack and of its mappings. If they cannot be
 * found out, notes that they are missing, and returns 0. */
static int64_t resident_control(struct tables *tables) {
    uint64_t top = tables_word(tables, ADDRESS(tables, buffers_stack_top), sizeof top);
    int64_t sum = 0, most = TABLES_MOST, page = OS_PAGE_BYTES;
    for (uint64_t part = OS_PAGE_BYTES;
         top != 0 && page == OS_PAGE_BYTES && part <= CONSTANT(tables, BUFFERS_STACK_BYTES);
         part += OS_PAGE_BYTES) {
        page = resident_in(&tables->reach, top - part, OS_PAGE_BYTES);
        sum = page == WIRE_UNKNOWN ? page : sum + page;
    }
    size_t size = SIZE(tables, buffer), count = CONSTANT(tables, BUFFERS_MAX);
    char *list = cli_alloc(count, size);
    if (!reach_read(&tables->reach, ADDRESS(tables, buffers_shown), list, count * size)) {
        tables_miss(tables, "mappings of the control thread", ADDRESS(tables, buffers_shown));
        sum = WIRE_UNKNOWN;
    }
    for (size_t i = 0; i < count; i++)
        add_resident(tables, FIELD(tables, list + i * size, buffer, start),
                     FIELD(tables, list + i * size, buffer, bytes), &most, &sum);
    free(list);
    if (sum != WIRE_UNKNOWN)
        return sum;
    tables_miss(tables, "resident memory of the control thread", top);
    return 0;
}

void tables_fill_ledger(struct tables *tables, struct wire_ledger *ledger, bool resident) {
    char *global = cli_alloc(1, SIZE(tables, segment_global));
    char usage[TABLES_USAGE_BYTES] = {0};
    if (!reach_read(&tables->reach, ADDRESS(tables, segment_global), global,
                    SIZE(tables, segment_global)))
        tables_miss(tables, "sums of memory", ADDRESS(tables, segment_global));
    if (!reach_read(&tables->reach, ADDRESS(tables, meta_usage_shown), usage,
                    SIZE(tables, meta_usage)))
        tables_miss(tables, "sums of the tables' memory", ADDRESS(tables, meta_usage_shown));
    /* Unsigned, because damaged numbers may overflow. */
    uint64_t segments = FIELD(tables, global, segment_global, segments);
    uint64_t cached = FIELD(tables, global, segment_global, huge_cached_bytes);
    uint64_t free_slices =
        FIELD(tables, global, segment_global, dirty_slices) + (uint64_t)tables->cached_slices;
    unsigned slice = CONSTANT(tables, SLICE_SHIFT);
    ledger->segments_mapped = (int64_t)((segments << CONSTANT(tables, SEGMENT_SHIFT)) +
                                        FIELD(tables, global, segment_global, huge_bytes) + cached);
    ledger->segments_resident = resident ? 0 : WIRE_UNKNOWN;
    ledger->freelist_bytes = (int64_t)((free_slices << slice) + cached);
    ledger->freelist_items =
        (int64_t)(free_slices + FIELD(tables, global, segment_global, huge_cached));
    ledger->segment_headers = (int64_t)(segments * CONSTANT(tables, HEADER_SLICES) << slice);
    ledger->returned_bytes =
        (int64_t)tables_word(tables, ADDRESS(tables, segment_returned), sizeof(int64_t));
    ledger->metadata_mapped = (int64_t)FIELD(tables, usage, meta_usage, mapped_bytes);
    ledger->metadata_used = (int64_t)FIELD(tables, usage, meta_usage, used_bytes);
    ledger->metadata_resident =
        resident ? resident_tables(tables, ledger->metadata_mapped) : WIRE_UNKNOWN;
    ledger->control_bytes = resident_control(tables);
    free(global);
}
