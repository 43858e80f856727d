/* SPDX-License-Identifier: MIT */
/* diff.c - `memctx diff`: growth by context since a mark, or between two snapshots. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "formats/emit.h"
#include "formats/render.h"
#include "model/compare.h"
#include "model/frames.h"
#include "model/mapped.h"
#include "model/memory.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define MAPPED_CHANGE_MIN (1 << 20)

enum { OPTION_MIN = 1, OPTION_LIMIT, OPTION_DEPTH };

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             {"min", required_argument, NULL, OPTION_MIN},
                                             {"limit", required_argument, NULL, OPTION_LIMIT},
                                             {"depth", required_argument, NULL, OPTION_DEPTH},
                                             READING_NAME_OPTIONS,
                                             READING_PAGER_OPTION,
                                             CLI_COMMON_OPTIONS};

struct diff_request {
    struct reading_names names;
    int64_t min_bytes, limit, frames;
    bool json, human, no_pager;
};

/* One of the two states that are compared. */
struct diff_end {
    const struct model *model; /* NULL: the state is a mark */
    char *name;
    double uptime_s;
    int64_t rss_bytes;
    int64_t own_bytes;    /* the part of the resident set that memctx itself takes */
    struct mapped mapped; /* the part of the resident set that did not come from malloc */
};

struct diff_ends {
    struct diff_end from, to;
};

static struct diff_request parse(int argc, char **argv) {
    struct diff_request request = {.limit = 20, .frames = 8, .human = reading_wants_human()};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case READING_JSON: request.json = true; break;
        case READING_NO_PAGER: request.no_pager = true; break;
        case READING_HUMAN:
        case READING_BYTES: request.human = option == READING_HUMAN; break;
        case OPTION_MIN: request.min_bytes = cli_parse_bytes("--min", optarg); break;
        case OPTION_LIMIT: request.limit = cli_parse_number("--limit", optarg, 0, INT32_MAX); break;
        case OPTION_DEPTH:
            request.frames = cli_parse_number("--depth", optarg, 1, MODEL_LEVELS_MAX);
            break;
        default: reading_take(&request.names, option); break;
        }
    }
    return request;
}

/* Writes a number of bytes with its sign, and returns its start. `text` has room for
 * RENDER_NUMBER_BYTES + 1. */
static char *signed_bytes(char *text, int64_t bytes, bool human) {
    render_bytes(text + 1, bytes, human);
    if (bytes < 0)
        return text + 1; /* a negative number has its own sign; WIRE_UNKNOWN needs none */
    text[0] = '+';
    return text;
}

/* Prints allocs and frees only if all of them are known. They are not known if counters went
 * backwards, because of a reset or because the states are of two processes. */
static void print_figures(const struct compare_figures *growth, bool human) {
    char bytes[RENDER_NUMBER_BYTES + 1], chunks[RENDER_NUMBER_BYTES + 1];
    char allocs[RENDER_NUMBER_BYTES], frees[RENDER_NUMBER_BYTES], sum[RENDER_NUMBER_BYTES];
    const char *unit = human ? "" : " bytes"; /* a human number has its unit already */
    printf("%s%s in %s chunk%s", signed_bytes(bytes, growth->requested_bytes, human), unit,
           signed_bytes(chunks, growth->live_chunks, false), render_plural(growth->live_chunks));
    if (growth->allocs == WIRE_UNKNOWN || growth->frees == WIRE_UNKNOWN ||
        growth->requested_cum_bytes == WIRE_UNKNOWN)
        return;
    printf("; %s alloc%s of %s%s; %s free%s", render_bytes(allocs, growth->allocs, false),
           render_plural(growth->allocs), render_bytes(sum, growth->requested_cum_bytes, human),
           unit, render_bytes(frees, growth->frees, false), render_plural(growth->frees));
}

static bool is_large(const struct compare_row *row, const struct diff_request *request) {
    int64_t growth = row->growth.requested_bytes;
    return growth == WIRE_UNKNOWN || llabs(growth) >= request->min_bytes;
}

/* Prints the kinds of memory that did not come from malloc and changed by an MiB or more. */
static void print_mapped(const struct diff_ends *ends, bool human) {
    const struct mapped *before = &ends->from.mapped, *after = &ends->to.mapped;
    for (int kind = 0; before->known && after->known && kind < MODEL_PLACE_KINDS; kind++) {
        char a[RENDER_NUMBER_BYTES], b[RENDER_NUMBER_BYTES];
        int64_t from = before->sums[kind], to = after->sums[kind];
        if (to - from >= MAPPED_CHANGE_MIN || from - to >= MAPPED_CHANGE_MIN)
            printf("Not from malloc: %s: %s before, %s after\n", mapped_kinds[kind].name,
                   render_bytes(a, from, human), render_bytes(b, to, human));
    }
}

