/* SPDX-License-Identifier: MIT */
/* look.c - helpers that the rules share. */
#include "diagnosis/look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/render.h"
#include "model/selector.h"

int64_t look_ledger_line(const struct look *look, const char *key) {
    const struct memory_ledger *ledger = look->input->ledger;
    for (size_t i = 0; i < ledger->count; i++)
        if (strcmp(ledger->lines[i].key, key) == 0)
            return model_tame(ledger->lines[i].bytes);
    return 0;
}

const char *look_bytes(int64_t bytes) {
    static char texts[8][RENDER_NUMBER_BYTES];
    static unsigned next;
    return render_bytes(texts[next++ % 8], bytes, true);
}

struct finding *finding_new(struct look *look, const struct rule *rule, enum severity severity,
                            int64_t bytes, double ratio) {
    struct findings *findings = look->findings;
    if (findings->count == findings->capacity) {
        findings->capacity = 2 * findings->capacity + 16;
        findings->list = cli_grow(findings->list, findings->capacity, sizeof *findings->list);
    }
    struct finding *finding = &findings->list[findings->count++];
    *finding = (struct finding){.id = rule->id,
                                .title = rule->title,
                                .why = rule->why,
                                .rule = (size_t)(rule - look->rules),
                                .severity = severity,
                                .context = WIRE_NONE,
                                .example = WIRE_NONE,
                                .bytes = bytes,
                                .ratio = ratio};
    return finding;
}

#define SELECTOR_IDS 12 /* of more contexts the common frames are told */

/* Returns a selector for the suspect's contexts: by the frames that they share, if no other context
 * has these, or if they are too many to be listed. The caller frees it. */
static char *selector_of(const struct model *model, const struct blame_suspect *suspect) {
    uint32_t example = suspect->members[0], frames = suspect->frames;
    char *text = cli_format("%" PRIu32, model->contexts[example].id);
    size_t alike = 0, members = 0;
    if (suspect->count == 1)
        return text;
    for (uint32_t i = 0; i < model->context_count; i++)
        alike += model_totals_any(&model->contexts[i].figures->self) &&
                 selector_same_frames(model, example, i, frames);
    for (size_t i = 0; i < suspect->count; i++)
        members += selector_same_frames(model, example, suspect->members[i], frames);
    bool listed = suspect->count <= SELECTOR_IDS && (alike != members || members < suspect->count);
    if (!listed) {
        char *common = cli_format("%s/%" PRIu32, text, frames);
        free(text);
        return common;
    }
    for (size_t i = 1; i < suspect->count; i++) {
        char *longer = cli_format("%s,%" PRIu32, text, model->contexts[suspect->members[i]].id);
        free(text);
        text = longer;
    }
    return text;
}

struct finding *finding_on(struct look *look, const struct rule *rule, enum severity severity,
                           const struct blame_suspect *suspect, int64_t bytes, double ratio) {
    struct finding *finding = finding_new(look, rule, severity, bytes, ratio);
    finding->example = suspect->members[0];
    finding->frames = suspect->frames;
    finding->contexts = suspect->count;
    finding->selector = selector_of(look->model, suspect);
    if (suspect->count == 1)
        finding->context = suspect->members[0];
    return finding;
}

char *look_closer(const struct look *look, const char *verb, const char *options,
                  const struct finding *finding) {
    if (!finding->selector)
        return cli_format("memctx %s %s%s", verb, look->input->target, options);
    return cli_format("memctx %s %s%s --context %s", verb, look->input->target, options,
                      finding->selector);
}

int64_t look_sum(const struct look *look, const struct blame_suspect *suspect, size_t figure) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t number = blame_number(&look->paths, suspect->members[i]);
        const char *totals = (const char *)&look->totals[number];
        sum = model_add(sum, *(const int64_t *)(totals + figure));
    }
    return model_tame(sum);
}
