/* SPDX-License-Identifier: MIT */
/*
 * Building a dump: the views are summed, every page header is read, and the result is laid out as
 * wire.h says, in memory of the control thread's own. No thread is stopped: what they do meanwhile
 * may or may not be in it. Page headers may change while they are read; a page that changed its
 * kind is left out, and ids are checked before they index anything.
 */
#include "base/options.h"
#include "context/named.h"
#include "context/tree.h"
#include "control/automatic.h"
#include "control/policy_rules.h"
#include "os/meta.h"
#include "region/member.h"
#include "region/serial.h"
#include "region/terms.h"

struct scan {
    uint32_t flags, count;
    struct wire_totals *totals; /* by context */
    uint32_t (*occupancy)[WIRE_OCCUPANCY_BINS];
    struct wire_ledger *ledger;
    unsigned char resident[SEGMENT_BYTES / OS_PAGE_BYTES];
    bool resident_known;
};

static struct wire_totals *totals_of(struct scan *scan, uint32_t context) {
    return &scan->totals[context < scan->count ? context : TREE_UNKNOWN];
}

static int64_t resident_in(const struct scan *scan, uintptr_t start, uintptr_t end) {
    return pages_resident_in(scan->resident, start, end);
}

/* Bytes of the blocks that are alive, of a page of one context. */
static int64_t live_bytes(const struct page *page, const char *start) {
    uint64_t pending = load_relaxed(&page->remote) >> 48;
    uint64_t used = load_relaxed(&page->used);
    if (page->kind == PAGE_SERIAL)
        return (int64_t)serial_live(page, start).bytes;
    return used > pending ? (int64_t)(used - pending) * page->block_bytes : 0;
}

static void scan_own(struct scan *scan, const struct page *page, const char *start) {
    const struct view *view = page->view;
    if (!view)
        return;
    int64_t bytes = (int64_t)(page->slices * SLICE_BYTES);
    int64_t live = live_bytes(page, start);
    int64_t touched = (int64_t)(page->kind == PAGE_SERIAL ? serial_touched(page, start)
                                                          : blocks_touched(page, start));
    struct wire_totals *totals = totals_of(scan, view->context);
    totals->reserved_bytes += bytes;
    totals->block_bytes += live;
    totals->pages++;
    if (live && scan->flags & WIRE_DUMP_PINNED) {
        totals->pinned_bytes += touched - live;
        totals->sole_pinned_bytes += touched;
    }
    uint32_t context = view->context < scan->count ? view->context : TREE_UNKNOWN;
    if (scan->flags & WIRE_DUMP_PINNED)
        scan->occupancy[context][pages_occupancy_bin((uint64_t)live, (uint64_t)page->capacity *
                                                                         page->block_bytes)]++;
    if (scan->resident_known)
        totals->resident_bytes +=
            resident_in(scan, (uintptr_t)start, (uintptr_t)start + (uintptr_t)bytes);
    scan->ledger->pages_reserved += bytes;
    scan->ledger->untouched_bytes += bytes - touched;
}

/* Of a copy of the page's header; nearly all are of the one kind. */
static struct record read_record(const struct page *page, const void *record) {
    if (UNLIKELY((page->meta_shift & (META_SHIFT | META_OWNERS)) != META_MIXED))
        return record_read(page, record);
    uint32_t word = load_relaxed((const uint32_t *)record);
    return (struct record){(word & 0xff) - 1, word >> 8, !(word & 0xff)};
}

