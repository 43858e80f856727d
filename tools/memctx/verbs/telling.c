/* SPDX-License-Identifier: MIT */
/* telling.c - the options and the JSON that doctor and postmortem share; see telling.h. */
#include "verbs/telling.h"

#include <stdlib.h>

#include "formats/render.h"
#include "model/frames.h"
#include "model/tails.h"

struct telling telling_defaults(void) {
    return (struct telling){.tell = {.functions = WHO_FUNCTIONS,
                                     .findings = TELL_FINDINGS,
                                     .color = render_wants_color()}};
}

void telling_take(struct telling *telling, int option) {
    switch (option) {
    case READING_JSON: telling->json = true; break;
    case READING_HUMAN:
    case READING_BYTES: telling->exact_bytes = option == READING_BYTES; break;
    case READING_NO_PAGER: telling->no_pager = true; break;
    case TELLING_DEPTH:
        telling->tell.functions = cli_parse_number("--depth", optarg, 1, MODEL_LEVELS_MAX);
        break;
    case TELLING_LIMIT:
        telling->tell.findings = cli_parse_number("--limit", optarg, 0, INT32_MAX);
        break;
    case TELLING_ALL: telling->tell.all = true; break;
    default: reading_take(&telling->names, option); break;
    }
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* Writes the functions at the address of a frame, innermost first; or module and offset, if the
 * frame has no names. */
static void write_functions(struct json_writer *json, const struct model *model,
                            const struct model_frame *frame) {
    const struct model_names *names = frame->names;
    if (names && names->functions[0].name) {
        for (uint32_t k = 1; k < names->count; k++)
            json_put_text(json, NULL, names->functions[k].name);
        json_put_text(json, NULL, names->functions[0].name);
    } else {
        char *name = frames_write_frame(model, frame, true);
        json_put_text(json, NULL, name);
        free(name);
    }
}

static void write_tails(struct json_writer *json, const struct model *model,
                        const struct model_tails *tails) {
    for (uint32_t i = 0; tails && i < tails->count; i++)
        write_functions(json, model, &tails->frames[i]);
}

void telling_write_path(struct json_writer *json, const struct model *model, uint32_t example,
                        uint32_t frames) {
    uint32_t at = example;
    json_put_open(json, "path", '[');
    if (at != WIRE_NONE && frames > 0)
        write_tails(json, model, tails_to_malloc(model, &model->contexts[at]));
    for (uint32_t i = 0; at != WIRE_NONE && i < frames; i++) {
        write_functions(json, model, model->contexts[at].frame);
        write_tails(json, model, tails_before(model, &model->contexts[at]));
        at = model->contexts[at].parent;
    }
    json_put_close(json, ']');
}

void telling_write_cause(struct json_writer *json, const struct model *model,
                         const struct finding *finding) {
    char *function = NULL;
    if (finding->example != WIRE_NONE) {
        struct who_part part = finding_who(model, finding);
        function = who_write_short(model, &part);
    }
    json_put_text(json, "function", function);
    free(function);
    json_put_open(json, "parts", '[');
    for (size_t i = 0; i < finding->part_count; i++) {
        const struct finding_part *part = &finding->parts[i];
        json_put_open(json, NULL, '{');
        json_put_integer(json, "contexts", (int64_t)part->contexts);
        json_put_decimal(json, "share", part->share);
        json_put_integer(json, "bytes", part->bytes);
        telling_write_path(json, model, part->example, part->frames);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

void telling_write_largest(struct json_writer *json, const struct model *model,
                           const struct findings *findings) {
    json_put_open(json, "largest", '[');
    for (size_t i = 0; i < findings->largest_count; i++) {
        const struct finding *finding = &findings->largest[i];
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_integer(json, "contexts", (int64_t)finding->contexts);
        telling_write_path(json, model, finding->example, finding->frames);
        telling_write_cause(json, model, finding);
        json_put_integer(json, "bytes", finding->bytes);
        json_put_decimal(json, "ratio", finding->ratio);
        json_put_text(json, "evidence", finding->evidence);
        json_put_text(json, "since", finding->since); /* null: there was no earlier look */
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}
