/* SPDX-License-Identifier: MIT */
/* answer.c - answers requests from the tables that were read, in the form of the socket; see
 * outside.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "outside/outside.h"
#include "outside/tables.h"
#include "outside/tasks.h"

#define HEAPS_A_RECORD 128U /* most views in a record: SUMS_HEAPS of src/figures/sums.h */
#define LABEL_BYTES 201U    /* the library cuts labels at 200 bytes */
/* How much younger than its library a process may seem: the kernel tells the age of a process in
 * ticks of 10 ms, and a fork may take a while. */
#define AGE_SLACK_NS 2000000000U

struct outside {
    struct tables tables;
    char *source; /* the process or the file, for messages */
    char *path;   /* path of the core file; NULL: a process */
    struct outside_process process;
    uint64_t runs;    /* of tasks_are_stopped, before the tables were read */
    uint64_t born_ns; /* when the process started, by CLOCK_BOOTTIME */
    struct tasks tasks;
    char *why, *how;
    size_t ledger_missing; /* the part of tables.missing that the last ledger added */
    bool is_read, pages_are_read;
    bool pages_are_light; /* the pages were read in the form of WIRE_DUMP_LIGHT */
};

struct answer {
    char *bytes;
    size_t length;
    uint64_t next;
    uint32_t count;
};

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Returns false, and makes the failure, if the memory of the process is gone. Memory that is gone
 * looks like damaged tables, or like a process that holds nothing. */
static bool check_lives(const struct outside *outside, struct cli_failure *failure) {
    return !reach_has_ended(&outside->tables.reach) ||
           cli_fail(failure, CLI_NO_TARGET,
                    "%s ended, or executed another program, while it was read; see memctx ps",
                    outside->source);
}

static struct outside *open_tables(struct outside *outside, struct cli_failure *failure) {
    if (!tables_open(&outside->tables, outside->source, failure)) {
        check_lives(outside, failure);
        outside_close(outside);
        return NULL;
    }
    return outside;
}

struct outside *outside_open_process(const struct outside_process *process,
                                     struct cli_failure *failure) {
    struct outside *outside = cli_alloc(1, sizeof *outside);
    outside->process = *process;
    uint64_t now = clock_ns(CLOCK_BOOTTIME), age = (uint64_t)(process->age_s * 1e9);
    outside->born_ns = now > age ? now - age : 0;
    outside->tasks = (struct tasks){.pid = process->pid, .inner_pid = process->inner_pid};
    outside->why = cli_copy(process->why);
    outside->source = cli_format("pid %d", (int)process->pid);
    if (!reach_open_process(&outside->tables.reach, process->thread, failure)) {
        outside_close(outside);
        return NULL;
    }
    outside->tables.reach.pid = process->pid;
    return open_tables(outside, failure);
}

struct outside *outside_open_core(const char *path, struct cli_failure *failure) {
    struct outside *outside = cli_alloc(1, sizeof *outside);
    outside->path = cli_copy(path);
    outside->source = cli_copy(path);
    if (!reach_open_core(&outside->tables.reach, path, failure)) {
        outside_close(outside);
        return NULL;
    }
    return open_tables(outside, failure);
}

bool outside_is_core(const char *path) {
    return reach_is_core(path);
}

void outside_close(struct outside *outside) {
    if (!outside)
        return;
    tables_forget(&outside->tables);
    reach_close(&outside->tables.reach);
    free(outside->source);
    free(outside->path);
    tasks_forget(&outside->tasks);
    free(outside->why);
    free(outside->how);
    free(outside);
}

const char *outside_library_version(const struct outside *outside) {
    return outside->tables.root.library_version;
}

int64_t outside_pid(const struct outside *outside) {
    return outside->tables.reach.pid;
}

const char *outside_program(const struct outside *outside) {
    return outside->tables.reach.name[0] != '\0' ? outside->tables.reach.name : NULL;
}

