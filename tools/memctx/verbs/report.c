/* SPDX-License-Identifier: MIT */
/* report.c - `memctx report`: writes one HTML file that needs no network. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/output.h"
#include "base/progress.h"
#include "base/text_file.h"
#include "report/report_data.h"
#include "report/report_html.h"
#include "verbs/reading.h"
#include "verbs/recorded.h"
#include "verbs/self.h"
#include "verbs/verbs.h"

enum { OPTION_BEFORE = 1 };

static const struct option options_list[] = {{"output", required_argument, NULL, 'o'},
                                             {"before", required_argument, NULL, OPTION_BEFORE},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

struct report_request {
    struct reading_names names;
    const char *target, *output, *before;
};

static void write_report(const struct report_request *request, struct report_state *now,
                         const struct report_state *before, const struct compare *compare,
                         const struct findings_input *findings) {
    uint64_t taken_ns = model_time_ns(now->model);
    char *data = NULL;
    size_t length = 0;
    struct output output;
    FILE *memory = text_file_open(&data, &length);
    report_write_data(memory, &(struct report_input){.now = now,
                                                     .before = before,
                                                     .compare = compare,
                                                     .findings = *findings,
                                                     .taken_s = (time_t)(taken_ns / 1000000000U)});
    fclose(memory);
    char *title =
        cli_format("%s (%" PRId64 ") - memctx", model_program(now->model), now->model->pid);
    output_begin(&output, request->output);
    report_write_html(output.file, title, data, length);
    output_finish(&output);
    free(title);
    free(data);
}

static struct report_request parse(int argc, char **argv) {
    struct report_request request = {.output = NULL};
    int option;
    while ((option = cli_next_option(argc, argv, ":o:hV", options_list)) != -1) {
        switch (option) {
        case 'o': request.output = optarg; break;
        case OPTION_BEFORE: request.before = optarg; break;
        default: reading_take(&request.names, option); break;
        }
    }
    return request;
}

/* Compares the model with the mark or the file that --before names. `load`: the options with which
 * the model was loaded. Sets *then to the earlier state. */
static void compare_with_before(const struct report_request *request, struct target *target,
                                struct model *model, struct target_load_options load,
                                struct report_state *then, struct compare *compare) {
    const struct model_mark *mark = model_find_mark(model, request->before);
    struct target earlier;
    int64_t pid;
    if (mark) {
        target_load_mark(target, model, mark->name);
        compare_with_mark(compare, model, mark);
        then->title = cli_format("mark %s", mark->name);
        return;
    }
    if (!target_is_file(request->before) && !cli_is_number(request->before, &pid)) {
        cli_die(CLI_NO_TARGET,
                "%s has no mark \"%s\", and no file has that name; see memctx mark --list %s",
                model->source, request->before, request->target);
    }
    struct model *other = cli_alloc(1, sizeof *other);
    load.flags &= ~MODEL_THREADS;
    target_open(&earlier, request->before);
    target_load(&earlier, other, &load);
    reading_resolve(other, &earlier, &request->names);
    memory_make_ledger(other, &then->ledger);
    then->model = other;
    then->title = other->source;
    compare_models(compare, other, model);
    reading_note_differences(compare, other, model);
}

int report_main(int argc, char **argv) {
    struct report_request request = parse(argc, argv);
    request.target = reading_target_word(argc, argv, 1);
    struct target target;
    struct model model;
    struct report_state now = {.model = &model}, then = {.model = NULL};
    struct compare compare;
    struct limits_left limits;
    struct findings_input findings = {
        .model = &model, .target = cli_quote(request.target), .foreign_frees = WIRE_UNKNOWN};
    struct target_load_options load = {.flags = MODEL_RESIDENT | MODEL_PINNED,
                                       .every_mark = true,
                                       .mappings = true,
                                       .pages = true};
    target_open(&target, request.target);
    if (!target.is_snapshot || target.client.outside)
        load.flags |= MODEL_THREADS; /* a snapshot may have no thread views; a core file has them */
    if (!target.is_snapshot && !target.client.outside)
        findings.foreign_frees = self_figure(&target, "foreign_frees");
    target_load(&target, &model, &load);
    recorded_take(&findings, &target, &limits);
    reading_resolve(&model, &target, &request.names);
    memory_make_ledger(&model, &now.ledger);
    now.title = model.source;
    if (request.before)
        compare_with_before(&request, &target, &model, load, &then, &compare);
    if (!request.output)
        request.output = cli_format("memctx-%" PRId64 ".html", model.pid);
    progress_tell("writing %s", request.output);
    write_report(&request, &now, &then, request.before ? &compare : NULL, &findings);
    progress_end();
    if (strcmp(request.output, "-") != 0)
        fprintf(stderr, "memctx: wrote %s; open it in a browser\n", request.output);
    return cli_finish_output(CLI_DONE);
}
