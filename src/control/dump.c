/* SPDX-License-Identifier: MIT */
/*
 * dump.c - the head of a dump, and its pieces.
 *
 * A piece has as many records as fit into an answer, and starts where the piece before it ended.
 * The server keeps nothing between two pieces. No thread is stopped, so an allocation made during a
 * dump may or may not be in it. Contexts come in the order of their ids, so a parent comes before
 * its children. figures/pages.c makes the pieces about pages, marks.c makes the pieces about marks.
 */
#include "control/dump.h"
#include "base/options.h"
#include "context/tree.h"
#include "control/act.h"
#include "control/automatic.h"
#include "control/control.h"
#include "control/marks.h"
#include "figures/pages.h"
#include "figures/sums.h"
#include "named/named.h"
#include "os/meta.h"
#include "region/resizes.h"
#include "region/terms.h"
#include "rules/rules.h"

/* Greatest number of look-ups for one piece. Each context is looked up in every heap. */
#define LOOKUPS_MAX 65536U
/* Bytes for a label and a reason together. A reason may be the text of a rule, which is shorter
 * than a request. */
#define TEXT_MAX 1200U

/* --- contexts --------------------------------------------------------------------------------- */

static void fill_sums(struct wire_sums *out, const struct sum *sum) {
    *out = (struct wire_sums){
        .requested_bytes = sum->live_bytes,
        .live_chunks = sum->allocs - sum->frees,
        .allocs = sum->allocs - sum->base_allocs,
        .frees = sum->frees - sum->base_frees,
        .requested_cum_bytes = sum->requested_cum_bytes - sum->base_requested_cum_bytes,
        .peak_requested_bytes = !sum->views       ? 0
                                : sum->views == 1 ? sum->peak_bytes
                                                  : WIRE_UNKNOWN,
    };
}

/* Writes the label of a node that is no frame: a fixed label such as [unknown], or a named
 * context's name. As in PostgreSQL, the identifier that tells the context from others of its name
 * follows. */
static void add_label(struct text *text, uint32_t id) {
    const char *fixed = tree_fixed_label(id);
    if (fixed)
        text_add(text, fixed);
    if (fixed || !tree_is_named(id))
        return;
    const struct named *named = named_at((uint32_t)tree_node(id)->address);
    text_add(text, named->name);
    if (named->policy == NAMED_CROWD) {
        text_add(text, ": its smallest contexts");
    } else if (load_relaxed(&named->generation) & 1 && named->identifier[0]) {
        text_add(text, ": ");
        text_add(text, named->identifier);
    }
}

/* Writes the properties that the program asked for when it made the context. False: the program
 * asked for none. */
static bool asked_reason(uint32_t id, struct text *text) {
    static const char *const words[] = {"zeroed", "guarded", "pages of 64 KiB"};
    unsigned asked = terms_asked(id);
    const char *before = "asked for: ";
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (asked & 1U << i) {
            text_add(text, before);
            text_add(text, words[i]);
            before = ", ";
        }
    return asked;
}

/* Writes why the context has its placement. */
static void add_reason(struct text *text, uint32_t id) {
    const char *rule = policy_rules_text(policy_rules_held(id));
    if (rule)
        text_add(text, rule);
    else if (!asked_reason(id, text))
        automatic_reason(id, text);
}

static uint16_t text_bytes(const struct text *text) {
    return text->length ? (uint16_t)(text->length + 1) : 0;
}

