/* SPDX-License-Identifier: MIT */
/* dictionary.c - numbers strings, mappings, functions and locations, and writes each once. */
#include "formats/dictionary.h"

#include <stdlib.h>
#include <string.h>

/* The made-up mappings. Their names are in brackets, so that readers look for no file. The
 * addresses of labels have bit 62 set and bit 63 clear; no address of a process on x86-64 has
 * that. */
#define LABELS_START ((uint64_t)1 << 62)
#define LABELS_BYTES ((uint64_t)1 << 48)

static const struct model_module made_up_modules[MADE_UP_MAPPINGS] = {
    [MADE_UP_CODE] = {.start = 0, .end = LABELS_START, .path = "[anon]"},
    [MADE_UP_LABELS] = {.start = LABELS_START,
                        .end = LABELS_START + LABELS_BYTES,
                        .path = "[memctx]"},
};

struct dictionary_location {
    uint64_t mapping, address, label; /* label: number of the context's name; 0: a frame */
    uint64_t number;                  /* 0: the slot is free */
};

uint64_t dictionary_string(struct dictionary *dict, const char *text) {
    bool fresh;
    struct dictionary_strings *strings = &dict->strings;
    uint32_t number = profile_string_number(&strings->numbers, text, &fresh);
    if (fresh)
        message_put_text(&strings->text, dict->layout->strings, text);
    return number;
}

void dictionary_begin(struct dictionary *dict, const struct model *model,
                      const struct dictionary_layout *layout) {
    *dict = (struct dictionary){.model = model, .layout = layout};
    dict->context_locations = cli_alloc(model->context_count, sizeof *dict->context_locations);
    message_put_text(&dict->strings.text, layout->strings, "");
}

/* --- mappings --------------------------------------------------------------------------------- */

/* Writes an attribute with the build id of a mapping. Returns the attribute's number, or 0 if the
 * format has no attributes. */
static uint64_t put_build_id(struct dictionary *dict, const char *id) {
    struct message value = {0};
    if (dict->layout->attributes == 0)
        return 0;
    message_put_text(&value, 1, id); /* string_value */
    message_put_number(&dict->part, 1, dictionary_string(dict, "process.executable.build_id.gnu"));
    message_put_message(&dict->part, 2, &value);
    message_put_message(&dict->body, dict->layout->attributes, &dict->part);
    message_free(&value);
    return ++dict->attribute_count;
}

/* Writes a mapping, and returns its number. The field for the file offset is left out, because a
 * module's range begins at offset 0 of its file. In OTLP the build id is an attribute, and the
 * mapping has the attribute's number. */
static uint64_t put_mapping(struct dictionary *dict, const struct model_module *module) {
    const struct dictionary_layout *layout = dict->layout;
    struct message *part = &dict->part;
    char *id = cli_alloc(2 * sizeof module->build_id + 1, 1);
    for (size_t i = 0; i < module->build_id_bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", module->build_id[i]);
    uint64_t attribute = id[0] != '\0' ? put_build_id(dict, id) : 0;
    message_put_number(part, layout->mapping.id, ++dict->mapping_count);
    message_put_number(part, layout->mapping.start, module->start);
    message_put_number(part, layout->mapping.end, module->end);
    message_put_number(part, layout->mapping.file, dictionary_string(dict, module->path));
    if (layout->mapping.build_id != 0)
        message_put_number(part, layout->mapping.build_id, dictionary_string(dict, id));
    message_put_number(part, layout->mapping.attribute_indices, attribute);
    /* Says that the profile already has functions, files, lines and inlined frames, so that readers
     * look up none. */
    for (unsigned i = layout->mapping.first_claim; i <= layout->mapping.last_claim; i++)
        message_put_number(part, i, 1);
    message_put_message(&dict->body, layout->mappings, part);
    return dict->mapping_count;
}

void dictionary_put_modules(struct dictionary *dict) {
    const struct model *model = dict->model;
    dict->module_mappings = cli_alloc(model->module_count, sizeof *dict->module_mappings);
    for (int others = 0; others < 2; others++) {
        for (size_t i = 0; i < model->module_count; i++)
            if ((strcmp(model->modules[i].path, model->exe) != 0) == others)
                dict->module_mappings[i] = put_mapping(dict, &model->modules[i]);
    }
}

static uint64_t made_up_mapping(struct dictionary *dict, enum dictionary_made_up which) {
    uint64_t *number = &dict->made_up_mappings[which];
    if (*number == 0)
        *number = put_mapping(dict, &made_up_modules[which]);
    return *number;
}

/* --- locations -------------------------------------------------------------------------------- */

static uint64_t hash_label(const char *text) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3U;
    return hash % LABELS_BYTES;
}

