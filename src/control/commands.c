/* SPDX-License-Identifier: MIT */
/* commands.c - the table of requests of wire.h with their handlers; and the memory of the control
 * thread. */
#include "base/options.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/named.h"
#include "context/tree.h"
#include "control/control.h"
#include "os/meta.h"
#include "path/functions.h"
#include "path/oracle.h"
#include "path/rebind.h"
#include "region/blocks.h"
#include "rules/rules.h"

/* Room for answers, an object file being read, a table of the automatic choice. */
#define MAPPINGS_MAX 16
#define STACK_LOOK_BYTES (128UL << 10)

char *control_stack_top START_PAGE;

/* Mappings released while a client is connected are kept for its next request, up to this many
 * bytes: munmap interrupts each processor that a thread of the program runs on. */
#define KEPT_BYTES_MAX (256UL << 10)

static struct mapping {
    char *start; /* NULL: this place is free */
    size_t bytes;
    bool kept;
} mappings[MAPPINGS_MAX]; /* control thread only */
static size_t kept_bytes;

static void drop_kept(struct mapping *mapping) {
    kept_bytes -= mapping->bytes;
    os_unmap(mapping->start, mapping->bytes);
    *mapping = (struct mapping){0};
}

static void *scratches[SCRATCHES];

void *control_scratch(enum control_scratch which, size_t bytes) {
    if (!scratches[which])
        scratches[which] = control_map(bytes, false);
    return scratches[which];
}

static void drop_all_kept(void) {
    for (unsigned i = 0; kept_bytes && i < MAPPINGS_MAX; i++)
        if (mappings[i].kept)
            drop_kept(&mappings[i]);
}

void control_unmap_kept(void) {
    for (unsigned i = 0; i < SCRATCHES; i++) {
        control_unmap(scratches[i]);
        scratches[i] = NULL;
    }
    drop_all_kept();
}

/* Writes to each page first. A page that is read before it is written maps the kernel's page of
 * zeros; replacing that one by a page of memory interrupts the other threads' processors again. */
static void touch(char *start, size_t bytes) {
    for (char *page = start; page < start + bytes; page += OS_PAGE_BYTES)
        *(volatile char *)page = 0;
}

static void *map_untouched(size_t bytes) {
    struct mapping *kept = NULL, *place = NULL;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        struct mapping *mapping = &mappings[i];
        if (!mapping->start)
            place = mapping;
        else if (mapping->kept && bytes <= mapping->bytes && mapping->bytes / 4 <= bytes &&
                 (!kept || mapping->bytes < kept->bytes))
            kept = mapping;
    }
    if (kept) {
        kept->kept = false;
        kept_bytes -= kept->bytes;
        return __builtin_memset(kept->start, 0, bytes);
    }
    if (!place) {
        drop_all_kept();
        for (unsigned i = 0; i < MAPPINGS_MAX && !place; i++)
            place = mappings[i].start ? NULL : &mappings[i];
    }
    char *start = place ? os_map(bytes) : NULL;
    if (start) {
        *place = (struct mapping){.start = start, .bytes = bytes};
        os_wipe_on_fork(start, bytes); /* `memctx frag` recognises the mapping by this flag */
    }
    return start;
}

void *control_map(size_t bytes, bool touched) {
    void *start = map_untouched(bytes);
    if (start && touched)
        touch(start, bytes);
    return start;
}

void control_unmap(void *start) {
    for (unsigned i = 0; start && i < MAPPINGS_MAX; i++) {
        struct mapping *mapping = &mappings[i];
        if (mapping->start != start)
            continue;
        mapping->kept = true;
        kept_bytes += mapping->bytes;
        if (kept_bytes > KEPT_BYTES_MAX)
            drop_kept(mapping);
        return;
    }
}

int64_t control_bytes(bool resident) {
    int64_t sum = 0;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        if (!mappings[i].start)
            continue;
        sum += resident ? os_resident_bytes(mappings[i].start, mappings[i].bytes)
                        : (int64_t)mappings[i].bytes;
    }
    for (size_t part = OS_PAGE_BYTES; control_stack_top && part <= STACK_LOOK_BYTES;
         part += OS_PAGE_BYTES) {
        int64_t page = os_resident_bytes(control_stack_top - part, 1);
        if (page <= 0)
            break;
        sum += page;
    }
    return sum;
}

void *answer_add(struct answer *answer, size_t bytes) {
    if (bytes > answer->capacity - answer->length)
        return NULL;
    char *room = answer->bytes + answer->length;
    answer->length += bytes;
    return __builtin_memset(room, 0, bytes);
}

