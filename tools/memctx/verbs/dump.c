/* SPDX-License-Identifier: MIT */
/* dump.c - `memctx dump`: prints the whole tree as text or JSON, or writes a snapshot file. */
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "formats/emit.h"
#include "formats/flame.h"
#include "formats/render.h"
#include "model/selector.h"
#include "model/view.h"
#include "snapshot/snapshot.h"
#include "verbs/best.h"
#include "verbs/reading.h"
#include "verbs/self.h"
#include "verbs/verbs.h"

enum {
    OPTION_THREADS = 1,
    OPTION_SORT,
    OPTION_MIN,
    OPTION_DEPTH,
    OPTION_SITE,
    OPTION_CONTEXT,
    OPTION_FLAT,
    OPTION_LIMIT,
    OPTION_SELF,
    OPTION_PEAK,
    OPTION_SVG,
    OPTION_OUTSIDE,
    OPTION_STREAM
};

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             {"threads", no_argument, NULL, OPTION_THREADS},
                                             {"sort", required_argument, NULL, OPTION_SORT},
                                             {"min", required_argument, NULL, OPTION_MIN},
                                             {"depth", required_argument, NULL, OPTION_DEPTH},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             {"context", required_argument, NULL, OPTION_CONTEXT},
                                             {"flat", no_argument, NULL, OPTION_FLAT},
                                             {"limit", required_argument, NULL, OPTION_LIMIT},
                                             {"self", no_argument, NULL, OPTION_SELF},
                                             {"peak", no_argument, NULL, OPTION_PEAK},
                                             {"svg", required_argument, NULL, OPTION_SVG},
                                             {"outside", no_argument, NULL, OPTION_OUTSIDE},
                                             {"stream", no_argument, NULL, OPTION_STREAM},
                                             {"output", required_argument, NULL, 'o'},
                                             READING_NAME_OPTIONS,
                                             READING_PAGER_OPTION,
                                             CLI_COMMON_OPTIONS};

struct dump_request {
    struct view_options view;
    struct render_options render;
    struct reading_names names;
    bool json, flat, self, no_pager, stream, outside, limited;
    const char *output, *svg;
};

static void take_option(struct dump_request *request, int option) {
    switch (option) {
    case READING_JSON: request->json = true; break;
    case READING_NO_PAGER: request->no_pager = true; break;
    case READING_HUMAN:
    case READING_BYTES: request->render.human = option == READING_HUMAN; break;
    case OPTION_THREADS: request->render.threads = true; break;
    case OPTION_SORT: request->view.sort = view_parse_sort("--sort", optarg); break;
    case OPTION_MIN: request->view.min_bytes = cli_parse_bytes("--min", optarg); break;
    case OPTION_DEPTH:
        request->render.levels = cli_parse_number("--depth", optarg, 1, MODEL_LEVELS_MAX);
        break;
    case OPTION_SITE: request->view.site = optarg; break;
    case OPTION_CONTEXT: request->view.contexts = optarg; break;
    case OPTION_FLAT: request->flat = true; break;
    case OPTION_LIMIT:
        request->render.limit = cli_parse_number("--limit", optarg, 0, INT32_MAX);
        request->limited = true;
        break;
    case OPTION_SELF: request->self = true; break;
    case OPTION_PEAK: request->render.peak = true; break;
    case OPTION_SVG: request->svg = optarg; break;
    case OPTION_OUTSIDE:
        request->outside = true;
        target_read_outside();
        break;
    case OPTION_STREAM: request->stream = true; break;
    case 'o': request->output = optarg; break;
    default: reading_take(&request->names, option); break;
    }
}

static struct dump_request parse(int argc, char **argv) {
    struct dump_request request = {
        .view = {.min_bytes = -1, .levels = -1},
        .render = {.levels = -1,
                   .limit = 20,
                   .color = render_wants_color(),
                   .human = reading_wants_human()},
    };
    int option;
    while ((option = cli_next_option(argc, argv, ":o:hV", options_list)) != -1)
        take_option(&request, option);
    if (request.self && (request.output || request.svg || request.outside))
        cli_usage(
            "--self asks the process for its statistics and prints them; it goes with neither "
            "-o, --svg nor --outside");
    if (request.output && (view_chooses(&request.view) || request.view.min_bytes >= 0 ||
                           request.render.levels >= 0)) {
        cli_usage("a snapshot holds every context; use --site, --context, --min and --depth when "
                  "you read it");
    }
    if (request.output && !request.json && output_is_terminal(request.output))
        cli_usage("a packed snapshot is no text for a terminal; name a file, or give --json");
    if (request.self &&
        (view_chooses(&request.view) || request.view.min_bytes >= 0 || request.flat ||
         request.render.levels >= 0 || request.render.threads || request.render.peak)) {
        cli_usage("--self prints figures of the whole process; it does not go with options that "
                  "choose or list contexts");
    }
    if (request.stream && !request.output)
        cli_usage("--stream says how -o FILE writes a snapshot; add -o FILE");
    if (request.stream && (request.json || request.render.threads))
        cli_usage("--stream says how -o FILE writes a snapshot; it goes with neither --json nor "
                  "--threads");
    if (request.svg &&
        (view_chooses(&request.view) || request.view.min_bytes >= 0 || request.render.levels >= 0 ||
         request.json || request.flat || request.output))
        cli_usage("--svg draws all contexts; it takes --sort, but not --json, --flat, -o, --min, "
                  "--depth, --context or --site");
    if (request.limited && !request.flat && !request.json && !request.self && !request.svg &&
        !request.output)
        cli_usage("--limit counts the contexts of a list; add --flat, or shorten the tree with "
                  "--min or --depth");
    if (request.view.site) {
        /* compiled here only to report a wrong expression before the target is opened */
        regex_t regex;
        view_compile_site(&regex, request.view.site);
        regfree(&regex);
    }
    if (request.view.contexts)
        selector_check(request.view.contexts);
    request.render.peak |= request.view.sort == VIEW_SORT_PEAK;
    return request;
}