static void fill_node(struct wire_context *out, uint32_t id) {
    const struct tree_node *node = tree_node(id);
    bool named = node->module == MODULE_NAMED;
    out->id = id;
    out->parent = id == TREE_ROOT ? WIRE_NONE : node->parent;
    out->kind = id == TREE_ROOT        ? WIRE_KIND_ROOT
                : named                ? WIRE_KIND_NAMED
                : tree_fixed_label(id) ? WIRE_KIND_UNKNOWN
                                       : WIRE_KIND_PATH;
    out->exact_address = node->exact;
    out->module = node->module >= MODULE_OTHERS ? WIRE_NONE : node->module;
    out->address = named ? 0 : node->address;
    out->placement = (uint8_t)heap_placement(id);
    uint8_t flags = load_relaxed(&node->flags);
    uint32_t loop = flags & TREE_FOLDED ? tree_loop(id) : 0;
    out->flags = (flags & TREE_PARTIAL ? WIRE_CONTEXT_PARTIAL : 0) |
                 (flags & TREE_LATE ? WIRE_CONTEXT_LATE : 0) |
                 (flags & TREE_FOLDED ? WIRE_CONTEXT_RECURSIVE : 0);
    out->recursive_from = loop ? loop : WIRE_NONE;
}

/* Writes the sums of each heap that has any; returns the end of the written bytes. */
static char *add_views(char *at, const struct sums_parts *parts) {
    for (uint32_t i = 0; i < parts->count; i++) {
        if (!parts->list[i].views)
            continue;
        struct wire_view view = {.heap = parts->first + i};
        fill_sums(&view.sums, &parts->list[i]);
        __builtin_memcpy(at, &view, sizeof view);
        at += sizeof view;
    }
    return at;
}

/* Writes the record of a context with its sums. False: the answer has no room for the record. */
static bool add_context_sum(struct piece *piece, uint32_t id, const struct sums_parts *parts,
                            const struct sum *sum) {
    char words[TEXT_MAX];
    struct text label = {.bytes = words, .capacity = 200};
    /* Not the first group of heaps: an earlier record has the label and the reason. */
    bool further = parts && parts->first;
    if (further && !sum->views)
        return true;
    if (!further)
        add_label(&label, id);
    struct text why = {.bytes = words + label.length + 1,
                       .capacity = sizeof words - label.length - 2};
    if (!further)
        add_reason(&why, id);
    struct wire_context head = {.views = (uint16_t)(parts ? sum->views : 0),
                                .holds = (sum->views ? WIRE_CONTEXT_SUMS : 0) |
                                         (further ? WIRE_CONTEXT_FURTHER : 0),
                                .label_bytes = text_bytes(&label),
                                .why_bytes = text_bytes(&why)};
    fill_node(&head, id);
    size_t bytes = sizeof head + (sum->views ? sizeof(struct wire_sums) : 0) +
                   head.views * sizeof(struct wire_view) + head.label_bytes + head.why_bytes;
    head.bytes = (uint16_t)align_up(bytes, 8);
    char *at = piece_record(piece, bytes);
    if (!at)
        return false;
    __builtin_memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (sum->views) {
        fill_sums((void *)at, sum);
        at += sizeof(struct wire_sums);
    }
    if (parts)
        at = add_views(at, parts);
    __builtin_memcpy(at, label.bytes, label.length); /* the record was zeroed, so a 0 follows */
    __builtin_memcpy(at + head.label_bytes, why.bytes, why.length);
    return true;
}

bool dump_node(struct piece *piece, uint32_t id) {
    return add_context_sum(piece, id, NULL, &(struct sum){0});
}

static bool add_context(struct piece *piece, uint32_t id, struct sums_parts *parts) {
    struct sum sum;
    sums_read(id, &sum, parts);
    return add_context_sum(piece, id, parts, &sum);
}

/* --- the contexts with the largest sums ------------------------------------------------------- */

static int64_t figure_of(const struct wire_sums *sums, uint32_t figure) {
    switch (figure) {
    case WIRE_FIGURE_CHUNKS: return sums->live_chunks;
    case WIRE_FIGURE_ALLOCS: return sums->allocs;
    case WIRE_FIGURE_FREES: return sums->frees;
    case WIRE_FIGURE_PEAK:
        return sums->peak_requested_bytes == WIRE_UNKNOWN ? 0 : sums->peak_requested_bytes;
    default: return sums->requested_bytes;
    }
}

