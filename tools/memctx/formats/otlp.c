/* SPDX-License-Identifier: MIT */
/*
 * otlp.c - writes an ExportProfilesServiceRequest of OpenTelemetry (profiles, v1development).
 *
 * In OTLP a sample has one value, so there is one profile for each type of value. The profile of
 * live bytes comes first, because readers show the first profile. All profiles share the dictionary
 * and its stacks. The format requires that element 0 of each table is empty, so that index 0 means
 * "none".
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "formats/dictionary.h"
#include "formats/values.h"

enum { /* fields of ProfilesDictionary */
       DICTIONARY_MAPPING = 1,
       DICTIONARY_LOCATION = 2,
       DICTIONARY_FUNCTION = 3,
       DICTIONARY_LINK = 4,
       DICTIONARY_STRING = 5,
       DICTIONARY_ATTRIBUTE = 6,
       DICTIONARY_STACK = 7,
};

enum { /* fields of Profile */
       PROFILE_SAMPLE_TYPE = 1,
       PROFILE_SAMPLE = 2,
       PROFILE_TIME_NS = 3,
       PROFILE_DURATION_NS = 4,
       PROFILE_PERIOD_TYPE = 5,
       PROFILE_PERIOD = 6,
       PROFILE_ID = 7,
};

static const struct dictionary_layout layout = {
    .mappings = DICTIONARY_MAPPING,
    .locations = DICTIONARY_LOCATION,
    .functions = DICTIONARY_FUNCTION,
    .strings = DICTIONARY_STRING,
    .attributes = DICTIONARY_ATTRIBUTE,
    .mapping = {.start = 1, .end = 2, .file = 4, .attribute_indices = 5, .first_claim = 1},
    .location = {.mapping = 1, .address = 2, .line = 3},
    .function = {.name = 1, .system_name = 2, .file = 3},
};

/* The order of the profiles. The figures of pages come last, and the resident bytes last of all,
 * because a model gets the first values_count profiles. */
static const enum values_type order[TYPES] = {
    TYPE_INUSE_SPACE, TYPE_INUSE_OBJECTS, TYPE_ALLOC_SPACE, TYPE_ALLOC_OBJECTS, TYPE_RESERVED,
    TYPE_WASTE,       TYPE_HOLES,         TYPE_PINNED,      TYPE_RESIDENT,
};

/* --- the dictionary -------------------------------------------------------------------------- */

static void put_empty_elements(struct message *body) {
    static const unsigned tables[] = {DICTIONARY_MAPPING, DICTIONARY_LOCATION, DICTIONARY_FUNCTION,
                                      DICTIONARY_ATTRIBUTE, DICTIONARY_STACK};
    static const unsigned char no_id[16];
    struct message link = {0};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        message_put_part(body, tables[i], NULL, 0);
    message_put_part(&link, 1, no_id, 16); /* decoders expect ids of the full length */
    message_put_part(&link, 2, no_id, 8);
    message_put_message(body, DICTIONARY_LINK, &link);
    message_free(&link);
}

/* The stacks of the dictionary. The format requires that no two stacks are equal. Contexts with
 * equal names below one caller have equal locations, so they share a stack, and their figures are
 * added up. */
struct stacks {
    struct stack {
        /* place of the stack's locations in `numbers`, in bytes; length 0: it has none */
        size_t start, length;
        int64_t sums[TYPES];
    } * list; /* list[N]: the stack with number N, from 1 on */
    uint32_t count;
    uint32_t *slots; /* a hash table of the stacks; 0: free */
    size_t mask;
    struct message numbers;
};

/* Returns the stack with the locations that stacks->numbers has from byte `start` on. A new stack
 * gets the next number, and *fresh is set. */
static struct stack *find_stack(struct stacks *stacks, size_t start, bool *fresh) {
    const unsigned char *bytes = stacks->numbers.bytes + start;
    size_t length = stacks->numbers.length - start;
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3U;
    for (size_t at = hash ^ hash >> 32;; at++) {
        uint32_t *slot = &stacks->slots[at & stacks->mask];
        struct stack *stack = &stacks->list[*slot == 0 ? stacks->count + 1 : *slot];
        *fresh = *slot == 0;
        if (*fresh) {
            *slot = ++stacks->count;
            *stack = (struct stack){.start = start, .length = length};
            return stack;
        }
        if (stack->length == length &&
            memcmp(stacks->numbers.bytes + stack->start, bytes, length) == 0)
            return stack;
    }
}

/* Writes the stack of each context that has a sample, and sums the figures of contexts with equal
 * stacks. */
static void put_stacks(struct dictionary *dict, struct stacks *stacks, int64_t (*rows)[TYPES]) {
    size_t count = dict->model->context_count, slots = 64;
    struct message part = {0};
    while (slots < 2 * count)
        slots *= 2;
    *stacks = (struct stacks){.list = cli_alloc(count + 1, sizeof *stacks->list),
                              .slots = cli_alloc(slots, sizeof *stacks->slots),
                              .mask = slots - 1};
    for (uint32_t i = 0; i < count; i++) {
        size_t start = stacks->numbers.length;
        bool fresh;
        if (!values_is_sample(rows[i]))
            continue;
        dictionary_put_path(dict, i, &stacks->numbers);
        struct stack *stack = find_stack(stacks, start, &fresh);
        for (size_t k = 0; k < TYPES; k++)
            stack->sums[k] = model_add(stack->sums[k], rows[i][k]);
        if (fresh) {
            message_put_part(&part, 1, stacks->numbers.bytes + start, stack->length);
            message_put_message(&dict->body, DICTIONARY_STACK, &part);
        } else {
            stacks->numbers.length = start;
        }
    }
    message_free(&part);
}

