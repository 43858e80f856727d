/* SPDX-License-Identifier: MIT */
/* frag.c - `memctx frag`: shows memory that is held but was not asked for, in all and by
 * context. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "diagnosis/pinners.h"
#include "formats/emit.h"
#include "formats/render.h"
#include "formats/wrap.h"
#include "model/frames.h"
#include "model/memory.h"
#include "model/selector.h"
#include "model/view.h"
#include "model/who.h"
#include "pages/pagemap.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

enum {
    OPTION_SORT = 1,
    OPTION_MIN,
    OPTION_SITE,
    OPTION_LIMIT,
    OPTION_DEPTH,
    OPTION_MAP,
    OPTION_QUICK,
    OPTION_CONTEXT,
    OPTION_PAGES
};

#define MAP_ROWS 32

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             {"sort", required_argument, NULL, OPTION_SORT},
                                             {"min", required_argument, NULL, OPTION_MIN},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             {"context", required_argument, NULL, OPTION_CONTEXT},
                                             {"limit", required_argument, NULL, OPTION_LIMIT},
                                             {"depth", required_argument, NULL, OPTION_DEPTH},
                                             {"map", no_argument, NULL, OPTION_MAP},
                                             {"quick", no_argument, NULL, OPTION_QUICK},
                                             {"pages", no_argument, NULL, OPTION_PAGES},
                                             READING_NAME_OPTIONS,
                                             READING_PAGER_OPTION,
                                             CLI_COMMON_OPTIONS};

static const char *const bin_names[WIRE_OCCUPANCY_BINS] = {"<=6",  "<=12", "<=25", "<=50",
                                                           "<=75", "<100", "100"};

struct frag_request {
    struct view_options view;
    struct reading_names names;
    int64_t limit;
    int64_t frames;    /* frames of each path in the table (--pages) */
    int64_t functions; /* functions of each path outside of that table */
    bool sorted;       /* --sort is given */
    bool json, human, map, quick, pages, no_pager;
};

static struct frag_request parse(int argc, char **argv) {
    struct frag_request request = {.view = {.sort = VIEW_SORT_WASTE, .min_bytes = -1, .levels = -1},
                                   .limit = 20,
                                   .frames = 6,
                                   .functions = WHO_FUNCTIONS,
                                   .human = reading_wants_human()};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case READING_JSON: request.json = true; break;
        case READING_NO_PAGER: request.no_pager = true; break;
        case READING_HUMAN:
        case READING_BYTES: request.human = option == READING_HUMAN; break;
        case OPTION_SORT:
            request.view.sort = view_parse_sort("--sort", optarg);
            request.sorted = true;
            break;
        case OPTION_MIN: request.view.min_bytes = cli_parse_bytes("--min", optarg); break;
        case OPTION_SITE: request.view.site = optarg; break;
        case OPTION_CONTEXT: request.view.contexts = optarg; break;
        case OPTION_MAP: request.map = true; break;
        case OPTION_QUICK: request.quick = true; break;
        case OPTION_PAGES: request.pages = true; break;
        case OPTION_LIMIT: request.limit = cli_parse_number("--limit", optarg, 0, INT32_MAX); break;
        case OPTION_DEPTH:
            request.frames = cli_parse_number("--depth", optarg, 1, MODEL_LEVELS_MAX);
            request.functions = request.frames;
            break;
        default: reading_take(&request.names, option); break;
        }
    }
    if (request.map && request.quick)
        cli_usage("--map draws single pages, which --quick leaves out; give one of them");
    if (request.view.contexts)
        selector_check(request.view.contexts);
    return request;
}

static double share(int64_t bytes, int64_t whole) {
    return whole > 0 ? (double)bytes / (double)whole : 0;
}

#define PAGES_FREE "pages_free_bytes" /* key of a line that only recordings have */

/* The first lines of the text output. Each is the sum of the ledger's lines with these keys
 * (model/memory.c). A recording does not have all of the ledger's lines. */
static const struct group {
    const char *name;
    const char *keys[7];
} groups[] = {
    {"requested by the program", {"requested_bytes"}},
    {"rounding up to block sizes", {"rounding_bytes"}},
    {"free in pages that are in use", {"holes_bytes", "mixed_free_bytes"}},
    {"rounding, and free in pages that are in use", {PAGES_FREE}},
    {"empty memory that memctx keeps for reuse", {"kept_bytes", "freelist_bytes"}},
    {"memctx itself, with its page headers",
     {"segment_headers_bytes", "metadata_bytes", "control_bytes"}},
    {"files, stacks, mappings: not from malloc",
     {"files_bytes", "stacks_bytes", "brk_heap_bytes", "runtime_code_bytes", "shared_bytes",
      "own_mappings_bytes"}},
};

