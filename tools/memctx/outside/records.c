/* SPDX-License-Identifier: MIT */
/* records.c - reads counts of realloc, marks, notes and placement rules from the target's memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "outside/tables.h"

#define ENTRIES_MOST 4096U /* greatest number of counts of realloc that a heap has */
#define NUMBERS 5U         /* numbers in an entry of a mark, at most */
#define CHUNKS_MOST 4096U  /* greatest number of struct mark_chunk of a mark */
#define RULE_BYTES 4096U   /* greatest number of bytes of the text of a placement rule */

/* The counts of a struct view_resizes, in the order of RESIZE_COUNTS in the library. */
struct counts {
    uint64_t reallocs, copies, copied_bytes, grows, grown_bytes, grown_from_bytes;
};

/* --- counts of realloc ----------------------------------------------------------------------- */

static void take_resizes(struct tables *tables, struct seen_heap *heap, const char *entry) {
    struct counts counts, base;
    memcpy(&counts, entry + OFFSET(tables, view_resizes, counts), sizeof counts);
    memcpy(&base, entry + OFFSET(tables, view_resizes, base), sizeof base);
    uint64_t view = FIELD(tables, entry, view_resizes, view_index);
    if (counts.reallocs == base.reallocs)
        return;
    if (view >= heap->view_count) {
        tables_miss(tables, "counts of realloc", heap->address);
        return;
    }
    if ((heap->resize_count & (heap->resize_count - 1)) == 0)
        heap->resizes = cli_grow(heap->resizes, 2 * heap->resize_count + 1, sizeof *heap->resizes);
    heap->resizes[heap->resize_count++] = (struct wire_resizes){
        .context = heap->context_of[view],
        .reallocs = (int64_t)(counts.reallocs - base.reallocs),
        .copies = (int64_t)(counts.copies - base.copies),
        .copied_bytes = (int64_t)(counts.copied_bytes - base.copied_bytes),
        .grows = (int64_t)(counts.grows - base.grows),
        .grown_bytes = (int64_t)(counts.grown_bytes - base.grown_bytes),
        .grown_from_bytes = (int64_t)(counts.grown_from_bytes - base.grown_from_bytes)};
}

/* Reads a struct resizes_block. Returns the address of the next block; 0: there is none. */
static uint64_t read_resizes_block(struct tables *tables, struct seen_heap *heap, uint64_t address,
                                   char *block) {
    if (!reach_read_touched(&tables->reach, address, block, SIZE(tables, resizes_block))) {
        tables_miss(tables, "counts of realloc", address);
        return 0;
    }
    uint64_t used = FIELD(tables, block, resizes_block, used);
    if (used > CONSTANT(tables, RESIZES_PER_BLOCK)) {
        tables_miss(tables, "counts of realloc", address);
        return 0;
    }
    for (uint64_t i = 0; i < used; i++)
        take_resizes(tables, heap,
                     block + OFFSET(tables, resizes_block, list) + i * SIZE(tables, view_resizes));
    return FIELD(tables, block, resizes_block, next);
}

static void read_resizes(struct tables *tables) {
    uint32_t per_block = CONSTANT(tables, RESIZES_PER_BLOCK);
    size_t size = SIZE(tables, view_resizes), whole = SIZE(tables, resizes_block);
    if (per_block == 0 || per_block > ENTRIES_MOST ||
        OFFSET(tables, resizes_block, list) + per_block * size > whole ||
        OFFSET(tables, view_resizes, counts) + sizeof(struct counts) > size ||
        OFFSET(tables, view_resizes, base) + sizeof(struct counts) > size) {
        tables_miss(tables, "counts of realloc", 0);
        return;
    }
    char *block = cli_alloc(1, whole);
    for (size_t i = 0; i < tables->heap_count; i++) {
        struct seen_heap *heap = &tables->heaps[i];
        uint64_t at = heap->resizes_at;
        at = at != 0 ? at + OFFSET(tables, resizes, first) : 0;
        for (uint32_t n = 0; at != 0 && n <= ENTRIES_MOST / per_block && tables->room > 0; n++) {
            at = read_resizes_block(tables, heap, at, block);
            tables->room--;
        }
    }
    free(block);
    tables->resizes_lost =
        tables_word(tables, ADDRESS(tables, resizes_lost), sizeof tables->resizes_lost);
}

