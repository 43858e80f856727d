/* SPDX-License-Identifier: MIT */
/* mangled.c - reads the names of C++ functions; see mangled.h. The functions follow the grammar of
 * the Itanium C++ ABI. Each read_ or skip_ function takes a pointer to a token and returns a
 * pointer behind the token. NULL: the symbol ends there, or is not understood. */
#include "rules/mangled.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static bool begins(const char *text, const char *word) {
    while (*word && *text == *word) {
        text++;
        word++;
    }
    return !*word;
}

/* Reads a name, which is written as its length in decimal digits and its characters, as in 3foo. */
static const char *read_source_name(const char *at, size_t *length) {
    for (*length = 0; is_digit(*at) && *length < 1U << 16; at++)
        *length = *length * 10 + (size_t)(*at - '0');
    for (size_t i = 0; i < *length; i++)
        if (!at[i])
            return NULL;
    return *length ? at + *length : NULL;
}

/* --- the parts of a symbol that its name leaves out ------------------------------------------- */

#define GROUPS_MAX 64U /* groups inside each other, at most */

/* Skips digits, of which there may be none, and an underscore. */
static const char *skip_number(const char *at) {
    while (is_digit(*at))
        at++;
    return *at == '_' ? at + 1 : NULL;
}

/* Skips the rest of a token that begins with S: a letter for a name in std, or the number of an
 * earlier part of the symbol. */
static const char *skip_substitution(const char *at) {
    if (is_lower(*at))
        return at + 1;
    while (is_digit(*at) || (*at >= 'A' && *at <= 'Z'))
        at++;
    return *at == '_' ? at + 1 : NULL;
}

/* Skips a token that begins no group and ends none. */
static const char *skip_token(const char *at) {
    size_t length;
    if (is_digit(*at))
        return read_source_name(at, &length);
    switch (*at) {
    case 'S': return skip_substitution(at + 1);
    case 'T':
    case 'A': return is_digit(at[1]) || at[1] == '_' ? skip_number(at + 1) : at + 1;
    case 'C': return at + (is_digit(at[1]) ? 2 : 1);
    case 'D': return at[1] == 'v' ? skip_number(at + 2) : at[1] ? at + 2 : NULL;
    case 'U': return at[1] == 't' ? skip_number(at + 2) : at + 1;
    case 'f': return at[1] == 'p' ? skip_number(at + 2 + (at[2] == 'K')) : at + 1;
    case '_': /* a number that tells apart local entities of one name */
        return is_digit(at[1]) ? at + 2 : at[1] == '_' ? skip_number(at + 2) : at + 1;
    default: return at + 1;
    }
}

/* Returns the length of the token if it begins a group of tokens that ends with an E; 0: it begins
 * no group. `in`: the first letter of the group around the token. */
static size_t group_begins(const char *at, char in) {
    switch (*at) {
    case 'F': /* a function's type */
    case 'I': /* template arguments */
    case 'J': /* a pack of arguments */
    case 'N': /* a nested name */
    case 'X': /* an expression */
    case 'Z': /* the function around a name */ return 1;
    case 'L': /* a literal; before a name the letter has another meaning */
        return !is_digit(at[1]) || (in != 'N' && in != 'Z');
    case 'U': /* a lambda */ return at[1] == 'l' ? 2 : 0;
    case 'D': /* decltype, noexcept */ return at[1] == 't' || at[1] == 'T' || at[1] == 'O' ? 2 : 0;
    case 'c': /* a call, in an expression */
        return at[1] == 'l' && (in == 'X' || in == 'D' || in == 'c') ? 2 : 0;
    default: return 0;
    }
}

static const char *find_e(const char *at) {
    while (*at && *at != 'E')
        at++;
    return at;
}

/* Skips the rest of a group whose first letter is `first`, with its E. */
static const char *skip_group(const char *at, char first) {
    char open[GROUPS_MAX] = {first};
    unsigned count = 1;
    while (at && *at) {
        char in = open[count - 1];
        size_t length = group_begins(at, in);
        bool is_type = false; /* in a literal, a value follows the type */
        if (length) {
            if (count == GROUPS_MAX)
                return NULL;
            open[count++] = in = *at;
            at += length;
            is_type = is_lower(*at) || *at == 'D';
            if (in == 'L' && *at == '_') { /* no value, but the symbol of a function or variable */
                open[count - 1] = 'Z';
                at += 1 + (at[1] == 'Z');
            }
        } else if (*at == 'E') {
            at++;
            if (!--count)
                return at;
            if (in == 'U') /* number of the lambda */
                at = skip_number(at);
            is_type = in != 'I';
        } else {
            is_type = is_digit(*at) || (*at == 'S' && at[1] != 't');
            at = skip_token(at);
        }
        if (at && is_type && open[count - 1] == 'L')
            at = find_e(at);
    }
    return NULL;
}

/* --- names ------------------------------------------------------------------------------------ */

