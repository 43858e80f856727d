/* SPDX-License-Identifier: MIT */
/* The options table, its parser and its description; declared in include/memctx/options.h. */
#include "base/options.h"

struct options options START_PAGE __attribute__((aligned(CACHE_LINE))) = {
#define DEFAULT(field, NAME, kind, value, ...) .field = value,
    MEMCTX_OPTIONS(DEFAULT)
#undef DEFAULT
};
bool options_depth_is_set START_PAGE;

static const char *const control_words[] = {MEMCTX_CONTROL_MODE_WORDS, NULL};
static const char *const fold_words[] = {MEMCTX_FOLD_MODE_WORDS, NULL};
/* Empty lists. An option whose `words` is one of these lists is a size (size_words) or a value of
 * MEMCTX_MARKS (marks_words). */
static const char *const size_words[] = {NULL};
static const char *const marks_words[] = {NULL};
static const char *const thp_words[] = {MEMCTX_THP_MODE_WORDS, NULL};

#define WORDS_INT NULL
#define WORDS_CONTROL_MODE control_words
#define WORDS_FOLD_MODE fold_words
#define WORDS_SIZE size_words
#define WORDS_MARKS marks_words
#define WORDS_THP_MODE thp_words

static const struct option {
    const char *name; /* in upper case, without MEMCTX_ */
    int64_t *value, initial, minimum, maximum;
    const char *const *words; /* names of the values; NULL: the option is a number */
    bool live;                /* may change while the program runs */
    const char *help;
} table[] = {
#define ROW(field, NAME, kind, value, minimum, maximum, live, help)                                \
    {#NAME, &options.field, value, minimum, maximum, WORDS_##kind, live, help},
    MEMCTX_OPTIONS(ROW)
#undef ROW
};
#define OPTION_COUNT (sizeof table / sizeof table[0])

static char to_upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Returns the option whose name stands in `text` before the character `end_mark`, and points *rest
 * behind this character. NULL: no option has this name. */
static const struct option *find(const char *text, char end_mark, const char **rest) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *at = text;
        const char *name = table[i].name;
        while (*name && to_upper(*at) == *name) {
            at++;
            name++;
        }
        if (!*name && *at == end_mark) {
            *rest = at + 1;
            return &table[i];
        }
    }
    return NULL;
}

#define PERCENT_MAX 50 /* the largest percentage that a size may be */

/* Parses "N", "NK", "NM", "NG" or "N%". A percentage becomes a negative number. */
static bool parse_size(const struct option *option, const char *text, int64_t *value) {
    char digits[24];
    size_t length = text_length(text);
    if (!length || text[length - 1] != '%')
        return text_to_number(text, value) && *value >= option->minimum &&
               *value <= option->maximum;
    if (length > sizeof digits)
        return false;
    __builtin_memcpy(digits, text, length - 1);
    digits[length - 1] = 0;
    if (!text_to_number(digits, value) || *value > PERCENT_MAX)
        return false;
    *value = -*value;
    return *value < 0;
}

static bool parse(const struct option *option, const char *text, int64_t *value) {
    if (option->words == size_words)
        return parse_size(option, text, value);
    if (option->words == marks_words) {
        *value = memctx_marks_parse(text);
        return *value >= 0;
    }
    for (int64_t i = 0; option->words && option->words[i]; i++) {
        if (text_equal(option->words[i], text)) {
            *value = i;
            return true;
        }
    }
    /* K, M and G are refused, because a number may be in KiB or in milliseconds. */
    size_t length = text_length(text);
    return !option->words && length && text[length - 1] <= '9' && text_to_number(text, value) &&
           *value >= option->minimum && *value <= option->maximum;
}

static void describe_name(const struct option *option, struct text *text) {
    for (const char *name = option->name; *name; name++) {
        char lower = *name >= 'A' && *name <= 'Z' ? (char)(*name + ('a' - 'A')) : *name;
        text_add_bytes(text, &lower, 1);
    }
}