static void scan_mixed(struct scan *scan, const struct page *page, const char *start) {
    struct heap *heap = page->heap;
    int64_t bytes = (int64_t)(page->slices * SLICE_BYTES);
    int64_t touched = (int64_t)blocks_touched(page, start);
    size_t granule_bytes = (size_t)page->granule_mask + 1;
    unsigned granules =
        (unsigned)((blocks_reached(page, start) + granule_bytes - 1) / granule_bytes);
    uint64_t punched = granule_bytes == OS_PAGE_BYTES ? blocks_punched(page) : 0;
    if (!heap)
        return;
    uint32_t live = 0, only = WIRE_NONE;
    bool sole = true;
    uint32_t last_view = 0, context = 0; /* neighbours are often of one context */
    /* First count, then charge: without pinned bytes there are no shares to count for. */
    for (int round = scan->flags & WIRE_DUMP_PINNED ? 0 : 1; round < 2; round++) {
        int64_t free_bytes = touched - (int64_t)live * page->block_bytes;
        int64_t share = round && live ? free_bytes / live : 0;
        int64_t rest = round && live ? free_bytes % live : 0;
        for (unsigned i = 0; i < granules; i++) {
            const char *granule = start + i * granule_bytes;
            /* Where it is punched its records went with it, and looking would map them. */
            unsigned count = punched >> i & 1 ? 0 : page->granule_capacity;
            for (unsigned index = 0; index < count; index++) {
                struct record record = read_record(page, blocks_record(page, granule, index));
                if (record.free || !record.view_index)
                    continue;
                if (record.view_index != last_view) {
                    last_view = record.view_index;
                    context = member_payer(heap, last_view);
                }
                if (context == REGION_NO_CONTEXT)
                    continue;
                if (!round) {
                    sole = sole && (only == WIRE_NONE || only == context);
                    only = context;
                    live++;
                    continue;
                }
                struct wire_totals *totals = totals_of(scan, context);
                uintptr_t block =
                    (uintptr_t)granule + page->first + (uintptr_t)index * page->block_bytes;
                totals->block_bytes += page->block_bytes;
                totals->reserved_bytes += page->block_bytes;
                if (scan->resident_known && resident_in(scan, block, block + 1))
                    totals->resident_bytes += page->block_bytes;
                scan->ledger->mixed_block_bytes += page->block_bytes;
                if (scan->flags & WIRE_DUMP_PINNED) {
                    totals->pinned_bytes += share + rest;
                    rest = 0;
                }
            }
        }
    }
    if (sole && live && scan->flags & WIRE_DUMP_PINNED)
        totals_of(scan, only)->sole_pinned_bytes += touched;
    scan->ledger->mixed_reserved += bytes;
    scan->ledger->untouched_bytes += bytes > touched ? bytes - touched : 0;
}

static void scan_large(struct scan *scan, const struct page *page, const char *start, int64_t bytes,
                       int64_t header_bytes) {
    struct wire_totals *totals = totals_of(scan, page->context);
    int64_t touched = (int64_t)align_up(page->requested_bytes, OS_PAGE_BYTES);
    /* What else stands in its OS pages is the guard's, not the program's rounding. */
    int64_t block =
        page->flags & PAGE_GUARDED ? (int64_t)align_up(page->requested_bytes, 16) : touched;
    totals->reserved_bytes += bytes;
    totals->block_bytes += block;
    totals->pages++;
    if (scan->flags & WIRE_DUMP_PINNED)
        totals->sole_pinned_bytes += block;
    if (scan->flags & WIRE_DUMP_RESIDENT) {
        int64_t resident =
            page->kind == PAGE_HUGE
                ? os_resident_bytes(start, (size_t)bytes)
                : resident_in(scan, (uintptr_t)start, (uintptr_t)start + (uintptr_t)bytes);
        totals->resident_bytes += resident > 0 ? resident : 0;
        if (page->kind == PAGE_HUGE)
            scan->ledger->segments_resident += resident > 0 ? resident : 0;
    }
    scan->ledger->pages_reserved += bytes;
    scan->ledger->untouched_bytes +=
        bytes > touched + header_bytes ? bytes - touched - header_bytes : 0;
}

static void scan_page(const struct page *page, const char *start, void *context) {
    if (page->kind == PAGE_OWN || page->kind == PAGE_SERIAL)
        scan_own(context, page, start);
    else if (page->kind == PAGE_MIXED)
        scan_mixed(context, page, start);
    else if (page->kind == PAGE_SPAN)
        scan_large(context, page, start, (int64_t)(page->slices * SLICE_BYTES), 0);
}

