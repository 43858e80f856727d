/* SPDX-License-Identifier: MIT */
/*
 * snapshot_round.c - makes a model of random figures, writes it as a snapshot, reads the snapshot
 * and compares each field.
 *
 * snapshot_round SHAPE CONTEXTS SEED FILE [json]. SHAPE is "program" (a deep tree of a program with
 * 4 000 call sites, with counts and sizes as skewed as real ones), "extreme" (fields have the ends
 * of their ranges), or "uniform" (all contexts are equal, which packs best). Prints sizes and times
 * as JSON. With "json" it writes the JSON form and does not read it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "formats/emit.h"
#include "model/model.h"
#include "snapshot/snapshot.h"

#define SITES 4000
#define MODULES 12
#define NAMES_MAX 4

static uint64_t state;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double draw_share(void) {
    return (double)(draw() >> 11) / (double)(1ULL << 53);
}

/* Returns a random number below `count`; low numbers are far more frequent. */
static uint32_t draw_skewed(uint32_t count) {
    return (uint32_t)(pow((double)count, draw_share()) - 1);
}

static double seconds(void) {
    struct timespec now;
    /* processor time does not depend on the load of the machine */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* --- the model --------------------------------------------------------------------- */

static struct model_names *make_names(uint32_t site) {
    struct model_names *names = cli_alloc(1, sizeof *names);
    names->count = 1 + (site % 3 == 0) * (site % NAMES_MAX);
    names->functions = cli_alloc(names->count, sizeof *names->functions);
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t function = i > 0 ? site / 7 : site / 2;
        names->functions[i].name =
            site % 17 == 5 ? NULL
                           : cli_format("some_module::function_%u(int, char const*)", function);
        names->functions[i].file =
            site % 5 == 1 ? NULL : cli_format("/build/source/part%u.cc", site / 20);
        names->functions[i].line = names->functions[i].file != NULL ? 10 + site % 900 : 0;
    }
    return names;
}

static void make_modules(struct model *model) {
    model->module_count = MODULES;
    model->modules = cli_alloc(MODULES, sizeof *model->modules);
    for (uint32_t i = 0; i < MODULES; i++) {
        struct model_module *module = &model->modules[i];
        module->path = cli_format("/usr/lib/x86_64-linux-gnu/libsome%u.so.%u", i, i % 3);
        module->start = module->bias = 0x7f0000000000 + ((uint64_t)i << 24);
        module->end = module->start + (1 << 23);
        module->build_id_bytes = i == 3 ? 0 : 20;
        for (uint32_t k = 0; k < module->build_id_bytes; k++) {
            module->build_id[k] = (uint8_t)draw();
        }
        module->closed = i == 4;
        module->symbols = i == 5 ? NULL : cli_copy("dwarf");
    }
}

static void make_totals(struct model_totals *totals, uint32_t site) {
    int64_t size = 16 + (site * 37 % 400) + (site % 11 == 0) * (int64_t)draw_skewed(100000);
    int64_t allocs = 1 + draw_skewed(20000);
    int64_t live = site % 3 == 0 ? allocs : (int64_t)((double)allocs * draw_share() * draw_share());
    totals->allocs = allocs;
    totals->frees = allocs - live;
    totals->live_chunks = live;
    totals->requested_bytes = live * size - (int64_t)(draw() % 8) * (live > 0);
    totals->requested_cum_bytes = totals->requested_bytes + (allocs - live) * size;
    totals->block_bytes = live * ((size + 15) / 16 * 16);
    totals->pages = totals->block_bytes > 2048 ? 1 + totals->block_bytes / 16384 : 0;
    totals->reserved_bytes = totals->pages > 0 ? totals->pages * 16384 : totals->block_bytes;
    totals->resident_bytes =
        totals->pages > 0 ? totals->reserved_bytes / 4096 * 4096 : WIRE_UNKNOWN;
    totals->pinned_bytes =
        totals->pages > 0 ? totals->reserved_bytes - totals->block_bytes : (int64_t)(draw() % 64);
    totals->sole_pinned_bytes = totals->pages > 0 && draw() % 2 ? 4096 : 0;
    totals->peak_requested_bytes =
        draw() % 4 == 0 ? WIRE_UNKNOWN : totals->requested_bytes + (int64_t)draw_skewed(5) * size;
}