static uint32_t run_dump(const char *body, struct answer *answer) {
    struct wire_dump_request request;
    struct wire_dump *dump = answer_add(answer, sizeof *dump);
    __builtin_memcpy(&request, body, sizeof request);
    if (!dump)
        return WIRE_NO_MEMORY;
    dump_head(&request, dump);
    return WIRE_OK;
}

static uint32_t run_piece(const char *body, struct answer *answer) {
    struct wire_piece_request request;
    __builtin_memcpy(&request, body, sizeof request);
    request.mark[sizeof request.mark - 1] = 0;
    return piece_run(&request, answer);
}

static uint32_t run_text(struct answer *answer, uint32_t (*fill)(const char *, struct text *),
                         const char *body) {
    struct text text = {.bytes = answer->bytes, .capacity = answer->capacity};
    if (!text.capacity)
        return WIRE_NO_MEMORY;
    uint32_t status = fill(body, &text);
    answer->length = text.length;
    return status;
}

static uint32_t fill_mark(const char *body, struct text *text) {
    struct wire_mark_request request;
    __builtin_memcpy(&request, body, sizeof request);
    request.name[sizeof request.name - 1] = 0;
    return mark_set(&request, text);
}

static uint32_t fill_reset(const char *body, struct text *text) {
    struct wire_reset_request request;
    __builtin_memcpy(&request, body, sizeof request);
    return reset_run(&request, text);
}

static uint32_t fill_reset_named(const char *body, struct text *text) {
    static const char ask[] = "ask ", look[] = "look ";
    bool asks = !__builtin_strncmp(body, ask, sizeof ask - 1);
    if (!asks && __builtin_strncmp(body, look, sizeof look - 1) != 0)
        return WIRE_REFUSED;
    const char *name = body + (asks ? sizeof ask : sizeof look) - 1;
    if (asks)
        named_ask_reset(name);
    struct named_answers answers = named_answers(name);
    text_add_number(text, answers.asked);
    text_add(text, "\t");
    text_add_number(text, answers.done);
    text_add(text, "\t");
    text_add_number(text, (int64_t)answers.freed_bytes);
    return WIRE_OK;
}

static uint32_t fill_set(const char *body, struct text *text) {
    int64_t depth = load_relaxed(&options.depth);
    enum option_result result = options_set(body, text);
    if (load_relaxed(&options.depth) != depth)
        rules_new_generation(); /* cached paths have the old depth */
    return result == OPTION_SET ? WIRE_OK : WIRE_REFUSED;
}

static uint32_t fill_options(const char *body, struct text *text) {
    (void)body;
    options_describe(text);
    return WIRE_OK;
}

static void add_line(struct text *text, const char *name, const int64_t *value, const char *help) {
    text_add(text, name);
    text_add(text, "\t");
    if (value)
        text_add_number(text, *value);
    else
        text_add(text, "-");
    text_add(text, "\t");
    text_add(text, help);
    text_add(text, "\n");
}

static void add_statistic(struct text *text, const char *name, int64_t value, const char *help) {
    add_line(text, name, &value, help);
}

/* Adds the rounded mean; without any value the mean is unknown. */
static void add_mean(struct text *text, const char *name, uint64_t sum, uint64_t count,
                     const char *help) {
    int64_t mean = count ? (int64_t)((sum + count / 2) / count) : 0;
    add_line(text, name, count ? &mean : NULL, help);
}

/* Adds how long an allocation takes: the mean and the number of each kind. */
static void add_times(struct text *text, const struct lookup_counts *counts, uint64_t allocs) {
    uint64_t of_kind[PATH_KINDS] = {
        [PATH_SEARCHED] = counts->guessed + counts->replayed, [PATH_WALKED] = counts->missed};
    uint64_t others = of_kind[PATH_SEARCHED] + of_kind[PATH_WALKED];
    uint64_t ns = 0, known = 0, timed = 0;
    of_kind[PATH_FOUND] = allocs > others ? allocs - others : 0;
    for (int kind = 0; kind < PATH_KINDS; kind++) {
        uint64_t count = counts->timed_count[kind];
        if (!count)
            continue;
        ns += (uint64_t)((unsigned __int128)counts->timed_ns[kind] * of_kind[kind] / count);
        known += of_kind[kind];
        timed += count;
    }
    add_statistic(text, "malloc_timed", (int64_t)timed,
                  "allocations that were timed: the next ones after some that took longer");
    add_mean(text, "malloc_ns", ns, known, "ns in malloc by these samples, the mean");
    add_mean(text, "malloc_found_ns", counts->timed_ns[PATH_FOUND], counts->timed_count[PATH_FOUND],
             "the same where the first guess was right");
    add_mean(text, "malloc_searched_ns", counts->timed_ns[PATH_SEARCHED],
             counts->timed_count[PATH_SEARCHED], "where the path was guessed");
    add_mean(text, "malloc_walked_ns", counts->timed_ns[PATH_WALKED],
             counts->timed_count[PATH_WALKED], "where it was walked");
}