/* Returns NULL if the ledger has no line with this key. */
static const struct memory_line *find_line(const struct memory_ledger *ledger, const char *key) {
    for (size_t i = 0; i < ledger->count; i++)
        if (strcmp(ledger->lines[i].key, key) == 0)
            return &ledger->lines[i];
    return NULL;
}

static int64_t ledger_line(const struct memory_ledger *ledger, const char *key) {
    const struct memory_line *line = find_line(ledger, key);
    return line ? line->bytes : 0;
}

static void print_share(int64_t bytes, int64_t whole, bool human, const char *name) {
    char text[RENDER_NUMBER_BYTES];
    double percent = 100 * share(bytes, whole);
    if (percent < 0 && percent > -0.05)
        percent = 0; /* not "-0.0" */
    printf("%14s %6.1f %%  ", render_bytes(text, bytes, human), percent);
    wrap_print(name, 25, 25);
}

/* Prints the last line, the sum of two lines of the ledger. not_resident_bytes is negative if the
 * lines above count memory that is not resident, and positive if more is resident than is in use.
 * residue_bytes is the part of the resident set that no line explains. If it is more than 1 % of
 * the resident set, the printed line also says why. */
static void print_rest(const struct model *model, const struct memory_ledger *ledger,
                       const struct frag_request *request) {
    int64_t away = ledger_line(ledger, "not_resident_bytes");
    int64_t residue = ledger_line(ledger, "residue_bytes");
    int64_t size = residue < 0 ? -residue : residue;
    int64_t moved = model_tame(model->mappings.rss_bytes) - ledger->rss_bytes;
    char first[RENDER_NUMBER_BYTES], second[RENDER_NUMBER_BYTES];
    /* If more is resident than is in use, huge pages may be the reason. There may be another one:
     * gcore also writes memory that was never touched into its core file, and a process that runs
     * goes on taking memory while it is read. */
    bool huge = model->has_mappings && model_tame(model->mappings.huge_bytes) >= away;
    const char *what = away <= 0 ? "counted above, but not resident (not touched, swapped)"
                       : huge    ? "resident in huge pages, but not in use"
                                 : "resident, but not in use";
    const char *why = request->quick ? "--quick does not look at it"
                      : model->has_mappings && (moved < 0 ? -moved : moved) > size / 2
                          ? "the resident set changed while it was read"
                      : residue < 0 ? "the lines above count this much more than is resident"
                      : model->has_mappings
                          ? "resident, but no line above explains it"
                          : "memory outside memctx; the kernel's map could not be read";
    char *name;
    if (size <= ledger->rss_bytes / 100) {
        name = cli_copy(what);
    } else if (away == 0) {
        name = cli_format("the rest: %s", why);
    } else {
        render_bytes(first, away, request->human);
        render_bytes(second, residue, request->human);
        name = cli_format("%s, %s; the rest, %s: %s", what, first, second, why);
    }
    print_share(away + residue, ledger->rss_bytes, request->human, name);
    free(name);
}

/* Prints the last line of a recording's ledger. */
static void print_rest_of_recording(const struct memory_ledger *ledger, bool human) {
    int64_t residue = ledger_line(ledger, "residue_bytes");
    print_share(residue, ledger->rss_bytes, human,
                residue < 0 ? "counted above, but not resident (not touched, given back, swapped)"
                : find_line(ledger, PAGES_FREE)
                    ? "not recorded: files, stacks, mappings, less memory not touched"
                : find_line(ledger, "holes_bytes")
                    ? "not recorded: files, stacks, mappings"
                    : "not recorded: free in pages, files, stacks, mappings");
}

/* Returns true for a moment of a recording, which has no single pages, and for a snapshot that was
 * made from a recording. */
static bool is_recorded(const struct model *model) {
    return model->recording || model_has_sums_only(model);
}