static void describe_range(const struct option *option, struct text *text) {
    if (option->words == size_words) {
        text_add(text, "bytes from ");
        text_add_number(text, option->minimum);
        text_add(text, " on, with K, M or G, or 1% to ");
        text_add_number(text, PERCENT_MAX);
        text_add(text, "%");
        return;
    }
    if (option->words == marks_words) {
        text_add(text, MEMCTX_MARKS_SYNTAX);
        return;
    }
    if (!option->words) {
        text_add_number(text, option->minimum);
        text_add(text, "..");
        text_add_number(text, option->maximum);
        return;
    }
    for (size_t i = 0; option->words[i]; i++) {
        text_add(text, i ? ", " : "");
        text_add(text, option->words[i]);
    }
}

static void describe_marks(int64_t value, struct text *text) {
    int64_t time;
    const char *unit = memctx_marks_unit(value / MEMCTX_MARKS_PACK, &time);
    if (!value) {
        text_add(text, "off");
        return;
    }
    text_add_number(text, time);
    text_add(text, unit);
    text_add(text, ",");
    text_add_number(text, value % MEMCTX_MARKS_PACK);
}

static void describe_value(const struct option *option, int64_t value, struct text *text) {
    bool percent = option->words == size_words && value < 0;
    if (option->words == marks_words) {
        describe_marks(value, text);
        return;
    }
    if (option->words && option->words != size_words) {
        text_add(text, option->words[value]);
        return;
    }
    text_add_number(text, percent ? -value : value);
    text_add(text, percent ? "%" : "");
}

static void store_option(const struct option *option, int64_t value) {
    store_release(option->value, value);
    if (option->value == &options.depth)
        store_release(&options_depth_is_set, true);
}

void options_read(char *const *environment, struct text *warnings) {
    static const char prefix[] = "MEMCTX_";
    for (; environment && *environment; environment++) {
        const char *entry = *environment;
        size_t i = 0;
        while (prefix[i] && entry[i] == prefix[i])
            i++;
        const char *value_text;
        const struct option *option = prefix[i] ? NULL : find(entry + i, '=', &value_text);
        if (!option)
            continue;
        int64_t value;
        if (parse(option, value_text, &value)) {
            store_option(option, value);
            continue;
        }
        text_add(warnings, "memctx: MEMCTX_");
        text_add(warnings, option->name);
        text_add(warnings, "=");
        text_add_word(warnings, value_text, 40);
        text_add(warnings, " is not understood; it takes ");
        describe_range(option, warnings);
        text_add(warnings, "; the default is used: ");
        describe_value(option, option->initial, warnings);
        text_add(warnings, "\n");
    }
}

enum option_result options_set(const char *assignment, struct text *answer) {
    const char *value_text;
    int64_t value;
    const struct option *option = find(assignment, '=', &value_text);
    if (!option) {
        text_add(answer, "no such option; `memctx options` lists them");
        return OPTION_UNKNOWN;
    }
    describe_name(option, answer);
    if (!option->live) {
        text_add(answer, " is fixed when the program starts; set it with `memctx run --set`");
        return OPTION_FIXED;
    }
    if (!parse(option, value_text, &value)) {
        text_add(answer, " takes ");
        describe_range(option, answer);
        return OPTION_BAD_VALUE;
    }
    store_option(option, value);
    text_add(answer, " is now ");
    describe_value(option, value, answer);
    return OPTION_SET;
}

void options_describe(struct text *text) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        describe_name(&table[i], text);
        text_add(text, "\t");
        describe_value(&table[i], load_relaxed(table[i].value), text);
        text_add(text, "\t");
        describe_value(&table[i], table[i].initial, text);
        text_add(text, table[i].live ? "\tlive\t" : "\tstart\t");
        text_add(text, table[i].help);
        text_add(text, "\n");
    }
}