static struct dictionary_location *find_location(struct dictionary *dict,
                                                 const struct dictionary_location *key) {
    uint64_t at = (key->address ^ key->mapping << 48) * 0x9e3779b97f4a7c15U;
    for (at ^= at >> 32;; at++) {
        struct dictionary_location *slot = &dict->slots[at & dict->mask];
        if (slot->number == 0 || (slot->mapping == key->mapping && slot->address == key->address &&
                                  slot->label == key->label))
            return slot;
    }
}

static void make_room_for_location(struct dictionary *dict) {
    if (dict->location_count * 2 < dict->mask)
        return;
    struct dictionary_location *old = dict->slots;
    size_t old_slots = old ? dict->mask + 1 : 0;
    size_t slots = old ? 4 * old_slots : 1024;
    dict->slots = cli_alloc(slots, sizeof *dict->slots);
    dict->mask = slots - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].number != 0)
            *find_location(dict, &old[i]) = old[i];
    free(old);
}

static const char *label_of(const struct dictionary *dict, uint32_t index) {
    size_t count;
    return index == 0 ? dict->root_name : profile_frames(dict->model, index, &count)->function;
}

/* Returns mapping and address of a context. For a frame this is an address in its call instruction,
 * one byte before the return address, as in the profiles of other profilers. */
static struct dictionary_location key_of(struct dictionary *dict, uint32_t index) {
    const struct model_context *context = &dict->model->contexts[index];
    if (context->frame->kind != WIRE_KIND_PATH) {
        const char *label = label_of(dict, index);
        return (struct dictionary_location){.mapping = made_up_mapping(dict, MADE_UP_LABELS),
                                            .address = LABELS_START + hash_label(label),
                                            .label = dictionary_string(dict, label)};
    }
    bool returns = !context->frame->exact_address && context->frame->address > 0;
    return (struct dictionary_location){.mapping =
                                            context->frame->module != WIRE_NONE
                                                ? dict->module_mappings[context->frame->module]
                                                : made_up_mapping(dict, MADE_UP_CODE),
                                        .address = context->frame->address - (returns ? 1 : 0)};
}

/* True if pprof and Parca would cut the name wrongly. If a function's name equals its system name,
 * they remove everything in () and in <> from it. That makes C++ names shorter, but leaves
 * "::clone" of "<A as B>::clone", "void ::f" of "void (anonymous namespace)::f<int>(int)", and
 * "T::operator" of "T::operator()". In a name with "->", they take the > for a bracket. */
static bool is_cut_wrongly(const char *name) {
    int depth = 0;
    for (const char *at = name; *at && depth >= 0; at++) {
        bool opens = *at == '<' || *at == '(';
        size_t before = (size_t)(at - name);
        if (opens && depth == 0 &&
            (before == 0 || at[-1] == ':' || at[-1] == ' ' ||
             (before >= 8 && memcmp(at - 8, "operator", 8) == 0)))
            return true;
        depth += opens - (*at == '>' || *at == ')');
    }
    return depth != 0;
}

static void put_line(struct dictionary *dict, const char *name, const char *file, int64_t line) {
    const struct dictionary_layout *layout = dict->layout;
    struct message *part = &dict->part;
    struct profile_frame key = {.function = name, .file = file};
    bool fresh;
    uint64_t function = profile_frame_number(&dict->functions, &key, &fresh);
    if (fresh) {
        message_put_number(part, layout->function.id, function);
        message_put_number(part, layout->function.name, dictionary_string(dict, name));
        message_put_number(part, layout->function.system_name,
                           dictionary_string(dict, is_cut_wrongly(name) ? "" : name));
        message_put_number(part, layout->function.file, dictionary_string(dict, file ? file : ""));
        message_put_message(&dict->body, layout->functions, part);
    }
    message_put_number(part, 1, function);
    message_put_number(part, 2, line > 0 ? (uint64_t)line : 0);
    message_put_message(&dict->location, layout->location.line, part);
}