static void scan_segment(struct segment *segment, bool huge, void *context) {
    struct scan *scan = context;
    segment_clock_set(
        os_now_exact_ns()); /* a dump may take longer than the clock is to be behind */
    if (huge) {
        const struct page *page = &segment->huge;
        if (load_acquire(&page->kind) == PAGE_HUGE)
            scan_large(scan, page, (const char *)segment, (int64_t)page->mapped_bytes,
                       (int64_t)(page->chunk - (const char *)segment));
        return;
    }
    if (scan->flags & WIRE_DUMP_RESIDENT) {
        scan->resident_known = os_resident_vector(segment, SEGMENT_BYTES, scan->resident);
        if (scan->resident_known)
            scan->ledger->segments_resident +=
                resident_in(scan, (uintptr_t)segment, (uintptr_t)segment + SEGMENT_BYTES);
    }
    pages_each(segment, scan->resident_known ? scan->resident : NULL, scan_page, scan);
}

/* --- laying it out ----------------------------------------------------------------------------- */

static uint32_t add_string(struct answer *strings, const char *string) {
    size_t length = text_length(string) + 1;
    uint32_t at = (uint32_t)strings->length;
    char *room = answer_add(strings, length);
    if (!room)
        return WIRE_NONE;
    __builtin_memcpy(room, string, length);
    return at;
}

static void *add_section(struct answer *answer, size_t section_offset, size_t count,
                         size_t element) {
    size_t at = answer->length;
    void *room = answer_add(answer, align_up(count * element, 8));
    if (!room)
        return NULL;
    struct wire_section *section = (void *)(answer->bytes + section_offset);
    section->offset = at;
    section->count = count;
    return room;
}
#define SECTION(field) offsetof(struct wire_dump, field)

static void fill_view_totals(struct wire_totals *t, const struct sum *sum) {
    t->requested_bytes = sum->live_bytes;
    t->live_chunks = sum->allocs - sum->frees;
    t->allocs = sum->allocs - sum->base_allocs;
    t->frees = sum->frees - sum->base_frees;
    t->requested_cum_bytes = sum->requested_cum_bytes - sum->base_requested_cum_bytes;
    t->peak_requested_bytes = !sum->views ? 0 : sum->views == 1 ? sum->peak_bytes : WIRE_UNKNOWN;
}

static uint8_t policy_of(const struct wire_context *context) {
    if (!context->self.reserved_bytes)
        return WIRE_POLICY_NONE;
    if (!context->self.pages)
        return WIRE_POLICY_MIXED;
    return context->placement >= WIRE_PLACE_SLAB ? context->placement : WIRE_POLICY_ASET;
}

/* A named context as PostgreSQL writes it: its name, and what tells it from others. */
static uint32_t add_label(struct answer *strings, uint32_t id, const char *fixed) {
    char label[128];
    struct text text = {.bytes = label, .capacity = sizeof label - 1};
    if (fixed || !tree_is_named(id))
        return fixed ? add_string(strings, fixed) : WIRE_NONE;
    const struct named *named = named_at((uint32_t)tree_node(id)->address);
    text_add(&text, named->name);
    if (named->policy == NAMED_CROWD) {
        text_add(&text, ": those with next to nothing");
    } else if (load_relaxed(&named->generation) & 1 && named->identifier[0]) {
        text_add(&text, ": ");
        text_add(&text, named->identifier);
    }
    label[text.length] = 0;
    return add_string(strings, label);
}

/* What the program asked for; false: nothing. */
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

/* Why it stands where it does. Texts of rules are there once each. */
static uint32_t add_reason(struct answer *strings, uint32_t id, uint32_t *rules_at) {
    char reason[192];
    struct text text = {.bytes = reason, .capacity = sizeof reason - 1};
    unsigned rule = policy_rules_of(id);
    const char *rule_text = policy_rules_text(rule);
    if (rule_text) {
        if (!rules_at[rule]) {
            uint32_t at = add_string(strings, rule_text);
            rules_at[rule] = at == WIRE_NONE ? 0 : at + 1;
        }
        return rules_at[rule] - 1;
    }
    if (!asked_reason(id, &text) && !automatic_reason(id, &text))
        return WIRE_NONE;
    reason[text.length] = 0;
    return add_string(strings, reason);
}

