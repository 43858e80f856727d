/* SPDX-License-Identifier: MIT */
/*
 * pprof.c - writes profile.proto. It is encoded by hand, because a dozen kinds of fields need no
 * generator.
 *
 * A message is built in memory, because its length stands before it. Numbers are varints; repeated
 * numbers are packed. Strings stand in a table, whose first entry is empty.
 *
 * Readers that keep profiles (Parca, Pyroscope) check more than pprof does, and tell frames apart
 * by mapping and address. So mappings, functions and locations are numbered in the order of the
 * file; an address is one location, however many paths have it; and every location has a mapping. A
 * context that is not a frame (a named context, [truncated]) lies in a made-up mapping, at an
 * address that is a hash of its name, so that it has this address in the next profile, too.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "formats/condense.h"
#include "formats/profile.h"
#include "model/tails.h"

enum { /* fields of Profile */
       PROFILE_SAMPLE_TYPE = 1,
       PROFILE_SAMPLE = 2,
       PROFILE_MAPPING = 3,
       PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5,
       PROFILE_STRING = 6,
       PROFILE_TIME_NS = 9,
       PROFILE_DURATION_NS = 10,
       PROFILE_PERIOD_TYPE = 11,
       PROFILE_PERIOD = 12,
       PROFILE_DEFAULT_TYPE = 14,
};

/* The first four have the names, units and order of Go's heap profiles, which readers know. */
enum {
    TYPE_ALLOC_OBJECTS,
    TYPE_ALLOC_SPACE,
    TYPE_INUSE_OBJECTS,
    TYPE_INUSE_SPACE,
    TYPE_RESERVED,
    TYPE_WASTE,
    TYPE_HOLES,
    TYPE_PINNED,
    TYPE_RESIDENT,
    TYPES,
};

static const char *const types[TYPES][2] = {
    [TYPE_ALLOC_OBJECTS] = {"alloc_objects", "count"},
    [TYPE_ALLOC_SPACE] = {"alloc_space", "bytes"},
    [TYPE_INUSE_OBJECTS] = {"inuse_objects", "count"},
    [TYPE_INUSE_SPACE] = {"inuse_space", "bytes"},
    [TYPE_RESERVED] = {"reserved", "bytes"},
    [TYPE_WASTE] = {"waste", "bytes"},
    [TYPE_HOLES] = {"holes", "bytes"},
    [TYPE_PINNED] = {"pinned", "bytes"},
    [TYPE_RESIDENT] = {"resident", "bytes"},
};

/* Mappings without a file. Readers do not look for a file if the name is in brackets. No address of
 * a process on x86-64 has bit 62 set and bit 63 clear, so the addresses of labels collide with no
 * other address. */
enum made_up_mapping { MADE_UP_CODE, MADE_UP_LABELS, MADE_UP_MAPPINGS };

#define LABELS_START ((uint64_t)1 << 62)
#define LABELS_BYTES ((uint64_t)1 << 48)

static const struct model_module made_up_modules[MADE_UP_MAPPINGS] = {
    [MADE_UP_CODE] = {.start = 0, .end = LABELS_START, .path = "[anon]"},
    [MADE_UP_LABELS] = {.start = LABELS_START,
                        .end = LABELS_START + LABELS_BYTES,
                        .path = "[memctx]"},
};

struct message {
    unsigned char *bytes;
    size_t length, capacity;
};

struct strings {
    struct message text; /* encoded strings */
    struct profile_numbers numbers;
};