/* Adds the sums of a context whose path is not complete. Below [other callers] they count as
 * merged, below another label, such as [truncated], as labelled. */
static void survey_labels(struct wire_survey *survey, uint32_t id, const struct wire_sums *sums) {
    bool labelled = false;
    for (; id != TREE_ROOT; id = tree_node(id)->parent) {
        if (id == TREE_OTHERS || tree_node(id)->module == MODULE_OTHERS) {
            survey->merged_bytes += sums->requested_bytes;
            survey->merged_allocs += sums->allocs;
            return;
        }
        labelled |= tree_fixed_label(id) != NULL;
    }
    survey->labelled_bytes += labelled ? sums->requested_bytes : 0;
    survey->labelled_allocs += labelled ? sums->allocs : 0;
}

/* Counts a context in the survey. True when its figure is so large that the context is listed. */
static bool survey_add(struct wire_survey *survey, uint32_t id, const struct sum *sum,
                       const struct wire_piece_request *request) {
    struct wire_sums sums;
    fill_sums(&sums, sum);
    survey->contexts++;
    if (id == TREE_ROOT && sum->views)
        survey->root_peak_bytes = sums.peak_requested_bytes;
    if (!sum->views)
        return false;
    survey->requested_bytes += sums.requested_bytes;
    survey->live_chunks += sums.live_chunks;
    survey->allocs += sums.allocs;
    survey->frees += sums.frees;
    survey->requested_cum_bytes += sums.requested_cum_bytes;
    survey_labels(survey, id, &sums);
    if (!sums.requested_bytes && !sums.live_chunks && !sums.allocs && !sums.frees)
        return false; /* all figures are 0 since a reset */
    survey->with_figures++;
    return figure_of(&sums, request->figure) >= request->least;
}

static uint32_t best_piece(struct piece *piece) {
    const struct wire_piece_request *request = piece->request;
    uint32_t heaps = heap_numbers(), lookups = 0;
    uint64_t count = tree_count(), id = request->from >> 16;
    struct wire_survey *survey = answer_add(piece->answer, sizeof *survey);
    if (!survey)
        return WIRE_NO_MEMORY;
    count = count < request->ids_below ? count : request->ids_below;
    survey->uptime_ns = control_uptime_ns();
    survey->root_peak_bytes = WIRE_UNKNOWN;
    sums_begin();
    for (; id < count && !piece->next; id++) {
        struct wire_survey before = *survey;
        struct sum sum;
        lookups += heaps;
        sums_read((uint32_t)id, &sum, NULL);
        if ((lookups > LOOKUPS_MAX && id > request->from >> 16) ||
            (survey_add(survey, (uint32_t)id, &sum, request) &&
             !add_context_sum(piece, (uint32_t)id, NULL, &sum))) {
            /* The next piece begins with this context, so this piece does not count it. */
            *survey = before;
            piece->next = WIRE_FROM_ID(id);
        }
    }
    sums_end();
    return WIRE_OK;
}

/* Writes the contexts of a path from the root on, so that a parent comes before its children.
 * request->from holds the context and the number of contexts already written. */
static uint32_t path_piece(struct piece *piece) {
    uint64_t from = piece->request->from;
    uint32_t id = (uint32_t)(from >> 16), told = (uint16_t)from, length = 1;
    if (from >> 16 >= tree_count())
        return WIRE_OK;
    for (uint32_t at = id; at != TREE_ROOT && length < UINT16_MAX; at = tree_node(at)->parent)
        length++;
    sums_begin();
    for (; told < length; told++) {
        uint32_t at = id;
        for (uint32_t up = length - 1 - told; up; up--)
            at = tree_node(at)->parent;
        if (!add_context(piece, at, NULL)) {
            piece->next = WIRE_FROM_ID(id) | told;
            break;
        }
    }
    sums_end();
    return WIRE_OK;
}