/* Returns a number at or near the end of a range. */
static uint64_t draw_extreme(void) {
    static const uint64_t ends[] = {0,
                                    1,
                                    127,
                                    128,
                                    0x3fff,
                                    0x4000,
                                    UINT32_MAX,
                                    1ULL << 62,
                                    INT64_MAX,
                                    1ULL << 63,
                                    (1ULL << 63) + 1,
                                    UINT64_MAX,
                                    UINT64_MAX - 1};
    return draw() % 3 == 0 ? draw() : ends[draw() % (sizeof ends / sizeof *ends)];
}

static int64_t draw_figure(void) {
    return (int64_t)draw_extreme();
}

static void make_extreme(struct model *model, struct model_context *context,
                         struct model_frame *frame, struct model_figures *figures) {
#define X(name) figures->self.name = draw_figure();
    MODEL_TOTALS(X)
#undef X
    context->policy = (uint8_t)draw_extreme();
    context->placement = (uint8_t)draw_extreme();
    frame->exact_address = draw() % 2;
    context->flags = draw() % (MODEL_FLAGS + 1);
    for (int i = 0; i < WIRE_OCCUPANCY_BINS; i++) {
        figures->occupancy[i] = (uint32_t)draw_extreme();
    }
    if (frame->kind == WIRE_KIND_PATH) {
        frame->address = draw_extreme();
        frame->module = draw() % 2 ? WIRE_NONE : (uint32_t)(draw() % model->module_count);
    }
}

/* The frame of a context: a call path at site `site`, or sometimes a label. `i`: the context. */
static struct model_frame make_frame(const struct model *model, size_t i, uint32_t site,
                                     struct model_names *names, bool extreme) {
    if (site % 1000 == 1 || (extreme && i % 5 == 1)) {
        return (struct model_frame){.kind = extreme && i % 2 ? WIRE_KIND_NAMED : WIRE_KIND_UNKNOWN,
                                    .label =
                                        extreme && i % 3 ? "\xc3\xa4 \xff name" : "[truncated]",
                                    .module = WIRE_NONE};
    }
    return (struct model_frame){.kind = WIRE_KIND_PATH,
                                .module = site % MODULES,
                                .address = model->modules[site % MODULES].bias + 4096 +
                                           (uint64_t)site * 83,
                                .names = names};
}