/* --- marks ----------------------------------------------------------------------------------- */

/* Decodes a signed number of src/control/numbers.h. */
static int64_t unfold(uint64_t value) {
    return (int64_t)(value >> 1 ^ -(value & 1));
}

static int64_t difference(uint64_t one, int64_t other) {
    return (int64_t)(one - (uint64_t)other);
}

/* Reads an entry of a mark. Returns false if the entry is damaged. */
static bool take_entry(struct tables *tables, struct seen_mark *mark, const unsigned char **at,
                       const unsigned char *end, uint64_t *context) {
    uint64_t numbers[NUMBERS] = {0};
    for (unsigned i = 0; i < (numbers[0] & 1 ? NUMBERS : NUMBERS - 2); i++)
        if (!varint_get(at, end, &numbers[i]))
            return false;
    *context += numbers[0] >> 1;
    if (*context >= tables->node_count || tables->room == 0)
        return false;
    tables->room--;
    int64_t live = unfold(numbers[1]), chunks = unfold(numbers[2]);
    uint64_t allocs = numbers[0] & 1 ? numbers[3] : (uint64_t)chunks;
    uint64_t bytes = numbers[0] & 1 ? numbers[4] : (uint64_t)live;
    /* A reset after the mark lowered the counters of dumps, so the entry is lowered, too. */
    const struct wire_sums *base = &tables->bases[*context];
    if ((mark->entry_count & (mark->entry_count - 1)) == 0)
        mark->entries = cli_grow(mark->entries, 2 * mark->entry_count + 1, sizeof *mark->entries);
    mark->entries[mark->entry_count++] = (struct wire_mark_entry){
        .context = (uint32_t)*context,
        .requested_bytes = live,
        .live_chunks = chunks,
        .allocs = difference(allocs, base->allocs),
        .frees = difference(allocs - (uint64_t)chunks, base->frees),
        .requested_cum_bytes = difference(bytes, base->requested_cum_bytes)};
    return true;
}

static void read_entries(struct tables *tables, struct seen_mark *mark, uint64_t address) {
    size_t room = tables->root.fields[OUTSIDE_mark_chunk_bytes].bytes;
    char *chunk = cli_alloc(1, SIZE(tables, mark_chunk));
    for (uint32_t n = 0; address != 0 && n < CHUNKS_MOST; n++) {
        bool good = reach_read_touched(&tables->reach, address, chunk, SIZE(tables, mark_chunk));
        uint64_t used = good ? FIELD(tables, chunk, mark_chunk, used) : 0, context = 0;
        const unsigned char *at = (const unsigned char *)chunk + OFFSET(tables, mark_chunk, bytes);
        const unsigned char *end = at + used;
        good &= used <= room;
        while (good && at < end)
            good = take_entry(tables, mark, &at, end, &context);
        if (!good) {
            tables_miss(tables, "entries of a mark", address);
            break;
        }
        address = FIELD(tables, chunk, mark_chunk, next);
    }
    free(chunk);
}