static uint32_t contexts_piece(struct piece *piece) {
    struct sums_parts *parts = NULL;
    uint32_t count = tree_count(), heaps = heap_numbers(), lookups = 0;
    bool threads = piece->request->flags & WIRE_DUMP_THREADS;
    uint32_t groups = threads ? (heaps + SUMS_HEAPS - 1) / SUMS_HEAPS : 1;
    uint64_t id = piece->request->from >> 16;
    uint32_t group = (uint16_t)piece->request->from;
    if (threads && !(parts = buffers_scratch(SCRATCH_PARTS, sizeof *parts)))
        return WIRE_NO_MEMORY;
    sums_begin();
    for (; id < count; id++, group = 0) {
        for (; group < groups && !tree_is_gone((uint32_t)id); group++) {
            if (threads) {
                parts->first = group * SUMS_HEAPS;
                parts->count =
                    heaps - parts->first < SUMS_HEAPS ? heaps - parts->first : SUMS_HEAPS;
            }
            lookups += heaps;
            uint64_t here = WIRE_FROM_ID(id) | group;
            if ((lookups > LOOKUPS_MAX && here > piece->request->from) ||
                !add_context(piece, (uint32_t)id, parts)) {
                piece->next = here;
                break;
            }
        }
        if (piece->next)
            break;
    }
    sums_end();
    return WIRE_OK;
}

/* --- modules, threads, notes ------------------------------------------------------------------ */

static uint32_t modules_piece(struct piece *piece) {
    uint32_t count = unwind_rules_module_count();
    for (uint64_t i = piece->request->from; i < count; i++) {
        const struct module *module = unwind_rules_module((uint32_t)i);
        size_t path_bytes = text_length(module->path) + 1;
        struct wire_module *out = piece_record(piece, sizeof *out + path_bytes);
        if (!out) {
            piece->next = i;
            break;
        }
        out->start = module->start;
        out->end = module->end;
        out->bias = module->bias;
        out->index = (uint32_t)i;
        out->path_bytes = (uint32_t)path_bytes;
        out->build_id_bytes = module->build_id_bytes;
        __builtin_memcpy(out->build_id, module->build_id, sizeof out->build_id);
        out->closed = load_relaxed(&module->closed);
        __builtin_memcpy(out + 1, module->path, path_bytes);
    }
    return WIRE_OK;
}

static void read_thread_name(uint32_t tid, char name[16]) {
    char path[64];
    char comm[32];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    text_add(&text, "/proc/self/task/");
    text_add_number(&text, tid);
    text_add(&text, "/comm");
    path[text.length] = 0;
    int64_t length = os_read_file(path, comm, sizeof comm);
    for (int64_t i = 0; i < length && i < 15 && comm[i] != '\n'; i++)
        name[i] = comm[i];
}

#define THREADS_A_PIECE 512U /* heaps in one piece: their records always fit */

static uint32_t threads_piece(struct piece *piece) {
    uint64_t from = piece->request->from, end = from + THREADS_A_PIECE;
    for (const struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t tid = load_relaxed(&heap->tid);
        struct wire_thread *out = tid && heap->number >= from && heap->number < end
                                      ? piece_record(piece, sizeof *out)
                                      : NULL;
        if (!out)
            continue;
        out->heap = heap->number;
        out->tid = tid;
        read_thread_name(tid, out->name);
    }
    piece->next = end < heap_numbers() ? end : 0;
    return WIRE_OK;
}

/* Writes a record for each heap whose chunks this heap's thread freed. `from` is the place at which
 * the piece begins: a heap's place in the upper half, and in the lower half the number of the other
 * heap. `place` is this heap's place. False: the answer has no room for all records. */
static bool add_remotes(struct piece *piece, const struct heap *heap, uint64_t place,
                        uint64_t from) {
    uint32_t count = load_acquire(&heap->freed_of_count);
    const uint64_t *freed_of = load_acquire(&heap->freed_of);
    for (uint32_t i = place == from >> 32 ? (uint32_t)from : 0; i < count; i++) {
        uint64_t frees = load_relaxed(&freed_of[i]);
        struct wire_remote *out = frees ? piece_record(piece, sizeof *out) : NULL;
        if (frees && !out) {
            piece->next = place << 32 | i;
            return false;
        }
        if (out)
            *out = (struct wire_remote){heap->number, i, (int64_t)frees};
    }
    return true;
}

