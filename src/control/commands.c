/* SPDX-License-Identifier: MIT */
/* commands.c - the table of requests of wire.h with their handlers. */
#include "control/commands.h"
#include "base/options.h"
#include "control/act.h"
#include "control/dump.h"
#include "control/marks.h"
#include "control/record.h"
#include "control/resets.h"
#include "control/rules_request.h"
#include "control/statistics.h"
#include "control/unfold.h"
#include "named/named.h"
#include "path/unwind_rules.h"
#include "rules/rules.h"

static uint32_t run_dump(const char *body, struct answer *answer) {
    struct wire_dump_request request;
    struct wire_dump *dump = answer_add(answer, sizeof *dump);
    __builtin_memcpy(&request, body, sizeof request);
    if (!dump)
        return WIRE_NO_MEMORY;
    dump_head(&request, dump);
    return WIRE_OK;
}

static uint32_t run_piece(const char *body, struct answer *answer) {
    struct wire_piece_request request;
    __builtin_memcpy(&request, body, sizeof request);
    request.mark[sizeof request.mark - 1] = 0;
    return piece_run(&request, answer);
}

static uint32_t run_text(struct answer *answer, uint32_t (*fill)(const char *, struct text *),
                         const char *body) {
    struct text text = {.bytes = answer->bytes, .capacity = answer->capacity};
    if (!text.capacity)
        return WIRE_NO_MEMORY;
    uint32_t status = fill(body, &text);
    answer->length = text.length;
    return status;
}

static uint32_t fill_mark(const char *body, struct text *text) {
    struct wire_mark_request request;
    __builtin_memcpy(&request, body, sizeof request);
    request.name[sizeof request.name - 1] = 0;
    return mark_set(&request, text);
}

static uint32_t fill_reset(const char *body, struct text *text) {
    struct wire_reset_request request;
    __builtin_memcpy(&request, body, sizeof request);
    return reset_run(&request, text);
}

static uint32_t fill_reset_named(const char *body, struct text *text) {
    static const char ask[] = "ask ", look[] = "look ";
    bool asks = !__builtin_strncmp(body, ask, sizeof ask - 1);
    if (!asks && __builtin_strncmp(body, look, sizeof look - 1) != 0)
        return WIRE_REFUSED;
    const char *name = body + (asks ? sizeof ask : sizeof look) - 1;
    struct named_answers answers = {0};
    if (!asks || named_ask_reset(name))
        answers = named_answers(name);
    text_add_number(text, answers.asked);
    text_add(text, "\t");
    text_add_number(text, answers.done);
    text_add(text, "\t");
    text_add_number(text, (int64_t)answers.freed_bytes);
    return WIRE_OK;
}

static uint32_t fill_set(const char *body, struct text *text) {
    if (__builtin_strncmp(body, "record=", 7) == 0)
        return record_switch(body + 7, text) ? WIRE_OK : WIRE_REFUSED;
    int64_t depth = load_relaxed(&options.depth);
    enum option_result result = options_set(body, text);
    if (load_relaxed(&options.depth) != depth)
        unwind_rules_new_generation(); /* drops the cached paths, which have the old depth */
    return result == OPTION_SET ? WIRE_OK : WIRE_REFUSED;
}

static uint32_t fill_options(const char *body, struct text *text) {
    (void)body;
    options_describe(text);
    return WIRE_OK;
}

/* True when a request that names contexts is exactly as long as its count says. */
static bool is_contexts_request(const char *body, size_t length) {
    struct wire_contexts_request head;
    if (length < sizeof head)
        return false;
    __builtin_memcpy(&head, body, sizeof head);
    return head.count <= WIRE_CONTEXTS_MAX &&
           length == sizeof head + head.count * sizeof head.contexts[0];
}

static const struct wire_contexts_request *as_contexts_request(const char *body, char *room) {
    struct wire_contexts_request head;
    __builtin_memcpy(&head, body, sizeof head);
    __builtin_memcpy(room, body, sizeof head + head.count * sizeof head.contexts[0]);
    return (const void *)room;
}

