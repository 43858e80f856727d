/* SPDX-License-Identifier: MIT */
/* rule_check.c - checks the text of a rule before the rule is sent; see rule_check.h. */
#include "verbs/rule_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rule_patterns.h"
#include "verbs/place.h"

/* Reads a number of bytes, such as 64M. Returns -1 if the text is not such a number. */
static int64_t read_bytes(const char *text) {
    static const char units[] = "kKmMgG";
    size_t digits = strspn(text, "0123456789");
    int shift = 0;
    if (text[digits] != '\0') {
        const char *unit = strchr(units, text[digits]);
        if (!unit || text[digits + 1] != '\0')
            return -1;
        shift = 10 + (int)(unit - units) / 2 * 10;
    }
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    return digits == 0 || errno != 0 || number >= 1LL << (62 - shift) ? -1 : number << shift;
}

/* A count of the words of a rule that were read so far. */
struct wanted {
    unsigned int policies, limits; /* number of policies, number of limits */
    bool mixed;                    /* one of the policies is mixed */
    bool own;                      /* one of the options needs pages of its own */
};

/* Reads the name of a policy, or one option. Returns the error in words; NULL: there is none. */
static const char *read_word(const char *word, struct wanted *wanted) {
    const struct placing *placing = placing_by_policy(word);
    bool page = strncmp(word, "page:", 5) == 0;
    if (placing) {
        wanted->mixed = placing->placement == WIRE_PLACE_SHARED;
        return wanted->policies++ == 0 ? NULL : "it has two policies";
    }
    if (strncmp(word, "limit:", 6) == 0 || strncmp(word, "warn:", 5) == 0) {
        if (read_bytes(strchr(word, ':') + 1) <= 0)
            return "a limit is a number of bytes, such as 64M";
        return wanted->limits++ == 0 ? NULL : "it has two limits";
    }
    if (page && read_bytes(word + 5) != 16 << 10 && read_bytes(word + 5) != 64 << 10)
        return "the size of a page is 16K or 64K";
    if (page || strcmp(word, "own") == 0 || strcmp(word, "zero") == 0)
        wanted->own = true;
    else if (strcmp(word, "guard") != 0)
        return "the policies are default, aset, mixed, slab, generation, bump and simple, the "
               "options own, page:16K, page:64K, limit:BYTES, warn:BYTES, guard and zero";
    return NULL;
}

/* Bytes that the library has for the texts of all rules, each of which it stores twice (TEXTS_BYTES
 * in src/rules/rules.c). */
#define RULE_TEXTS_BYTES 4096

static size_t room_of(size_t rule_length) {
    return 2 * (rule_length + 1);
}

void rule_check(const char *rule) {
    static struct rule_patterns patterns;
    struct cli_failure failure;
    struct wanted wanted = {0};
    static size_t room = RULE_TEXTS_BYTES; /* left for further rules of this command */
    const char *equals = strrchr(rule, '='), *wrong = NULL;
    if (!equals || equals == rule)
        cli_usage("a rule is PATTERN=POLICY,OPTIONS; got \"%.100s\"", rule);
    if (!rule_patterns_add(&patterns, rule, &failure))
        cli_usage("%s", failure.text);
    char *words = cli_copy(equals + 1), *rest = words, *word;
    while (!wrong && (word = strsep(&rest, ",")))
        wrong = read_word(word, &wanted);
    free(words);
    for (const char *at = rule; !wrong && *at; at++)
        if ((unsigned char)*at < ' ')
            wrong = "it has a control character";
        else if (*at == ';')
            wrong = "it has a semicolon; give each rule an option --add of its own";
    size_t takes = room_of(strlen(rule));
    if (!wrong && takes > room)
        wrong = "there are too many rules";
    room -= wrong ? 0 : takes;
    if (!wrong && wanted.mixed && wanted.own)
        wrong = "mixed has no pages of its own, but another option needs such pages";
    if (strncmp(rule, "regex:=", 7) == 0 || strncmp(rule, "file:=", 6) == 0 ||
        strncmp(rule, "module:=", 8) == 0)
        wrong = "the pattern has no name";
    if (!wrong && strncmp(rule, "context:", 8) == 0) {
        char *number = cli_format("%.*s", (int)(equals - rule) - 8, rule + 8);
        wrong = read_bytes(number) >= 0 ? NULL : "no context has that number";
        free(number);
    }
    if (wrong)
        cli_usage("the rule \"%.100s\" is not understood: %s", rule, wrong);
}

/* Returns the bytes that the texts of the process's rules take. *count: the number of rules. */
static size_t room_in_use(struct target *target, size_t *count) {
    char *text = target_ask_text(target, WIRE_RULES, "list", strlen("list"));
    char *rest = text, *line;
    size_t bytes = 0;
    for (*count = 0; (line = strsep(&rest, "\n")) && line[0] != '\0'; (*count)++)
        bytes += room_of(strcspn(line, "\t"));
    free(text);
    return bytes;
}

void rule_check_target(struct target *target, const char *const *rules, size_t count,
                       bool cleared) {
    size_t before = 0, room = cleared ? 0 : room_in_use(target, &before);
    for (size_t i = 0; i < count; i++) {
        char *request = cli_format("check\n%s", rules[i]);
        free(target_ask_text(target, WIRE_RULES, request, strlen(request)));
        free(request);
        room += room_of(strlen(rules[i]));
    }
    if (before + count > RULE_PATTERNS_MAX || room > RULE_TEXTS_BYTES) {
        cli_die(CLI_REFUSED,
                "%s has no room for these rules beside its own; none is added; remove its rules "
                "with memctx rules %d --clear",
                target->client.source, (int)target->facts.pid);
    }
}
