/* SPDX-License-Identifier: MIT */
/* doctor.c - `memctx doctor`: finds memory problems of a process and prints them, worst first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "formats/render.h"
#include "verbs/recorded.h"
#include "verbs/self.h"
#include "verbs/telling.h"
#include "verbs/verbs.h"

#define LOOKS 4 /* with --watch: number of looks before the last one */

enum { OPTION_FAIL_ON = 1, OPTION_WATCH, OPTION_FULL };

static const struct option options_list[] = {{"fail-on", required_argument, NULL, OPTION_FAIL_ON},
                                             {"watch", required_argument, NULL, OPTION_WATCH},
                                             {"full", no_argument, NULL, OPTION_FULL},
                                             TELLING_OPTIONS,
                                             CLI_COMMON_OPTIONS};

struct doctor_request {
    struct telling telling;
    int64_t watch_s;
    enum severity fail_on; /* SEVERITIES: --fail-on was not given */
};

static struct doctor_request parse(int argc, char **argv) {
    struct doctor_request request = {.telling = telling_defaults(), .fail_on = SEVERITIES};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_FAIL_ON:
            request.fail_on = severity_of(optarg);
            if (request.fail_on == SEVERITIES)
                cli_usage("--fail-on takes one of %s; got \"%s\"", SEVERITY_WORDS, optarg);
            break;
        case OPTION_WATCH: request.watch_s = cli_parse_seconds("--watch", optarg, 1, 86400); break;
        case OPTION_FULL: request.telling.tell.full = true; break;
        default: telling_take(&request.telling, option); break;
        }
    }
    return request;
}

/* Looks at the process LOOKS times within `seconds`, at equal intervals. doctor_main takes one more
 * look afterwards. *first: when the program of the first look started; if a later look finds a
 * program that started later, the command ends. */
static struct samples_look *watch(struct target *target, int64_t seconds,
                                  struct reading_began *first) {
    struct samples_look *looks = cli_alloc(LOOKS, sizeof *looks);
    struct target_load_options load = {
        .flags = MODEL_RESIDENT, .mappings = true, .light_pages = true};
    bool progress = progress_is_possible();
    for (int i = 0; i < LOOKS; i++) {
        struct model model;
        double asked_s = clock_now_s();
        target_load(target, &model, &load);
        struct reading_began began = reading_find_began(&model, asked_s);
        if (i == 0)
            *first = began;
        reading_check_began(target, *first, began);
        samples_keep(&looks[i], &model);
        free(model.pages);
        free(model.shares);
        model_drop(&model);
        if (progress)
            fprintf(stderr, "\rmemctx: watching, look %d of %d", i + 1, LOOKS + 1);
        int64_t ms = seconds * 1000 / LOOKS;
        struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        while (nanosleep(&pause, &pause) != 0) {
        }
    }
    if (progress)
        fputs(PROGRESS_REMOVE, stderr);
    return looks;
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* Writes the rate of steady growth, and when memory will be used up. */
static void write_rate(struct json_writer *json, const struct findings_input *input,
                       const struct finding *finding) {
    const struct finding_rate *rate = &finding->rate;
    if (rate->bytes_per_s > 0) {
        json_put_open(json, "growth", '{');
        json_put_decimal(json, "bytes_per_s", rate->bytes_per_s);
        json_put_decimal(json, "since_uptime_s", rate->since_uptime_s);
        json_put_boolean(json, "began", rate->began);
        json_put_close(json, '}');
    } else {
        json_put_null(json, "growth");
    }
    if (finding->out && input->limit) {
        json_put_open(json, "out", '{');
        if (finding->out_s > 0)
            json_put_decimal(json, "seconds", finding->out_s);
        else
            json_put_null(json, "seconds");
        json_put_decimal(json, "bytes_per_s", finding->out_per_s);
        json_put_text(json, "limit", input->limit->from);
        json_put_integer(json, "limit_bytes", input->limit->bytes);
        json_put_integer(json, "left_bytes", input->limit->left_bytes);
        json_put_close(json, '}');
    } else {
        json_put_null(json, "out");
    }
}

static void print_json(const struct findings_input *input, const struct findings *findings) {
    const struct model *model = input->model;
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-doctor/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_text(&json, "exe", model->exe);
    json_put_text(&json, "program", model_program(model));
    json_put_text(&json, "how", model->how); /* null: the process answered by itself */
    json_put_decimal(&json, "uptime_s", model->uptime_s);
    json_put_integer(&json, "rss_bytes", input->ledger->rss_bytes);
    json_put_integer(&json, "requested_bytes", model->totals.requested_bytes);
    json_put_integer(&json, "samples", (int64_t)input->samples->count);
    char *verdict = tell_verdict(input, findings);
    json_put_text(&json, "verdict", verdict);
    free(verdict);
    json_put_open(&json, "findings", '[');
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "id", finding->id);
        json_put_text(&json, "severity", severity_word(finding->severity));
        json_put_integer(&json, "context",
                         finding->context == WIRE_NONE ? WIRE_UNKNOWN
                                                       : model->contexts[finding->context].id);
        json_put_integer(&json, "contexts", (int64_t)finding->contexts);
        telling_write_path(&json, model, finding->example, finding->frames);
        telling_write_cause(&json, model, finding);
        json_put_integer(&json, "bytes", finding->bytes);
        json_put_decimal(&json, "ratio", finding->ratio);
        json_put_text(&json, "title", finding->title);
        json_put_text(&json, "evidence", finding->evidence);
        json_put_text(&json, "why", finding->why);
        json_put_text(&json, "action", finding->action);
        json_put_text(&json, "since", finding->since);
        write_rate(&json, input, finding);
        json_put_text(&json, "advice", finding->advice);
        json_put_text(&json, "now", finding->now);
        json_put_integer(&json, "now_bytes", finding->now ? finding->now_bytes : WIRE_UNKNOWN);
        json_put_text(&json, "sure", finding->sure);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    telling_write_largest(&json, model, findings);
    json_put_close(&json, '}');
    putchar('\n');
}