/* Says how a state was read, and why its figures are not exact. */
static void print_how(const struct model *model) {
    const char *doubt = model ? model_doubt(model) : NULL;
    if (doubt)
        printf("%s: not exact: %s\n", model->source, doubt);
    else if (model && model->how)
        printf("%s: %s\n", model->source, model->how);
}

static void print_resident(const struct diff_ends *ends, bool human) {
    const struct diff_end *from = &ends->from, *to = &ends->to;
    char a[RENDER_NUMBER_BYTES], b[RENDER_NUMBER_BYTES];
    if (from->rss_bytes == WIRE_UNKNOWN || to->rss_bytes == WIRE_UNKNOWN)
        return;
    if (!from->model) { /* a mark does not know the part that memctx itself takes */
        printf("Resident set: %s at the mark, %s now\n", render_bytes(a, from->rss_bytes, human),
               render_bytes(b, to->rss_bytes, human));
        return;
    }
    printf("Resident set without memctx itself: %s before, %s after\n",
           render_bytes(a, from->rss_bytes - from->own_bytes, human),
           render_bytes(b, to->rss_bytes - to->own_bytes, human));
    print_mapped(ends, human);
}

static void print_text(const struct compare *compare, const struct diff_ends *ends,
                       const struct diff_request *request) {
    char a[RENDER_NUMBER_BYTES], b[RENDER_NUMBER_BYTES];
    printf("%s at %.3f s -> %s at %.3f s\n", ends->from.name, ends->from.uptime_s, ends->to.name,
           ends->to.uptime_s);
    print_how(ends->from.model);
    print_how(ends->to.model);
    size_t printed = 0, more = 0;
    int64_t rest = 0;
    for (size_t i = 0; i < compare->count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (!is_large(row, request) || (request->limit > 0 && printed >= (size_t)request->limit)) {
            more++;
            rest = model_add(rest, row->growth.requested_bytes);
            continue;
        }
        char *path = frames_write_path(row->model, row->context, request->frames);
        print_figures(&row->growth, request->human);
        printf("  %s\n", path);
        free(path);
        printed++;
    }
    if (more > 0) {
        char text[RENDER_NUMBER_BYTES + 1];
        printf("... %zu more context%s, %s%s\n", more, render_plural((int64_t)more),
               signed_bytes(text, rest, request->human), request->human ? "" : " bytes");
    }
    if (compare->left_out && compare->left_out->most_bytes == 0) {
        printf("the mark has no counters of %" PRIu64 " context%s that held nothing; "
               "for these contexts only growth of bytes is shown\n",
               compare->left_out->contexts, render_plural((int64_t)compare->left_out->contexts));
    } else if (compare->left_out) {
        printf("the mark has no counters of %" PRIu64 " contexts that held at most %" PRId64
               " bytes each, %" PRId64
               " bytes in all; for these contexts only growth above %" PRId64 " bytes is shown\n",
               compare->left_out->contexts, compare->left_out->most_bytes,
               compare->left_out->requested_bytes, compare->left_out->most_bytes);
    }
    printf("Grand total: %s%s requested before, %s after: ",
           render_bytes(a, compare->before.requested_bytes, request->human),
           request->human ? "" : " bytes",
           render_bytes(b, compare->after.requested_bytes, request->human));
    print_figures(&compare->growth, request->human);
    putchar('\n');
    print_resident(ends, request->human);
}

static void write_figures(struct json_writer *json, const char *key,
                          const struct compare_figures *figures) {
    json_put_open(json, key, '{');
    json_put_integer(json, "requested_bytes", figures->requested_bytes);
    json_put_integer(json, "live_chunks", figures->live_chunks);
    json_put_integer(json, "allocs", figures->allocs);
    json_put_integer(json, "frees", figures->frees);
    json_put_integer(json, "requested_cum_bytes", figures->requested_cum_bytes);
    json_put_close(json, '}');
}

static void write_end(struct json_writer *json, const char *key, const struct diff_end *end) {
    json_put_open(json, key, '{');
    json_put_text(json, "name", end->name);
    if (end->model)
        json_put_boolean(json, "exact", end->model->exact);
    if (end->model && end->model->how)
        json_put_text(json, "how", end->model->how);
    json_put_decimal(json, "uptime_s", end->uptime_s);
    json_put_integer(json, "rss_bytes", end->rss_bytes);
    json_put_integer(json, "memctx_bytes", end->own_bytes);
    for (int kind = 0; kind < MODEL_PLACE_KINDS; kind++) {
        json_put_integer(json, mapped_kinds[kind].key,
                         end->mapped.known ? end->mapped.sums[kind] : WIRE_UNKNOWN);
    }
    json_put_close(json, '}');
}