const char *outside_how(struct outside *outside) {
    const struct tables *tables = &outside->tables;
    char missing[200] = "", cut[100] = "";
    if (tables->reach.cut_bytes > 0)
        snprintf(cut, sizeof cut, "; the file is cut off, %" PRIu64 " bytes of memory are missing",
                 tables->reach.cut_bytes);
    if (tables->missing > 0)
        snprintf(
            missing, sizeof missing,
            "; incomplete: %zu part%s of the library's tables %s missing or damaged, the first "
            "at 0x%" PRIx64 " (%s)",
            tables->missing, tables->missing == 1 ? "" : "s", tables->missing == 1 ? "is" : "are",
            tables->missing_address, tables->missing_what);
    const char *moved =
        tables->moved
            ? "; figures were being moved (a thread ended, or call paths were removed), so "
              "some bytes may count twice or not at all"
            : "";
    const char *nothing =
        outside->is_read && tables->view_count == 0 && tables->missing == 0
            ? "; nothing was ever allocated from memctx, as in a program with a malloc of its own"
            : "";
    free(outside->how);
    if (outside->path)
        outside->how =
            cli_format("read from the core file %s%s%s%s%s%s", outside->path,
                       tables->reach.is_filled
                           ? "; the file has no holes, so OS pages of zeros count as not resident"
                           : "",
                       cut, missing, moved, nothing);
    else
        outside->how = cli_format(
            "read from outside through /proc/%d/mem%s%s%s%s; reason: %s",
            (int)outside->process.thread,
            outside->process.stopped ? "" : " while the process ran, so sums may not agree",
            missing, moved, nothing, outside->why);
    return outside->how;
}

bool outside_is_incomplete(const struct outside *outside) {
    return outside->tables.missing > 0;
}

/* --- one answer ------------------------------------------------------------------------------ */