/* Returns the text that says what a recorded moment lacks. The caller frees it. */
static char *tell_recorded(const struct model *model) {
    const struct model_recording *recording = model->recording;
    if (!model_has_sums_only(model))
        return cli_copy("a recorded moment: figures of pages are sums for each call path; single "
                        "pages, ages and what would help are not recorded");
    if (!recording || recording->paged_before < 0)
        return cli_copy("a recorded moment: which call paths keep free memory is not in the file; "
                        "ask the process while it runs, or let memctx watch keep snapshots");
    const struct model_moment *last = &recording->moments[recording->moment_count - 1];
    const struct model_moment *paged = &recording->moments[recording->paged_before];
    double age_s = last->uptime_s + last->slept_s - paged->uptime_s - paged->slept_s;
    return cli_format("a recorded moment without figures of pages, which would take too much time "
                      "at each moment; memctx frag %s@-%" PRId64 "ms shows the last moment that "
                      "has them",
                      model->source, (int64_t)(age_s * 1000));
}

/* Prints the resident set, and lines that add up to it exactly. */
static void print_ledger(const struct model *model, const struct memory_ledger *ledger,
                         const struct frag_request *request) {
    printf("%s (pid %" PRId64 "), up %.3f s\n", model_program(model), model->pid, model->uptime_s);
    if (model->how)
        wrap_print(model->how, 0, 0);
    if (is_recorded(model)) {
        char *text = tell_recorded(model);
        wrap_print(text, 0, 0);
        free(text);
    }
    print_share(ledger->rss_bytes, ledger->rss_bytes, request->human,
                "resident set, as the kernel counts it");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        int64_t sum = 0;
        bool known = false;
        for (size_t k = 0; groups[i].keys[k]; k++) {
            sum += ledger_line(ledger, groups[i].keys[k]);
            known |= find_line(ledger, groups[i].keys[k]) != NULL;
        }
        if (known || (!is_recorded(model) && strcmp(groups[i].keys[0], PAGES_FREE) != 0))
            print_share(sum, ledger->rss_bytes, request->human, groups[i].name);
    }
    if (is_recorded(model))
        print_rest_of_recording(ledger, request->human);
    else
        print_rest(model, ledger, request);
    putchar('\n');
}

/* Prints a line with the figures of a context, and below it the functions of its path. */
static void print_holding(const struct model *model, const struct model_context *context,
                          const struct frag_request *request) {
    const struct model_totals *self = &context->figures->self;
    int64_t columns[] = {self->reserved_bytes, self->requested_bytes,
                         model_subtract(self->reserved_bytes, self->block_bytes),
                         model_subtract(self->block_bytes, self->requested_bytes)};
    char text[RENDER_NUMBER_BYTES];
    if (model_has_sums_only(model))
        printf("%14s%14" PRId64, render_bytes(text, self->requested_bytes, request->human),
               self->live_chunks);
    else
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
            printf("%14s", render_bytes(text, columns[i], request->human));
    printf("  %" PRIu32 "\n    ", context->id);
    struct who_part part = who_frames(model, (uint32_t)(context - model->contexts), UINT32_MAX);
    char *path = who_write(model, &part, request->functions);
    wrap_print(path, 4, 4);
    free(path);
}

static void print_context(const struct model *model, const struct model_context *context,
                          const struct frag_request *request) {
    const struct model_totals *self = &context->figures->self;
    int64_t columns[] = {self->requested_bytes,
                         model_subtract(self->block_bytes, self->requested_bytes),
                         model_subtract(self->reserved_bytes, self->block_bytes),
                         self->reserved_bytes,
                         self->resident_bytes,
                         self->pinned_bytes,
                         self->sole_pinned_bytes};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char text[RENDER_NUMBER_BYTES];
        printf("%12s ", render_bytes(text, columns[i], request->human));
    }
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        printf("%5u", context->figures->occupancy[bin]);
    char *path = frames_write_path(model, (uint32_t)(context - model->contexts), request->frames);
    printf("  %s (context %" PRIu32 ")\n", path, context->id);
    free(path);
}

static void print_table_head(void) {
    printf("%12s %12s %12s %12s %12s %12s %12s ", "requested", "rounding", "holes", "reserved",
           "resident", "pinned", "sole-pinned");
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        printf("%5s", bin_names[bin]);
    printf("  context (<=6 to 100: its own pages by percentage of live blocks)\n");
}

