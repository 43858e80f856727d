/* SPDX-License-Identifier: MIT */
/* settings.c - the table of MEMCTX_* settings. */
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <memctx/options.h>

#include "cli.h"

static const char *const control_mode_words[] = {MEMCTX_CONTROL_MODE_WORDS};
static const char *const thp_mode_words[] = {MEMCTX_THP_MODE_WORDS};

#define WORDS_INT NULL
#define WORDS_CONTROL_MODE control_mode_words
#define WORDS_THP_MODE thp_mode_words

const struct settings_entry settings_table[] = {
#define X(field, NAME, kind, initial_value, minimum_value, maximum_value, live, text)              \
    {.name = #field,                                                                               \
     .variable = "MEMCTX_" #NAME,                                                                  \
     .help = text,                                                                                 \
     .words = WORDS_##kind,                                                                        \
     .initial = initial_value,                                                                     \
     .minimum = minimum_value,                                                                     \
     .maximum = maximum_value,                                                                     \
     .settable = live},
    MEMCTX_OPTIONS(X)
#undef X
};

const size_t settings_count = sizeof(settings_table) / sizeof(settings_table[0]);

const struct settings_entry *settings_find(const char *name) {
    for (size_t i = 0; i < settings_count; i++) {
        if (strcmp(settings_table[i].name, name) == 0) {
            return &settings_table[i];
        }
    }
    return NULL;
}

bool settings_accepts(const struct settings_entry *entry, const char *text) {
    int64_t value;
    for (int64_t i = entry->minimum; entry->words != NULL && i <= entry->maximum; i++) {
        if (strcmp(entry->words[i], text) == 0) {
            return true;
        }
    }
    return entry->words == NULL && cli_is_number(text, &value) && value >= entry->minimum &&
           value <= entry->maximum;
}

const char *settings_text(const struct settings_entry *entry, int64_t value) {
    static char text[24];
    if (entry->words != NULL) {
        return entry->words[value];
    }
    snprintf(text, sizeof(text), "%" PRId64, value);
    return text;
}
