/* SPDX-License-Identifier: MIT */
/* answer.c - answers requests from the tables that were read, in the form of the socket; see
 * outside.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "outside/answer.h"

/* How much younger than its library a process may seem: the kernel tells the age of a process in
 * ticks of 10 ms, and a fork may take a while. */
#define AGE_SLACK_NS 2000000000U

void *answer_add_record(struct answer *answer, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > WIRE_ANSWER_MAX - answer->length)
        return NULL;
    void *room = answer->bytes + answer->length;
    answer->length += bytes;
    answer->count++;
    return room;
}

static bool read_tables(struct outside *outside, struct cli_failure *failure) {
    if (!outside->is_read && outside->process.stopped)
        outside->process.stopped = tasks_are_stopped(outside->process.pid, &outside->runs);
    if (!outside->is_read) {
        outside->ledger_missing = 0;
        if (!tables_read(&outside->tables, outside->source, failure))
            return false;
    }
    outside->is_read = true;
    return true;
}

/* --- the head -------------------------------------------------------------------------------- */

/* Returns the uptime of the process in a core file: the library's last look at the clock, or its
 * newest mark if that is later. */
static uint64_t core_uptime_ns(struct tables *tables) {
    unsigned shift = CONSTANT(tables, SEGMENT_TICK_SHIFT);
    uint32_t clock = (uint32_t)tables_word(tables, ADDRESS(tables, segment_clock), 4);
    uint64_t start = tables_word(tables, ADDRESS(tables, control_start_shown), sizeof start);
    /* segment_clock has the low 32 bits of the number of ticks. In a forked child it may be earlier
     * than the fork. */
    uint32_t ticks = clock - (uint32_t)(start >> shift);
    if (ticks > UINT32_MAX - WIRE_AGE_LAG)
        ticks = 0;
    uint64_t uptime = ticks > 0 ? (((start >> shift) + ticks) << shift) - start : 0;
    for (size_t i = 0; i < tables->mark_count; i++)
        if (tables->marks[i].wire.uptime_ns > uptime)
            uptime = tables->marks[i].wire.uptime_ns;
    return uptime;
}

/* Fills in the uptime as the process itself counts it, so that it fits the uptimes of marks, and
 * how long the machine slept. */
static void tell_uptime(struct outside *outside, struct wire_dump *dump) {
    struct tables *tables = &outside->tables;
    uint64_t start = tables_word(tables, ADDRESS(tables, control_start_shown), sizeof start);
    uint64_t awake = outside_clock_ns(CLOCK_MONOTONIC), all = outside_clock_ns(CLOCK_BOOTTIME);
    uint64_t age = all > outside->born_ns ? all - outside->born_ns : 0;
    /* whole ms, because the two clocks are not read at the same time */
    dump->slept_ns = all > awake ? (all - awake) / 1000000 * 1000000 : 0;
    /* In another time namespace the process counts from another zero. */
    bool same_clock = start != 0 && start <= awake && awake - start <= age + AGE_SLACK_NS;
    dump->uptime_ns = same_clock ? awake - start : age;
}

/* Fills the ledger. Each head of a dump has a ledger, but a part that is missing in all of them
 * counts once. */
static void fill_ledger(struct outside *outside, struct wire_ledger *ledger, bool resident) {
    struct tables *tables = &outside->tables;
    size_t before = tables->missing -= outside->ledger_missing;
    tables_fill_ledger(tables, ledger, resident);
    outside->ledger_missing = tables->missing - before;
}

