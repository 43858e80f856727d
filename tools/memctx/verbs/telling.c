/* SPDX-License-Identifier: MIT */
/* telling.c - the options that doctor and postmortem share; see telling.h. */
#include "verbs/telling.h"

#include "formats/render.h"

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