static void add_contexts(struct answer *answer, struct answer *strings, const struct scan *scan) {
    struct wire_context *context =
        add_section(answer, SECTION(contexts), scan->count, sizeof *context);
    uint32_t rules_at[POLICY_RULES_MAX + 1] = {0};
    for (uint32_t id = 0; context && id < scan->count; id++, context++) {
        const struct tree_node *node = tree_node(id);
        bool named = node->module == MODULE_NAMED;
        const char *label = tree_fixed_label(id);
        context->id = id;
        context->parent = id == TREE_ROOT ? WIRE_NONE : node->parent;
        context->kind = id == TREE_ROOT ? WIRE_KIND_ROOT
                        : named         ? WIRE_KIND_NAMED
                        : label         ? WIRE_KIND_UNKNOWN
                                        : WIRE_KIND_PATH;
        context->exact_address = node->exact;
        context->module = node->module >= MODULE_OTHERS ? WIRE_NONE : node->module;
        context->address = named ? 0 : node->address;
        context->label = add_label(strings, id, label);
        context->why = add_reason(strings, id, rules_at);
        context->self = scan->totals[id];
        context->placement = (uint8_t)heap_placement(id);
        context->policy = policy_of(context);
        __builtin_memcpy(context->occupancy, scan->occupancy[id], sizeof context->occupancy);
        if (!(scan->flags & WIRE_DUMP_PINNED))
            context->self.pinned_bytes = context->self.sole_pinned_bytes = WIRE_UNKNOWN;
        if (!(scan->flags & WIRE_DUMP_RESIDENT))
            context->self.resident_bytes = WIRE_UNKNOWN;
    }
}

