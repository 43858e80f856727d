/* SPDX-License-Identifier: MIT */
/* config.c - turns the tables of a file into command lines. */
#include "agent/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/toml.h"
#include "base/nearest.h"

#define MEMORY_LEAST_BYTES (16 << 20)
#define MEMORY_DEFAULT_BYTES ((int64_t)256 << 20)

enum part_kind { PART_AGENT, PART_SERVE, PART_WATCH, PART_PUSH, PART_KINDS };

static const char *const part_names[PART_KINDS] = {"agent", "serve", "watch", "push"};

/* How a value becomes words of the command line. */
enum key_kind {
    KEY_TEXT,    /* --OPTION TEXT */
    KEY_TIME,    /* --OPTION TEXT, where a number is seconds */
    KEY_NUMBER,  /* --OPTION NUMBER */
    KEY_LIST,    /* --OPTION TEXT for each text */
    KEY_BOOLEAN, /* --OPTION if true */
    KEY_MATCH,   /* a pattern that chooses the processes */
    KEY_MEMORY   /* a limit that the agent sets, no option of the verb */
};

static const char *const kind_words[] = {
    [KEY_TEXT] = "a string",
    [KEY_TIME] = "a time such as \"60s\"",
    [KEY_NUMBER] = "a number",
    [KEY_LIST] = "a string or an array of strings",
    [KEY_BOOLEAN] = "true or false",
    [KEY_MATCH] = "a string",
    [KEY_MEMORY] = "a size such as \"256M\"",
};

struct key {
    enum part_kind part;
    const char *name, *option; /* option: NULL if the option has the name of the key */
    enum key_kind kind;
};

static const struct key keys[] = {
    {PART_AGENT, "match", NULL, KEY_MATCH},
    {PART_AGENT, "memory", NULL, KEY_MEMORY},
    {PART_SERVE, "match", NULL, KEY_MATCH},
    {PART_SERVE, "listen", NULL, KEY_TEXT},
    {PART_SERVE, "token-file", NULL, KEY_TEXT},
    {PART_SERVE, "cert", NULL, KEY_TEXT},
    {PART_SERVE, "key", NULL, KEY_TEXT},
    {PART_SERVE, "every", NULL, KEY_TIME},
    {PART_WATCH, "match", NULL, KEY_MATCH},
    {PART_WATCH, "when", NULL, KEY_LIST},
    {PART_WATCH, "do", NULL, KEY_LIST},
    {PART_WATCH, "keep", NULL, KEY_NUMBER},
    {PART_WATCH, "cool", NULL, KEY_TIME},
    {PART_WATCH, "dir", NULL, KEY_TEXT},
    {PART_WATCH, "every", NULL, KEY_TIME},
    {PART_WATCH, "timeout", NULL, KEY_TIME},
    {PART_WATCH, "memory", NULL, KEY_TEXT},
    {PART_WATCH, "json", NULL, KEY_BOOLEAN},
    {PART_PUSH, "match", NULL, KEY_MATCH},
    {PART_PUSH, "pyroscope", NULL, KEY_TEXT},
    {PART_PUSH, "parca", NULL, KEY_TEXT},
    {PART_PUSH, "otlp", NULL, KEY_TEXT},
    {PART_PUSH, "pushgateway", NULL, KEY_TEXT},
    {PART_PUSH, "labels", "label", KEY_LIST}, /* one --label for each text */
    {PART_PUSH, "every", NULL, KEY_TIME},
    {PART_PUSH, "token-file", NULL, KEY_TEXT},
    {PART_PUSH, "ca-file", NULL, KEY_TEXT},
    {PART_PUSH, "cert", NULL, KEY_TEXT},
    {PART_PUSH, "key", NULL, KEY_TEXT},
    {PART_PUSH, "limit-samples", NULL, KEY_NUMBER},
    {PART_PUSH, "json", NULL, KEY_BOOLEAN},
};