static void put_bytes(struct message *message, const void *bytes, size_t length) {
    if (length == 0)
        return;
    if (message->capacity - message->length < length) {
        message->capacity = 2 * (message->capacity + length);
        message->bytes = cli_grow(message->bytes, message->capacity, 1);
    }
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

static void put_varint(struct message *message, uint64_t value) {
    unsigned char bytes[10];
    size_t length = 0;
    do {
        bytes[length++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    put_bytes(message, bytes, length);
}

static void put_number(struct message *message, unsigned field, uint64_t value) {
    if (value != 0) {
        put_varint(message, (uint64_t)field << 3);
        put_varint(message, value);
    }
}

static void put_part(struct message *message, unsigned field, const void *bytes, size_t length) {
    put_varint(message, (uint64_t)field << 3 | 2);
    put_varint(message, length);
    put_bytes(message, bytes, length);
}

/* Appends `part` to `message`, and empties `part` for the next use. */
static void put_message(struct message *message, unsigned field, struct message *part) {
    put_part(message, field, part->bytes, part->length);
    part->length = 0;
}

/* Writes a string. Strings of profile.proto are UTF-8, and strict readers refuse a whole file for
 * one invalid string; but file names and symbols may have any bytes. */
static void put_string(struct message *message, const char *text) {
    struct message clean = {0};
    for (size_t length = 0; *text != '\0'; text += length) {
        length = json_utf8_length(text);
        put_bytes(&clean, length > 0 ? text : "\xef\xbf\xbd", length > 0 ? length : 3);
        length += length == 0;
    }
    put_message(message, PROFILE_STRING, &clean);
    free(clean.bytes);
}

static uint64_t string_number(struct strings *strings, const char *text) {
    bool fresh;
    uint32_t number = profile_string_number(&strings->numbers, text, &fresh);
    if (fresh)
        put_string(&strings->text, text);
    return number;
}

struct location {
    uint64_t mapping, address, label; /* label: number of the label's string; 0: a frame */
    uint64_t number;                  /* 0: the slot is free */
};

struct pprof {
    const struct model *model;
    const char *root_name;
    struct message profile, sample, location, part, numbers; /* the others: being built */
    struct strings strings;
    struct profile_numbers functions;
    uint64_t *module_mappings; /* number of each module's mapping */
    uint64_t made_up_mappings[MADE_UP_MAPPINGS], mapping_count;
    uint64_t *context_locations; /* number of each context's location; 0: not written yet */
    struct location *slots;
    size_t mask, location_count;
    bool merged; /* small samples were added to those of their callers */
};

static void put_types(struct pprof *pprof, int default_type) {
    for (size_t i = 0; i < TYPES; i++) {
        put_number(&pprof->part, 1, string_number(&pprof->strings, types[i][0]));
        put_number(&pprof->part, 2, string_number(&pprof->strings, types[i][1]));
        put_message(&pprof->profile, PROFILE_SAMPLE_TYPE, &pprof->part);
    }
    put_number(&pprof->profile, PROFILE_DEFAULT_TYPE,
               string_number(&pprof->strings, types[default_type][0]));
    put_number(&pprof->part, 1, string_number(&pprof->strings, "space"));
    put_number(&pprof->part, 2, string_number(&pprof->strings, "bytes"));
    put_message(&pprof->profile, PROFILE_PERIOD_TYPE, &pprof->part);
    put_number(&pprof->profile, PROFILE_PERIOD, 1); /* every byte is counted */
}

/* --- mappings --------------------------------------------------------------------------------- */

/* Writes a mapping. The file offset is left out, because a module's range begins where its file
 * begins. */
static uint64_t put_mapping(struct pprof *pprof, const struct model_module *module) {
    struct message *part = &pprof->part;
    char *id = cli_alloc(2 * sizeof module->build_id + 1, 1);
    for (size_t i = 0; i < module->build_id_bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", module->build_id[i]);
    put_number(part, 1, ++pprof->mapping_count);
    put_number(part, 2, module->start);
    put_number(part, 3, module->end);
    put_number(part, 5, string_number(&pprof->strings, module->path));
    put_number(part, 6, string_number(&pprof->strings, id));
    put_number(part, 7,
               1); /* 7 to 10: the profile already has functions, files, lines, inlined frames */
    put_number(part, 8, 1);
    put_number(part, 9, 1);
    put_number(part, 10, 1);
    put_message(&pprof->profile, PROFILE_MAPPING, part);
    return pprof->mapping_count;
}

/* Writes the program's mapping first, because readers take the first one for the program. */
static void put_module_mappings(struct pprof *pprof) {
    const struct model *model = pprof->model;
    pprof->module_mappings = cli_alloc(model->module_count, sizeof *pprof->module_mappings);
    for (int others = 0; others < 2; others++) {
        for (size_t i = 0; i < model->module_count; i++)
            if ((strcmp(model->modules[i].path, model->exe) != 0) == others)
                pprof->module_mappings[i] = put_mapping(pprof, &model->modules[i]);
    }
}

static uint64_t made_up_mapping(struct pprof *pprof, enum made_up_mapping which) {
    uint64_t *number = &pprof->made_up_mappings[which];
    if (*number == 0)
        *number = put_mapping(pprof, &made_up_modules[which]);
    return *number;
}

/* --- locations -------------------------------------------------------------------------------- */

static uint64_t hash_label(const char *text) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3U;
    return hash % LABELS_BYTES;
}

static struct location *find_location(struct pprof *pprof, const struct location *key) {
    uint64_t at = (key->address ^ key->mapping << 48) * 0x9e3779b97f4a7c15U;
    for (at ^= at >> 32;; at++) {
        struct location *slot = &pprof->slots[at & pprof->mask];
        if (slot->number == 0 || (slot->mapping == key->mapping && slot->address == key->address &&
                                  slot->label == key->label))
            return slot;
    }
}

static void make_room_for_location(struct pprof *pprof) {
    if (pprof->location_count * 2 < pprof->mask)
        return;
    struct location *old = pprof->slots;
    size_t old_slots = old ? pprof->mask + 1 : 0;
    size_t slots = old ? 4 * old_slots : 1024;
    pprof->slots = cli_alloc(slots, sizeof *pprof->slots);
    pprof->mask = slots - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].number != 0)
            *find_location(pprof, &old[i]) = old[i];
    free(old);
}

static const char *label_of(const struct pprof *pprof, uint32_t index) {
    size_t count;
    return index == 0 ? pprof->root_name : profile_frames(pprof->model, index, &count)->function;
}

/* Returns mapping and address of a context. The address of a frame is that of its call, not of the
 * return, as in the profiles of other profilers. */
static struct location key_of(struct pprof *pprof, uint32_t index) {
    const struct model_context *context = &pprof->model->contexts[index];
    if (context->frame->kind != WIRE_KIND_PATH) {
        const char *label = label_of(pprof, index);
        return (struct location){.mapping = made_up_mapping(pprof, MADE_UP_LABELS),
                                 .address = LABELS_START + hash_label(label),
                                 .label = string_number(&pprof->strings, label)};
    }
    bool returns = !context->frame->exact_address && context->frame->address > 0;
    return (struct location){.mapping = context->frame->module != WIRE_NONE
                                            ? pprof->module_mappings[context->frame->module]
                                            : made_up_mapping(pprof, MADE_UP_CODE),
                             .address = context->frame->address - (returns ? 1 : 0)};
}

static void put_line(struct pprof *pprof, const char *name, const char *file, int64_t line) {
    struct message *part = &pprof->part;
    struct profile_frame key = {.function = name, .file = file};
    bool fresh;
    uint64_t function = profile_frame_number(&pprof->functions, &key, &fresh);
    if (fresh) {
        put_number(part, 1, function);
        put_number(part, 2, string_number(&pprof->strings, name));
        put_number(part, 3, string_number(&pprof->strings, name));
        put_number(part, 4, string_number(&pprof->strings, file ? file : ""));
        put_message(&pprof->profile, PROFILE_FUNCTION, part);
    }
    put_number(part, 1, function);
    put_number(part, 2, line > 0 ? (uint64_t)line : 0);
    put_message(&pprof->location, 4, part);
}

/* Returns the slot of a location. If it is new, gives it a number and writes all but its lines;
 * the caller then writes them and calls end_location. */
static struct location *begin_location(struct pprof *pprof, const struct location *key,
                                       bool *fresh) {
    make_room_for_location(pprof);
    struct location *slot = find_location(pprof, key);
    *fresh = slot->number == 0;
    if (*fresh) {
        *slot = *key;
        slot->number = ++pprof->location_count;
        put_number(&pprof->location, 1, slot->number);
        put_number(&pprof->location, 2, slot->mapping);
        put_number(&pprof->location, 3, slot->address);
    }
    return slot;
}

static void put_lines(struct pprof *pprof, const struct profile_frame *frames, size_t count) {
    for (size_t i = 0; i < count; i++) /* innermost first */
        put_line(pprof, frames[i].function, frames[i].file, frames[i].line);
}

static void end_location(struct pprof *pprof) {
    put_message(&pprof->profile, PROFILE_LOCATION, &pprof->location);
}

/* Returns the number of a context's location. The first call writes the location. */
static uint64_t location_number(struct pprof *pprof, uint32_t index) {
    uint64_t *number = &pprof->context_locations[index];
    if (*number != 0)
        return *number;
    bool fresh;
    struct location key = key_of(pprof, index);
    struct location *slot = begin_location(pprof, &key, &fresh);
    if (fresh) {
        size_t count;
        if (index == 0) {
            put_line(pprof, pprof->root_name, NULL, 0);
        } else {
            const struct profile_frame *frames = profile_frames(pprof->model, index, &count);
            put_lines(pprof, frames, count);
        }
        end_location(pprof);
    }
    *number = slot->number;
    return *number;
}

/* Puts the locations of functions that ended in tail calls into the sample that is being built. */
static void put_tails(struct pprof *pprof, const struct model_tails *tails, uint32_t index) {
    for (uint32_t i = 0; tails && i < tails->count; i++) {
        bool fresh;
        const struct model_frame *frame = &tails->frames[i];
        struct location key = {.mapping = pprof->module_mappings[frame->module],
                               .address = frame->address - 1};
        struct location *slot = begin_location(pprof, &key, &fresh);
        if (fresh) {
            size_t count;
            const struct profile_frame *frames = profile_tail_frames(frame, index, &count);
            put_lines(pprof, frames, count);
            end_location(pprof);
        }
        put_varint(&pprof->numbers, slot->number);
    }
}

/* --- samples ---------------------------------------------------------------------------------- */

static int64_t difference(int64_t a, int64_t b) {
    return a == WIRE_UNKNOWN || b == WIRE_UNKNOWN ? 0 : model_tame(a) - model_tame(b);
}

static void read_figures(const struct model_totals *self, int64_t *row) {
    row[TYPE_ALLOC_OBJECTS] = model_tame(self->allocs);
    row[TYPE_ALLOC_SPACE] = model_tame(self->requested_cum_bytes);
    row[TYPE_INUSE_OBJECTS] = model_tame(self->live_chunks);
    row[TYPE_INUSE_SPACE] = model_tame(self->requested_bytes);
    row[TYPE_RESERVED] = model_tame(self->reserved_bytes);
    row[TYPE_WASTE] = difference(self->reserved_bytes, self->requested_bytes);
    row[TYPE_HOLES] = difference(self->reserved_bytes, self->block_bytes);
    row[TYPE_PINNED] = model_tame(self->pinned_bytes);
    row[TYPE_RESIDENT] = model_tame(self->resident_bytes);
}

/* Returns the context of an earlier state with this id; NULL: there was none, or the id had another
 * frame then, because the library gives the ids of discarded contexts to new ones. */
static const struct model_context *find_before(const struct model *before, uint32_t id,
                                               const struct model_frame *frame) {
    uint32_t index = model_find_context(before, id);
    if (index == WIRE_NONE)
        return NULL;
    const struct model_context *context = &before->contexts[index];
    bool same = context->frame->kind == frame->kind && context->frame->address == frame->address;
    return same ? context : NULL;
}

/* Subtracts the figures of an earlier state. If the counters were reset in between, they count from
 * there on. */
static void subtract_before(const struct model *before, const struct model_context *context,
                            int64_t *row) {
    int64_t old[TYPES];
    const struct model_context *then = find_before(before, context->id, context->frame);
    if (!then)
        return;
    read_figures(&then->figures->self, old);
    bool reset = row[TYPE_ALLOC_OBJECTS] < old[TYPE_ALLOC_OBJECTS] ||
                 row[TYPE_ALLOC_SPACE] < old[TYPE_ALLOC_SPACE];
    for (size_t i = 0; i < TYPES; i++)
        if (!reset || (i != TYPE_ALLOC_OBJECTS && i != TYPE_ALLOC_SPACE))
            row[i] = difference(row[i], old[i]);
}

static bool is_sample(const int64_t *row) {
    for (size_t i = 0; i < TYPES; i++)
        if (row[i] != 0)
            return true;
    return false;
}

static void put_sample(struct pprof *pprof, uint32_t index, const int64_t *row) {
    const struct model_context *contexts = pprof->model->contexts;
    /* A merged sample has the allocations of several paths below its context. */
    if (!pprof->merged || contexts[index].first_child == WIRE_NONE)
        put_tails(pprof, tails_to_malloc(pprof->model, &contexts[index]), index);
    for (uint32_t at = index; at != WIRE_NONE; at = contexts[at].parent) {
        if (at == index || contexts[at].frame->kind != WIRE_KIND_ROOT) {
            put_varint(&pprof->numbers, location_number(pprof, at));
            put_tails(pprof, tails_before(pprof->model, &contexts[at]), at);
        }
    }
    put_message(&pprof->sample, 1, &pprof->numbers);
    for (size_t i = 0; i < TYPES; i++)
        put_varint(&pprof->numbers, (uint64_t)row[i]);
    put_message(&pprof->sample, 2, &pprof->numbers);
    put_message(&pprof->profile, PROFILE_SAMPLE, &pprof->sample);
}

static void put_samples(struct pprof *pprof, const struct profile_pprof *options) {
    const struct model *model = pprof->model;
    size_t limit = options->limit;
    int64_t(*rows)[TYPES] = cli_alloc(model->context_count, sizeof *rows);
    for (size_t i = 0; i < model->context_count; i++) {
        read_figures(&model->contexts[i].figures->self, rows[i]);
        if (options->before)
            subtract_before(options->before, &model->contexts[i], rows[i]);
    }
    pprof->root_name = "[no call path]";
    pprof->merged = limit > 0 && condense_rows(model, rows[0], TYPES, limit);
    if (pprof->merged)
        pprof->root_name = "[other paths]";
    for (uint32_t i = 0; i < model->context_count; i++)
        if (is_sample(rows[i]))
            put_sample(pprof, i, rows[i]);
    free(rows);
}

/* Returns the time of the figures. A snapshot does not have it, so the time is taken when its file
 * was written. */
static uint64_t time_ns(const struct model *model) {
    struct timespec time;
    struct stat status;
    clock_gettime(CLOCK_REALTIME, &time);
    if (model->from_snapshot && stat(model->source, &status) == 0)
        time = status.st_mtim;
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* The profile of one state has no duration, because live memory is the state of a moment. */
void profile_write_pprof(const struct model *model, FILE *file,
                         const struct profile_pprof *options) {
    struct pprof pprof = {.model = model};
    uint64_t now_ns = time_ns(model), duration_ns = 0;
    if (options->before && model->uptime_s > options->before->uptime_s)
        duration_ns = (uint64_t)((model->uptime_s - options->before->uptime_s) * 1e9);
    pprof.context_locations = cli_alloc(model->context_count, sizeof *pprof.context_locations);
    put_string(&pprof.strings.text, "");
    put_types(&pprof, options->before ? TYPE_ALLOC_SPACE : TYPE_INUSE_SPACE);
    put_module_mappings(&pprof);
    put_samples(&pprof, options);
    put_number(&pprof.profile, PROFILE_TIME_NS, now_ns - duration_ns);
    put_number(&pprof.profile, PROFILE_DURATION_NS, duration_ns);
    fwrite(pprof.profile.bytes, 1, pprof.profile.length, file);
    fwrite(pprof.strings.text.bytes, 1, pprof.strings.text.length, file);
    struct message *messages[] = {&pprof.profile, &pprof.sample,  &pprof.location,
                                  &pprof.part,    &pprof.numbers, &pprof.strings.text};
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        free(messages[i]->bytes);
    free(pprof.strings.numbers.slots);
    free(pprof.functions.slots);
    free(pprof.module_mappings);
    free(pprof.context_locations);
    free(pprof.slots);
}