static uint32_t fill_self(const char *body, struct text *text) {
    (void)body;
    struct lookup_counts counts = context_counts();
    struct meta_usage meta = meta_usage(true);
    struct sum all = sums_all();
    int64_t allocs = all.allocs, frees = all.frees, live = all.live_bytes;
    uint64_t tracked = allocs > (int64_t)counts.walked_far ? (uint64_t)allocs : counts.walked_far;
#define ADD(name, value, help) add_statistic(text, #name, (int64_t)(value), help)
    ADD(allocs, allocs, "allocations since start");
    ADD(frees, frees, "frees since start");
    ADD(live_bytes, live, "requested bytes alive");
    ADD(paths_guessed, counts.guessed,
        "paths found in the cache, but not as the one that mostly follows");
    ADD(paths_replayed, counts.replayed,
        "paths found because the stack changed as it had changed before");
    ADD(paths_missed, counts.missed, "paths that were walked: not in the cache");
    ADD(paths_walked_far, counts.walked_far, "of these: with more than four new frames");
    ADD(paths_waited, load_relaxed(&admit_waited),
        "allocations charged to [other callers], because their path is not kept; of each thread "
        "the last few are missing");
    add_mean(text, "paths_near_permille", 1000 * (tracked - counts.walked_far), tracked,
             "allocations without such a walk");
    add_times(text, &counts, tracked);
    ADD(path_caches_flushed, counts.flushed,
        "path caches emptied (full, depth or library changed)");
    ADD(traces, counts.traces, "paths in the threads' caches");
    ADD(trace_bytes, counts.trace_bytes, "bytes of those caches");
    ADD(rules, rules_count(), "return addresses whose unwind rule is known");
    ADD(modules, rules_module_count(), "objects that frames were seen in");
    ADD(contexts, tree_nodes(), "nodes of the tree");
    ADD(paths_evicted, load_relaxed(&evict_views_all),
        "call paths that were not used any more, and whose figures went to [other callers]");
    if (tables_ask_live())
        store_owner(&tables_live_bytes, live);
    int64_t limit, held = tables_held_bytes(&limit);
    ADD(tables_bytes, held,
        "bytes of the tables for call paths: nodes, views, traces, rules, marks");
    ADD(tables_limit_bytes, limit, "what they may be at most (MEMCTX_TABLES)");
    ADD(tables_idle_bytes, load_relaxed(&tables_idle_bytes),
        "bytes of those that evicted paths left, for new ones");
    ADD(folded_functions, load_relaxed(&function_count),
        "functions that stand on each call path once");
    ADD(unfolded_functions, unfold_count(),
        "of these: unfolded for a time (memctx set TARGET CONTEXT unfold)");
    ADD(unfolded_seconds, unfold_seconds_left(), "until the last of these is folded again");
    ADD(verify_checked, load_relaxed(&oracle_counts.checked),
        "cached paths compared with libunwind");
    ADD(verify_mismatches, load_relaxed(&oracle_counts.mismatches), "of these: different");
    ADD(verify_shorter, load_relaxed(&oracle_counts.shorter), "of these: libunwind stopped early");
    ADD(foreign_frees, load_relaxed(&heap_global.foreign_frees),
        "frees of pointers that are not ours, ignored");
    ADD(libc_names, rebind_count,
        "names of libc's own malloc family that lead here, for RTLD_DEEPBIND");
    ADD(lost, load_relaxed(&heap_global.lost_views),
        "operations that could not be accounted to their path");
    ADD(heaps, heap_global.heaps, "heaps: the most threads that had one at one time");
    ADD(own_free_bytes, load_relaxed(&heap_global.own_free),
        "free bytes in contexts' own pages: what the waste cap bounds");
    ADD(segment_bytes, segment_used_bytes(), "bytes in pages and large chunks");
    ADD(metadata_bytes, meta.mapped_bytes, "bytes mapped for the library's own tables");
    ADD(metadata_resident_bytes, meta.resident_bytes, "of these: resident");
#undef ADD
    return WIRE_OK;
}

