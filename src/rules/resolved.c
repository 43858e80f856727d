/* SPDX-License-Identifier: MIT */
/* resolved.c - accepts the ranges that the command resolved; see resolved.h. */
#include "rules/resolved.h"
#include "os/libc.h"
#include "rules/objects.h"

/* --- from the socket -------------------------------------------------------------------------- */

static const char *check_request(const struct wire_rule_ranges *request) {
    const struct module *module = unwind_rules_module(request->module);
    if (request->version != rule_list.version)
        return "the rules have changed";
    if (!module || load_relaxed(&module->closed))
        return "no object has that number";
    if (request->build_id_bytes != module->build_id_bytes ||
        __builtin_memcmp(request->build_id, module->build_id, module->build_id_bytes) != 0)
        return "the object has another build-id";
    if (request->at && request->at != objects_resolved_count(request->module))
        return "another client has sent ranges of the object";
    return NULL;
}

/* Stores the ranges of a request. Returns NULL, or the error in words. The caller holds
 * tree_lock. */
static const char *take_ranges(const struct wire_rule_ranges *request) {
    if (!request->at)
        objects_drop_resolved(request->module);
    for (uint32_t i = 0; i < request->count; i++) {
        const struct wire_rule_range *range = &request->ranges[i];
        bool known = range->rule <= POLICY_RULES_MAX && range->start <= UINT64_MAX - range->bytes;
        const char *wrong = objects_add_resolved(
            request->module, (struct rule_range){.start = range->start,
                                                 .end = known ? range->start + range->bytes : 0,
                                                 .rule = (uint8_t)(known ? range->rule : 0)});
        if (wrong)
            return wrong;
    }
    if (request->last)
        objects_mark_resolved(request->module);
    return NULL;
}

bool resolved_take(const struct wire_rule_ranges *request, struct text *text) {
    const char *wrong = check_request(request);
    if (!wrong) {
        lock_take(&tree_lock);
        wrong = take_ranges(request);
        if (wrong)
            objects_drop_resolved(request->module);
        lock_release(&tree_lock);
    }
    if (wrong) {
        text_add(text, "the ranges of object ");
        text_add_number(text, request->module);
        text_add(text, " are refused: ");
    }
    text_add(text, wrong ? wrong : "taken");
    return !wrong;
}

/* True for this library's own object, which is on no call path. */
static bool is_own(const struct module *module) {
    uintptr_t here = (uintptr_t)&resolved_list;
    return here >= module->start && here < module->end;
}

void resolved_list(struct text *text) {
    text_add_number(text, rule_list.version);
    text_add(text, "\n");
    for (uint32_t i = 0; rule_list.needs_command && i < unwind_rules_module_count(); i++) {
        const struct module *module = unwind_rules_module(i);
        if (module->path[0] != '/' || load_relaxed(&module->closed) || is_own(module) ||
            objects_is_resolved(i))
            continue;
        text_add_number(text, i);
        text_add(text, objects_is_unreadable(i) ? " unreadable\n" : "\n");
    }
}

/* --- from the environment --------------------------------------------------------------------- */

/* The value of WIRE_RANGES_VARIABLE, which is read line by line. */
struct reader {
    const char *at; /* the next character */
    /* for each rule of the text, by its number there: its number in rule_list; 0: not in
     * rule_list */
    uint8_t rules[POLICY_RULES_MAX + 1];
    unsigned rule_count; /* number of rules in the text so far */
};

static bool take_hex(struct reader *reader, uint64_t *value) {
    const char *from = reader->at;
    for (*value = 0; reader->at - from < 16; reader->at++) {
        char c = *reader->at;
        if (c >= '0' && c <= '9')
            *value = *value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *value = *value << 4 | (uint64_t)(c - 'a' + 10);
        else
            break;
    }
    bool good = reader->at > from && (*reader->at == ' ' || *reader->at == '\n' || !*reader->at);
    reader->at += *reader->at == ' ';
    return good;
}

static size_t line_length(const char *line) {
    size_t length = 0;
    while (line[length] && line[length] != '\n')
        length++;
    return length;
}

static bool is_line(const char *line, const char *text) {
    size_t length = line_length(line);
    return length == text_length(text) && !__builtin_memcmp(line, text, length);
}

/* Reads the text of one rule, and finds the rule of this process with the same text. */
static void take_rule(struct reader *reader) {
    if (reader->rule_count == POLICY_RULES_MAX)
        return;
    reader->rules[++reader->rule_count] = 0;
    for (uint32_t i = rule_list.count; i-- > 0;)
        if (is_line(reader->at, rule_list.rules[i].text))
            reader->rules[reader->rule_count] = (uint8_t)(i + 1);
}