/* Returns the slot of a location. If the location is new (*fresh), it gets a number, and all its
 * fields but the lines are written; the caller then writes the lines and calls end_location. */
static struct dictionary_location *
begin_location(struct dictionary *dict, const struct dictionary_location *key, bool *fresh) {
    make_room_for_location(dict);
    struct dictionary_location *slot = find_location(dict, key);
    *fresh = slot->number == 0;
    if (*fresh) {
        *slot = *key;
        slot->number = ++dict->location_count;
        message_put_number(&dict->location, dict->layout->location.id, slot->number);
        message_put_number(&dict->location, dict->layout->location.mapping, slot->mapping);
        message_put_number(&dict->location, dict->layout->location.address, slot->address);
    }
    return slot;
}

static void put_lines(struct dictionary *dict, const struct profile_frame *frames, size_t count) {
    for (size_t i = 0; i < count; i++) /* innermost first */
        put_line(dict, frames[i].function, frames[i].file, frames[i].line);
}

static void end_location(struct dictionary *dict) {
    message_put_message(&dict->body, dict->layout->locations, &dict->location);
}

/* Returns the number of a context's location. The first call writes the location. */
static uint64_t location_number(struct dictionary *dict, uint32_t index) {
    uint64_t *number = &dict->context_locations[index];
    if (*number != 0)
        return *number;
    bool fresh;
    struct dictionary_location key = key_of(dict, index);
    struct dictionary_location *slot = begin_location(dict, &key, &fresh);
    if (fresh) {
        size_t count;
        if (index == 0) {
            put_line(dict, dict->root_name, NULL, 0);
        } else {
            const struct profile_frame *frames = profile_frames(dict->model, index, &count);
            put_lines(dict, frames, count);
        }
        end_location(dict);
    }
    *number = slot->number;
    return *number;
}

/* Appends the numbers of the locations of functions that ended in tail calls to `numbers`, the
 * locations of a sample. */
static void put_tails(struct dictionary *dict, const struct model_tails *tails,
                      struct message *numbers) {
    for (uint32_t i = 0; tails && i < tails->count; i++) {
        bool fresh;
        const struct model_frame *frame = &tails->frames[i];
        struct dictionary_location key = {.mapping = dict->module_mappings[frame->module],
                                          .address = frame->address - 1};
        struct dictionary_location *slot = begin_location(dict, &key, &fresh);
        if (fresh) {
            size_t count;
            const struct profile_frame *frames = profile_tail_frames(frame, &count);
            put_lines(dict, frames, count);
            end_location(dict);
        }
        message_put_varint(numbers, slot->number);
    }
}

void dictionary_put_path(struct dictionary *dict, uint32_t index, struct message *numbers) {
    const struct model_context *contexts = dict->model->contexts;
    /* A sample to which samples of inner contexts were added also has their allocations, so no tail
     * call from its own frame to malloc belongs to it. */
    if (!dict->merged || contexts[index].first_child == WIRE_NONE)
        put_tails(dict, tails_to_malloc(dict->model, &contexts[index]), numbers);
    for (uint32_t at = index; at != WIRE_NONE; at = contexts[at].parent) {
        if (at == index || contexts[at].frame->kind != WIRE_KIND_ROOT) {
            message_put_varint(numbers, location_number(dict, at));
            put_tails(dict, tails_before(dict->model, &contexts[at]), numbers);
        }
    }
}

void dictionary_free(struct dictionary *dict) {
    message_free(&dict->body);
    message_free(&dict->location);
    message_free(&dict->part);
    message_free(&dict->strings.text);
    free(dict->strings.numbers.slots);
    free(dict->functions.slots);
    free(dict->module_mappings);
    free(dict->context_locations);
    free(dict->slots);
}