#define KEY_COUNT (sizeof keys / sizeof keys[0])

/* A file that is being read. */
struct reading {
    struct config *config;
    const char *path, *match; /* match: the key `match` of [agent]; NULL: all processes */
    struct cli_failure *failure;
};

static bool fail_at(struct reading *reading, unsigned line, const char *format, ...)
    CLI_PRINTF(3, 4);
static bool fail_at(struct reading *reading, unsigned line, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return cli_fail(reading->failure, CLI_USAGE, "%s:%u: %s", reading->path, line, text);
}

/* --- names ----------------------------------------------------------------------------------- */

static const struct key *find_key(enum part_kind part, const char *name, struct nearest *nearest) {
    *nearest = nearest_begin(name);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].part != part)
            continue;
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
        nearest_offer(nearest, keys[i].name);
    }
    return NULL;
}

/* --- parts ----------------------------------------------------------------------------------- */

static void add_word(struct config_part *part, const char *word) {
    part->words = cli_grow(part->words, part->word_count + 2, sizeof *part->words);
    part->words[part->word_count++] = cli_copy(word);
    part->words[part->word_count] = NULL;
}

static void add_option(struct config_part *part, const char *option, const char *text) {
    char *word = cli_format("--%s", option);
    add_word(part, word);
    free(word);
    if (text)
        add_word(part, text);
}

/* Returns true if a value has the kind that the key takes. */
static bool fits(const struct key *key, const struct toml_value *value) {
    switch (key->kind) {
    case KEY_TIME: return value->kind == TOML_TEXT || value->kind == TOML_NUMBER;
    case KEY_NUMBER: return value->kind == TOML_NUMBER;
    case KEY_LIST: return value->kind == TOML_TEXT || value->kind == TOML_LIST;
    case KEY_BOOLEAN: return value->kind == TOML_BOOLEAN;
    default: return value->kind == TOML_TEXT;
    }
}

static void add_value(struct config_part *part, const struct key *key,
                      const struct toml_value *value) {
    const char *option = key->option ? key->option : key->name;
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)value->number);
    part->keys = cli_grow(part->keys, part->key_count + 1, sizeof *part->keys);
    part->keys[part->key_count++] = (struct config_key){option, value->line};
    if (value->kind == TOML_NUMBER)
        add_option(part, option, number);
    else if (value->kind == TOML_BOOLEAN && value->number)
        add_option(part, option, NULL);
    for (size_t i = 0; i < value->count; i++)
        add_option(part, option, value->texts[i]);
}

/* Adds the option that chooses the processes. */
static void add_match(struct config_part *part, const char *match) {
    add_option(part, match ? "match" : "all", match);
}

