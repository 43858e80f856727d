/* SPDX-License-Identifier: MIT */
/* self.c - `memctx dump --self`: prints the library's own statistics. */
#include "verbs/self.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static void put_value(struct json_writer *json, const char *name, const char *value) {
    int64_t number;
    bool negative = value[0] == '-';
    if (strcmp(value, "-") == 0)
        json_put_null(json, name);
    else if (cli_is_number(value + negative, &number))
        json_put_integer(json, name, negative ? -number : number);
    else
        json_put_text(json, name, value);
}

/* Cuts the next statistic off the text. Returns false if there is none. *meaning is NULL if the
 * line has none. */
static bool next_figure(char **text, char **name, char **value, char **meaning) {
    char *line;
    while ((line = strsep(text, "\n"))) {
        *name = strsep(&line, "\t");
        *value = line ? strsep(&line, "\t") : NULL;
        *meaning = line;
        if (*value)
            return true;
    }
    return false;
}

int64_t self_figure(struct target *target, const char *wanted) {
    char *text = target_ask_text(target, WIRE_SELF, NULL, 0), *rest = text;
    char *name, *value, *meaning;
    int64_t figure = WIRE_UNKNOWN;
    while (next_figure(&rest, &name, &value, &meaning))
        if (strcmp(name, wanted) == 0 && !cli_is_number(value, &figure))
            figure = WIRE_UNKNOWN;
    free(text);
    return figure;
}

char *self_setting(struct target *target, const char *wanted) {
    char *text = target_ask_text(target, WIRE_OPTIONS, NULL, 0), *rest = text, *found = NULL;
    char *name, *value, *meaning;
    while (next_figure(&rest, &name, &value, &meaning))
        if (!found && strcmp(name, wanted) == 0)
            found = cli_copy(value);
    free(text);
    return found;
}

int self_print(struct target *target, bool json) {
    char *text = target_ask_text(target, WIRE_SELF, NULL, 0);
    struct json_writer writer = {.file = stdout};
    if (json) {
        json_put_open(&writer, NULL, '{');
        json_put_text(&writer, "schema", "memctx-self/1");
        json_put_integer(&writer, "pid", target->facts.pid);
        json_put_text(&writer, "library_version", target->client.hello.library_version);
        json_put_open(&writer, "figures", '{');
    }
    char *name, *value, *meaning;
    while (next_figure(&text, &name, &value, &meaning))
        if (json)
            put_value(&writer, name, value);
        else
            printf("%-28s %20s  %s\n", name, value, meaning ? meaning : "");
    if (json) {
        json_put_close(&writer, '}');
        json_put_close(&writer, '}');
        putchar('\n');
    }
    return cli_finish_output(CLI_DONE);
}
