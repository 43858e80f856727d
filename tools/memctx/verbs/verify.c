/* SPDX-License-Identifier: MIT */
/* verify.c - `memctx verify`: compares the predicted savings of isolate, merge, set and trim with
 * the measured ones. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/terminal.h"
#include "formats/render.h"
#include "pages/holders.h"
#include "target/notes.h"
#include "verbs/place.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             READING_PAGER_OPTION,
                                             CLI_COMMON_OPTIONS};

struct outcome {
    struct note note;
    const struct placing *placing; /* NULL: the action is a trim */
    double ago_s;
    int64_t now_bytes, saved_bytes; /* WIRE_UNKNOWN: see waste_now */
    double
        ratio; /* saved bytes / predicted bytes; 0: no saving was predicted, or it is not known */
};

/* Returns the bytes that the contexts of the note waste now. WIRE_UNKNOWN: these contexts are not
 * known, because some of them have another placement now, or because their ids do not fit into the
 * note and other contexts have this placement, too. */
static int64_t waste_now(const struct model *model, const struct placing *placing,
                         const struct note *note) {
    bool *members = cli_alloc(model->context_count, sizeof *members);
    int64_t count = 0, id_sum = 0, waste = WIRE_UNKNOWN;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        const struct model_totals *self = &context->figures->self;
        bool any = note->id_count > 0 || model_totals_any(self) || self->allocs > 0;
        members[i] =
            context->placement == placing->placement && any && note_may_name(note, context->id);
        count += members[i];
        id_sum += members[i] ? context->id : 0;
    }
    if (count == note->contexts && id_sum == note->id_sum)
        waste = placing_waste(placing, model, members);
    free(members);
    return waste;
}

/* Returns the resident set after a trim. If some threads had not allocated by then, they gave back
 * their part later, so the present resident set counts if it is smaller. */
static int64_t after_trim(const struct model *model, const struct note *note) {
    int64_t now = model_tame(model->ledger.rss_bytes);
    return note->waiting > 0 && now > 0 && now < note->after_bytes ? now : note->after_bytes;
}

static bool find_outcome(struct outcome *outcome, const struct model *model, const char *text) {
    struct note *note = &outcome->note;
    if (!note_read(note, text))
        return false;
    outcome->placing = placing_by_action(note->action); /* a trim has no placing */
    outcome->ago_s = model->uptime_s - note->uptime_s;
    outcome->now_bytes =
        outcome->placing ? waste_now(model, outcome->placing, note) : after_trim(model, note);
    bool known = outcome->now_bytes != WIRE_UNKNOWN;
    outcome->saved_bytes = known ? note->before_bytes - outcome->now_bytes : WIRE_UNKNOWN;
    outcome->ratio = known && note->predicted_bytes > 0
                         ? (double)outcome->saved_bytes / (double)note->predicted_bytes
                         : 0;
    return true;
}

static void print_text(const struct outcome *outcome, bool human) {
    const struct note *note = &outcome->note;
    char predicted[RENDER_NUMBER_BYTES], before[RENDER_NUMBER_BYTES];
    char now[RENDER_NUMBER_BYTES], saved[RENDER_NUMBER_BYTES];
    bool trimmed = !outcome->placing;
    double percent = 100 * outcome->ratio;
    printf("%s of %" PRId64 " context%s (%" PRId64
           "%s), %.1f s ago: predicted saving %s; %s: %s before, %s %s; saved %s",
           note->action, note->contexts, note->contexts == 1 ? "" : "s", note->first,
           note->contexts == 1 ? "" : ", ...", outcome->ago_s,
           render_bytes(predicted, note->predicted_bytes, human),
           trimmed                               ? "resident set"
           : placing_is_shared(outcome->placing) ? "free bytes in own and in mixed pages"
                                                 : "rounding and holes of the chunks",
           render_bytes(before, note->before_bytes, human),
           render_bytes(now, outcome->now_bytes, human), trimmed ? "after" : "now",
           render_bytes(saved, outcome->saved_bytes, human));
    if (outcome->now_bytes == WIRE_UNKNOWN)
        printf(" (these contexts have another policy now, or other contexts have this one, too)");
    else if (note->predicted_bytes > 0)
        printf(" (%.0f %%)", percent < 0 && percent > -0.5 ? 0 : percent); /* not "-0" */
    putchar('\n');
}

static void write_json(struct json_writer *json, const struct outcome *outcome) {
    const struct note *note = &outcome->note;
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_text(json, "action", note->action);
    json_put_integer(json, "contexts", note->contexts);
    json_put_integer(json, "first_context", note->first);
    json_put_decimal(json, "ago_s", outcome->ago_s);
    json_put_integer(json, "predicted_bytes", note->predicted_bytes);
    json_put_integer(json, "before_bytes", note->before_bytes);
    json_put_integer(json, "now_bytes", outcome->now_bytes);
    json_put_integer(json, "saved_bytes", outcome->saved_bytes);
    if (outcome->now_bytes != WIRE_UNKNOWN)
        json_put_decimal(json, "ratio", outcome->ratio);
    else
        json_put_null(json, "ratio");
    json_put_close(json, '}');
}

int verify_main(int argc, char **argv) {
    bool as_json = false, human = reading_wants_human(), no_pager = false;
    size_t shown = 0;
    struct target target;
    struct model model;
    struct target_load_options load = {.flags = MODEL_PINNED | MODEL_RESIDENT, .pages = true};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        as_json = as_json || option == READING_JSON;
        no_pager = no_pager || option == READING_NO_PAGER;
        human = (human && option != READING_BYTES) || option == READING_HUMAN;
    }
    target_open(&target, reading_target_word(argc, argv, 1));
    target_load(&target, &model, &load);
    reading_refuse_recording(&model, "predictions");
    struct json_writer json = {.file = stdout};
    if (!as_json && !no_pager)
        terminal_page();
    if (as_json) {
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "schema", "memctx-verify/1");
        json_put_integer(&json, "pid", model.pid);
        json_put_open(&json, "actions", '[');
    }
    for (size_t i = 0; i < model.note_count; i++) {
        struct outcome outcome;
        if (!find_outcome(&outcome, &model, model.notes[i]))
            continue;
        shown++;
        if (as_json)
            write_json(&json, &outcome);
        else
            print_text(&outcome, human);
    }
    if (as_json) {
        json_put_close(&json, ']');
        json_put_close(&json, '}');
        putchar('\n');
    } else if (shown == 0) {
        printf(
            "no predictions to compare; memctx isolate, merge, set policy= and trim make them\n");
    }
    return cli_finish_output(CLI_DONE);
}
