/* SPDX-License-Identifier: MIT */
/* mark.c - `memctx mark`: remembers the counters of every context for a later diff; lists the
 * marks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "formats/emit.h"
#include "formats/render.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

enum { OPTION_LIST = 1 };

static const struct option options_list[] = {{"list", no_argument, NULL, OPTION_LIST},
                                             {"json", no_argument, NULL, READING_JSON},
                                             CLI_COMMON_OPTIONS};

/* Prints the local time of a mark of a running process. */
static void print_local(double ago_s) {
    time_t time_s = time(NULL) - (time_t)ago_s;
    struct tm local;
    char text[64];
    localtime_r(&time_s, &local);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    printf("%-20s ", text);
}

/* Prints how much the contexts that a mark has no room for held. */
static void print_left_out(const struct wire_left_out *left_out) {
    printf(", without %" PRIu64 " context%s that held ", left_out->contexts,
           render_plural((int64_t)left_out->contexts));
    if (left_out->most_bytes > 0)
        printf("at most %" PRId64 " bytes each", left_out->most_bytes);
    else
        printf("nothing");
}

static void print_list(const struct model *model) {
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        double ago_s = model->uptime_s - mark->uptime_s + model_slept_since(model, mark->uptime_s);
        char rss[RENDER_NUMBER_BYTES];
        if (!model->from_snapshot)
            print_local(ago_s);
        printf("%10.1f s ago  %s%s", ago_s, mark->name,
               model_is_kept_mark(mark) ? " (MEMCTX_MARKS)" : "");
        if (mark->rss_bytes != WIRE_UNKNOWN)
            printf(", %s resident", render_bytes(rss, mark->rss_bytes, true));
        if (mark->left_out.contexts > 0)
            print_left_out(&mark->left_out);
        putchar('\n');
    }
    if (model->mark_count == 0)
        printf("no marks\n");
}

static void print_list_json(const struct model *model) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-marks/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_decimal(&json, "uptime_s", model->uptime_s);
    json_put_decimal(&json, "slept_s", model->slept_s);
    json_put_open(&json, "marks", '[');
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "name", mark->name);
        json_put_decimal(&json, "uptime_s", mark->uptime_s);
        json_put_decimal(&json, "slept_s", mark->slept_s);
        json_put_integer(&json, "rss_bytes", mark->rss_bytes);
        emit_elsewhere(&json, &mark->elsewhere);
        json_put_boolean(&json, "automatic", model_is_kept_mark(mark));
        json_put_integer(&json, "left_out_contexts", (int64_t)mark->left_out.contexts);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

static int list(const char *word, bool as_json) {
    struct target target;
    struct model model;
    target_open(&target, word);
    target_load_marks(&target, &model);
    if (as_json)
        print_list_json(&model);
    else
        print_list(&model);
    return cli_finish_output(CLI_DONE);
}

/* `text`: the answer of the process. */
static void print_set_json(const struct target *target, const char *name, const char *text) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-mark/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_text(&json, "name", name[0] != '\0' ? name : "default");
    json_put_text(&json, "text", text);
    json_put_close(&json, '}');
    putchar('\n');
}

int mark_main(int argc, char **argv) {
    struct wire_mark_request request = {0};
    struct target target;
    bool lists = false, as_json = false;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        lists = lists || option == OPTION_LIST;
        as_json = as_json || option == READING_JSON;
    }
    const char *word = reading_target_word(argc, argv, lists ? 1 : 2);
    if (lists)
        return list(word, as_json);
    const char *name = optind + 1 < argc ? argv[optind + 1] : "";
    if (strlen(name) >= sizeof request.name) {
        cli_usage("the name of a mark has at most %zu bytes; got \"%s\"", sizeof request.name - 1,
                  name);
    }
    for (const char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            cli_usage("the name of a mark has no control characters");
    strcpy(request.name, name);
    target_open_socket(&target, word);
    char *text = target_ask_text(&target, WIRE_MARK, &request, sizeof request);
    text[strcspn(text, "\n")] = '\0';
    if (as_json)
        print_set_json(&target, name, text);
    else
        printf("%s\n", text);
    return cli_finish_output(CLI_DONE);
}
