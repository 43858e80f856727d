/* SPDX-License-Identifier: MIT */
/* Regular expressions; see regex.h. Steps go on relative to where they stand, so that a part can be moved and copied. */
#include "rules/regex.h"

#define REPEAT_MAX 64U
#define DEPTH_MAX 32U

enum regex_kind { CHARACTER, ANY, SET, BOTH, LINE_BEGINS, LINE_ENDS, DONE };

struct parser {
    struct regex *regex;
    const char *at;
    const char *wrong; /* NULL: nothing yet */
    unsigned depth;
};

static void emit(struct parser *parser, struct regex_step step) {
    struct regex *regex = parser->regex;
    if (regex->step_count == REGEX_STEPS_MAX)
        parser->wrong = "the expression is too long";
    else
        regex->steps[regex->step_count++] = step;
}

/* In front of the part that begins there. */
static void insert(struct parser *parser, unsigned at, struct regex_step step) {
    struct regex *regex = parser->regex;
    emit(parser, step);
    if (parser->wrong)
        return;
    for (unsigned i = regex->step_count - 1; i > at; i--)
        regex->steps[i] = regex->steps[i - 1];
    regex->steps[at] = step;
}

static struct regex_step both(int first, int second) {
    return (struct regex_step){.kind = BOTH, .first = (int16_t)first, .second = (int16_t)second};
}

/* --- sets of characters ------------------------------------------------------------------------------ */

static void set_add(uint64_t *set, unsigned first, unsigned last) {
    for (unsigned i = first; i <= last; i++)
        set[i / 64] |= 1UL << i % 64;
}

struct named_set {
    const char *name;
    const char *ranges; /* pairs of ends */
};