/* True when the text names each rule of this process that the command has to resolve. */
static bool has_all_rules(const struct reader *reader) {
    for (uint32_t i = 1; i <= rule_list.count; i++) {
        enum rule_kind kind = (enum rule_kind)rule_list.rules[i - 1].kind;
        bool found = kind != OF_FUNCTIONS && kind != OF_FILES && kind != OF_EXPRESSIONS;
        for (unsigned k = 1; k <= reader->rule_count; k++)
            found |= reader->rules[k] && text_equal(rule_list.rules[reader->rules[k] - 1].text,
                                                    rule_list.rules[i - 1].text);
        if (!found)
            return false;
    }
    return true;
}

static bool has_build_id(const struct module *module, const char *hex) {
    static const char digits[] = "0123456789abcdef";
    size_t bytes = module->build_id_bytes;
    if (!bytes || line_length(hex) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (hex[2 * i] != digits[module->build_id[i] >> 4] ||
            hex[2 * i + 1] != digits[module->build_id[i] & 15])
            return false;
    return true;
}

/* True when SIZE, MTIME_NS and PATH in the line are equal to the module's. Only modules without a
 * build-id are named in this way. */
static bool is_file(const struct module *module, struct reader line) {
    uint64_t size, time_ns;
    struct stat status;
    if (module->build_id_bytes || !take_hex(&line, &size) || !take_hex(&line, &time_ns) ||
        !is_line(line.at, module->path) || OS_TRY(os_stat(module->path, &status)))
        return false;
    uint64_t changed_ns =
        (uint64_t)status.st_mtim.tv_sec * 1000000000U + (uint64_t)status.st_mtim.tv_nsec;
    return size == (uint64_t)status.st_size && time_ns == changed_ns;
}

/* Finds the module that a line "@b ..." or "@f ..." names; MODULE_NONE: no such module is
 * mapped. */
static uint32_t find_module(struct reader line) {
    char kind = line.at[1];
    if ((kind != 'b' && kind != 'f') || line.at[2] != ' ')
        return MODULE_NONE;
    line.at += 3;
    for (uint32_t i = 0; i < unwind_rules_module_count(); i++) {
        const struct module *module = unwind_rules_module(i);
        if (kind == 'b' ? has_build_id(module, line.at) : is_file(module, line))
            return i;
    }
    return MODULE_NONE;
}

/* Reads a line of ranges, and stores the ranges of known rules. *end: the end of the previous
 * range, from which the next range's gap is counted. False: the line is damaged, or a range is
 * refused. The caller holds tree_lock. */
static bool take_line(struct reader *reader, uint32_t module, uint64_t *end) {
    while (*reader->at && *reader->at != '\n') {
        uint64_t rule, gap, bytes, start;
        if (!take_hex(reader, &rule) || !take_hex(reader, &gap) || !take_hex(reader, &bytes) ||
            !rule || rule > reader->rule_count || __builtin_add_overflow(*end, gap, &start) ||
            __builtin_add_overflow(start, bytes, end))
            return false;
        uint8_t ours = reader->rules[rule];
        if (ours && objects_add_resolved(module, (struct rule_range){start, *end, ours}))
            return false;
    }
    return true;
}

/* Reads the line that begins an object and, if there is one, the line with the object's ranges. */
static void take_object(struct reader *reader) {
    uint32_t module = find_module(*reader);
    uint64_t end = 0;
    reader->at += line_length(reader->at);
    if (module == MODULE_NONE || objects_resolved_count(module))
        return;
    lock_take(&tree_lock);
    /* Unless the next line begins another object, it has the ranges of this one. */
    bool good = reader->at[0] != '\n' || reader->at[1] == '@';
    if (!good) {
        reader->at++;
        good = take_line(reader, module, &end);
    }
    if (!good)
        objects_drop_resolved(module);
    else if (has_all_rules(reader))
        objects_mark_resolved(module);
    lock_release(&tree_lock);
}

void resolved_read(const char *ranges) {
    struct reader reader = {.at = ranges};
    if (!ranges || !is_line(ranges, "1")) /* the first line is the version of the format */
        return;
    while (*reader.at) {
        if (*reader.at == '=') {
            reader.at++;
            take_rule(&reader);
        } else if (*reader.at == '@') {
            take_object(&reader);
        }
        reader.at += line_length(reader.at);
        reader.at += *reader.at == '\n';
    }
}
