/* SPDX-License-Identifier: MIT */
/* settings.c - the table of MEMCTX_* settings. */
#include "verbs/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <memctx/options.h>

#include "base/cli.h"
#include "base/nearest.h"

static const char *const control_mode_words[] = {MEMCTX_CONTROL_MODE_WORDS};
static const char *const fold_mode_words[] = {MEMCTX_FOLD_MODE_WORDS};
static const char *const thp_mode_words[] = {MEMCTX_THP_MODE_WORDS};
/* The words of MEMCTX_MARKS: one, for the value 0. Other values are texts such as "10m,24", which
 * memctx/marks.h reads. */
static const char *const marks_words[] = {"off"};

#define WORDS_INT NULL
#define WORDS_CONTROL_MODE control_mode_words
#define WORDS_FOLD_MODE fold_mode_words
#define WORDS_SIZE NULL
#define WORDS_MARKS marks_words
#define IS_SIZE_INT false
#define IS_SIZE_MARKS false
#define IS_SIZE_SIZE true
#define IS_SIZE_CONTROL_MODE false
#define IS_SIZE_FOLD_MODE false
#define IS_SIZE_THP_MODE false
#define WORDS_THP_MODE thp_mode_words

const struct settings_entry settings_table[] = {
#define X(field, NAME, kind, initial_value, minimum_value, maximum_value, live, text)              \
    {.variable = "MEMCTX_" #NAME,                                                                  \
     .help = text,                                                                                 \
     .words = WORDS_##kind,                                                                        \
     .initial = initial_value,                                                                     \
     .minimum = minimum_value,                                                                     \
     .maximum = maximum_value,                                                                     \
     .size = IS_SIZE_##kind,                                                                       \
     .settable = live},
    MEMCTX_OPTIONS(X)
#undef X
};

const size_t settings_count = sizeof settings_table / sizeof settings_table[0];

const char *settings_name(const struct settings_entry *entry) {
    static char name[32];
    size_t length = 0;
    const char *upper = entry->variable + strlen("MEMCTX_");
    for (; upper[length] && length + 1 < sizeof name; length++)
        name[length] = (char)tolower((unsigned char)upper[length]);
    name[length] = '\0';
    return name;
}

const struct settings_entry *settings_find(const char *name) {
    for (size_t i = 0; i < settings_count; i++)
        if (strcasecmp(settings_table[i].variable + strlen("MEMCTX_"), name) == 0)
            return &settings_table[i];
    return NULL;
}

const char *settings_suggest(const char *name, const char *otherwise) {
    const size_t prefix = strlen("MEMCTX_");
    bool has_prefix = strncasecmp(name, "MEMCTX_", prefix) == 0;
    struct nearest nearest = nearest_begin(has_prefix ? name + prefix : name);
    for (size_t i = 0; i < settings_count; i++)
        nearest_offer(&nearest, cli_copy(settings_name(&settings_table[i])));
    return nearest_text(&nearest, "", otherwise);
}

#define PREFIX "MEMCTX_"

/* Variables that are no settings. memctx watch sets the last four for its commands. */
static const char *const other_variables[] = {
    PREFIX "LIBRARY",     PREFIX "RECORD", PREFIX "RULES", PREFIX "RULE_RANGES", PREFIX "RUN_PID",
    PREFIX "NO_CHILDREN", PREFIX "PID",    PREFIX "WHEN",  PREFIX "VALUE",       PREFIX "FILE"};

void settings_warn_of_misspelled(void) {
    const size_t prefix = strlen(PREFIX);
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, PREFIX, prefix) != 0)
            continue;
        char *name = cli_format("%.*s", (int)strcspn(*variable, "="), *variable);
        struct nearest nearest = nearest_begin(name + prefix);
        bool known = settings_find(name + prefix) != NULL;
        for (size_t i = 0; i < settings_count; i++)
            nearest_offer(&nearest, settings_table[i].variable + prefix);
        for (size_t i = 0; i < sizeof other_variables / sizeof *other_variables; i++) {
            known = known || strcmp(name, other_variables[i]) == 0;
            nearest_offer(&nearest, other_variables[i] + prefix);
        }
        const char *suggestion = known ? NULL : nearest_text(&nearest, PREFIX, NULL);
        if (suggestion)
            cli_warn("%s is no variable that memctx reads%s", cli_clean(name), suggestion);
        free(name);
    }
}

#define PERCENT_MAX 50 /* as in src/base/options.c */

/* Checks a size as the library does: "N", "NK", "NM", "NG" or "N%". */
static bool accepts_size(const struct settings_entry *entry, const char *text) {
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || value > entry->maximum || (*end != 0 && end[1] != 0))
        return false;
    if (*end == '%')
        return value >= 1 && value <= PERCENT_MAX;
    const char *unit = *end == 0 ? NULL : strchr(units, toupper((unsigned char)*end));
    if (*end != 0 && !unit)
        return false;
    for (ptrdiff_t i = !unit ? 0 : unit - units + 1; i > 0; i--)
        value = value > entry->maximum ? value : value * 1024;
    return value >= entry->minimum && value <= entry->maximum;
}

bool settings_accepts(const struct settings_entry *entry, const char *text) {
    int64_t value;
    if (entry->size)
        return accepts_size(entry, text);
    if (entry->words == marks_words)
        return memctx_marks_parse(text) >= 0;
    for (int64_t i = entry->minimum; entry->words && i <= entry->maximum; i++)
        if (strcmp(entry->words[i], text) == 0)
            return true;
    return !entry->words && cli_is_number(text, &value) && value >= entry->minimum &&
           value <= entry->maximum;
}

const char *settings_syntax(const struct settings_entry *entry) {
    return entry->words == marks_words ? MEMCTX_MARKS_SYNTAX : NULL;
}

char *settings_describe(const struct settings_entry *entry) {
    if (settings_syntax(entry))
        return cli_copy(settings_syntax(entry));
    if (entry->size)
        return cli_format("bytes from %" PRId64 " on, with K, M or G, or 1%% to %d%%",
                          entry->minimum, PERCENT_MAX);
    if (!entry->words)
        return cli_format("a value from %" PRId64 " to %" PRId64, entry->minimum, entry->maximum);
    char *list = cli_copy(entry->words[entry->minimum]);
    for (int64_t i = entry->minimum + 1; i <= entry->maximum; i++) {
        char *longer =
            cli_format("%s%s%s", list, i < entry->maximum ? ", " : " or ", entry->words[i]);
        free(list);
        list = longer;
    }
    return list;
}

const char *settings_text(const struct settings_entry *entry, int64_t value) {
    static char text[24];
    if (entry->words)
        return entry->words[value];
    if (entry->size && value < 0)
        snprintf(text, sizeof text, "%" PRId64 "%%", -value);
    else
        snprintf(text, sizeof text, "%" PRId64, value);
    return text;
}