static const char operators[][2][10] = {
    {"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"aw", " co_await"},
    {"ps", "+"},    {"ng", "-"},      {"ad", "&"},       {"de", "*"},         {"co", "~"},
    {"pl", "+"},    {"mi", "-"},      {"ml", "*"},       {"dv", "/"},         {"rm", "%"},
    {"an", "&"},    {"or", "|"},      {"eo", "^"},       {"aS", "="},         {"pL", "+="},
    {"mI", "-="},   {"mL", "*="},     {"dV", "/="},      {"rM", "%="},        {"aN", "&="},
    {"oR", "|="},   {"eO", "^="},     {"ls", "<<"},      {"rs", ">>"},        {"lS", "<<="},
    {"rS", ">>="},  {"eq", "=="},     {"ne", "!="},      {"lt", "<"},         {"gt", ">"},
    {"le", "<="},   {"ge", ">="},     {"ss", "<=>"},     {"nt", "!"},         {"aa", "&&"},
    {"oo", "||"},   {"pp", "++"},     {"mm", "--"},      {"cm", ","},         {"pm", "->*"},
    {"pt", "->"},   {"cl", "()"},     {"ix", "[]"}};

static const char *std_name(char letter) {
    switch (letter) {
    case 'a': return "std::allocator";
    case 'b':
    case 's': return "std::basic_string";
    case 'i': return "std::basic_istream";
    case 'o': return "std::basic_ostream";
    case 'd': return "std::basic_iostream";
    default: return "std";
    }
}

static void add_part(struct text *name, const char *part, size_t length) {
    text_add(name, name->length ? "::" : "");
    text_add_bytes(name, part, length);
}

/* Adds the last part of the name once more: a constructor is named like its type, a destructor like
 * its type with a ~. */
static void add_own_name(struct text *name, bool destroys) {
    size_t from = name->length, length = name->length;
    while (from && name->bytes[from - 1] != ':')
        from--;
    add_part(name, "~", destroys);
    text_add_bytes(name, name->bytes + from, length - from);
}

static const char *read_source_part(const char *at, struct text *name) {
    static const char hidden[] = "_GLOBAL__N_", shown[] = "(anonymous namespace)";
    size_t length;
    const char *end = read_source_name(at, &length);
    if (end && begins(end - length, hidden))
        add_part(name, shown, sizeof shown - 1);
    else if (end)
        add_part(name, end - length, length);
    return end;
}

static const char *read_operator(const char *at, struct text *name) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (begins(at, operators[i][0])) {
            add_part(name, "operator", 8);
            text_add(name, operators[i][1]);
            return at + 2;
        }
    return NULL;
}

static const char *read_part(const char *at, struct text *name) {
    size_t length;
    if (is_digit(*at))
        return read_source_part(at, name);
    if (is_lower(*at))
        return read_operator(at, name);
    switch (*at) {
    case 'S':
        if (!is_lower(at[1]))
            return NULL;
        add_part(name, std_name(at[1]), text_length(std_name(at[1])));
        return at + 2;
    case 'I': return skip_group(at + 1, 'I');
    case 'B': return read_source_name(at + 1, &length); /* such as [abi:cxx11] */
    case 'C':
    case 'D':
        if (!is_digit(at[1]) || !name->length)
            return NULL;
        add_own_name(name, *at == 'D');
        return at + 2;
    case 'U':
        if (at[1] != 'l') /* a member of a type without a name */
            return NULL;
        add_part(name, "{lambda}", 8);
        at = skip_group(at + 2, 'U');
        return at ? skip_number(at) : NULL;
    default: return NULL;
    }
}

static const char *read_name(const char *at, struct text *name) {
    bool nested = *at == 'N';
    at += nested;
    while (nested && (*at == 'K' || *at == 'V' || *at == 'r' || *at == 'R' || *at == 'O'))
        at++;
    while (at) {
        at += *at == 'L'; /* the name is known in its file alone */
        if (nested && *at == 'E')
            return at + 1;
        bool in_std = *at == 'S';
        at = read_part(at, name);
        if (!nested && !in_std)
            break;
    }
    while (at && (*at == 'I' || *at == 'B'))
        at = read_part(at, name);
    return at;
}

/* Removes the last part of a name in Rust's older mangling: h and 16 hexadecimal digits. */
static void drop_hash(struct text *name) {
    static const size_t length = sizeof "::h0123456789abcdef" - 1;
    const char *hash = name->bytes + name->length - length;
    if (name->length <= length || !begins(hash, "::h"))
        return;
    for (size_t i = 3; i < length; i++)
        if (!is_digit(hash[i]) && (hash[i] < 'a' || hash[i] > 'f'))
            return;
    name->length -= length;
}

bool mangled_read(const char *symbol, struct text *name) {
    const char *at = symbol + 2;
    unsigned around = 0; /* number of functions around the one that the symbol names */
    for (; *at == 'Z'; at++)
        around++;
    while (around-- && (at = read_name(at, name))) {
        if (*at != 'E')
            text_add(name, "()");
        at = skip_group(at, 'Z');
        if (!at)
            break;
    }
    at = at ? read_name(at, name) : NULL;
    drop_hash(name);
    return at && !name->full;
}