static void make_contexts(struct model *model, size_t count, const char *shape) {
    struct model_names *names[SITES];
    bool program = strcmp(shape, "program") == 0, extreme = strcmp(shape, "extreme") == 0,
         uniform = !program && !extreme;
    uint32_t *sites = cli_alloc(count, sizeof *sites), id = 0, at = 0, steps = 0;
    for (uint32_t i = 0; i < SITES; i++) {
        names[i] = make_names(i);
    }
    model->context_count = count;
    model->contexts = cli_alloc(count, sizeof *model->contexts);
    model->contexts[0] = (struct model_context){
        .frame = model_new_frame(model, &(struct model_frame){.module = WIRE_NONE}),
        .figures = model_figures_at(model, 0),
        .parent = WIRE_NONE,
        .recursive_from = WIRE_NONE};
    model_own_figures(model, &model->contexts[0])->self.peak_requested_bytes = 123456789;
    for (size_t i = 1; i < count; i++) {
        struct model_context *context = &model->contexts[i];
        /* A new path branches off at some node, mostly a young one, and goes on with new frames. */
        uint32_t above = steps == 0 ? (uint32_t)i - 1 - draw_skewed((uint32_t)i) : at;
        above = model->contexts[above].level > 60 || extreme ? (uint32_t)(i - 1) / 2 : above;
        if (uniform) {
            above = model->contexts[i - 1].level < 1000 ? (uint32_t)i - 1 : 0;
        }
        steps = steps == 0 ? (uint32_t)(draw() % 6) : steps - 1;
        at = (uint32_t)i;
        id += program && draw() % 50 == 0 ? 1 + draw_skewed(100) : 1;
        context->recursive_from = WIRE_NONE;
        context->id = extreme && i % 7 == 3 ? 4000000000U - (uint32_t)i : id;
        context->parent = model->contexts[above].id;
        context->level = model->contexts[above].level + 1;
        /* A function calls up to twelve others, one of them most often. */
        uint32_t site = uniform ? 7 : (sites[above] * 31 + draw_skewed(12) * 197 + 7) % SITES;
        sites[i] = site;
        struct model_figures figures = {.number = 0};
        struct model_frame frame = make_frame(model, i, site, names[site], extreme);
        context->policy = 1 + site % 2;
        if (site % 500 == 2) {
            context->why = cli_format("rule function_%u=slab", site);
            context->placement = WIRE_PLACE_SLAB;
        }
        if (extreme) {
            make_extreme(model, context, &frame, &figures);
        } else if (program && (steps == 0 || draw() % 8 == 0)) {
            make_totals(&figures.self, site);
            figures.occupancy[draw() % WIRE_OCCUPANCY_BINS] = (uint32_t)figures.self.pages;
        }
        context->frame = model_find_frame(model, &frame);
        model_set_figures(model, context, &figures);
    }
    for (size_t i = 0; extreme && i < count; i++) {
        uint64_t from = draw() % (2 * count);
        model->contexts[i].recursive_from = from < count ? model->contexts[from].id : WIRE_NONE;
    }
    free(sites);
}

static void make_threads(struct model *model, bool extreme) {
    model->has_threads = true;
    model->thread_count = 6;
    model->threads = cli_alloc(6, sizeof *model->threads);
    for (uint32_t i = 0; i < 6; i++) {
        model->threads[i].tid = i * 1000;
        snprintf(model->threads[i].name, sizeof model->threads[i].name, "worker-%u-of-six", i);
    }
    model->views = cli_alloc(model->context_count * 2, sizeof *model->views);
    for (size_t i = 0; i < model->context_count; i++) {
        struct model_context *context = &model->contexts[i];
        struct model_figures *own = model_own_figures(model, context);
        own->first_view = (uint32_t)model->view_count;
        own->view_count = (uint32_t)(draw() % 3);
        for (uint32_t k = 0; k < own->view_count; k++) {
            struct model_view *view = &model->views[model->view_count++];
            *view = (struct model_view){(uint32_t)i, (uint32_t)(draw() % 6), own->self};
#define X(name) view->totals.name = extreme ? draw_figure() : view->totals.name / 2;
            MODEL_TOTALS(X)
#undef X
            view->totals.reserved_bytes = view->totals.pages = WIRE_UNKNOWN;
        }
    }
    model->remote_count = 3;
    model->remotes = cli_alloc(3, sizeof *model->remotes);
    model->remotes[0] = (struct model_remote){1, 2, 3};
    model->remotes[1] = (struct model_remote){5, 0, INT64_MAX};
    model->remotes[2] = (struct model_remote){0, 0, WIRE_UNKNOWN};
}

static void make_resizes(struct model *model, bool extreme) {
    model->lost_reallocs = 12345;
    model->resizes = cli_alloc(model->context_count, sizeof *model->resizes);
    for (uint32_t i = 1; i < model->context_count; i += 1 + (uint32_t)(draw() % 5)) {
        struct wire_resizes *resizes = &model->resizes[model->resize_count++];
        resizes->context = i;
#define X(name) resizes->name = extreme ? draw_figure() : (int64_t)(draw() % 1000000);
        MODEL_RESIZES(X)
#undef X
        model_own_figures(model, &model->contexts[i]);
    }
}