/* Prints the contexts that the view chooses, the largest first. */
static void print_contexts(const struct model *model, const struct view *view,
                           const struct frag_request *request) {
    size_t count, printed = 0;
    uint32_t *leaves = view_sort_leaves(view, model, &count);
    for (; printed < count && (request->limit == 0 || printed < (size_t)request->limit);
         printed++) {
        const struct model_context *context = &model->contexts[leaves[printed]];
        if (view_key(&context->figures->self, view->sort) <
            (request->view.min_bytes >= 0 ? request->view.min_bytes : 1))
            break;
        if (request->pages)
            print_context(model, context, request);
        else
            print_holding(model, context, request);
    }
    if (printed < count) {
        int64_t rest = 0;
        for (size_t i = printed; i < count; i++)
            rest = model_add(rest, view_key(&model->contexts[leaves[i]].figures->self, view->sort));
        char text[RENDER_NUMBER_BYTES];
        printf("... %zu more context%s, %s (%s)\n", count - printed,
               render_plural((int64_t)(count - printed)),
               render_bytes(text, rest, request->human && !view_counts(view->sort)),
               view_sort_word(view->sort));
    }
    free(leaves);
}

static void print_text(const struct model *model, const struct view *view,
                       const struct holders *holders, const struct pinners *pinners,
                       const struct memory_ledger *ledger, const struct frag_request *request) {
    print_ledger(model, ledger, request);
    if (request->map)
        pagemap_print(model, render_wants_color(), MAP_ROWS);
    if (request->pages) {
        pinners_print(pinners, model, holders, request->functions, request->human);
        print_table_head();
    } else {
        printf("Who holds what, by %s%s:\n", view_sort_word(view->sort),
               is_recorded(model) ? "" : ", resident or not");
        if (model_has_sums_only(model))
            printf("%14s%14s  context\n", "requested", "chunks");
        else
            printf("%14s%14s%14s%14s  context\n", "held", "requested", "free", "rounding");
    }
    render_nothing(model, view, &request->view);
    print_contexts(model, view, request);
    if (!request->pages && (holders->list || holders_recorded(model))) {
        putchar('\n');
        pinners_print(pinners, model, holders, request->functions, request->human);
    }
}

/* Writes the figures of a context that come from the page records. */
static void write_holder(struct json_writer *json, const struct holder *holder,
                         const struct holder_own *own) {
    json_put_integer(json, "chunks_seen", holder->chunks);
    json_put_integer(json, "alone_bytes", holder->alone_bytes);
    json_put_integer(json, "alone_free_bytes", holder->alone_free);
    json_put_integer(json, "shared_free_bytes", holder->shared_free);
    json_put_integer(json, "kept_bytes", own->kept_bytes);
    json_put_integer(json, "empty_os_bytes", own->empty_os_bytes);
    json_put_decimal(json, "oldest_age_s", holders_seconds(holder->oldest));
    json_put_decimal(json, "median_age_most_s", holders_seconds(holder->median_most));
    json_put_decimal(json, "median_age_least_s", holders_seconds(holder->median_least));
    json_put_open(json, "os_occupancy", '[');
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        json_put_integer(json, NULL, own->os_pages[bin]);
    json_put_close(json, ']');
}

static void write_context(struct json_writer *json, const struct model *model, uint32_t index,
                          const struct holders *holders, bool names) {
    const struct model_context *context = &model->contexts[index];
    const struct model_totals *self = &context->figures->self;
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_integer(json, "id", context->id);
    emit_frame(json, "frame", model, context, names);
    json_put_integer(json, "requested_bytes", self->requested_bytes);
    json_put_integer(json, "rounding_bytes",
                     model_subtract(self->block_bytes, self->requested_bytes));
    json_put_integer(json, "holes_bytes", model_subtract(self->reserved_bytes, self->block_bytes));
    json_put_integer(json, "reserved_bytes", self->reserved_bytes);
    json_put_integer(json, "resident_bytes", self->resident_bytes);
    json_put_integer(json, "pinned_bytes", self->pinned_bytes);
    json_put_integer(json, "sole_pinned_bytes", self->sole_pinned_bytes);
    json_put_integer(json, "live_chunks", self->live_chunks);
    json_put_integer(json, "pages", self->pages);
    if (is_recorded(model)) {
        json_put_null(json, "occupancy");
    } else {
        json_put_open(json, "occupancy", '[');
        for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
            json_put_integer(json, NULL, context->figures->occupancy[bin]);
        json_put_close(json, ']');
    }
    if (holders->list)
        write_holder(json, holders_of(holders, model, index),
                     holders_own(holders, context->figures->number));
    emit_path(json, model, index, UINT32_MAX);
    json_put_close(json, '}');
}