/* True when a request that names contexts is exactly as long as its count says. */
static bool is_contexts_request(const char *body, size_t length) {
    struct wire_contexts_request head;
    if (length < sizeof head)
        return false;
    __builtin_memcpy(&head, body, sizeof head);
    return head.count <= WIRE_CONTEXTS_MAX &&
           length == sizeof head + head.count * sizeof head.contexts[0];
}

static const struct wire_contexts_request *as_contexts_request(const char *body, char *room) {
    struct wire_contexts_request head;
    __builtin_memcpy(&head, body, sizeof head);
    __builtin_memcpy(room, body, sizeof head + head.count * sizeof head.contexts[0]);
    return (const void *)room;
}

static uint32_t fill_damaged(const char *body, struct text *text) {
    (void)body;
    text_add(text, "the request is not as long as it says");
    return WIRE_REFUSED;
}

static uint32_t fill_place(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return place_run(as_contexts_request(body, room), text);
}

static uint32_t fill_unfold(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return unfold_run(as_contexts_request(body, room), text);
}

/* True when a request with ranges of rules is exactly as long as its count says. */
static bool is_ranges_request(const char *body, size_t length) {
    struct wire_rule_ranges head;
    if (length < sizeof head)
        return false;
    __builtin_memcpy(&head, body, sizeof head);
    return head.count <= WIRE_RANGES_SENT_MAX && head.build_id_bytes <= sizeof head.build_id &&
           length == sizeof head + head.count * sizeof head.ranges[0];
}

static uint32_t fill_ranges(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    struct wire_rule_ranges head;
    __builtin_memcpy(&head, body, sizeof head);
    __builtin_memcpy(room, body, sizeof head + head.count * sizeof head.ranges[0]);
    return policy_rules_resolve((const void *)room, text) ? WIRE_OK : WIRE_REFUSED;
}

static uint32_t run_trim(const char *body, struct answer *answer) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return trim_run(as_contexts_request(body, room), answer);
}

bool command_is_known(uint16_t type, size_t length) {
    switch (type) {
    case WIRE_DUMP: return length == sizeof(struct wire_dump_request);
    case WIRE_MARK: return length == sizeof(struct wire_mark_request);
    case WIRE_RESET: return length == sizeof(struct wire_reset_request);
    case WIRE_SET: return length > 0;
    case WIRE_NOTE: return length > 0 && length < WIRE_NOTE_BYTES;
    case WIRE_RULES: return length > 0;
    case WIRE_RESET_NAMED: return length > 0;
    case WIRE_PIECE: return length == sizeof(struct wire_piece_request);
    case WIRE_TRIM:
    case WIRE_PLACE:
    case WIRE_UNFOLD:
        return length >= sizeof(struct wire_contexts_request) &&
               length % sizeof(uint32_t) == 0; /* the contexts that follow, if any */
    case WIRE_RULE_RANGES:
        return length >= sizeof(struct wire_rule_ranges) &&
               (length - sizeof(struct wire_rule_ranges)) % sizeof(struct wire_rule_range) == 0;
    case WIRE_OPTIONS:
    case WIRE_SELF: return length == 0;
    default: return false;
    }
}

uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer) {
    bool contexts = type == WIRE_TRIM || type == WIRE_PLACE || type == WIRE_UNFOLD;
    if ((contexts && !is_contexts_request(body, length)) ||
        (type == WIRE_RULE_RANGES && !is_ranges_request(body, length)))
        return run_text(answer, fill_damaged, body);
    switch (type) {
    case WIRE_DUMP: return run_dump(body, answer);
    case WIRE_MARK: return run_text(answer, fill_mark, body);
    case WIRE_RESET: return run_text(answer, fill_reset, body);
    case WIRE_SET: return run_text(answer, fill_set, body); /* the server ends the body with 0 */
    case WIRE_OPTIONS: return run_text(answer, fill_options, body);
    case WIRE_SELF: return run_text(answer, fill_self, body);
    case WIRE_NOTE: return run_text(answer, note_run, body);
    case WIRE_RULES: return run_text(answer, rules_run, body);
    case WIRE_RESET_NAMED: return run_text(answer, fill_reset_named, body);
    case WIRE_PIECE: return run_piece(body, answer);
    case WIRE_PLACE: return run_text(answer, fill_place, body);
    case WIRE_UNFOLD: return run_text(answer, fill_unfold, body);
    case WIRE_RULE_RANGES: return run_text(answer, fill_ranges, body);
    default: return run_trim(body, answer);
    }
}
