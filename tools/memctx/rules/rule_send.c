/* SPDX-License-Identifier: MIT */
/* rule_send.c - sends a process the ranges of code that its rules match; see rule_send.h. */
#include "rules/rule_send.h"

#include <stdlib.h>
#include <string.h>

#include "rules/rule_code.h"

#define ATTEMPTS 3 /* another client may change the rules meanwhile */

/* The rules of the target, with the version of their list. */
struct state {
    uint32_t version;
    struct rule_patterns patterns;
    struct rule_object *objects; /* the objects in which the rules are not resolved yet */
    size_t count;
};

/* Reads the rules of the target, in their order. Each line of the answer has the text of a rule up
 * to the first tab. */
static void read_rules(struct target *target, struct rule_patterns *patterns) {
    char *text = target_ask_text(target, WIRE_RULES, "list", strlen("list"));
    char *rest = text, *line;
    struct cli_failure failure;
    *patterns = (struct rule_patterns){0};
    while ((line = strsep(&rest, "\n")) && line[0] != '\0') {
        line[strcspn(line, "\t")] = '\0';
        if (!rule_patterns_add(patterns, line, &failure)) {
            /* The rule keeps its number, with a pattern that matches nothing. */
            cli_warn("%s", failure.text);
            rule_patterns_add(patterns, "module:=", &failure);
        }
    }
    free(text);
}

static void read_state(struct target *target, struct state *state) {
    static struct model model;
    *state = (struct state){0};
    char *text = target_ask_text(target, WIRE_RULES, "unresolved", strlen("unresolved"));
    read_rules(target, &state->patterns);
    model = (struct model){0};
    loader_begin(&target->loader, &model, target->client.source, &target->failure);
    target_ask_part(target, WIRE_PART_MODULES, 0);
    state->objects = cli_alloc(model.module_count + 1, sizeof *state->objects);
    char *rest = text, *line = strsep(&rest, "\n");
    state->version = (uint32_t)strtoul(line, NULL, 10);
    while ((line = strsep(&rest, "\n")) && line[0] != '\0' && state->count < model.module_count) {
        unsigned long index = strtoul(line, NULL, 10);
        if (index >= model.module_count)
            continue;
        state->objects[state->count++] = (struct rule_object){
            .module = &model.modules[index], .unreadable = strchr(line, ' ') != NULL};
    }
    free(text);
}

static uint32_t index_of(const struct target *target, const struct rule_object *object) {
    return (uint32_t)(object->module - target->loader.model->modules);
}

/* Sends the ranges of an object. Returns false if the target refuses them, perhaps because its
 * rules have changed. */
static bool send_object(struct target *target, const struct state *state,
                        const struct rule_object *object, struct cli_failure *failure) {
    char room[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    struct wire_rule_ranges *request = (void *)room;
    size_t sent = 0;
    do {
        size_t left = object->count - sent;
        *request = (struct wire_rule_ranges){
            .version = state->version,
            .module = index_of(target, object),
            .at = (uint32_t)sent,
            .last = left <= WIRE_RANGES_SENT_MAX,
            .count = left <= WIRE_RANGES_SENT_MAX ? (uint32_t)left : WIRE_RANGES_SENT_MAX,
            .build_id_bytes = object->module->build_id_bytes,
        };
        memcpy(request->build_id, object->module->build_id, sizeof request->build_id);
        for (uint32_t i = 0; i < request->count; i++, sent++) {
            const struct rule_range *range = &object->ranges[sent];
            request->ranges[i] =
                (struct wire_rule_range){.start = range->start,
                                         .bytes = (uint32_t)(range->end - range->start),
                                         .rule = range->rule};
        }
        size_t length = sizeof *request + request->count * sizeof request->ranges[0];
        char *said = client_ask_text(&target->client, WIRE_RULE_RANGES, request, length, failure);
        if (!said)
            return false;
        free(said);
    } while (sent < object->count);
    return true;
}

/* True if some rules do not work in the object until the command has resolved them. Otherwise the
 * library resolves all rules itself, and only inlined functions are missed. */
static bool matters(const struct state *state, const struct rule_object *object) {
    return state->patterns.command_alone || object->unreadable;
}

/* Sends the ranges of the objects that were resolved. *left receives the number of objects in which
 * rules stay unresolved. Returns false if the target refused an object and another attempt
 * follows. */
static bool send_objects(struct target *target, const struct state *state, bool last_attempt,
                         size_t *left) {
    struct cli_failure failure;
    *left = 0;
    for (size_t i = 0; i < state->count; i++) {
        const struct rule_object *object = &state->objects[i];
        if (!object->good && matters(state, object)) {
            rule_code_warn(object);
            (*left)++;
        } else if (!object->good) {
            continue;
        } else if (!send_object(target, state, object, &failure)) {
            if (!last_attempt)
                return false;
            cli_warn("the rules are not resolved in %s; %s", object->module->path, failure.text);
            (*left)++;
        }
    }
    return true;
}

bool rule_send_all(struct target *target, size_t added) {
    size_t left = 0;
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        struct state state;
        read_state(target, &state);
        if (!state.patterns.any || state.count == 0)
            return true;
        rule_code_find(state.objects, state.count, &state.patterns, target->facts.thread);
        if (!send_objects(target, &state, attempt == ATTEMPTS, &left))
            continue;
        if (added <= state.patterns.count)
            rule_code_note_unmatched(state.objects, state.count, &state.patterns,
                                     state.patterns.count - added,
                                     "the program and of the libraries on its call paths");
        break;
    }
    return left == 0;
}

void rule_send_list(struct target *target, struct rule_waiting *waiting) {
    struct state state;
    read_state(target, &state);
    waiting->paths = cli_alloc(state.count + 1, sizeof *waiting->paths);
    waiting->count = 0;
    for (size_t i = 0; i < state.count; i++)
        if (matters(&state, &state.objects[i]))
            waiting->paths[waiting->count++] = state.objects[i].module->path;
    waiting->plain_too = !state.patterns.command_alone;
}