static void write_row(struct json_writer *json, const struct compare_row *row,
                      const struct diff_request *request) {
    const struct model *model = row->model;
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_integer(json, "id", model->contexts[row->context].id);
    emit_frame(json, "frame", model, &model->contexts[row->context], !request->names.none);
    write_figures(json, "before", &row->before);
    write_figures(json, "after", &row->after);
    write_figures(json, "growth", &row->growth);
    emit_path(json, model, row->context, UINT32_MAX);
    json_put_close(json, '}');
}

static void print_json(const struct model *model, const struct compare *compare,
                       const struct diff_ends *ends, const struct diff_request *request) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-diff/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_text(&json, "exe", model->exe);
    write_end(&json, "from", &ends->from);
    write_end(&json, "to", &ends->to);
    json_put_open(&json, "totals", '{');
    write_figures(&json, "before", &compare->before);
    write_figures(&json, "after", &compare->after);
    write_figures(&json, "growth", &compare->growth);
    json_put_close(&json, '}');
    if (compare->left_out) {
        json_put_open(&json, "left_out", '{');
        json_put_integer(&json, "contexts", (int64_t)compare->left_out->contexts);
        json_put_integer(&json, "most_bytes", compare->left_out->most_bytes);
        json_put_integer(&json, "requested_bytes", compare->left_out->requested_bytes);
        json_put_close(&json, '}');
    }
    json_put_newline(&json);
    json_put_open(&json, "contexts", '[');
    for (size_t i = 0; i < compare->count; i++)
        if (is_large(&compare->rows[i], request))
            write_row(&json, &compare->rows[i], request);
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

/* Returns true if the second word names a process or a file to compare with, and not a mark of the
 * first target, which must be a snapshot. A word with a slash, the name of a file and a pid name a
 * second target. The name of a process does so only if the snapshot has no mark of this name. */
static bool is_second_target(const struct target *first, struct model *model, const char *word) {
    int64_t pid;
    return word && first->is_snapshot &&
           (strchr(word, '/') || target_is_file(word) || cli_is_number(word, &pid) ||
            (!model_find_mark(model, word) && target_is_process_name(word)));
}

static int64_t resident_of(const struct model *model) {
    int64_t bytes = model->ledger.rss_bytes;
    return bytes == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_tame(bytes);
}

static struct diff_end end_of(const struct model *model) {
    return (struct diff_end){.model = model,
                             .name = model->source,
                             .uptime_s = model->uptime_s,
                             .rss_bytes = resident_of(model),
                             .own_bytes = memory_own_bytes(&model->ledger)};
}

/* Compares the snapshot in `first` with the process or file `word`, which is loaded into `later`.
 */
static struct diff_ends compare_states(struct target *target, struct model *first,
                                       struct model *later, const char *word,
                                       const struct diff_request *request,
                                       struct compare *compare) {
    struct target other;
    struct target_load_options load = {.flags = MODEL_RESIDENT, .mappings = true};
    target_open(&other, word);
    target_load(&other, later, &load);
    reading_resolve(first, target, &request->names);
    reading_resolve(later, &other, &request->names);
    progress_tell("comparing");
    compare_models(compare, first, later);
    progress_end();
    reading_note_differences(compare, first, later);
    struct diff_ends ends = {end_of(first), end_of(later)};
    mapped_take(&ends.from.mapped, first);
    mapped_take(&ends.to.mapped, later);
    return ends;
}

/* Compares a mark of the target (NULL: the latest mark) with the state in `model`, which is copied
 * to `later`. */
static struct diff_ends compare_mark(struct target *target, struct model *model,
                                     struct model *later, const char *name,
                                     const struct diff_request *request, struct compare *compare) {
    const struct model_mark *mark = target_load_mark(target, model, name);
    reading_resolve(model, target, &request->names);
    compare_with_mark(compare, model, mark);
    *later = *model;
    const struct diff_end at_mark = {.name = cli_format("mark \"%s\"", mark->name),
                                     .uptime_s = mark->uptime_s,
                                     .rss_bytes = mark->rss_bytes,
                                     .own_bytes = WIRE_UNKNOWN};
    return (struct diff_ends){at_mark, end_of(later)};
}

int diff_main(int argc, char **argv) {
    struct diff_request request = parse(argc, argv);
    const char *word = reading_target_word(argc, argv, 2);
    const char *second = optind + 1 < argc ? argv[optind + 1] : NULL;
    struct target target;
    struct model model, later;
    struct compare compare;
    struct diff_ends ends;
    struct target_load_options load = {0};
    target_open(&target, word);
    target_load(&target, &model, &load);
    if (is_second_target(&target, &model, second))
        ends = compare_states(&target, &model, &later, second, &request, &compare);
    else
        ends = compare_mark(&target, &model, &later, second, &request, &compare);
    progress_end();
    setvbuf(stdout, NULL, _IOFBF, 1 << 18);
    if (!request.json && !request.no_pager)
        terminal_page();
    if (request.json)
        print_json(&later, &compare, &ends, &request);
    else
        print_text(&compare, &ends, &request);
    return cli_finish_output(CLI_DONE);
}
