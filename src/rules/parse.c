/* SPDX-License-Identifier: MIT */
/* parse.c - parses the text of rules; see parse.h. */
#include "rules/parse.h"
#include "context/tree.h"
#include "region/policy.h"

static const char *const kind_words[RULE_KINDS] = {[OF_FUNCTIONS] = "",
                                                   [OF_MODULES] = "module:",
                                                   [OF_FILES] = "file:",
                                                   [OF_EXPRESSIONS] = "regex:",
                                                   [OF_CONTEXT] = "context:"};

static const char *const words[PLACE_COUNT] = {
    /* The other placements are named like their policy. */
    [PLACE_DEFAULT] = "default",
    [PLACE_SHARED] = "mixed"};

void parse_refuse(struct text *text, const char *rule, size_t length, const char *why) {
    text_add(text, "the rule \"");
    text_add_bytes(text, rule, length > 60 ? 60 : length);
    text_add(text, "\" is not understood: ");
    text_add(text, why);
}

static const char *behind(const char *text, const char *word) {
    size_t i = 0;
    while (word[i] && text[i] == word[i])
        i++;
    return word[i] ? NULL : text + i;
}

static const char *parse_page(const char *word, struct terms *terms) {
    int64_t bytes;
    if (!text_to_number(word, &bytes) || (bytes != 16 << 10 && bytes != 64 << 10))
        return "the size of a page is 16K or 64K";
    terms->slices = (uint8_t)(bytes / (int64_t)SLICE_BYTES);
    terms->flags |= TERMS_OWN;
    return NULL;
}

static const char *parse_limit(const char *word, struct terms *terms, uint32_t flag) {
    if (!text_to_number(word, &terms->limit) || terms->limit <= 0)
        return "a limit is a number of bytes, such as 64M";
    if (terms->flags & (TERMS_LIMIT | TERMS_WARN))
        return "it has two limits";
    terms->flags |= flag;
    terms->allowance = flag == TERMS_WARN ? terms->limit : 0;
    return NULL;
}

/* Parses the name of a policy, or one option. NULL: done; else the error in words. */
static const char *parse_word(const char *word, struct policy_rule *rule, struct terms *terms) {
    const char *value;
    for (unsigned i = 0; i < PLACE_COUNT; i++)
        if (text_equal(words[i] ? words[i] : policies[i].name, word)) {
            if (rule->placement != PLACE_COUNT)
                return "it has two policies";
            rule->placement = (uint8_t)i;
            return NULL;
        }
    if ((value = behind(word, "page:")))
        return parse_page(value, terms);
    if ((value = behind(word, "limit:")))
        return parse_limit(value, terms, TERMS_LIMIT);
    if ((value = behind(word, "warn:")))
        return parse_limit(value, terms, TERMS_WARN);
    if (text_equal(word, "own"))
        terms->flags |= TERMS_OWN;
    else if (text_equal(word, "zero"))
        terms->flags |= TERMS_OWN | TERMS_ZERO;
    else if (text_equal(word, "guard"))
        terms->flags |= TERMS_GUARD;
    else
        return "the policies are default, aset, mixed, slab, generation, bump and simple, the "
               "options own, page:16K, page:64K, limit:BYTES, warn:BYTES, guard and zero";
    return NULL;
}

/* An option that needs pages of the context's own (TERMS_OWN) turns PLACE_DEFAULT into
 * PLACE_APART. */
const char *parse_wanted(char *wanted, struct policy_rule *rule, struct terms *terms) {
    const char *wrong = NULL;
    rule->placement = PLACE_COUNT;
    for (char *word = wanted; word && !wrong;) {
        char *comma = word;
        while (*comma && *comma != ',')
            comma++;
        char *next = *comma ? comma + 1 : NULL;
        *comma = 0;
        wrong = parse_word(word, rule, terms);
        word = next;
    }
    rule->names_policy = rule->placement != PLACE_COUNT;
    if (!rule->names_policy)
        rule->placement = PLACE_DEFAULT;
    bool own = terms->flags & TERMS_OWN;
    if (!wrong && own && rule->placement == PLACE_SHARED)
        return "mixed has no pages of its own, but another option needs such pages";
    if (own && rule->placement == PLACE_DEFAULT)
        rule->placement = PLACE_APART;
    return wrong;
}

/* Finds the pattern's kind by its prefix and checks the rest. NULL: done; else the error in
 * words. */
const char *parse_pattern(struct policy_rule *rule) {
    int64_t number;
    rule->kind = OF_FUNCTIONS;
    for (unsigned kind = 1; kind < RULE_KINDS; kind++) {
        const char *rest = behind(rule->pattern, kind_words[kind]);
        if (!rest)
            continue;
        rule->kind = (uint8_t)kind;
        rule->pattern = rest;
        break;
    }
    if (!*rule->pattern)
        return "the pattern has no name";
    if (rule->kind == OF_CONTEXT) {
        if (!text_to_number(rule->pattern, &number) || number < 0 || !tree_is_id((uint64_t)number))
            return "no context has that number";
        if (tree_is_named((uint32_t)number))
            return "only its program decides how a named context is placed";
        rule->context = (uint32_t)number;
        rule->parent = tree_node(rule->context)->parent;
        rule->address = tree_node(rule->context)->address;
    }
    return NULL;
}