/* --- profiles -------------------------------------------------------------------------------- */

static void put_value_type(struct message *message, unsigned field, uint64_t type, uint64_t unit) {
    struct message part = {0};
    message_put_number(&part, 1, type);
    message_put_number(&part, 2, unit);
    message_put_message(message, field, &part);
    message_free(&part);
}

/* Writes the time and the duration of a profile. With an earlier state (options->before), all
 * figures are changes since that state. Without one, allocations are counts since the start of the
 * process, and live chunks are those of one moment, so their profile has no duration. */
static void put_time(struct message *profile, enum values_type type, const struct model *model,
                     const struct profile_values *options) {
    bool sums = type == TYPE_ALLOC_SPACE || type == TYPE_ALLOC_OBJECTS;
    double since_s = options->before ? options->before->uptime_s : 0;
    double span_s = sums || options->before ? model->uptime_s - since_s : 0;
    uint64_t span_ns = span_s > 0 ? (uint64_t)(span_s * 1e9) : 0, now_ns = model_time_ns(model);
    if (span_ns > now_ns)
        span_ns = 0;
    message_put_fixed64(profile, PROFILE_TIME_NS, now_ns - span_ns);
    message_put_number(profile, PROFILE_DURATION_NS, span_ns);
}

/* Writes a random id, by which a receiver recognises a profile that arrives twice. */
static void put_id(struct message *profile) {
    unsigned char id[16];
    if (getrandom(id, sizeof id, GRND_NONBLOCK) == sizeof id)
        message_put_part(profile, PROFILE_ID, id, sizeof id);
}

static void put_profile(struct message *scope, struct dictionary *dict, enum values_type type,
                        const struct stacks *stacks, const struct profile_values *options) {
    struct message profile = {0}, sample = {0}, values = {0};
    put_value_type(&profile, PROFILE_SAMPLE_TYPE, dictionary_string(dict, values_types[type][0]),
                   dictionary_string(dict, values_types[type][1]));
    for (uint32_t i = 1; i <= stacks->count; i++) {
        int64_t sum = stacks->list[i].sums[type];
        if (sum == 0)
            continue;
        message_put_number(&sample, 1, i);
        message_put_varint(&values, (uint64_t)sum);
        message_put_message(&sample, 4, &values);
        message_put_message(&profile, PROFILE_SAMPLE, &sample);
    }
    put_time(&profile, type, dict->model, options);
    put_value_type(&profile, PROFILE_PERIOD_TYPE, dictionary_string(dict, "space"),
                   dictionary_string(dict, "bytes"));
    message_put_number(&profile, PROFILE_PERIOD, 1); /* every byte is counted */
    put_id(&profile);
    message_put_message(scope, 2, &profile);
    message_free(&profile);
    message_free(&sample);
    message_free(&values);
}

/* --- the resource ---------------------------------------------------------------------------- */

static void put_attribute(struct message *resource, const char *name, size_t name_length,
                          const char *value) {
    struct message part = {0}, text = {0};
    char *key = cli_format("%.*s", (int)name_length, name);
    message_put_text(&part, 1, key);
    message_put_text(&text, 1, value); /* string_value */
    message_put_message(&part, 2, &text);
    message_put_message(resource, 1, &part);
    message_free(&part);
    message_free(&text);
    free(key);
}

static void put_resource(struct message *of_process, const struct model *model,
                         const struct profile_values *options) {
    static const char service[] = "service.name=";
    struct message resource = {0};
    bool has_service = false;
    for (size_t i = 0; i < options->attribute_count; i++) {
        const char *text = options->attributes[i], *equals = strchr(text, '=');
        has_service = has_service || strncmp(text, service, sizeof service - 1) == 0;
        put_attribute(&resource, text, (size_t)(equals - text), equals + 1);
    }
    if (!has_service)
        put_attribute(&resource, service, sizeof service - 2, model_program(model));
    message_put_message(of_process, 1, &resource);
    message_free(&resource);
}

void profile_write_otlp(const struct model *model, FILE *file,
                        const struct profile_values *options) {
    struct dictionary dict;
    struct message of_process = {0}, scope = {0}, part = {0}, request = {0};
    dictionary_begin(&dict, model, &layout);
    put_empty_elements(&dict.body);
    dictionary_put_modules(&dict);
    int64_t(*rows)[TYPES] = values_make(model, options, &dict.merged);
    dict.root_name = dict.merged ? "[other paths]" : "[no call path]";
    struct stacks stacks;
    put_stacks(&dict, &stacks, rows);
    free(rows);
    put_resource(&of_process, model, options);
    message_put_text(&part, 1, "memctx");
    message_put_text(&part, 2, CLI_VERSION);
    message_put_message(&scope, 1, &part);
    for (size_t i = 0; i < values_count(model); i++)
        put_profile(&scope, &dict, order[i], &stacks, options);
    message_put_message(&of_process, 2, &scope);
    message_put_message(&request, 1, &of_process);
    message_put_bytes(&dict.body, dict.strings.text.bytes, dict.strings.text.length);
    message_put_message(&request, 2, &dict.body);
    fwrite(request.bytes, 1, request.length, file);
    struct message *messages[] = {&of_process, &scope, &part, &request};
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        message_free(messages[i]);
    dictionary_free(&dict);
    message_free(&stacks.numbers);
    free(stacks.slots);
    free(stacks.list);
}