static void make_marks(struct model *model) {
    model->mark_count = 3;
    model->marks = cli_alloc(3, sizeof *model->marks);
    for (uint32_t i = 0; i < 3; i++) {
        struct model_mark *mark = &model->marks[i];
        snprintf(mark->name, sizeof mark->name, "mark %u", i);
        mark->uptime_s = i * 1.5;
        mark->slept_s = i * 2.25;
        mark->rss_bytes = i == 1 ? WIRE_UNKNOWN : (int64_t)i * 40960 + 1;
        mark->elsewhere = i == 0 ? (struct wire_elsewhere){.private_bytes = WIRE_UNKNOWN}
                                 : (struct wire_elsewhere){i * 4096, 0, INT64_C(1) << 58, 7, i - 1};
        mark->has_entries = i != 1;
        if (i == 2) {
            mark->left_out =
                (struct wire_left_out){17, 4711, 99, INT64_MAX, 3, WIRE_UNKNOWN, 0, -1};
        }
        mark->entries = cli_alloc(model->context_count, sizeof *mark->entries);
        for (size_t k = i; mark->has_entries && k < model->context_count; k += 3) {
            const struct model_totals *self = &model->contexts[k].figures->self;
            mark->entries[mark->entry_count++] = (struct wire_mark_entry){
                (uint32_t)k, 0, self->requested_bytes, draw_figure(), self->allocs, 0, draw() % 9};
        }
    }
    model->note_count = 2;
    model->notes = cli_alloc(2, sizeof *model->notes);
    model->notes[0] = cli_copy("trim at=1.000 contexts=3");
    model->notes[1] = cli_copy("");
}

static void make_pages(struct model *model, size_t count) {
    model->has_pages = true;
    model->page_count = count;
    model->pages = cli_alloc(count, sizeof *model->pages);
    model->shares = cli_alloc(count * 3, sizeof *model->shares);
    for (size_t i = 0; i < count; i++) {
        struct wire_page *page = &model->pages[i];
        for (size_t k = 0; k < sizeof *page; k++) {
            ((uint8_t *)page)[k] = (uint8_t)draw_extreme();
        }
        /* A snapshot does not have these fields: they serve to add up pages. */
        page->untouched_bytes = 0;
        page->pages = 0;
        page->guard_bytes = page->further = 0;
        page->context = i % 3 == 0 ? WIRE_NONE : (uint32_t)(draw() % model->context_count);
        page->first_share = (uint32_t)model->share_count;
        page->share_count = i % 3 == 0 ? (uint32_t)(draw() % 4) : 0;
        for (uint32_t k = 0; k < page->share_count; k++) {
            model->shares[model->share_count++] = (struct model_share){
                (uint32_t)(draw() % model->context_count), (uint32_t)draw_extreme()};
        }
        model_tame_page(page);
    }
}

static void make_model(struct model *model, const char *shape, size_t count) {
    struct cli_failure failure;
    bool extreme = strcmp(shape, "extreme") == 0;
    model_begin(model, "made up");
    model->exe = cli_copy("/usr/bin/made-up");
    model->library_version = extreme ? NULL : cli_copy("0.1.0");
    model->pid = 4711;
    model->start_ticks = extreme ? UINT64_MAX : 4242;
    model->uptime_s = 12.345678901234;
    model->slept_s = 3600.25;
    model->resets = extreme ? UINT32_MAX : 3;
    model->build_ns = extreme ? WIRE_UNKNOWN : 99;
    model->depth = 32;
    model->exact = model->has_names = model->has_mappings = true;
#define X(name) model->ledger.name = draw_figure();
    MODEL_LEDGER(X)
#undef X
#define X(name) model->mappings.name = draw_figure();
    MODEL_MAPPINGS(X)
#undef X
    make_modules(model);
    make_contexts(model, count, shape);
    if (!model_link(model, &failure)) {
        cli_die_failure(&failure);
    }
    if (extreme)
        make_resizes(model, extreme);
    model_add_up(model);
    if (extreme) {
        make_threads(model, extreme);
        make_marks(model);
        make_pages(model, 500);
    }
}

