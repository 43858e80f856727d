/* SPDX-License-Identifier: MIT */
/* selector.c - finds the contexts that --context names. */
#include "model/selector.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

struct term {
    uint32_t id, frames; /* frames is 0 for a single context */
};

/* Reads the term at *text, and moves *text behind it. Returns false if there is no valid term. */
static bool take_term(const char **text, struct term *term) {
    uint64_t numbers[2] = {0, 0};
    unsigned count = 0;
    do {
        if (!isdigit((unsigned char)**text))
            return false;
        for (; isdigit((unsigned char)**text); (*text)++)
            if ((numbers[count] = numbers[count] * 10 + (uint64_t)(**text - '0')) >= WIRE_NONE)
                return false;
        count++;
    } while (count == 1 && **text == '/' && (*text)++);
    *term = (struct term){(uint32_t)numbers[0], (uint32_t)numbers[1]};
    return (count == 1 || term->frames > 0) && (**text == ',' || **text == '\0');
}

void selector_check(const char *text) {
    struct term term;
    const char *at = text;
    do {
        if (!take_term(&at, &term)) {
            cli_usage(
                "--context takes numbers of contexts with commas between them, such as 12,15, or "
                "12/4 for all contexts with the innermost 4 frames of context 12; got \"%s\"",
                text);
        }
    } while (*at++ == ',');
}

bool selector_same_frames(const struct model *model, uint32_t a, uint32_t b, uint32_t frames) {
    for (; frames > 0; frames--) {
        if (a == b)
            return true;
        if (a == WIRE_NONE || b == WIRE_NONE)
            return false;
        if (model->contexts[a].frame != model->contexts[b].frame)
            return false;
        a = model->contexts[a].parent;
        b = model->contexts[b].parent;
    }
    return true;
}

bool *selector_members(const struct model *model, const char *text) {
    bool *members = cli_alloc(model->context_count, sizeof *members);
    struct term term;
    const char *at = text;
    while (take_term(&at, &term)) {
        uint32_t index = model_find_context(model, term.id);
        if (index == WIRE_NONE) {
            char *target = model->from_snapshot ? cli_quote(model->source)
                                                : cli_format("%" PRId64, model->pid);
            cli_die(CLI_REFUSED,
                    "%s has no context %" PRIu32
                    "; memctx dump --json %s shows the numbers of contexts",
                    model->source, term.id, target);
        }
        members[index] = true;
        for (uint32_t i = 0; term.frames > 0 && i < model->context_count; i++)
            members[i] |= model_totals_any(&model->contexts[i].figures->self) &&
                          selector_same_frames(model, index, i, term.frames);
        if (*at++ != ',')
            break;
    }
    return members;
}