/* Reads `count` slots of marks. */
static void read_marks(struct tables *tables, uint64_t address, uint32_t count) {
    size_t size = SIZE(tables, mark);
    struct wire_mark wire;
    if (address == 0)
        return;
    char *slots = cli_alloc(count, size);
    bool good = reach_read(&tables->reach, address, slots, count * size) &&
                tables->root.fields[OUTSIDE_mark_left_out].bytes == sizeof wire.left_out &&
                tables->root.fields[OUTSIDE_mark_elsewhere].bytes == sizeof wire.elsewhere &&
                tables->root.fields[OUTSIDE_mark_name].bytes == sizeof wire.name;
    if (!good)
        tables_miss(tables, "marks", address);
    for (uint32_t i = 0; good && i < count; i++) {
        const char *slot = slots + i * size;
        wire = (struct wire_mark){.uptime_ns = FIELD(tables, slot, mark, uptime_ns),
                                  .slept_ns = FIELD(tables, slot, mark, slept_ns),
                                  .rss_bytes = (int64_t)FIELD(tables, slot, mark, rss_bytes)};
        memcpy(&wire.elsewhere, slot + OFFSET(tables, mark, elsewhere), sizeof wire.elsewhere);
        memcpy(wire.name, slot + OFFSET(tables, mark, name), sizeof wire.name);
        memcpy(&wire.left_out, slot + OFFSET(tables, mark, left_out), sizeof wire.left_out);
        wire.name[sizeof wire.name - 1] = '\0';
        if (wire.uptime_ns == 0)
            continue;
        struct seen_mark *mark = &tables->marks[tables->mark_count++];
        *mark = (struct seen_mark){.wire = wire};
        read_entries(tables, mark, FIELD(tables, slot, mark, first));
    }
    free(slots);
}

/* --- notes ----------------------------------------------------------------------------------- */

static void read_notes(struct tables *tables) {
    uint32_t made = (uint32_t)tables_word(tables, ADDRESS(tables, notes_made_shown), sizeof made);
    uint32_t first = made > WIRE_NOTES_MAX ? made - WIRE_NOTES_MAX : 0;
    for (uint32_t i = first; i != made; i++) {
        char text[WIRE_NOTE_BYTES];
        uint64_t place = ADDRESS(tables, notes_shown) + i % WIRE_NOTES_MAX * sizeof place;
        if (reach_read_text(&tables->reach, tables_word(tables, place, sizeof place), text,
                            sizeof text))
            tables->notes[tables->note_count++] = cli_copy(text);
        else
            tables_miss(tables, "notes", place);
    }
}

/* --- placement rules ------------------------------------------------------------------------- */

static void read_rules(struct tables *tables) {
    uint64_t list = ADDRESS(tables, rule_list), at = list + OFFSET(tables, rule_list, rules);
    size_t most = tables->root.fields[OUTSIDE_rule_list_rules].bytes / SIZE(tables, policy_rule);
    tables->rule_count =
        tables_word(tables, list + OFFSET(tables, rule_list, count), sizeof(uint32_t));
    if (tables->rule_count > most) {
        tables_miss(tables, "placement rules", list);
        tables->rule_count = 0;
    }
    tables->rules = cli_alloc(tables->rule_count, sizeof *tables->rules);
    for (size_t i = 0; i < tables->rule_count; i++) {
        uint64_t place = at + i * SIZE(tables, policy_rule) + OFFSET(tables, policy_rule, text);
        char text[RULE_BYTES];
        if (reach_read_text(&tables->reach, tables_word(tables, place, sizeof place), text,
                            sizeof text))
            tables->rules[i] = cli_copy(text);
        else
            tables_miss(tables, "placement rules", place);
    }
}

void tables_read_records(struct tables *tables) {
    uint64_t kept = tables_word(tables, ADDRESS(tables, marks_kept_shown), sizeof kept);
    read_resizes(tables);
    read_marks(tables, tables_word(tables, ADDRESS(tables, marks_shown), sizeof(uint64_t)),
               WIRE_MARKS_MAX);
    read_marks(tables, kept != 0 ? kept + OFFSET(tables, kept_marks, slots) : 0,
               WIRE_MARKS_ALL - WIRE_MARKS_MAX);
    read_notes(tables);
    read_rules(tables);
}

void tables_forget_records(struct tables *tables) {
    for (size_t i = 0; i < tables->heap_count; i++)
        free(tables->heaps[i].resizes);
    for (size_t i = 0; i < tables->mark_count; i++)
        free(tables->marks[i].entries);
    for (size_t i = 0; i < tables->note_count; i++)
        free(tables->notes[i]);
    for (size_t i = 0; i < tables->rule_count; i++)
        free(tables->rules[i]);
    free(tables->rules);
}
