/* SPDX-License-Identifier: MIT */
/* rules.c - `memctx rules`: lists, adds and removes the rules that place call paths by function
 * names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/terminal.h"
#include "formats/render.h"
#include "rules/rule_send.h"
#include "target/target.h"
#include "verbs/reading.h"
#include "verbs/rule_check.h"
#include "verbs/verbs.h"

enum { OPTION_ADD = 1, OPTION_CLEAR, OPTION_AGAIN };

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             READING_PAGER_OPTION,
                                             {"add", required_argument, NULL, OPTION_ADD},
                                             {"clear", no_argument, NULL, OPTION_CLEAR},
                                             {"again", no_argument, NULL, OPTION_AGAIN},
                                             CLI_COMMON_OPTIONS};

struct line {
    char *rule;
    int64_t contexts, bytes, chunks, limit, refused, guarded, unguarded;
};

/* Cuts the next line off. Returns false if no complete line is left. */
static bool next_line(char **text, struct line *line) {
    char *end = strchr(*text, '\n'), *tab = strchr(*text, '\t');
    if (!end || !tab || tab > end)
        return false;
    *tab = *end = '\0';
    line->rule = cli_clean(*text);
    *text = end + 1;
    return sscanf(tab + 1,
                  "%" SCNd64 "\t%" SCNd64 "\t%" SCNd64 "\t%" SCNd64 "\t%" SCNd64 "\t%" SCNd64
                  "\t%" SCNd64,
                  &line->contexts, &line->bytes, &line->chunks, &line->limit, &line->refused,
                  &line->guarded, &line->unguarded) == 7;
}

static void print_json(const struct target *target, char *text,
                       const struct rule_waiting *waiting) {
    struct json_writer json = {.file = stdout};
    struct line line;
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-rules/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_open(&json, "rules", '[');
    while (next_line(&text, &line)) {
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "rule", line.rule);
        json_put_integer(&json, "contexts", line.contexts);
        json_put_integer(&json, "requested_bytes", line.bytes);
        json_put_integer(&json, "live_chunks", line.chunks);
        if (line.limit != 0) {
            json_put_integer(&json, "limit_bytes", line.limit);
            json_put_integer(&json, "passed", line.refused);
        }
        if (line.guarded + line.unguarded != 0) {
            json_put_integer(&json, "guarded", line.guarded);
            json_put_integer(&json, "unguarded", line.unguarded);
        }
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_open(&json, "unresolved", '[');
    for (size_t i = 0; i < waiting->count; i++)
        json_put_text(&json, NULL, waiting->paths[i]);
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

static void print_text(const struct target *target, char *text, const struct rule_waiting *waiting,
                       bool human) {
    struct line line;
    char bytes[RENDER_NUMBER_BYTES];
    size_t count = 0;
    for (; next_line(&text, &line); count++) {
        if (count == 0) {
            printf("%10s %12s %12s  rule (the first one that matches a call path applies)\n",
                   "contexts", "chunks", "requested");
        }
        printf("%10" PRId64 " %12" PRId64 " %12s  %s\n", line.contexts, line.chunks,
               render_bytes(bytes, line.bytes, human), line.rule);
        if (line.refused != 0) {
            printf("%36s  its limit of %s was exceeded %" PRId64 " times\n", "",
                   render_bytes(bytes, line.limit, human), line.refused);
        }
        if (line.guarded + line.unguarded != 0) {
            printf("%36s  %" PRId64 " allocations got a guard page, %" PRId64 " did not\n", "",
                   line.guarded, line.unguarded);
        }
    }
    if (count == 0)
        printf("no rules; memctx rules %d --add 'FUNCTION=slab' adds one\n",
               (int)target->facts.pid);
    for (size_t i = 0; i < waiting->count; i++) {
        printf("%s%srules are not resolved in %s\n", i == 0 ? "\n" : "",
               waiting->plain_too ? "" : "regex: and file: ", waiting->paths[i]);
    }
    if (waiting->count > 0)
        printf("memctx rules %d --again resolves them\n", (int)target->facts.pid);
}

int rules_main(int argc, char **argv) {
    bool as_json = false, human = reading_wants_human(), clear = false, again = false, all = true;
    bool no_pager = false;
    const char **added = cli_alloc((size_t)argc, sizeof *added);
    size_t count = 0;
    struct target target;
    struct rule_waiting waiting;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case READING_JSON: as_json = true; break;
        case READING_HUMAN:
        case READING_BYTES: human = option == READING_HUMAN; break;
        case READING_NO_PAGER: no_pager = true; break;
        case OPTION_CLEAR: clear = true; break;
        case OPTION_AGAIN: again = true; break;
        case OPTION_ADD: added[count++] = optarg; break;
        default: break;
        }
    }
    const char *word = reading_target_word(argc, argv, 1);
    /* All rules are checked before the rules in force are cleared. */
    for (size_t i = 0; i < count; i++) {
        rule_check(added[i]);
        if (strlen(added[i]) >= WIRE_REQUEST_MAX - strlen("check\n"))
            cli_usage("a rule is PATTERN=POLICY,OPTIONS; got \"%.100s\"", added[i]);
    }
    target_open_socket(&target, word);
    rule_check_target(&target, added, count, clear);
    if (clear)
        free(target_ask_text(&target, WIRE_RULES, "clear", strlen("clear")));
    for (size_t i = 0; i < count; i++)
        free(target_ask_text(&target, WIRE_RULES, added[i], strlen(added[i])));
    if (again || count > 0)
        all = rule_send_all(&target, count);
    rule_send_list(&target, &waiting);
    char *text = target_ask_text(&target, WIRE_RULES, "list", strlen("list"));
    if (!as_json && !no_pager)
        terminal_page();
    if (as_json)
        print_json(&target, text, &waiting);
    else
        print_text(&target, text, &waiting, human);
    free(text);
    free(added);
    return cli_finish_output(all ? CLI_DONE : CLI_REFUSED);
}