static uint32_t fill_damaged(const char *body, struct text *text) {
    (void)body;
    text_add(text, "the request does not have the length that its fields give");
    return WIRE_REFUSED;
}

static uint32_t fill_place(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return place_run(as_contexts_request(body, room), text);
}

static uint32_t fill_unfold(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return unfold_run(as_contexts_request(body, room), text);
}

/* True when a request with ranges of rules is exactly as long as its count says. */
static bool is_ranges_request(const char *body, size_t length) {
    struct wire_rule_ranges head;
    if (length < sizeof head)
        return false;
    __builtin_memcpy(&head, body, sizeof head);
    return head.count <= WIRE_RANGES_SENT_MAX && head.build_id_bytes <= sizeof head.build_id &&
           length == sizeof head + head.count * sizeof head.ranges[0];
}

static uint32_t fill_ranges(const char *body, struct text *text) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    struct wire_rule_ranges head;
    __builtin_memcpy(&head, body, sizeof head);
    __builtin_memcpy(room, body, sizeof head + head.count * sizeof head.ranges[0]);
    return policy_rules_resolve((const void *)room, text) ? WIRE_OK : WIRE_REFUSED;
}

static uint32_t run_trim(const char *body, struct answer *answer) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    return trim_run(as_contexts_request(body, room), answer);
}

bool command_is_known(uint16_t type, size_t length) {
    switch (type) {
    case WIRE_DUMP: return length == sizeof(struct wire_dump_request);
    case WIRE_MARK: return length == sizeof(struct wire_mark_request);
    case WIRE_RESET: return length == sizeof(struct wire_reset_request);
    case WIRE_SET: return length > 0;
    case WIRE_NOTE: return length > 0 && length < WIRE_NOTE_BYTES;
    case WIRE_RULES: return length > 0;
    case WIRE_RESET_NAMED: return length > 0;
    case WIRE_PIECE: return length == sizeof(struct wire_piece_request);
    case WIRE_TRIM:
    case WIRE_PLACE:
    case WIRE_UNFOLD:
        return length >= sizeof(struct wire_contexts_request) &&
               length % sizeof(uint32_t) == 0; /* the ids of contexts follow the head */
    case WIRE_RULE_RANGES:
        return length >= sizeof(struct wire_rule_ranges) &&
               (length - sizeof(struct wire_rule_ranges)) % sizeof(struct wire_rule_range) == 0;
    case WIRE_OPTIONS:
    case WIRE_SELF: return length == 0;
    default: return false;
    }
}

uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer) {
    bool contexts = type == WIRE_TRIM || type == WIRE_PLACE || type == WIRE_UNFOLD;
    if ((contexts && !is_contexts_request(body, length)) ||
        (type == WIRE_RULE_RANGES && !is_ranges_request(body, length)))
        return run_text(answer, fill_damaged, body);
    switch (type) {
    case WIRE_DUMP: return run_dump(body, answer);
    case WIRE_MARK: return run_text(answer, fill_mark, body);
    case WIRE_RESET: return run_text(answer, fill_reset, body);
    case WIRE_SET: return run_text(answer, fill_set, body); /* the server ends the body with 0 */
    case WIRE_OPTIONS: return run_text(answer, fill_options, body);
    case WIRE_SELF: return run_text(answer, statistics_fill, body);
    case WIRE_NOTE: return run_text(answer, note_run, body);
    case WIRE_RULES: return run_text(answer, rules_run, body);
    case WIRE_RESET_NAMED: return run_text(answer, fill_reset_named, body);
    case WIRE_PIECE: return run_piece(body, answer);
    case WIRE_PLACE: return run_text(answer, fill_place, body);
    case WIRE_UNFOLD: return run_text(answer, fill_unfold, body);
    case WIRE_RULE_RANGES: return run_text(answer, fill_ranges, body);
    default: return run_trim(body, answer);
    }
}