static bool read_memory(struct reading *reading, const struct toml_value *value) {
    const char *text = value->texts[0];
    char *end;
    long long number = strtoll(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    bool good = end > text && end[shift > 0] == '\0' && number >= 0 && number < INT64_MAX >> shift;
    if (!good || (number > 0 && number << shift < MEMORY_LEAST_BYTES))
        return fail_at(
            reading, value->line,
            "memory takes a number of bytes with K, M or G of at least 16M, or \"0\" for "
            "no limit; got \"%.60s\"",
            text);
    reading->config->memory_bytes = number << shift;
    return true;
}

/* Checks the keys of a table, and adds their words to the part. */
static bool read_keys(struct reading *reading, enum part_kind kind, const struct toml_table *table,
                      struct config_part *part) {
    struct nearest nearest;
    const char *match = reading->match;
    for (size_t i = 0; i < table->count; i++) {
        const struct toml_value *value = &table->values[i];
        const struct key *key = find_key(kind, value->key, &nearest);
        if (!key)
            return fail_at(reading, value->line, "[%s] has no key \"%.60s\"%s", table->name,
                           value->key, nearest_text(&nearest, "", "; see memctx agent --help"));
        if (!fits(key, value))
            return fail_at(reading, value->line, "%s takes %s", key->name, kind_words[key->kind]);
        if (key->kind == KEY_MEMORY && !read_memory(reading, value))
            return false;
        if (key->kind == KEY_MATCH)
            match = value->texts[0];
        if (part && key->kind != KEY_MATCH)
            add_value(part, key, value);
    }
    if (part)
        add_match(part, match);
    else if (match)
        reading->match = match;
    return true;
}

/* Searches the words of a part from *at on for an option, and returns its value; NULL: there is
 * none. Sets *at to the word behind the value. */
static const char *next_value(const struct config_part *part, const char *option, size_t *at) {
    while (*at + 1 < part->word_count)
        if (strcmp(part->words[(*at)++], option) == 0)
            return part->words[(*at)++];
    return NULL;
}

static bool has_label(const struct config_part *part, const char *label) {
    const char *found;
    for (size_t at = 0; (found = next_value(part, "--label", &at));)
        if (strcmp(found, label) == 0)
            return true;
    return false;
}

static bool has_labels_of(const struct config_part *part, const struct config_part *other) {
    const char *label;
    for (size_t at = 0; (label = next_value(other, "--label", &at));)
        if (!has_label(part, label))
            return false;
    return true;
}

/* Returns true if both parts push metrics as the same group of a Pushgateway. Each would replace
 * the metrics of the other, and remove them at its end. */
static bool share_group(const struct config_part *part, const struct config_part *other) {
    size_t at = 0, other_at = 0;
    const char *url = next_value(part, "--pushgateway", &at);
    const char *other_url = next_value(other, "--pushgateway", &other_at);
    return url && other_url && strcmp(url, other_url) == 0 && has_labels_of(part, other) &&
           has_labels_of(other, part);
}

/* Refuses a part that shares the group of an earlier part at a Pushgateway. */
static bool check_group(struct reading *reading, const struct config_part *part) {
    for (const struct config_part *other = reading->config->parts; other < part; other++)
        if (share_group(part, other))
            return fail_at(reading, part->line,
                           "[push] has the pushgateway and labels of the table in line %u, so each "
                           "would replace the metrics of the other; add labels that differ",
                           other->line);
    return true;
}

/* Returns the kind of a table. If the file may not have such a table, sets the failure and returns
 * PART_KINDS. */
static enum part_kind find_kind(struct reading *reading, const struct toml_table *table) {
    struct nearest nearest = nearest_begin(table->name);
    if (table->name[0] == '\0') {
        fail_at(
            reading, table->values[0].line,
            "\"%.60s\" stands before the first table; put it below [agent], [serve], [watch] or "
            "[push]",
            table->values[0].key);
        return PART_KINDS;
    }
    for (unsigned kind = 0; kind < PART_KINDS; kind++) {
        nearest_offer(&nearest, part_names[kind]);
        if (strcmp(table->name, part_names[kind]) != 0)
            continue;
        if (!table->repeated || kind == PART_WATCH || kind == PART_PUSH)
            return (enum part_kind)kind;
        fail_at(reading, table->line, "there is one [%s]; write its name in one pair of brackets",
                table->name);
        return PART_KINDS;
    }
    fail_at(reading, table->line,
            nearest.name ? "no table is called [%.60s]; did you mean [%s]?"
                         : "no table is called [%.60s]; the tables are [agent], [serve], [watch] "
                           "and [push]",
            table->name, nearest.name);
    return PART_KINDS;
}

static bool add_part(struct reading *reading, enum part_kind kind, const struct toml_table *table) {
    struct config *config = reading->config;
    unsigned number = 1;
    if (config->count == CONFIG_PARTS_MAX)
        return fail_at(reading, table->line, "there are more than %d parts; take some tables out",
                       CONFIG_PARTS_MAX);
    for (size_t i = 0; i < config->count; i++)
        number += strcmp(config->parts[i].words[0], part_names[kind]) == 0;
    struct config_part *part = &config->parts[config->count++];
    *part = (struct config_part){.line = table->line};
    part->name =
        number > 1 ? cli_format("%s %u", part_names[kind], number) : cli_copy(part_names[kind]);
    add_word(part, part_names[kind]);
    return read_keys(reading, kind, table, part) && check_group(reading, part);
}

/* Reads [agent] first, even if it is not the first table, because the other tables depend on it. */
static bool read_tables(struct reading *reading, const struct toml *toml) {
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < toml->count; i++) {
            const struct toml_table *table = &toml->tables[i];
            enum part_kind kind = find_kind(reading, table);
            if (kind == PART_KINDS)
                return false;
            if ((kind != PART_AGENT) != others)
                continue;
            if (kind == PART_AGENT ? !read_keys(reading, kind, table, NULL)
                                   : !add_part(reading, kind, table))
                return false;
        }
    if (reading->config->count > 0)
        return true;
    return fail_at(reading, 1, "there is nothing to do; add [serve], [watch] or [push]");
}