static void write_text(struct model *model, const struct dump_request *request) {
    struct view view;
    view_make(&view, model, &request->view);
    if (view.included)
        model_compute_totals(model, view.included);
    render_head(model, &request->render);
    render_nothing(model, &view, &request->view);
    if (request->flat) {
        /* Without --min, contexts of any weight are shown, because --limit bounds the list. */
        view.threshold = request->view.min_bytes >= 0 ? request->view.min_bytes : 0;
        render_flat(model, &view, &request->render);
    } else {
        render_tree(model, &view, &request->render);
    }
    render_foot(model, &request->render);
}

/* Writes the snapshot of -o. */
static void write_snapshot(const struct model *model, const struct dump_request *request,
                           const struct model_write_options *write) {
    struct output output;
    output_begin(&output, request->output);
    if (strcmp(request->output, "-") != 0)
        progress_tell("writing %s", request->output);
    if (request->json)
        emit_json(model, output.file, write);
    else
        snapshot_write(model, output.file, write);
    output_finish(&output);
    progress_end();
}

/* Writes the answers of the process into the snapshot as they come (--stream). */
static int stream_snapshot(struct target *target, const char *path) {
    struct output output;
    if (target->is_snapshot)
        cli_die(CLI_REFUSED, "%s is a file; --stream needs a process", target->path);
    output_begin(&output, path);
    target_stream(target, output.file);
    output_finish(&output);
    return CLI_DONE;
}

/* Writes the flame graph of --svg. */
static void write_flame(const struct model *model, const struct dump_request *request) {
    struct output output;
    output_begin(&output, request->svg);
    flame_write(model, output.file, request->view.sort);
    output_finish(&output);
    progress_end();
    reading_warn_doubt(model);
}

/* Returns which parts of the target the request needs. */
static struct target_load_options load_options(const struct dump_request *request) {
    struct target_load_options load = {
        .flags = request->json || request->output         ? MODEL_RESIDENT | MODEL_PINNED
                 : request->view.sort == VIEW_SORT_PINNED ? MODEL_PINNED
                                                          : 0,
        .every_mark = request->output != NULL,
        .mappings = request->output != NULL,
        .pages = request->output != NULL,
    };
    load.flags |= request->render.threads ? MODEL_THREADS : 0;
    return load;
}

/* Loads only the contexts that a flat list shows, if this is possible. Returns false if the whole
 * target has to be loaded. */
static bool load_shown(struct target *target, struct model *model, struct dump_request *request,
                       struct target_load_options *load) {
    return !request->json && !request->output && !request->svg && request->flat &&
           !request->render.threads && !target->is_snapshot && !target->client.outside &&
           !request->view.contexts &&
           best_load(target, model, load, &request->view, request->render.limit, &request->names);
}

int dump_main(int argc, char **argv) {
    struct dump_request request = parse(argc, argv);
    struct target target;
    struct model model;
    const char *word = reading_target_word(argc, argv, 1);
    if (request.self) {
        target_open_socket(&target, word);
        return self_print(&target, request.json);
    }
    struct target_load_options load = load_options(&request);
    target_open(&target, word);
    if (request.stream)
        return stream_snapshot(&target, request.output);
    if (!load_shown(&target, &model, &request, &load))
        target_load(&target, &model, &load);
    reading_check_sort(&model, request.view.sort);
    /* A copy of a snapshot keeps the views of threads that the snapshot has. */
    if (target.is_snapshot && request.output)
        request.render.threads = model.has_threads;
    reading_resolve(&model, &target, &request.names);
    struct model_write_options write = {.threads = request.render.threads,
                                        .names = !request.names.none,
                                        .snapshot = request.output != NULL};
    if (request.output) {
        write_snapshot(&model, &request, &write);
        return CLI_DONE;
    }
    if (request.svg) {
        write_flame(&model, &request);
        return CLI_DONE;
    }
    progress_end();
    setvbuf(stdout, NULL, _IOFBF, 1 << 18);
    if (!request.json && !request.no_pager)
        terminal_page();
    if (request.json) {
        struct view view;
        request.view.levels = request.render.levels;
        view_make(&view, &model, &request.view);
        write.shown = view.shown;
        emit_json(&model, stdout, &write);
    } else {
        write_text(&model, &request);
    }
    return cli_finish_output(CLI_DONE);
}
