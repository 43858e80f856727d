/* SPDX-License-Identifier: MIT */
/*
 * pprof.c - writes pprof's profile.proto.
 *
 * The numbers that formats/dictionary.h gives to mappings, functions and locations are the ids in
 * the file.
 */
#include "formats/dictionary.h"
#include "formats/values.h"

#include <stdlib.h>

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

static const struct dictionary_layout layout = {
    .mappings = PROFILE_MAPPING,
    .locations = PROFILE_LOCATION,
    .functions = PROFILE_FUNCTION,
    .strings = PROFILE_STRING,
    .mapping = {.id = 1,
                .start = 2,
                .end = 3,
                .file = 5,
                .build_id = 6,
                .first_claim = 7,
                .last_claim = 10},
    .location = {.id = 1, .mapping = 2, .address = 3, .line = 4},
    .function = {.id = 1, .name = 2, .system_name = 3, .file = 4},
};

static void put_types(struct dictionary *dict, enum values_type default_type) {
    struct message part = {0};
    for (size_t i = 0; i < values_count(dict->model); i++) {
        message_put_number(&part, 1, dictionary_string(dict, values_types[i][0]));
        message_put_number(&part, 2, dictionary_string(dict, values_types[i][1]));
        message_put_message(&dict->body, PROFILE_SAMPLE_TYPE, &part);
    }
    message_put_number(&dict->body, PROFILE_DEFAULT_TYPE,
                       dictionary_string(dict, values_types[default_type][0]));
    message_put_number(&part, 1, dictionary_string(dict, "space"));
    message_put_number(&part, 2, dictionary_string(dict, "bytes"));
    message_put_message(&dict->body, PROFILE_PERIOD_TYPE, &part);
    message_put_number(&dict->body, PROFILE_PERIOD, 1); /* every byte is counted */
    message_free(&part);
}

static void put_samples(struct dictionary *dict, const struct profile_values *options) {
    const struct model *model = dict->model;
    struct message sample = {0}, numbers = {0};
    int64_t(*rows)[TYPES] = values_make(model, options, &dict->merged);
    dict->root_name = dict->merged ? "[other paths]" : "[no call path]";
    for (uint32_t i = 0; i < model->context_count; i++) {
        if (!values_is_sample(rows[i]))
            continue;
        dictionary_put_path(dict, i, &numbers);
        message_put_message(&sample, 1, &numbers);
        for (size_t k = 0; k < values_count(model); k++)
            message_put_varint(&numbers, (uint64_t)rows[i][k]);
        message_put_message(&sample, 2, &numbers);
        message_put_message(&dict->body, PROFILE_SAMPLE, &sample);
    }
    message_free(&sample);
    message_free(&numbers);
    free(rows);
}

/* Writes a duration only with options->before: live memory without an earlier state is that of one
 * moment. */
void profile_write_pprof(const struct model *model, FILE *file,
                         const struct profile_values *options) {
    struct dictionary dict;
    uint64_t now_ns = model_time_ns(model), duration_ns = 0;
    if (options->before && model->uptime_s > options->before->uptime_s)
        duration_ns = (uint64_t)((model->uptime_s - options->before->uptime_s) * 1e9);
    dictionary_begin(&dict, model, &layout);
    put_types(&dict, options->before ? TYPE_ALLOC_SPACE : TYPE_INUSE_SPACE);
    dictionary_put_modules(&dict);
    put_samples(&dict, options);
    message_put_number(&dict.body, PROFILE_TIME_NS, now_ns - duration_ns);
    message_put_number(&dict.body, PROFILE_DURATION_NS, duration_ns);
    fwrite(dict.body.bytes, 1, dict.body.length, file);
    fwrite(dict.strings.text.bytes, 1, dict.strings.text.length, file);
    dictionary_free(&dict);
}