/* --- the file -------------------------------------------------------------------------------- */

/* Opens the file. A FIFO would block the agent until somebody writes into it, so only a regular
 * file is opened; the failure is set otherwise. */
static FILE *open_file(struct reading *reading) {
    struct stat status;
    int fd = open(reading->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        cli_set_failure(reading->failure, CLI_USAGE,
                        "cannot read %s; %s; name the file with --config FILE", reading->path,
                        strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        cli_set_failure(reading->failure, CLI_USAGE,
                        "%s is no regular file; name the file of settings with --config FILE",
                        reading->path);
    } else {
        return fdopen(fd, "r");
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static char *read_file(struct reading *reading, size_t *length) {
    FILE *file = open_file(reading);
    if (!file)
        return NULL;
    char *text = cli_alloc(CONFIG_FILE_MAX_BYTES + 2, 1);
    *length = fread(text, 1, CONFIG_FILE_MAX_BYTES + 1, file);
    if (ferror(file)) {
        cli_set_failure(reading->failure, CLI_USAGE,
                        "cannot read %s; %s; name the file with --config FILE", reading->path,
                        strerror(errno));
    } else if (*length > CONFIG_FILE_MAX_BYTES) {
        cli_set_failure(
            reading->failure, CLI_USAGE,
            "%s has more than %d bytes, so it is no file of settings; name the right file with "
            "--config FILE",
            reading->path, CONFIG_FILE_MAX_BYTES);
    } else {
        fclose(file);
        return text;
    }
    fclose(file);
    free(text);
    return NULL;
}

bool config_read(struct config *config, const char *path, struct cli_failure *failure) {
    struct reading reading = {.config = config, .path = path, .failure = failure};
    struct toml toml;
    struct toml_error error;
    size_t length;
    *config = (struct config){.memory_bytes = MEMORY_DEFAULT_BYTES};
    char *text = read_file(&reading, &length);
    if (!text)
        return false;
    bool good = toml_parse(&toml, text, length, &error);
    good = good ? read_tables(&reading, &toml) : fail_at(&reading, error.line, "%s", error.text);
    toml_free(&toml);
    free(text);
    return good;
}

unsigned config_find_line(const struct config_part *part, const char *message) {
    unsigned line = part->line;
    size_t longest = 0;
    for (size_t i = 0; i < part->key_count; i++) {
        char *word = cli_format("--%s", part->keys[i].option);
        const char *found = strstr(message, word);
        size_t length = strlen(word);
        /* If the message names several options, the longest name counts: it may contain another. */
        if (found && length > longest) {
            line = part->keys[i].line;
            longest = length;
        }
        free(word);
    }
    return line;
}

void config_free(struct config *config) {
    for (size_t i = 0; i < config->count; i++) {
        struct config_part *part = &config->parts[i];
        for (size_t k = 0; k < part->word_count; k++)
            free(part->words[k]);
        free(part->words);
        free(part->keys);
        free(part->name);
    }
    *config = (struct config){0};
}