/* --- the comparison ---------------------------------------------------------------------- */

static _Noreturn void differ(const char *what, size_t i) {
    cli_die(CLI_REFUSED, "%s %zu came back otherwise", what, i);
}

static bool same_text(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_names(const struct model_names *a, const struct model_names *b) {
    if (a == NULL || b == NULL || a->count != b->count) {
        return a == b;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct model_function *left = &a->functions[i], *right = &b->functions[i];
        if (!same_text(left->name, right->name) || !same_text(left->file, right->file) ||
            left->line != right->line) {
            return false;
        }
    }
    return true;
}

static bool same_frame(const struct model_frame *a, const struct model_frame *b) {
    return a->address == b->address && a->module == b->module && a->kind == b->kind &&
           a->exact_address == b->exact_address && same_text(a->label, b->label) &&
           same_names(a->names, b->names);
}

static bool same_figures(const struct model_figures *a, const struct model_figures *b) {
    return memcmp(&a->self, &b->self, sizeof a->self) == 0 &&
           memcmp(a->occupancy, b->occupancy, sizeof a->occupancy) == 0 &&
           a->view_count == b->view_count && (a->view_count == 0 || a->first_view == b->first_view);
}

static void compare_contexts(const struct model *a, const struct model *b) {
    if (a->context_count != b->context_count || a->view_count != b->view_count) {
        differ("number of contexts or views", b->context_count);
    }
    for (size_t i = 0; i < a->context_count; i++) {
        struct model_context left = a->contexts[i], right = b->contexts[i];
        if (!same_text(left.why, right.why) || !same_frame(left.frame, right.frame)) {
            differ("text of context", i);
        }
        if (!same_figures(left.figures, right.figures) ||
            memcmp(left.total, right.total, sizeof *left.total) != 0) {
            differ("figures of context", i);
        }
        left.why = right.why = NULL;
        left.frame = right.frame = NULL;
        left.figures = right.figures = NULL;
        left.total = right.total = NULL;
        if (memcmp(&left, &right, sizeof left) != 0) {
            differ("context", i);
        }
    }
    if (a->view_count > 0 && memcmp(a->views, b->views, a->view_count * sizeof *a->views) != 0) {
        differ("views", 0);
    }
}

static void compare_rest(const struct model *a, const struct model *b) {
    if (a->module_count != b->module_count || a->thread_count != b->thread_count ||
        a->remote_count != b->remote_count || a->mark_count != b->mark_count ||
        a->page_count != b->page_count || a->share_count != b->share_count ||
        a->note_count != b->note_count) {
        differ("numbers of things", 0);
    }
    for (size_t i = 0; i < a->module_count; i++) {
        struct model_module left = a->modules[i], right = b->modules[i];
        if (!same_text(left.path, right.path) || !same_text(left.symbols, right.symbols)) {
            differ("text of module", i);
        }
        left.path = left.symbols = right.path = right.symbols = NULL;
        if (memcmp(&left, &right, sizeof left) != 0) {
            differ("module", i);
        }
    }
    for (size_t i = 0; i < a->mark_count; i++) {
        const struct model_mark *left = &a->marks[i], *right = &b->marks[i];
        if (strcmp(left->name, right->name) != 0 || left->uptime_s != right->uptime_s ||
            left->slept_s != right->slept_s || left->rss_bytes != right->rss_bytes ||
            left->has_entries != right->has_entries || left->entry_count != right->entry_count ||
            memcmp(&left->elsewhere, &right->elsewhere, sizeof left->elsewhere) != 0 ||
            memcmp(&left->left_out, &right->left_out, sizeof left->left_out) != 0 ||
            memcmp(left->entries, right->entries, left->entry_count * sizeof *left->entries) != 0) {
            differ("mark", i);
        }
    }
    for (size_t i = 0; i < a->thread_count; i++) {
        if (a->threads[i].tid != b->threads[i].tid ||
            strcmp(a->threads[i].name, b->threads[i].name) != 0) {
            differ("thread", i);
        }
    }
    for (size_t i = 0; i < a->note_count; i++) {
        if (strcmp(a->notes[i], b->notes[i]) != 0) {
            differ("note", i);
        }
    }
    if ((a->remote_count > 0 &&
         memcmp(a->remotes, b->remotes, a->remote_count * sizeof *a->remotes) != 0) ||
        (a->page_count > 0 && memcmp(a->pages, b->pages, a->page_count * sizeof *a->pages) != 0) ||
        (a->share_count > 0 &&
         memcmp(a->shares, b->shares, a->share_count * sizeof *a->shares) != 0)) {
        differ("remote frees, pages or shares", 0);
    }
    if (a->resize_count != b->resize_count || a->lost_reallocs != b->lost_reallocs ||
        (a->resize_count > 0 &&
         memcmp(a->resizes, b->resizes, a->resize_count * sizeof *a->resizes) != 0)) {
        differ("reallocs", 0);
    }
}

static void compare_process(const struct model *a, const struct model *b) {
    if (a->pid != b->pid || a->start_ticks != b->start_ticks || !same_text(a->exe, b->exe) ||
        !same_text(a->library_version, b->library_version) || a->uptime_s != b->uptime_s ||
        a->slept_s != b->slept_s || a->resets != b->resets || a->build_ns != b->build_ns ||
        a->depth != b->depth || a->exact != b->exact || a->has_names != b->has_names ||
        a->has_threads != b->has_threads || a->has_pages != b->has_pages ||
        a->has_mappings != b->has_mappings ||
        memcmp(&a->ledger, &b->ledger, sizeof a->ledger) != 0 ||
        memcmp(&a->mappings, &b->mappings, sizeof a->mappings) != 0 ||
        memcmp(&a->totals, &b->totals, sizeof a->totals) != 0) {
        differ("process", 0);
    }
}

int main(int argc, char **argv) {
    struct model model = {0}, back = {0};
    struct cli_failure failure;
    struct stat status;
    if (argc < 5) {
        cli_die(CLI_USAGE, "usage: snapshot_round SHAPE CONTEXTS SEED FILE [json]");
    }
    state = strtoull(argv[3], NULL, 10) * 2 + 1;
    make_model(&model, argv[1], strtoull(argv[2], NULL, 10));
    long before_kib = peak_kib();
    FILE *file = fopen(argv[4], "we");
    if (file == NULL) {
        cli_die(CLI_REFUSED, "%s: cannot be written", argv[4]);
    }
    struct model_write_options options = {
        .threads = model.has_threads, .names = true, .snapshot = true};
    double start = seconds();
    if (argc > 5) {
        emit_json(&model, file, &options);
    } else {
        snapshot_write(&model, file, &options);
    }
    if (fclose(file) != 0 || stat(argv[4], &status) != 0) {
        cli_die(CLI_REFUSED, "%s: could not be written", argv[4]);
    }
    double written = seconds();
    long written_kib = peak_kib();
    if (argc <= 5) {
        if (!snapshot_load(&back, argv[4], NULL, &failure)) {
            cli_die_failure(&failure);
        }
    }
    double read = seconds();
    if (argc <= 5) {
        compare_process(&model, &back);
        compare_contexts(&model, &back);
        compare_rest(&model, &back);
    }
    printf("{\"contexts\":%zu,\"bytes\":%lld,\"write_s\":%.3f,\"read_s\":%.3f,\"model_kib\":%ld,"
           "\"write_kib\":%ld}\n",
           model.context_count, (long long)status.st_size, written - start, read - written,
           before_kib, written_kib - before_kib);
    return 0;
}
