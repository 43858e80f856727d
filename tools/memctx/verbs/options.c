/* SPDX-License-Identifier: MIT */
/* options.c - `memctx options`: lists the settings, or their values in a process. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/terminal.h"
#include "verbs/reading.h"
#include "verbs/settings.h"
#include "verbs/verbs.h"

static const struct option options_list[] = {
    {"json", no_argument, NULL, READING_JSON}, READING_PAGER_OPTION, CLI_COMMON_OPTIONS};

/* Prints a help text in lines that fit the terminal, each behind `indent` blanks. */
static void print_wrapped(const char *text, int indent) {
    int column = indent, columns = (int)terminal_columns();
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > indent && column + (int)word > columns) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        printf("%s%.*s", column > indent ? " " : "", (int)word, text);
        column += (int)word + 1;
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}

static void print_row(const char *name, const char *value, const char *initial, bool settable,
                      const char *help) {
    char shown[128];
    if (value)
        snprintf(shown, sizeof shown, "%s (default %s)", value, initial);
    else
        snprintf(shown, sizeof shown, "%s", initial);
    printf("%-14s %-8s %s\n", name, settable ? "live" : "start", shown);
    printf("    ");
    print_wrapped(help, 4);
}

static void put_value(struct json_writer *json, const char *key, const char *text) {
    int64_t number;
    if (text && cli_is_number(text, &number))
        json_put_integer(json, key, number);
    else
        json_put_text(json, key, text);
}

static void write_row(struct json_writer *json, const char *name, const char *value,
                      const char *initial, bool settable, const char *help) {
    const struct settings_entry *entry = settings_find(name);
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_text(json, "name", name);
    json_put_text(json, "variable", entry ? entry->variable : NULL);
    put_value(json, "value", value);
    put_value(json, "default", initial);
    if (entry && !entry->words) {
        json_put_integer(json, "minimum", entry->minimum);
        json_put_integer(json, "maximum", entry->maximum);
    } else {
        json_put_null(json, "minimum");
        json_put_null(json, "maximum");
    }
    json_put_open(json, "words", '[');
    for (int64_t i = 0; entry && entry->words && i <= entry->maximum && !settings_syntax(entry);
         i++)
        json_put_text(json, NULL, entry->words[i]);
    json_put_close(json, ']');
    json_put_boolean(json, "settable", settable);
    json_put_text(json, "help", help);
    json_put_close(json, '}');
}

/* Splits one line of the target's answer into name, value, default, settable and help. Returns
 * false if a field is missing. */
static bool split_line(char *line, char *fields[5]) {
    for (int i = 0; i < 5; i++)
        fields[i] = line ? strsep(&line, "\t") : NULL;
    return fields[4] != NULL;
}

static void show_row(struct json_writer *json, const char *name, const char *value,
                     const char *initial, bool settable, const char *help) {
    if (json)
        write_row(json, name, value, initial, settable, help);
    else
        print_row(name, value, initial, settable, help);
}

static void show_process(struct target *target, struct json_writer *json) {
    char *text = target_ask_text(target, WIRE_OPTIONS, NULL, 0);
    char *line, *fields[5];
    while ((line = strsep(&text, "\n"))) {
        if (split_line(line, fields)) {
            bool settable = strcmp(fields[3], "1") == 0 || strcmp(fields[3], "yes") == 0 ||
                            strcmp(fields[3], "live") == 0;
            show_row(json, fields[0], fields[1], fields[2], settable, fields[4]);
        }
    }
}

static void show_table(struct json_writer *json) {
    for (size_t i = 0; i < settings_count; i++) {
        const struct settings_entry *entry = &settings_table[i];
        show_row(json, settings_name(entry), NULL, settings_text(entry, entry->initial),
                 entry->settable, entry->help);
    }
}

int options_main(int argc, char **argv) {
    bool json = false, no_pager = false;
    struct target target;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        json = json || option == READING_JSON;
        no_pager = no_pager || option == READING_NO_PAGER;
    }
    bool process = optind < argc;
    if (process)
        target_open_socket(&target, reading_target_word(argc, argv, 1));
    if (!json && !no_pager)
        terminal_page();
    struct json_writer writer = {.file = stdout};
    if (json) {
        json_put_open(&writer, NULL, '{');
        json_put_text(&writer, "schema", "memctx-options/1");
        json_put_integer(&writer, "pid", process ? target.facts.pid : WIRE_UNKNOWN);
        json_put_open(&writer, "options", '[');
    }
    if (process)
        show_process(&target, json ? &writer : NULL);
    else
        show_table(json ? &writer : NULL);
    if (json) {
        json_put_close(&writer, ']');
        json_put_close(&writer, '}');
        putchar('\n');
    }
    return cli_finish_output(CLI_DONE);
}