static bool add_named(uint64_t *set, const char *name, size_t length) {
    static const struct named_set names[] = {
        {"alpha", "azAZ"},   {"digit", "09"},      {"alnum", "azAZ09"},
        {"upper", "AZ"},     {"lower", "az"},      {"space", "\t\r  "},
        {"blank", "\t\t  "}, {"xdigit", "09afAF"}, {"punct", "!/:@[`{~"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (text_length(names[i].name) != length ||
            __builtin_memcmp(names[i].name, name, length) != 0)
            continue;
        for (const char *range = names[i].ranges; *range; range += 2)
            set_add(set, (uint8_t)range[0], (uint8_t)range[1]);
        return true;
    }
    return false;
}

/* [:name:]; false: it is none. */
static bool parse_named(struct parser *parser, uint64_t *set) {
    const char *name = parser->at + 2;
    size_t length = 0;
    if (parser->at[0] != '[' || parser->at[1] != ':')
        return false;
    while (name[length] >= 'a' && name[length] <= 'z')
        length++;
    if (name[length] != ':' || name[length + 1] != ']' || !add_named(set, name, length))
        parser->wrong = "there is no such class of characters";
    else
        parser->at = name + length + 2;
    return true;
}

/* Behind the "[". */
static void parse_set(struct parser *parser) {
    struct regex *regex = parser->regex;
    if (regex->set_count == REGEX_SETS_MAX) {
        parser->wrong = "it has too many [sets]";
        return;
    }
    uint64_t *set = regex->sets[regex->set_count];
    bool other = *parser->at == '^';
    parser->at += other;
    __builtin_memset(set, 0, sizeof regex->sets[0]);
    const char *begin = parser->at;
    while (*parser->at && (*parser->at != ']' || parser->at == begin) && !parser->wrong) {
        if (parse_named(parser, set))
            continue;
        unsigned first = (uint8_t)*parser->at++, last = first;
        if (parser->at[0] == '-' && parser->at[1] && parser->at[1] != ']') {
            last = (uint8_t)parser->at[1];
            parser->at += 2;
        }
        if (last < first)
            parser->wrong = "a range in a [set] ends before it begins";
        set_add(set, first, last);
    }
    if (parser->wrong)
        return;
    if (*parser->at != ']') {
        parser->wrong = "a [ has no ]";
        return;
    }
    parser->at++;
    for (unsigned i = 0; i < 4; i++)
        set[i] = other ? ~set[i] : set[i];
    emit(parser, (struct regex_step){.kind = SET, .character = (uint8_t)regex->set_count++});
}

/* --- parts ------------------------------------------------------------------------------------------- */

static void parse_either(struct parser *parser);

/* False: there is none. */
static bool parse_atom(struct parser *parser) {
    char c = *parser->at;
    if (!c || c == '|' || c == ')')
        return false;
    parser->at++;
    switch (c) {
    case '(':
        if (++parser->depth > DEPTH_MAX) {
            parser->wrong = "its ( ) are too deep";
            return false;
        }
        parse_either(parser);
        parser->depth--;
        if (*parser->at == ')')
            parser->at++;
        else
            parser->wrong = "a ( has no )";
        break;
    case '[': parse_set(parser); break;
    case '.': emit(parser, (struct regex_step){.kind = ANY}); break;
    case '^': emit(parser, (struct regex_step){.kind = LINE_BEGINS}); break;
    case '$': emit(parser, (struct regex_step){.kind = LINE_ENDS}); break;
    case '*':
    case '+':
    case '?': parser->wrong = "there is nothing to repeat"; break;
    case '\\':
        if (!*parser->at) {
            parser->wrong = "it ends in a \\";
            break;
        }
        c = *parser->at++;
        /* fall through */
    default: emit(parser, (struct regex_step){.kind = CHARACTER, .character = (uint8_t)c});
    }
    return !parser->wrong;
}

static unsigned parse_number(struct parser *parser, unsigned missing) {
    unsigned number = 0;
    if (*parser->at < '0' || *parser->at > '9')
        return missing;
    while (*parser->at >= '0' && *parser->at <= '9' && number <= REPEAT_MAX)
        number = number * 10 + (unsigned)(*parser->at++ - '0');
    return number;
}

/* So many copies of the part behind it, which stays. */
static void emit_copies(struct parser *parser, const struct regex_step *part, unsigned length,
                        unsigned copies) {
    for (unsigned i = 0; i < copies; i++)
        for (unsigned k = 0; k < length && !parser->wrong; k++)
            emit(parser, part[k]);
}

static void repeat_any(struct parser *parser, unsigned begin) {
    int length = (int)(parser->regex->step_count - begin);
    insert(parser, begin, both(1, length + 2));
    emit(parser, both(-(length + 1), -(length + 1)));
}

/* {m}, {m,}, {m,n}; behind the "{". */
static void repeat_counted(struct parser *parser, unsigned begin) {
    struct regex *regex = parser->regex;
    struct regex_step part[REGEX_STEPS_MAX];
    unsigned length = regex->step_count - begin;
    unsigned least = parse_number(parser, 0), most = least;
    bool endless = false;
    if (*parser->at == ',') {
        parser->at++;
        endless = *parser->at == '}';
        most = parse_number(parser, least);
    }
    if (*parser->at != '}' || least > REPEAT_MAX || most > REPEAT_MAX || most < least) {
        parser->wrong = "a {m,n} is none, or of more than 64";
        return;
    }
    parser->at++;
    __builtin_memcpy(part, regex->steps + begin, length * sizeof part[0]);
    regex->step_count = begin;
    emit_copies(parser, part, length, least);
    unsigned rest = regex->step_count;
    if (endless) {
        emit_copies(parser, part, length, 1);
        repeat_any(parser, rest);
    }
    for (unsigned i = least; i < most; i++) { /* each may be left out */
        emit(parser, both(1, (int)length + 1));
        emit_copies(parser, part, length, 1);
    }
}

static void parse_sequence(struct parser *parser) {
    unsigned begin = parser->regex->step_count;
    while (!parser->wrong && parse_atom(parser)) {
        for (bool more = true; more && !parser->wrong;) {
            int length = (int)(parser->regex->step_count - begin);
            switch (*parser->at) {
            case '*': repeat_any(parser, begin); break;
            case '+': emit(parser, both(-length, 1)); break;
            case '?': insert(parser, begin, both(1, length + 1)); break;
            case '{': break;
            default: more = false;
            }
            if (more && *parser->at++ == '{')
                repeat_counted(parser, begin);
        }
        begin = parser->regex->step_count;
    }
}

static void parse_either(struct parser *parser) {
    struct regex *regex = parser->regex;
    unsigned begin = regex->step_count;
    parse_sequence(parser);
    if (parser->wrong || *parser->at != '|')
        return;
    parser->at++;
    insert(parser, begin, both(1, (int)(regex->step_count - begin) + 2));
    unsigned jump = regex->step_count;
    emit(parser, both(1, 1));
    parse_either(parser);
    int over = (int)(regex->step_count - jump);
    if (!parser->wrong)
        regex->steps[jump] = both(over, over);
}

const char *regex_compile(struct regex *regex, const char *expression) {
    struct parser parser = {.regex = regex, .at = expression};
    regex->step_count = regex->set_count = 0;
    parse_either(&parser);
    if (!parser.wrong && *parser.at == ')')
        parser.wrong = "a ) has no (";
    emit(&parser, (struct regex_step){.kind = DONE});
    return parser.wrong;
}

/* --- matching: all ways at once ----------------------------------------------------------------------- */

struct ways {
    uint64_t in[REGEX_STEPS_MAX / 64];
    uint16_t list[REGEX_STEPS_MAX];
    unsigned count;
};

/* That step, and all that it leads to without a character. */
static void add_way(const struct regex *regex, struct ways *ways, unsigned step, bool at_begin,
                    bool at_end) {
    uint16_t stack[2 * REGEX_STEPS_MAX + 1]; /* each step is followed once */
    unsigned depth = 0;
    stack[depth++] = (uint16_t)step;
    while (depth) {
        unsigned at = stack[--depth];
        const struct regex_step *here = &regex->steps[at];
        if (ways->in[at / 64] >> at % 64 & 1)
            continue;
        ways->in[at / 64] |= 1UL << at % 64;
        ways->list[ways->count++] = (uint16_t)at;
        bool passes =
            (here->kind == LINE_BEGINS && at_begin) || (here->kind == LINE_ENDS && at_end);
        if (passes)
            stack[depth++] = (uint16_t)(at + 1);
        if (here->kind == BOTH) {
            stack[depth++] = (uint16_t)(at + (unsigned)here->second);
            stack[depth++] = (uint16_t)(at + (unsigned)here->first);
        }
    }
}

static bool takes(const struct regex *regex, const struct regex_step *step, uint8_t c) {
    return step->kind == ANY || (step->kind == CHARACTER && step->character == c) ||
           (step->kind == SET && regex->sets[step->character][c / 64] >> c % 64 & 1);
}

static void clear(struct ways *ways) {
    __builtin_memset(ways->in, 0, sizeof ways->in);
    ways->count = 0;
}

bool regex_matches(const struct regex *regex, const char *text, size_t length) {
    struct ways both_ways[2], *now = &both_ways[0], *next = &both_ways[1];
    bool from_begin = regex->steps[0].kind == LINE_BEGINS;
    clear(now);
    for (size_t i = 0;; i++) {
        if (!i || !from_begin)
            add_way(regex, now, 0, !i, i == length); /* it may begin anywhere */
        clear(next);
        for (unsigned k = 0; k < now->count; k++) {
            unsigned at = now->list[k];
            if (regex->steps[at].kind == DONE)
                return true;
            if (i < length && takes(regex, &regex->steps[at], (uint8_t)text[i]))
                add_way(regex, next, at + 1, false, i + 1 == length);
        }
        if (i == length || (from_begin && !next->count))
            return false;
        struct ways *before = now;
        now = next;
        next = before;
    }
}
