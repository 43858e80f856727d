/* SPDX-License-Identifier: MIT */
/*
 * rule_lines.c - reads the list of placement rules.
 *
 * A rule's label is its pattern, without policy and options. A pattern that names a file loses the
 * file's folder, because no label has a path.
 */
#include "serve/rule_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/text_file.h"
#include "model/shorten.h"
#include "serve/exposition.h"

#define RULES_MAX 50
#define PATTERN_CHARACTERS 128

struct rule {
    char *labels;
    int64_t bytes, chunks;
};

/* Returns rule="PATTERN" for a rule; the caller frees it. */
static char *write_labels(char *rule) {
    char *labels = NULL;
    size_t length;
    FILE *file = text_file_open(&labels, &length);
    char *end = strrchr(rule, '=');
    if (end && end > rule)
        *end = '\0';
    if (strncmp(rule, "regex:", 6) == 0 || !strchr(rule, '/')) {
        exposition_put_label(file, "rule", rule, PATTERN_CHARACTERS);
    } else {
        int kind = (int)(strchr(rule, ':') ? strchr(rule, ':') + 1 - rule : 0);
        char *pattern = cli_format("%.*s%s", kind, rule, shorten_path(rule));
        exposition_put_label(file, "rule", pattern, PATTERN_CHARACTERS);
        free(pattern);
    }
    fclose(file);
    return labels;
}

/* Adds the figures of a rule to the rule with these labels, or adds a rule. Returns false if there
 * are RULES_MAX. */
static bool add_rule(struct rule *rules, size_t *count, char *labels, int64_t bytes,
                     int64_t chunks) {
    size_t at = 0;
    while (at < *count && strcmp(rules[at].labels, labels) != 0)
        at++;
    if (at == RULES_MAX) {
        free(labels);
        return false;
    }
    if (at == *count)
        rules[(*count)++] = (struct rule){.labels = labels};
    else
        free(labels);
    rules[at].bytes += bytes;
    rules[at].chunks += chunks;
    return true;
}

void rule_lines_tell(FILE *file, char *text) {
    struct rule rules[RULES_MAX];
    size_t count = 0, cut = 0;
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        int64_t contexts, bytes, chunks;
        *end = '\0';
        char *tab = strchr(text, '\t');
        if (!tab ||
            sscanf(tab, "\t%" SCNd64 "\t%" SCNd64 "\t%" SCNd64, &contexts, &bytes, &chunks) != 3)
            continue;
        *tab = '\0';
        cut += !add_rule(rules, &count, write_labels(text), bytes, chunks);
    }
    for (size_t i = 0; i < count; i++)
        exposition_put(file, FAMILY_RULE_REQUESTED, rules[i].labels, rules[i].bytes);
    for (size_t i = 0; i < count; i++)
        exposition_put(file, FAMILY_RULE_CHUNKS, rules[i].labels, rules[i].chunks);
    if (count > 0)
        exposition_put(file, FAMILY_RULES_CUT, "", (int64_t)cut);
    for (size_t i = 0; i < count; i++)
        free(rules[i].labels);
}
