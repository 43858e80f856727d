/* SPDX-License-Identifier: MIT */
/*
 * pprof.c - profile.proto, encoded by hand: a dozen kinds of fields are no reason for a generator.
 *
 * A message is built in memory, because its length stands before it. Numbers are varints; repeated
 * numbers are packed. Strings are an own table, of which the first one is empty.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "profile.h"

enum { /* fields of Profile */
       PROFILE_SAMPLE_TYPE = 1,
       PROFILE_SAMPLE = 2,
       PROFILE_MAPPING = 3,
       PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5,
       PROFILE_STRING = 6,
       PROFILE_TIME_NS = 9,
       PROFILE_DURATION_NS = 10,
       PROFILE_DEFAULT_TYPE = 14,
};

struct message {
    unsigned char *bytes;
    size_t length, capacity;
};

struct strings {
    struct message text; /* encoded already */
    struct profile_numbers numbers;
};

static void put_bytes(struct message *message, const void *bytes, size_t length) {
    if (length == 0) {
        return;
    }
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

/* Moves the part into the message, and leaves it empty for the next one. */
static void put_message(struct message *message, unsigned field, struct message *part) {
    put_part(message, field, part->bytes, part->length);
    part->length = 0;
}

static uint64_t string_number(struct strings *strings, const char *text) {
    bool fresh;
    uint32_t number = profile_string_number(&strings->numbers, text, &fresh);
    if (fresh) {
        put_part(&strings->text, PROFILE_STRING, text, strlen(text));
    }
    return number;
}

static int64_t holes_of(const struct model_totals *self) {
    return model_tame(self->reserved_bytes) - model_tame(self->block_bytes);
}

static void put_types(struct message *profile, struct message *part, struct strings *strings) {
    static const char *const types[][2] = {{"requested", "bytes"}, {"chunks", "count"},
                                           {"allocs", "count"},    {"pinned", "bytes"},
                                           {"holes", "bytes"},     {"resident", "bytes"}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        put_number(part, 1, string_number(strings, types[i][0]));
        put_number(part, 2, string_number(strings, types[i][1]));
        put_message(profile, PROFILE_SAMPLE_TYPE, part);
    }
    put_number(profile, PROFILE_DEFAULT_TYPE, string_number(strings, types[0][0]));
}

/* A context is a location, whose number is its index + 1. */
static void put_sample(struct message *profile, struct message *part, struct message *numbers,
                       const struct model *model, uint32_t index) {
    const struct model_totals *self = &model->contexts[index].self;
    const int64_t values[] = {model_tame(self->requested_bytes),
                              model_tame(self->live_chunks),
                              model_tame(self->allocs),
                              model_tame(self->pinned_bytes),
                              holes_of(self),
                              model_tame(self->resident_bytes)};
    for (uint32_t at = index; at != WIRE_NONE; at = model->contexts[at].parent) {
        if (at == index || model->contexts[at].kind != WIRE_KIND_ROOT) {
            put_varint(numbers, at + 1);
        }
    }
    put_message(part, 1, numbers);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        put_varint(numbers, (uint64_t)values[i]);
    }
    put_message(part, 2, numbers);
    put_message(profile, PROFILE_SAMPLE, part);
}

static void put_mapping(struct message *profile, struct message *part, struct strings *strings,
                        const struct model_module *module, uint64_t number) {
    char *id = cli_alloc(2 * sizeof(module->build_id) + 1, 1);
    for (size_t i = 0; i < module->build_id_bytes; i++) {
        snprintf(id + 2 * i, 3, "%02x", module->build_id[i]);
    }
    put_number(part, 1, number);
    put_number(part, 2, module->start);
    put_number(part, 3, module->end);
    put_number(part, 4, module->start - module->bias);
    put_number(part, 5, string_number(strings, module->path));
    put_number(part, 6, string_number(strings, id));
    put_number(part, 7, 1); /* functions, files, lines and inlined frames are told already */
    put_number(part, 8, 1);
    put_number(part, 9, 1);
    put_number(part, 10, 1);
    put_message(profile, PROFILE_MAPPING, part);
}

static void put_location(struct message *profile, struct message *part, struct strings *strings,
                         uint64_t *functions, const struct model *model, uint32_t index) {
    static struct message line, function;
    const struct model_context *context = &model->contexts[index];
    size_t count;
    const struct profile_frame *frames = profile_path(model, index, &count);
    put_number(part, 1, index + 1);
    put_number(part, 2, context->module != WIRE_NONE ? context->module + 1 : 0);
    put_number(part, 3, context->address);
    for (size_t i = 0; i < count && frames[i].context == index; i++) { /* innermost first */
        put_number(&function, 1, ++*functions);
        put_number(&function, 2, string_number(strings, frames[i].function));
        put_number(&function, 3, string_number(strings, frames[i].function));
        put_number(&function, 4, string_number(strings, frames[i].file));
        put_message(profile, PROFILE_FUNCTION, &function);
        put_number(&line, 1, *functions);
        put_number(&line, 2, (uint64_t)frames[i].line);
        put_message(part, 4, &line);
    }
    put_message(profile, PROFILE_LOCATION, part);
}

static void write_compressed(const struct message *message, FILE *file) {
    unsigned char block[1 << 16];
    z_stream stream = {.next_in = message->bytes};
    if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        cli_die(CLI_REFUSED, "zlib cannot compress; out of memory");
    }
    size_t left = message->length;
    int status = Z_OK;
    while (status != Z_STREAM_END) {
        uInt given = left > 1 << 30 ? 1 << 30 : (uInt)left;
        stream.next_in = message->bytes + (message->length - left);
        stream.avail_in = given;
        stream.next_out = block;
        stream.avail_out = sizeof(block);
        status = deflate(&stream, left == given ? Z_FINISH : Z_NO_FLUSH);
        left -= given - stream.avail_in;
        fwrite(block, 1, sizeof(block) - stream.avail_out, file);
    }
    deflateEnd(&stream);
}

void profile_write_pprof(const struct model *model, FILE *file) {
    struct message profile = {0}, part = {0}, numbers = {0};
    struct strings strings = {0};
    uint64_t functions = 0;
    put_part(&strings.text, PROFILE_STRING, "", 0);
    put_types(&profile, &part, &strings);
    for (uint32_t i = 0; i < model->context_count; i++) {
        if (model_totals_any(&model->contexts[i].self)) {
            put_sample(&profile, &part, &numbers, model, i);
        }
    }
    for (int others = 0; others < 2; others++) { /* the first one is taken for the program */
        for (size_t i = 0; i < model->module_count; i++) {
            if ((strcmp(model->modules[i].path, model->exe) != 0) == others) {
                put_mapping(&profile, &part, &strings, &model->modules[i], i + 1);
            }
        }
    }
    for (uint32_t i = 0; i < model->context_count; i++) {
        put_location(&profile, &part, &strings, &functions, model, i);
    }
    put_number(&profile, PROFILE_TIME_NS, (uint64_t)time(NULL) * 1000000000U);
    put_number(&profile, PROFILE_DURATION_NS, (uint64_t)(model->uptime_s * 1e9));
    put_bytes(&profile, strings.text.bytes, strings.text.length);
    write_compressed(&profile, file);
    free(profile.bytes);
    free(part.bytes);
    free(numbers.bytes);
    free(strings.text.bytes);
    free(strings.numbers.slots);
}