static bool answer_head(struct outside *outside, const struct wire_dump_request *request,
                        struct answer *answer, struct cli_failure *failure) {
    struct tables *tables = &outside->tables;
    if (request->flags & WIRE_DUMP_BEGIN)
        /* a dump begins: read the tables anew */
        outside->is_read = outside->pages_are_read = false;
    struct wire_dump *dump = answer_add_record(answer, sizeof *dump);
    if (!dump || !read_tables(outside, failure))
        return false;
    /* The process may have been resumed during the reading, also for an instant: by a debugger, or
     * by a program that limits its use of the processor. */
    uint64_t runs;
    outside->process.stopped = outside->process.stopped &&
                               tasks_are_stopped(outside->process.pid, &runs) &&
                               runs == outside->runs;
    if (outside->path)
        dump->uptime_ns = core_uptime_ns(tables);
    else
        tell_uptime(outside, dump);
    uint64_t depth_at = ADDRESS(tables, options) + OFFSET(tables, options, depth);
    size_t depth_bytes = tables->root.fields[OUTSIDE_options_depth].bytes;
    dump->depth = (uint32_t)tables_word(tables, depth_at, depth_bytes < 8 ? depth_bytes : 8);
    dump->resets = (uint32_t)tables_word(tables, ADDRESS(tables, sums_resets), sizeof dump->resets);
    dump->contexts = tables->node_count;
    dump->requested_bytes = dump->live_chunks = dump->allocs = dump->frees = 0;
    for (uint32_t id = 0; id < tables->node_count; id++) {
        tables_add(&dump->requested_bytes, tables->sums[id].requested_bytes);
        tables_add(&dump->live_chunks, tables->sums[id].live_chunks);
        tables_add(&dump->allocs, tables->sums[id].allocs);
        tables_add(&dump->frees, tables->sums[id].frees);
    }
    fill_ledger(outside, &dump->ledger, request->flags & WIRE_DUMP_RESIDENT);
    dump->exact = tables->lost_views == 0 && tables->missing == 0 && !tables->moved &&
                  tables->reach.cut_bytes == 0 && (outside->path || outside->process.stopped);
    dump->ledger.rss_bytes = outside->path ? reach_held_bytes(&tables->reach) : WIRE_UNKNOWN;
    snprintf(dump->exe, sizeof dump->exe, "%s", tables->reach.exe ? tables->reach.exe : "");
    return true;
}

/* --- the other parts ------------------------------------------------------------------------- */

static void answer_modules(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct tables *tables = &outside->tables;
    for (uint64_t i = request->from; i < tables->module_count; i++) {
        size_t bytes = strlen(tables->paths[i]) + 1;
        struct wire_module *out = answer_add_record(answer, sizeof *out + bytes);
        if (!out) {
            answer->next = i;
            return;
        }
        *out = tables->modules[i];
        out->path_bytes = (uint32_t)bytes;
        memcpy(out + 1, tables->paths[i], bytes);
    }
}

static void answer_threads(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct tables *tables = &outside->tables;
    for (uint64_t i = request->from; i < tables->heap_count; i++) {
        struct wire_thread *out =
            tables->heaps[i].tid ? answer_add_record(answer, sizeof *out) : NULL;
        if (tables->heaps[i].tid && !out) {
            answer->next = i;
            return;
        }
        if (!out)
            continue;
        out->heap = tables->heaps[i].number;
        out->tid = tables->heaps[i].tid;
        if (!outside->path)
            tasks_read_name(&outside->tasks, out->tid, out->name);
    }
}

static void answer_remotes(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct tables *tables = &outside->tables;
    uint32_t owner = (uint32_t)request->from;
    for (uint64_t i = request->from >> 32; i < tables->heap_count; i++, owner = 0) {
        const struct seen_heap *heap = &tables->heaps[tables->order[i]];
        for (; owner < heap->freed_of_count; owner++) {
            struct wire_remote *out =
                heap->freed_of[owner] ? answer_add_record(answer, sizeof *out) : NULL;
            if (heap->freed_of[owner] && !out) {
                answer->next = i << 32 | owner;
                return;
            }
            if (out)
                *out = (struct wire_remote){heap->number, owner, (int64_t)heap->freed_of[owner]};
        }
    }
}

static void answer_resizes(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct tables *tables = &outside->tables;
    uint64_t next = (uint32_t)request->from;
    if (request->from == 0 && tables->resizes_lost != 0)
        *(struct wire_resizes *)answer_add_record(answer, sizeof(struct wire_resizes)) =
            (struct wire_resizes){.context = WIRE_NONE, .reallocs = (int64_t)tables->resizes_lost};
    for (uint64_t i = request->from >> 32; i < tables->heap_count; i++, next = 0) {
        const struct seen_heap *heap = &tables->heaps[tables->order[i]];
        for (; next < heap->resize_count; next++) {
            struct wire_resizes *out = answer_add_record(answer, sizeof *out);
            if (!out) {
                answer->next = i << 32 | next;
                return;
            }
            *out = heap->resizes[next];
        }
    }
}

static void answer_marks(struct outside *outside, const struct wire_piece_request *request,
                         struct answer *answer) {
    for (uint64_t i = request->from; i < outside->tables.mark_count; i++) {
        struct wire_mark *out = answer_add_record(answer, sizeof *out);
        if (!out) {
            answer->next = i;
            return;
        }
        *out = outside->tables.marks[i].wire;
    }
}

