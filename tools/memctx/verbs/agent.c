/* SPDX-License-Identifier: MIT */
/* agent.c - `memctx agent`: serve, watch and push for all processes of a machine, from one file. */
#include <stdlib.h>
#include <string.h>

#include "agent/supervisor.h"
#include "base/json.h"
#include "verbs/verbs.h"

#define CONFIG_PATH "/etc/memctx/agent.toml"

enum { OPTION_CONFIG = 1, OPTION_CHECK, OPTION_JSON };

static const struct option options_list[] = {{"config", required_argument, NULL, OPTION_CONFIG},
                                             {"check", no_argument, NULL, OPTION_CHECK},
                                             {"json", no_argument, NULL, OPTION_JSON},
                                             CLI_COMMON_OPTIONS};

/* Prints a space and a word, quoted for a shell if necessary. */
static void print_word(const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/=,@+%";
    bool quoted = word[0] == '\0' || word[strspn(word, plain)] != '\0';
    if (!quoted) {
        printf(" %s", word);
        return;
    }
    fputs(" '", stdout);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\'", stdout);
        putchar(*word);
    }
    putchar('\'');
}

static void print_shown(const char *word) {
    char *shown = cli_hide_password(word);
    print_word(shown);
    free(shown);
}

/* Prints the command line of each part. */
static void print_parts(const struct config *config, const char *path, bool as_json) {
    struct json_writer json = {.file = stdout};
    for (size_t i = 0; i < config->count && !as_json; i++) {
        printf("%s: memctx", config->parts[i].name);
        for (size_t k = 0; k < config->parts[i].word_count; k++)
            print_shown(config->parts[i].words[k]);
        putchar('\n');
    }
    if (!as_json)
        return;
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-agent/1");
    json_put_text(&json, "file", path);
    json_put_integer(&json, "memory_bytes", config->memory_bytes);
    json_put_open(&json, "parts", '[');
    for (size_t i = 0; i < config->count; i++) {
        const struct config_part *part = &config->parts[i];
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "name", part->name);
        json_put_integer(&json, "line", part->line);
        json_put_open(&json, "words", '[');
        for (size_t k = 0; k < part->word_count; k++) {
            char *shown = cli_hide_password(part->words[k]);
            json_put_text(&json, NULL, shown);
            free(shown);
        }
        json_put_close(&json, ']');
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

int agent_main(int argc, char **argv) {
    const char *path = CONFIG_PATH;
    bool check = false, json = false;
    struct config config;
    struct cli_failure failure;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_CONFIG: path = optarg; break;
        case OPTION_CHECK: check = true; break;
        default: json = true; break;
        }
    }
    if (optind < argc)
        cli_usage("agent takes no TARGET, because its file says which processes are meant; got %s",
                  argv[optind]);
    if (!config_read(&config, path, &failure) || !supervisor_check(&config, path, &failure))
        cli_die_failure(&failure);
    if (!check)
        return supervisor_run(&config, path, json);
    print_parts(&config, path, json);
    return cli_finish_output(CLI_DONE);
}