static void add_modules(struct answer *answer, struct answer *strings) {
    uint32_t count = rules_module_count();
    struct wire_module *out = add_section(answer, SECTION(modules), count, sizeof *out);
    for (uint32_t i = 0; out && i < count; i++, out++) {
        const struct module *module = rules_module(i);
        out->start = module->start;
        out->end = module->end;
        out->bias = module->bias;
        out->path = add_string(strings, module->path);
        out->build_id_bytes = module->build_id_bytes;
        __builtin_memcpy(out->build_id, module->build_id, sizeof out->build_id);
        out->closed = load_relaxed(&module->closed);
    }
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

static uint32_t shown_as(const struct heap *heap, uint32_t thread_count) {
    return heap->shown_as < thread_count ? heap->shown_as : 0;
}

/* Who freed whose chunks. Several heaps may be shown as one thread, which is then there more than once. */
static void add_remotes(struct answer *answer, uint32_t thread_count) {
    struct answer found = {0};
    uint32_t heaps = 0;
    struct heap *first = load_acquire(&heap_global.first);
    for (const struct heap *heap = first; heap; heap = heap->next)
        heaps = heap->number >= heaps ? heap->number + 1 : heaps;
    uint32_t *owners = control_map(heaps * sizeof *owners); /* by number */
    for (const struct heap *heap = first; owners && heap; heap = heap->next)
        owners[heap->number] = shown_as(heap, thread_count);
    for (struct heap *heap = first; owners && heap; heap = heap->next) {
        uint32_t count = load_acquire(&heap->freed_of_count);
        const uint64_t *freed_of = load_acquire(&heap->freed_of);
        for (uint32_t i = 0; i < count && i < heaps; i++) {
            uint64_t frees = load_relaxed(&freed_of[i]);
            struct wire_remote *out = frees ? answer_add(&found, sizeof *out) : NULL;
            if (out)
                *out =
                    (struct wire_remote){shown_as(heap, thread_count), owners[i], (int64_t)frees};
        }
    }
    void *room = add_section(answer, SECTION(remotes), found.length / sizeof(struct wire_remote),
                             sizeof(struct wire_remote));
    if (room && found.length)
        __builtin_memcpy(room, found.bytes, found.length);
    answer->failed |= found.failed | !owners;
    control_unmap(owners);
    answer_free(&found);
}

/* The views of each heap, one thread each. The shared heap and the exited threads are thread 0. */
static void add_views(struct answer *answer, const struct sums *sums) {
    struct answer views = {0}, threads = {0};
    struct wire_thread *exited = answer_add(&threads, sizeof *exited);
    if (exited)
        __builtin_memcpy(exited->name, "exited", 7);
    uint32_t thread_count = 1;
    lock_take(&heap_global.lock);
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t thread = 0;
        if (heap->tid) {
            struct wire_thread *out = answer_add(&threads, sizeof *out);
            if (!out)
                break;
            out->tid = heap->tid;
            read_thread_name(heap->tid, out->name);
            thread = thread_count++;
        }
        heap->shown_as = thread;
    }
    lock_release(&heap_global.lock);
    struct sums_place place = {0};
    const struct sums_view *view;
    while ((view = sums_next_view(sums, &place))) {
        if (!view->sum.allocs && !view->sum.frees)
            continue;
        struct wire_view *out = answer_add(&views, sizeof *out);
        if (!out)
            break;
        out->context = view->context;
        out->thread = shown_as(view->heap, thread_count);
        fill_view_totals(&out->totals, &view->sum);
        out->totals.block_bytes = out->totals.reserved_bytes = WIRE_UNKNOWN;
        out->totals.resident_bytes = out->totals.pinned_bytes = WIRE_UNKNOWN;
        out->totals.sole_pinned_bytes = out->totals.pages = WIRE_UNKNOWN;
    }
    void *room = add_section(answer, SECTION(threads), threads.length / sizeof(struct wire_thread),
                             sizeof(struct wire_thread));
    if (room)
        __builtin_memcpy(room, threads.bytes, threads.length);
    room = add_section(answer, SECTION(views), views.length / sizeof(struct wire_view),
                       sizeof(struct wire_view));
    if (room && views.length)
        __builtin_memcpy(room, views.bytes, views.length);
    answer->failed |= threads.failed | views.failed;
    add_remotes(answer, thread_count);
    answer_free(&threads);
    answer_free(&views);
}

static void add_marks(struct answer *answer, const struct wire_dump_request *request,
                      const struct sums *sums) {
    unsigned used = 0;
    const struct mark *wanted = NULL;
    for (unsigned i = 0; i < WIRE_MARKS_MAX; i++) {
        if (!marks[i].sums.rows)
            continue;
        used++;
        if (text_equal(marks[i].name, request->mark))
            wanted = &marks[i];
    }
    struct wire_mark *out = add_section(answer, SECTION(marks), used, sizeof *out);
    for (unsigned i = 0; out && i < WIRE_MARKS_MAX; i++) {
        if (!marks[i].sums.rows)
            continue;
        __builtin_memcpy(out->name, marks[i].name, sizeof out->name);
        out->uptime_ns = marks[i].uptime_ns;
        out++;
    }
    if (!wanted)
        return;
    struct wire_mark_entry *entry =
        add_section(answer, SECTION(mark_entries), wanted->sums.count, sizeof *entry);
    for (uint32_t id = 0; entry && id < wanted->sums.count; id++, entry++) {
        const struct sum *then = &wanted->sums.rows[id];
        const struct sum *now = &sums->rows[id]; /* a reset since then moves both the same way */
        entry->context = id;
        entry->requested_bytes = then->live_bytes;
        entry->live_chunks = then->allocs - then->frees;
        entry->allocs = then->allocs - now->base_allocs;
        entry->frees = then->frees - now->base_frees;
        entry->requested_cum_bytes = then->requested_cum_bytes - now->base_requested_cum_bytes;
    }
    ((struct wire_dump *)answer->bytes)->mark_found = 1;
}