/* Returns false if no mark has the requested name. */
static bool answer_entries(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct seen_mark *mark = NULL;
    for (size_t i = 0; i < outside->tables.mark_count && !mark; i++) {
        const struct wire_mark *wire = &outside->tables.marks[i].wire;
        if (strncmp(wire->name, request->mark, sizeof wire->name) == 0 &&
            (request->mark_uptime_ns == 0 || request->mark_uptime_ns == wire->uptime_ns))
            mark = &outside->tables.marks[i];
    }
    for (uint64_t i = request->from; mark && i < mark->entry_count; i++) {
        struct wire_mark_entry *out = answer_add_record(answer, sizeof *out);
        if (!out) {
            answer->next = i;
            break;
        }
        *out = mark->entries[i];
    }
    return mark != NULL;
}

static void answer_notes(struct outside *outside, const struct wire_piece_request *request,
                         struct answer *answer) {
    for (uint64_t i = request->from; i < outside->tables.note_count; i++) {
        size_t bytes = strlen(outside->tables.notes[i]) + 1;
        char *out = answer_add_record(answer, bytes);
        if (!out) {
            answer->next = i;
            return;
        }
        memcpy(out, outside->tables.notes[i], bytes);
    }
}

static void answer_pages(struct outside *outside, const struct wire_piece_request *request,
                         struct answer *answer) {
    struct tables *tables = &outside->tables;
    bool light = request->flags & WIRE_DUMP_LIGHT;
    if (!outside->pages_are_read || (outside->pages_are_light && !light)) {
        tables_read_pages(tables, light);
        outside->pages_are_light = light;
    }
    outside->pages_are_read = true;
    for (uint64_t i = request->from; i < tables->page_count; i++) {
        const struct seen_page *page = &tables->pages[i];
        size_t shares = page->wire.share_count * sizeof *tables->shares;
        struct wire_page *out = answer_add_record(answer, sizeof *out + shares);
        if (!out) {
            answer->next = i;
            return;
        }
        *out = page->wire;
        if (shares > 0)
            memcpy(out + 1, tables->shares + page->first_share, shares);
    }
}

/* Returns false if the requested part cannot be read from outside. */
static bool answer_piece(struct outside *outside, const struct wire_piece_request *request,
                         struct answer *answer) {
    struct wire_piece head = {0};
    answer->length = sizeof head;
    switch (request->part) {
    case WIRE_PART_CONTEXTS: answer_contexts(outside, request, answer); break;
    case WIRE_PART_PATH: answer_path(outside, request, answer); break;
    case WIRE_PART_MODULES: answer_modules(outside, request, answer); break;
    case WIRE_PART_THREADS: answer_threads(outside, request, answer); break;
    case WIRE_PART_REMOTES: answer_remotes(outside, request, answer); break;
    case WIRE_PART_PAGES:
        answer_pages(outside, request, answer);
        if (request->flags & WIRE_DUMP_RESIDENT && request->from == 0)
            head.segments_resident = outside->tables.segments_resident;
        break;
    case WIRE_PART_MARKS: answer_marks(outside, request, answer); break;
    case WIRE_PART_ENTRIES:
        if (!answer_entries(outside, request, answer))
            return false;
        break;
    case WIRE_PART_NOTES: answer_notes(outside, request, answer); break;
    case WIRE_PART_RESIZES: answer_resizes(outside, request, answer); break;
    default: return false;
    }
    head.next = answer->next;
    head.count = answer->count;
    memcpy(answer->bytes, &head, sizeof head);
    return true;
}

bool outside_answer(struct outside *outside, enum wire_type type, const void *request,
                    size_t request_bytes, char **body, size_t *bytes, uint32_t *status,
                    struct cli_failure *failure) {
    struct answer answer = {.bytes = cli_alloc(WIRE_ANSWER_MAX + 1, 1)};
    bool good = true, known = false;
    *status = WIRE_OK;
    if (type == WIRE_DUMP && request_bytes == sizeof(struct wire_dump_request)) {
        known = true;
        good = answer_head(outside, request, &answer, failure);
    } else if (type == WIRE_PIECE && request_bytes == sizeof(struct wire_piece_request)) {
        good = read_tables(outside, failure);
        known = good && answer_piece(outside, request, &answer);
    }
    if (!outside_check_lives(outside, failure) || !good) {
        free(answer.bytes);
        return false;
    }
    if (!known) {
        *status = WIRE_REFUSED;
        answer.length = (size_t)snprintf(
            answer.bytes, WIRE_ANSWER_MAX,
            "only the process itself can answer this request, but its memory is read from outside");
    }
    *body = answer.bytes;
    *bytes = answer.length;
    return true;
}