/* Writes the heaps by falling number, which is their order in the list. A heap's place is
 * UINT32_MAX minus its number, so places rise, and a place says where the next piece begins. The
 * shared heap, number 0, may stand anywhere in the list, and is written last. */
static uint32_t remotes_piece(struct piece *piece) {
    const struct heap *shared = NULL;
    uint64_t from = piece->request->from;
    bool room = true;
    sums_begin(); /* so that no thread's counts are read twice when it ends */
    for (const struct heap *heap = load_acquire(&heap_global.first); heap && room;
         heap = heap->next) {
        uint64_t place = UINT32_MAX - heap->number;
        if (!heap->number)
            shared = heap;
        else if (place >= from >> 32)
            room = add_remotes(piece, heap, place, from);
    }
    if (shared && room)
        add_remotes(piece, shared, UINT32_MAX, from);
    sums_end();
    return WIRE_OK;
}

/* Writes a record for each view of the heap that resized chunks. `from` is as in add_remotes; its
 * lower half is the number of an entry of the heap. False: the answer has no room for all
 * records. */
static bool add_resizes(struct piece *piece, struct heap *heap, uint64_t place, uint64_t from) {
    const struct resizes *all = load_acquire(&heap->resizes);
    uint64_t number = 0, first = place == from >> 32 ? (uint32_t)from : 0;
    for (const struct resizes_block *block = all ? &all->first : NULL; block;
         block = load_acquire(&block->next)) {
        uint32_t used = load_acquire(&block->used);
        for (uint32_t i = 0; i < used; i++, number++) {
            const struct view_resizes *entry = &block->list[i];
            struct wire_resizes told = {0};
#define X(name) told.name = (int64_t)(load_relaxed(&entry->counts.name) - entry->base.name);
            RESIZE_COUNTS(X)
#undef X
            if (number < first || !told.reallocs)
                continue; /* the view's memory may have been given back, so it is not read */
            told.context = load_relaxed(&heap_view_at(heap, entry->view_index)->context);
            struct wire_resizes *out = piece_record(piece, sizeof *out);
            if (!out) {
                piece->next = place << 32 | number;
                return false;
            }
            *out = told;
        }
    }
    return true;
}

/* Writes the heaps in the order of remotes_piece: by falling number, the shared heap last. */
static uint32_t resizes_piece(struct piece *piece) {
    struct heap *shared = NULL;
    uint64_t from = piece->request->from;
    int64_t lost = (int64_t)load_relaxed(&resizes_lost);
    struct wire_resizes *out = lost && !from ? piece_record(piece, sizeof *out) : NULL;
    if (out)
        *out = (struct wire_resizes){.context = WIRE_NONE, .reallocs = lost};
    bool room = true;
    sums_begin();
    for (struct heap *heap = load_acquire(&heap_global.first); heap && room; heap = heap->next) {
        uint64_t place = UINT32_MAX - heap->number;
        if (!heap->number)
            shared = heap;
        else if (place >= from >> 32)
            room = add_resizes(piece, heap, place, from);
    }
    if (shared && room)
        add_resizes(piece, shared, UINT32_MAX, from);
    sums_end();
    return WIRE_OK;
}

static uint32_t notes_piece(struct piece *piece) {
    unsigned place = (unsigned)piece->request->from, before = place;
    const char *note;
    while ((note = note_next(&place))) {
        size_t bytes = text_length(note) + 1;
        char *room = piece_record(piece, bytes);
        if (!room) {
            piece->next = before;
            break;
        }
        __builtin_memcpy(room, note, bytes);
        before = place;
    }
    return WIRE_OK;
}

/* --- all pieces ------------------------------------------------------------------------------- */