static void print_json(const struct model *model, const struct view *view,
                       const struct holders *holders, const struct pinners *pinners,
                       const struct memory_ledger *ledger, const struct frag_request *request) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-frag/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_text(&json, "exe", model->exe);
    json_put_decimal(&json, "uptime_s", model->uptime_s);
    json_put_text(&json, "how", model->how); /* null: the process answered by itself */
    json_put_open(&json, "ledger", '{');
    json_put_integer(&json, "rss_bytes", ledger->rss_bytes);
    json_put_open(&json, "lines", '[');
    for (size_t i = 0; i < ledger->count; i++) {
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "name", ledger->lines[i].key);
        json_put_integer(&json, "bytes", ledger->lines[i].bytes);
        json_put_decimal(&json, "share", share(ledger->lines[i].bytes, ledger->rss_bytes));
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    json_put_newline(&json);
    pinners_write(pinners, model, &json);
    json_put_newline(&json);
    json_put_open(&json, "contexts", '[');
    size_t count;
    uint32_t *leaves = view_sort_leaves(view, model, &count);
    for (size_t i = 0; i < count; i++)
        if (request->view.min_bytes < 0 || view_key(&model->contexts[leaves[i]].figures->self,
                                                    view->sort) >= request->view.min_bytes)
            write_context(&json, model, leaves[i], holders, !request->names.none);
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
    free(leaves);
}

/* With --quick, returns the contexts whose names the output needs, so that no other names are
 * looked up. Otherwise, and if the output may show any context, returns NULL. The caller frees it.
 */
static bool *find_shown(const struct model *model, const struct frag_request *request) {
    if (!request->quick || request->json || request->limit == 0 || view_chooses(&request->view))
        return NULL;
    struct view view;
    size_t count;
    view_make(&view, model, &request->view);
    uint32_t *leaves = view_sort_leaves(&view, model, &count);
    bool *shown = cli_alloc(model->context_count, sizeof *shown);
    for (size_t i = 0; i < count && i < (size_t)request->limit; i++) {
        uint32_t at = leaves[i];
        for (int64_t k = 0; (k < request->frames || !request->pages) && at != WIRE_NONE; k++) {
            shown[at] = true;
            at = model->contexts[at].parent;
        }
    }
    free(leaves);
    return shown;
}

/* Refuses options that need single pages, and a sort key that this moment of the recording lacks.
 * Without --sort, chooses a key that the moment has. */
static void check_recorded(const struct model *model, struct frag_request *request) {
    if (request->map || request->pages)
        cli_die(CLI_REFUSED,
                "%s: a recording holds no single pages; ask the process while it runs, or keep a "
                "snapshot "
                "with memctx dump TARGET -o FILE",
                model->source);
    if (!request->sorted && model_has_sums_only(model))
        request->view.sort = VIEW_SORT_REQUESTED;
    reading_check_sort(model, request->view.sort);
}

int frag_main(int argc, char **argv) {
    struct frag_request request = parse(argc, argv);
    struct target target;
    struct model model;
    struct view view;
    struct memory_ledger ledger;
    struct holders holders;
    struct pinners pinners;
    struct target_load_options load = {.flags = MODEL_PINNED | (request.quick ? 0 : MODEL_RESIDENT),
                                       .mappings = !request.quick,
                                       .pages = !request.quick};
    target_open(&target, reading_target_word(argc, argv, 1));
    if (!request.quick && (!target.is_snapshot || target.client.outside))
        load.flags |= MODEL_THREADS; /* for predictions; a snapshot may have no thread views */
    /* Without --quick, names are looked up while the pages are read. --quick reads the pages first,
     * in their light form: they tell which contexts are shown, and only these get names. */
    bool *shown = NULL;
    target_load_contexts(&target, &model, &load);
    if (is_recorded(&model))
        check_recorded(&model, &request);
    if (request.quick) {
        target_load_rest(&target, &model, &load);
        shown = find_shown(&model, &request);
    }
    struct symbols_work *work = reading_begin(&model, &target, &request.names, shown);
    if (!request.quick)
        target_load_rest(&target, &model, &load);
    reading_finish(work, &model, &request.names);
    free(shown);
    progress_tell("looking at who holds the pages");
    view_make(&view, &model, &request.view);
    memory_make_ledger(&model, &ledger);
    holders_make(&holders, &model);
    pinners_make(&pinners, &model, &holders, ledger.rss_bytes);
    progress_end();
    setvbuf(stdout, NULL, _IOFBF, 1 << 18);
    if (!request.json && !request.no_pager)
        terminal_page();
    if (request.json)
        print_json(&model, &view, &holders, &pinners, &ledger, &request);
    else
        print_text(&model, &view, &holders, &pinners, &ledger, &request);
    return cli_finish_output(CLI_DONE);
}