static bool is_failure(const struct findings *findings, enum severity fail_on) {
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].severity >= fail_on)
            return true;
    return false;
}

int doctor_main(int argc, char **argv) {
    struct doctor_request request = parse(argc, argv);
    const char *word = reading_target_word(argc, argv, 1);
    struct target target;
    struct model model;
    struct samples_look *looks = NULL;
    struct reading_began first;
    struct memory_ledger ledger;
    struct samples samples;
    struct findings findings;
    struct limits_left limits;
    struct findings_input input = {.model = &model,
                                   .ledger = &ledger,
                                   .samples = &samples,
                                   .target = cli_quote(word),
                                   .exact_bytes = request.telling.exact_bytes,
                                   .foreign_frees = WIRE_UNKNOWN};
    struct target_load_options load = {.flags = MODEL_RESIDENT | MODEL_PINNED,
                                       .every_mark = true,
                                       .mappings = true,
                                       .pages = true};
    if (request.watch_s > 0) {
        target_open_running(&target, word, " --watch");
        looks = watch(&target, request.watch_s, &first);
    } else {
        target_open(&target, word);
    }
    if (!target.is_snapshot || target.client.outside)
        load.flags |= MODEL_THREADS; /* a snapshot may have no thread views; a core file has them */
    if (!target.is_snapshot && !target.client.outside) {
        input.foreign_frees = self_figure(&target, "foreign_frees");
        input.marks_kept = self_setting(&target, "marks");
    }
    double asked_s = clock_now_s();
    target_load_contexts(&target, &model, &load);
    if (looks)
        reading_check_began(&target, first, reading_find_began(&model, asked_s));
    struct symbols_work *work = reading_begin(&model, &target, &request.telling.names, NULL);
    target_load_rest(&target, &model, &load);
    recorded_take(&input, &target, &limits);
    reading_finish(work, &model, &request.telling.names);
    progress_tell("looking for problems");
    memory_make_ledger(&model, &ledger);
    samples_make(&samples, &model, looks, looks ? LOOKS : 0);
    findings_make(&findings, &input);
    progress_end();
    if (!request.telling.json && !request.telling.no_pager)
        terminal_page();
    if (request.telling.json)
        print_json(&input, &findings);
    else
        tell_findings(&input, &findings, &request.telling.tell);
    return cli_finish_output(is_failure(&findings, request.fail_on) ? CLI_FOUND : CLI_DONE);
}