uint32_t piece_run(const struct wire_piece_request *request, struct answer *answer) {
    static uint32_t (*const parts[WIRE_PARTS])(struct piece *) = {
        [WIRE_PART_CONTEXTS] = contexts_piece, [WIRE_PART_MODULES] = modules_piece,
        [WIRE_PART_THREADS] = threads_piece,   [WIRE_PART_REMOTES] = remotes_piece,
        [WIRE_PART_MARKS] = marks_piece,       [WIRE_PART_ENTRIES] = marks_entries_piece,
        [WIRE_PART_NOTES] = notes_piece,       [WIRE_PART_PAGES] = pages_piece,
        [WIRE_PART_BEST] = best_piece,         [WIRE_PART_PATH] = path_piece,
        [WIRE_PART_RESIZES] = resizes_piece,
    };
    uint64_t started = os_now_exact_ns();
    struct piece piece = {.request = request, .answer = answer};
    struct wire_piece *head = answer_add(answer, sizeof *head);
    if (!head)
        return WIRE_NO_MEMORY;
    if (request->part >= WIRE_PARTS)
        return piece_refuse(&piece, "a dump has no such part");
    uint32_t status = parts[request->part](&piece);
    if (status == WIRE_OK)
        *head = (struct wire_piece){.next = piece.next,
                                    .count = piece.count,
                                    .took_ns = (uint32_t)(os_now_exact_ns() - started),
                                    .segments_resident = piece.segments_resident};
    return status;
}

static void fill_ledger(struct wire_ledger *ledger, bool resident) {
    struct segment_usage usage = segment_usage();
    struct meta_usage meta = meta_usage(resident);
    ledger->segments_mapped = usage.mapped_bytes;
    ledger->segments_resident = resident ? 0 : WIRE_UNKNOWN;
    ledger->freelist_bytes = usage.freelist_bytes;
    ledger->freelist_items = usage.freelist_items;
    ledger->segment_headers = usage.header_bytes;
    ledger->returned_bytes = usage.returned_bytes;
    ledger->metadata_mapped = meta.mapped_bytes;
    ledger->metadata_used = meta.used_bytes;
    ledger->metadata_resident = resident ? meta.resident_bytes : WIRE_UNKNOWN;
    ledger->control_bytes = buffers_bytes(true);
    int64_t rss_bytes = os_rss_bytes();
    ledger->rss_bytes = rss_bytes < 0 ? WIRE_UNKNOWN : rss_bytes;
}

void dump_head(const struct wire_dump_request *request, struct wire_dump *dump) {
    uint64_t started = os_now_exact_ns();
    struct sum all = {0};
    bool sums = request->flags & WIRE_DUMP_SUMS;
    if (sums)
        all = sums_all();
    dump->uptime_ns = control_uptime_ns();
    dump->slept_ns = os_slept_ns();
    dump->depth = (uint32_t)load_relaxed(&options.depth);
    dump->exact = !load_relaxed(&heap_global.lost_views);
    dump->resets = sums_resets;
    dump->contexts = tree_count();
    dump->requested_bytes = sums ? all.live_bytes : WIRE_UNKNOWN;
    dump->live_chunks = sums ? all.allocs - all.frees : WIRE_UNKNOWN;
    dump->allocs = sums ? all.allocs : WIRE_UNKNOWN;
    dump->frees = sums ? all.frees : WIRE_UNKNOWN;
    fill_ledger(&dump->ledger, request->flags & WIRE_DUMP_RESIDENT);
    /* /proc/self/exe cannot be read after the process's first thread has ended. */
    if (os_read_link("/proc/self/exe", dump->exe, sizeof dump->exe) <= 0 &&
        os_read_link("/proc/thread-self/exe", dump->exe, sizeof dump->exe) <= 0)
        dump->exe[0] = 0;
    dump->exe[sizeof dump->exe - 1] = 0;
    dump->took_ns = (uint32_t)(os_now_exact_ns() - started);
}