static void add_notes(struct answer *answer) {
    struct answer texts = {0};
    unsigned place = 0;
    const char *note;
    while ((note = note_next(&place)))
        add_string(&texts, note);
    void *room = add_section(answer, SECTION(notes), texts.length, 1);
    if (room && texts.length)
        __builtin_memcpy(room, texts.bytes, texts.length);
    answer->failed |= texts.failed;
    answer_free(&texts);
}

static void fill_ledger(struct wire_ledger *ledger, uint32_t flags, bool resident) {
    struct segment_usage usage = segment_usage();
    struct meta_usage meta = meta_usage(resident);
    ledger->segments_mapped = usage.mapped_bytes;
    ledger->freelist_bytes = usage.freelist_bytes;
    ledger->freelist_items = usage.freelist_items;
    ledger->segment_headers = usage.header_bytes;
    ledger->returned_bytes = usage.returned_bytes;
    ledger->metadata_mapped = meta.mapped_bytes;
    ledger->metadata_used = meta.used_bytes;
    ledger->metadata_resident = resident ? meta.resident_bytes : WIRE_UNKNOWN;
    ledger->control_bytes = control_bytes(resident);
    ledger->rss_bytes = os_rss_bytes();
    if (!(flags & WIRE_DUMP_RESIDENT))
        ledger->segments_resident = WIRE_UNKNOWN;
}

static uint32_t fill(const struct wire_dump_request *request, struct answer *answer,
                     struct answer *strings, struct scan *scan, const struct sums *sums) {
    uint64_t started = os_now_exact_ns();
    char exe[1024];
    if (!answer_add(answer, sizeof(struct wire_dump)))
        return WIRE_NO_MEMORY;
    struct wire_ledger ledger = {0};
    scan->ledger = &ledger;
    segment_each(scan_segment, scan);
    for (uint32_t id = 0; id < scan->count; id++)
        fill_view_totals(&scan->totals[id], &sums->rows[id]);
    if (!sums->rows[TREE_ROOT].views) /* the whole process's: sums of peaks are none */
        scan->totals[TREE_ROOT].peak_requested_bytes = WIRE_UNKNOWN;
    fill_ledger(&ledger, request->flags, request->flags & WIRE_DUMP_RESIDENT);
    add_contexts(answer, strings, scan);
    add_modules(answer, strings);
    if (request->flags & WIRE_DUMP_THREADS)
        add_views(answer, sums);
    add_marks(answer, request, sums);
    add_notes(answer);
    uint32_t exe_at = WIRE_NONE;
    if (os_read_link("/proc/self/exe", exe, sizeof exe) > 0)
        exe_at = add_string(strings, exe);
    void *room = add_section(answer, SECTION(strings), strings->length, 1);
    if (!room || answer->failed || strings->failed)
        return WIRE_NO_MEMORY;
    __builtin_memcpy(room, strings->bytes, strings->length);
    struct wire_dump *dump = (void *)answer->bytes;
    dump->uptime_ns = control_uptime_ns();
    dump->pid = os_process_id();
    dump->depth = (uint32_t)load_relaxed(&options.depth);
    dump->exact = !load_relaxed(&heap_global.lost_views);
    dump->flags = request->flags;
    dump->exe = exe_at;
    dump->ledger = ledger;
    dump->build_ns = os_now_exact_ns() - started;
    return WIRE_OK;
}

uint32_t dump_build(const struct wire_dump_request *request, struct answer *answer) {
    static struct scan
        scan; /* control thread only; 1 KiB of page flags is too much for its stack */
    struct answer strings = {0};
    struct sums sums = {0};
    uint32_t status = WIRE_NO_MEMORY;
    if (sums_collect(&sums, request->flags & WIRE_DUMP_THREADS)) {
        scan.flags = request->flags;
        scan.count = sums.count;
        scan.resident_known = false;
        scan.totals = control_map(scan.count * sizeof *scan.totals);
        scan.occupancy = control_map(scan.count * sizeof *scan.occupancy);
        if (scan.totals && scan.occupancy)
            status = fill(request, answer, &strings, &scan, &sums);
        control_unmap(scan.totals);
        control_unmap(scan.occupancy);
    }
    sums_free(&sums);
    answer_free(&strings);
    return status;
}
