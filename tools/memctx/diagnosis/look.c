/* SPDX-License-Identifier: MIT */
/* look.c - helpers that the rules share. */
#include "diagnosis/look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/join.h"
#include "formats/render.h"
#include "model/selector.h"

#define DAY_TOLD_S 60.0 /* growth that was watched for less than this gets no figure per day */

int64_t look_ledger_line(const struct look *look, const char *key) {
    const struct memory_ledger *ledger = look->input->ledger;
    for (size_t i = 0; i < ledger->count; i++)
        if (strcmp(ledger->lines[i].key, key) == 0)
            return model_tame(ledger->lines[i].bytes);
    return 0;
}

static bool exact_bytes;

void look_use_exact_bytes(bool exact) {
    exact_bytes = exact;
}

int64_t look_swapped(const struct model *model) {
    return model->has_mappings ? larger(0, model_tame(model->mappings.swap_bytes)) : 0;
}

const char *look_bytes(int64_t bytes) {
    static char texts[8][RENDER_NUMBER_BYTES + sizeof " bytes"];
    static unsigned next;
    char *text = render_bytes(texts[next++ % 8], bytes, !exact_bytes);
    if (exact_bytes && bytes != WIRE_UNKNOWN)
        strcat(text, " bytes");
    return text;
}

char *look_time(double seconds) {
    return seconds < 120      ? cli_format("%.1f s", seconds)
           : seconds < 7200   ? cli_format("%.1f min", seconds / 60)
           : seconds < 172800 ? cli_format("%.1f h", seconds / 3600)
                              : cli_format("%.1f days", seconds / 86400);
}

char *look_a_day(double a_day, double seconds) {
    return seconds < DAY_TOLD_S ? cli_copy("")
                                : cli_format(" (%s a day at this rate)",
                                             look_bytes(a_day < 9e18 ? (int64_t)a_day : INT64_MAX));
}

void look_blame(const struct look *look, struct blame *blame, const int64_t *figures,
                int64_t floor) {
    blame_make(blame, &look->paths, figures, floor);
    join_suspects(blame, &look->paths, figures, NULL);
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
                                .advice = rule->advice,
                                .sure = rule->sure,
                                .rule = (size_t)(rule - look->rules),
                                .severity = severity,
                                .context = WIRE_NONE,
                                .example = WIRE_NONE,
                                .common = {WIRE_NONE, 0},
                                .bytes = bytes,
                                .ratio = ratio};
    return finding;
}

/* greatest number of groups with one cause that are selected, the largest ones */
#define SELECTOR_PARTS 40

/* Returns a selector for a suspect whose contexts share innermost frames. It names these frames if
 * no other context has them, or if there are more than BLAME_LISTED contexts; else it lists ids.
 * The caller frees it. */
static char *selector_of_alike(const struct model *model, const struct blame_suspect *suspect) {
    uint32_t example = suspect->members[0], frames = suspect->frames;
    size_t alike = 0, members = 0;
    if (suspect->alike > 0)
        return cli_format("%" PRIu32 "/%" PRIu32, model->contexts[example].id, frames);
    char *text = cli_format("%" PRIu32, model->contexts[example].id);
    if (suspect->count == 1)
        return text;
    for (uint32_t i = 0; i < model->context_count; i++)
        alike += model_totals_any(&model->contexts[i].figures->self) &&
                 selector_same_frames(model, example, i, frames);
    for (size_t i = 0; i < suspect->count; i++)
        members += selector_same_frames(model, example, suspect->members[i], frames);
    bool listed = suspect->count <= BLAME_LISTED && (alike != members || members < suspect->count);
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

char *look_selector(const struct model *model, const struct blame_suspect *suspect) {
    if (!suspect->joined)
        return selector_of_alike(model, suspect);
    char *text = selector_of_alike(model, &suspect->parts[0]);
    for (size_t i = 1; i < suspect->part_count && i < SELECTOR_PARTS; i++) {
        char *part = selector_of_alike(model, &suspect->parts[i]);
        char *longer = cli_format("%s,%s", text, part);
        free(part);
        free(text);
        text = longer;
    }
    return text;
}

static size_t count_meant(const struct blame_suspect *suspect) {
    size_t count = suspect->alike > 0 ? suspect->alike : suspect->joined ? 0 : suspect->count;
    for (size_t i = 0; i < suspect->part_count; i++)
        count += count_meant(&suspect->parts[i]);
    return count;
}

struct finding *finding_on(struct look *look, const struct rule *rule, enum severity severity,
                           const struct blame_suspect *suspect, int64_t bytes, double ratio) {
    struct finding *finding = finding_new(look, rule, severity, bytes, ratio);
    finding->example = suspect->members[0];
    finding->frames = suspect->frames;
    finding->contexts = count_meant(suspect);
    finding->selector = look_selector(look->model, suspect);
    if (finding->contexts == 1)
        finding->context = suspect->members[0];
    if (suspect->joined) {
        finding->common = suspect->common;
        finding->parts = cli_alloc(suspect->part_count, sizeof *finding->parts);
    }
    for (size_t i = 0; i < suspect->part_count; i++) {
        const struct blame_suspect *part = &suspect->parts[i];
        finding->parts[finding->part_count++] =
            (struct finding_part){part->members[0], part->frames, count_meant(part),
                                  share(part->figure, suspect->figure), part->figure};
    }
    return finding;
}

void finding_counts_chunks(struct finding *finding) {
    for (size_t i = 0; i < finding->part_count; i++)
        finding->parts[i].bytes = WIRE_UNKNOWN;
}

bool look_may_act(const struct model *model) {
    return !model->from_snapshot && !model->how;
}

void finding_helps(const struct look *look, struct finding *finding, const char *verb,
                   const char *words, int64_t bytes, char *effect) {
    if (!look_may_act(look->model)) {
        free(effect);
        return;
    }
    finding->now = finding->selector
                       ? cli_format("memctx %s %s --context %s%s", verb, look->input->target,
                                    finding->selector, words)
                       : cli_format("memctx %s %s%s", verb, look->input->target, words);
    finding->now_bytes = bytes;
    finding->now_effect = effect;
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
        struct model_totals totals = look_totals(look, number);
        sum = model_add(sum, *(const int64_t *)((const char *)&totals + figure));
    }
    return model_tame(sum);
}