/* Appends a zeroed record. Returns NULL if the answer has no room for it. */
static void *add_record(struct answer *answer, size_t bytes) {
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
    uint64_t awake = clock_ns(CLOCK_MONOTONIC), all = clock_ns(CLOCK_BOOTTIME);
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
    struct wire_dump *dump = add_record(answer, sizeof *dump);
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
    dump->pid = (uint32_t)tables->reach.pid;
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

/* --- contexts -------------------------------------------------------------------------------- */

/* Returns the byte of a context in a table that is divided into leaves; 0: there is no leaf. */
static uint8_t read_byte(struct tables *tables, uint64_t leaves, uint32_t id) {
    uint32_t leaf = id / CONSTANT(tables, PLACED_PER_LEAF);
    uint64_t at = leaf < CONSTANT(tables, PLACED_LEAVES)
                      ? tables_word(tables, leaves + leaf * sizeof at, sizeof at)
                      : 0;
    return at ? (uint8_t)tables_word(tables, at + id % CONSTANT(tables, PLACED_PER_LEAF), 1) : 0;
}

static void add_named_label(struct tables *tables, uint64_t place, char label[LABEL_BYTES]) {
    uint32_t per_block = CONSTANT(tables, NAMED_PLACES_PER_BLOCK);
    char *named = cli_alloc(1, SIZE(tables, named)), name[LABEL_BYTES] = "", identifier[33] = "";
    uint64_t block =
        place / per_block < CONSTANT(tables, NAMED_BLOCKS)
            ? tables_word(tables, ADDRESS(tables, named_blocks) + place / per_block * sizeof block,
                          sizeof block)
            : 0;
    bool good = reach_read(&tables->reach, block + place % per_block * SIZE(tables, named), named,
                           SIZE(tables, named));
    uint64_t at_name = good ? FIELD(tables, named, named, name) : 0;
    if (!reach_read_text(&tables->reach, at_name, name, sizeof name) &&
        /* a longer name, of which the first bytes are shown */
        !reach_read(&tables->reach, at_name, name, sizeof name - 1)) {
        tables_miss(tables, "names of contexts", block);
        snprintf(label, LABEL_BYTES, "[name not readable]");
        free(named);
        return;
    }
    name[sizeof name - 1] = '\0';
    uint32_t bits = 0; /* the word behind the member `spare`; its lowest 8 bits are the policy */
    uint32_t at = OFFSET(tables, named, spare) + (uint32_t)sizeof bits;
    if (at + sizeof bits <= SIZE(tables, named))
        memcpy(&bits, named + at, sizeof bits);
    size_t room = tables->root.fields[OUTSIDE_named_identifier].bytes;
    memcpy(identifier, named + OFFSET(tables, named, identifier),
           room < sizeof identifier - 1 ? room : sizeof identifier - 1);
    bool alive = FIELD(tables, named, named, generation) & 1; /* odd: it exists */
    char whole[2 * LABEL_BYTES] = "";
    if ((bits & 255) == CONSTANT(tables, NAMED_CROWD))
        snprintf(whole, sizeof whole, "%s: those with next to nothing", name);
    else
        snprintf(whole, sizeof whole, "%s%s%s", name, alive && identifier[0] ? ": " : "",
                 alive ? identifier : "");
    memcpy(label, whole, LABEL_BYTES - 1); /* cuts a longer label */
    label[LABEL_BYTES - 1] = '\0';
    free(named);
}

/* Fills the parts of a record that come from the node, and writes its label. */
static void fill_node(struct tables *tables, uint32_t id, struct wire_context *out,
                      char label[LABEL_BYTES]) {
    /* as tree_fixed_label in src/context/tree.c */
    static const char *const labels[] = {"[process]",
                                         "[unknown]",
                                         "[unwinding]",
                                         "[truncated]",
                                         "[no unwind information]",
                                         "[broken stack]",
                                         "[no call paths]",
                                         "[other callers]"};
    const uint32_t last = sizeof labels / sizeof *labels - 1;
    const char *node = tables->nodes + id * SIZE(tables, tree_node);
    uint64_t module = FIELD(tables, node, tree_node, module);
    uint64_t flags = FIELD(tables, node, tree_node, flags);
    /* ids below this are fixed labels, which are children of the root */
    bool first = id < CONSTANT(tables, TREE_FIXED_COUNT);
    bool named = !first && module == CONSTANT(tables, MODULE_NAMED);
    bool fixed = first || module == CONSTANT(tables, MODULE_OTHERS);
    out->id = id;
    out->parent = id == 0 ? WIRE_NONE
                  : first ? 0
                          : (uint32_t)FIELD(tables, node, tree_node, parent);
    out->kind = id == 0 ? WIRE_KIND_ROOT
                : named ? WIRE_KIND_NAMED
                : fixed ? WIRE_KIND_UNKNOWN
                        : WIRE_KIND_PATH;
    out->exact_address = FIELD(tables, node, tree_node, exact) != 0;
    out->module = !fixed && module < tables->module_count ? (uint32_t)module : WIRE_NONE;
    out->address = named || fixed ? 0 : FIELD(tables, node, tree_node, address);
    out->placement =
        read_byte(tables, ADDRESS(tables, heap_placed), id) & CONSTANT(tables, PLACE_MASK);
    out->recursive_from = WIRE_NONE;
    out->flags = (flags & CONSTANT(tables, TREE_PARTIAL) ? WIRE_CONTEXT_PARTIAL : 0) |
                 (flags & CONSTANT(tables, TREE_LATE) ? WIRE_CONTEXT_LATE : 0) |
                 (flags & CONSTANT(tables, TREE_FOLDED) ? WIRE_CONTEXT_RECURSIVE : 0);
    label[0] = '\0';
    if (named)
        add_named_label(tables, FIELD(tables, node, tree_node, address), label);
    else if (fixed)
        snprintf(label, LABEL_BYTES, "%s", labels[id < last ? id : last]);
}

/* Returns the text of the rule that places a context; "" if there is none. */
static const char *rule_of(struct tables *tables, uint32_t id) {
    if (tables->rule_count == 0)
        return "";
    size_t rule = read_byte(tables, ADDRESS(tables, rules_matched_shown), id);
    return rule > 0 && rule <= tables->rule_count && tables->rules[rule - 1]
               ? tables->rules[rule - 1]
               : "";
}

/* Returns the index of a context's first view in tables->views, which is sorted by context. */
static size_t find_views(const struct tables *tables, uint32_t context) {
    size_t low = 0, high = tables->view_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tables->views[middle].context < context)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a record of a context. `threads`: with its views, HEAPS_A_RECORD in each group. Returns
 * false if the answer has no room for the record. */
static bool add_context(struct outside *outside, struct answer *answer, uint32_t id, uint32_t group,
                        bool threads) {
    struct tables *tables = &outside->tables;
    char label[LABEL_BYTES];
    uint32_t views = tables->views_of[id], first = group * HEAPS_A_RECORD;
    uint32_t part = !threads || views <= first       ? 0
                    : views - first < HEAPS_A_RECORD ? views - first
                                                     : HEAPS_A_RECORD;
    struct wire_context head = {0};
    fill_node(tables, id, &head, label);
    head.views = (uint16_t)part;
    head.holds = (views > 0 ? WIRE_CONTEXT_SUMS : 0) | (group > 0 ? WIRE_CONTEXT_FURTHER : 0);
    head.label_bytes = group == 0 && label[0] != '\0' ? (uint16_t)(strlen(label) + 1) : 0;
    const char *why = group == 0 ? rule_of(tables, id) : "";
    head.why_bytes = why[0] != '\0' ? (uint16_t)(strlen(why) + 1) : 0;
    size_t bytes = sizeof head + (views > 0 ? sizeof(struct wire_sums) : 0) +
                   part * sizeof(struct wire_view) + head.label_bytes + head.why_bytes;
    head.bytes = (uint16_t)((bytes + 7) & ~(size_t)7);
    char *at = add_record(answer, bytes);
    if (!at)
        return false;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    const struct seen_view *seen = part > 0 ? &tables->views[find_views(tables, id) + first] : NULL;
    if (views > 0) {
        struct wire_sums sums = tables->sums[id];
        /* A record with views has the sums over these views alone. */
        if (threads)
            sums = (struct wire_sums){.peak_requested_bytes = WIRE_UNKNOWN};
        for (uint32_t i = 0; i < part; i++) {
            tables_add(&sums.requested_bytes, seen[i].sums.requested_bytes);
            tables_add(&sums.live_chunks, seen[i].sums.live_chunks);
            tables_add(&sums.allocs, seen[i].sums.allocs);
            tables_add(&sums.frees, seen[i].sums.frees);
            tables_add(&sums.requested_cum_bytes, seen[i].sums.requested_cum_bytes);
        }
        if (views == 1)
            sums.peak_requested_bytes = tables->sums[id].peak_requested_bytes;
        memcpy(at, &sums, sizeof sums);
        at += sizeof sums;
    }
    for (uint32_t i = 0; i < part; i++) {
        struct wire_view view = {.heap = seen[i].heap, .sums = seen[i].sums};
        memcpy(at, &view, sizeof view);
        at += sizeof view;
    }
    memcpy(at, label, head.label_bytes);
    memcpy(at + head.label_bytes, why, head.why_bytes);
    return true;
}

static void answer_contexts(struct outside *outside, const struct wire_piece_request *request,
                            struct answer *answer) {
    const struct tables *tables = &outside->tables;
    bool threads = request->flags & WIRE_DUMP_THREADS;
    uint32_t group = (uint16_t)request->from;
    for (uint64_t id = request->from >> 16; id < tables->node_count; id++, group = 0) {
        if (!tables->exists[id])
            continue;
        uint32_t groups =
            threads ? (tables->views_of[id] + HEAPS_A_RECORD - 1) / HEAPS_A_RECORD : 1;
        for (; group < groups || group == 0; group++)
            if ((request->most > 0 && answer->count == request->most) ||
                !add_context(outside, answer, (uint32_t)id, group, threads)) {
                answer->next = WIRE_FROM_ID(id) | group;
                return;
            }
    }
}

/* --- the other parts ------------------------------------------------------------------------- */

static uint32_t parent_of(const struct tables *tables, uint32_t id) {
    const char *node = tables->nodes + id * SIZE(tables, tree_node);
    return id < CONSTANT(tables, TREE_FIXED_COUNT)
               ? 0
               : (uint32_t)FIELD(tables, node, tree_node, parent);
}

/* Adds the contexts of a path from the root on, so that a parent comes before its children.
 * request->from holds the context and the number of contexts in earlier answers. */
static void answer_path(struct outside *outside, const struct wire_piece_request *request,
                        struct answer *answer) {
    const struct tables *tables = &outside->tables;
    uint32_t length = 1, told = (uint16_t)request->from;
    if (request->from >> 16 >= tables->node_count || !tables->exists[request->from >> 16])
        return;
    uint32_t id = (uint32_t)(request->from >> 16);
    /* check_nodes (tables.c) has seen that the id of a parent is less than its child's */
    for (uint32_t at = id; at != 0 && length < UINT16_MAX; at = parent_of(tables, at))
        length++;
    for (; told < length; told++) {
        uint32_t at = id;
        for (uint32_t up = length - 1 - told; up > 0; up--)
            at = parent_of(tables, at);
        if (!add_context(outside, answer, at, 0, false)) {
            answer->next = WIRE_FROM_ID(id) | told;
            return;
        }
    }
}

static void answer_modules(struct outside *outside, const struct wire_piece_request *request,
                           struct answer *answer) {
    const struct tables *tables = &outside->tables;
    for (uint64_t i = request->from; i < tables->module_count; i++) {
        size_t bytes = strlen(tables->paths[i]) + 1;
        struct wire_module *out = add_record(answer, sizeof *out + bytes);
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
        struct wire_thread *out = tables->heaps[i].tid ? add_record(answer, sizeof *out) : NULL;
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
                heap->freed_of[owner] ? add_record(answer, sizeof *out) : NULL;
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
        *(struct wire_resizes *)add_record(answer, sizeof(struct wire_resizes)) =
            (struct wire_resizes){
                .context = WIRE_NONE, .heap = WIRE_NONE, .reallocs = (int64_t)tables->resizes_lost};
    for (uint64_t i = request->from >> 32; i < tables->heap_count; i++, next = 0) {
        const struct seen_heap *heap = &tables->heaps[tables->order[i]];
        for (; next < heap->resize_count; next++) {
            struct wire_resizes *out = add_record(answer, sizeof *out);
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
        struct wire_mark *out = add_record(answer, sizeof *out);
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
        struct wire_mark_entry *out = add_record(answer, sizeof *out);
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
        char *out = add_record(answer, bytes);
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
        struct wire_page *out = add_record(answer, sizeof *out + shares);
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
    if (!check_lives(outside, failure) || !good) {
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
