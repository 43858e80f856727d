/* SPDX-License-Identifier: MIT */
/* survey.c - sums contexts by name, and finds the call paths that hold most. */
#include "serve/survey.h"

#include <stdlib.h>
#include <string.h>

/* contexts with any further name are counted only in the sum of all contexts */
#define NAMES_MAX 65536

void survey_begin(struct survey *survey) {
    *survey = (struct survey){.name_room = 64};
    survey->names = cli_alloc(survey->name_room, sizeof *survey->names);
}

static struct survey_name *find_name(const struct survey *survey, const char *name) {
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3U;
    for (size_t at = hash ^ hash >> 32;; at++) {
        struct survey_name *slot = &survey->names[at & (survey->name_room - 1)];
        if (!slot->name || strcmp(slot->name, name) == 0)
            return slot;
    }
}

static void grow_names(struct survey *survey) {
    struct survey old = *survey;
    survey->name_room *= 2;
    survey->names = cli_alloc(survey->name_room, sizeof *survey->names);
    for (size_t i = 0; i < old.name_room; i++)
        if (old.names[i].name)
            *find_name(survey, old.names[i].name) = old.names[i];
    free(old.names);
}

static void add_figures(struct survey_figures *sum, const struct survey_figures *part, int sign) {
    sum->requested_bytes = model_tame(sum->requested_bytes + sign * part->requested_bytes);
    sum->live_chunks = model_tame(sum->live_chunks + sign * part->live_chunks);
    sum->allocs = model_tame(sum->allocs + sign * part->allocs);
    sum->contexts += sign * part->contexts;
}

void survey_sum(struct survey_figures *sum, const struct survey_figures *part) {
    add_figures(sum, part, 1);
}

static void add_path(struct survey *survey, uint32_t id, const struct survey_figures *figures) {
    size_t place = survey->path_count;
    if (figures->requested_bytes <= 0)
        return;
    while (place > 0 && survey->paths[place - 1].figures.requested_bytes < figures->requested_bytes)
        place--;
    memmove(&survey->paths[place + 1], &survey->paths[place],
            (survey->path_count - place) * sizeof survey->paths[0]);
    survey->paths[place] = (struct survey_path){id, *figures};
    if (survey->path_count < SURVEY_PATHS)
        survey->path_count++;
}

void survey_add(struct survey *survey, const struct wire_context *context,
                const struct wire_sums *sums, const char *label) {
    /* A damaged answer may hold any figure; model_tame bounds it, so that sums do not overflow. */
    struct survey_figures figures = {.requested_bytes = model_tame(sums->requested_bytes),
                                     .live_chunks = model_tame(sums->live_chunks),
                                     .allocs = model_tame(sums->allocs),
                                     .contexts = sums->live_chunks > 0};
    add_figures(&survey->all, &figures, 1);
    if (context->kind != WIRE_KIND_NAMED) {
        add_path(survey, context->id, &figures);
        return;
    }
    if (!label || label[0] == '\0') /* the word of put_frame in model/frames.c */
        label = "[unnamed]";
    struct survey_name *slot = find_name(survey, label);
    if (!slot->name) {
        if (survey->name_count == NAMES_MAX)
            return;
        slot->name = cli_copy(label);
        survey->name_count++;
    }
    add_figures(&slot->figures, &figures, 1);
    if (2 * survey->name_count > survey->name_room)
        grow_names(survey);
}

static int by_falling_bytes(const void *a, const void *b) {
    const struct survey_name *left = a, *right = b;
    if (!left->name || !right->name)
        return !left->name - !right->name;
    int64_t x = left->figures.requested_bytes, y = right->figures.requested_bytes;
    return x != y ? (x > y ? -1 : 1) : strcmp(left->name, right->name);
}

void survey_finish(struct survey *survey) {
    qsort(survey->names, survey->name_room, sizeof *survey->names, by_falling_bytes);
    for (size_t i = SURVEY_NAMES; i < survey->name_count; i++)
        free(survey->names[i].name);
    if (survey->name_count > SURVEY_NAMES)
        survey->name_count = SURVEY_NAMES;
}

void survey_free(struct survey *survey) {
    for (size_t i = 0; i < survey->name_count; i++)
        free(survey->names[i].name);
    free(survey->names);
}

struct survey_figures survey_rest(const struct survey *survey, const bool *told_paths) {
    struct survey_figures rest = survey->all;
    for (size_t i = 0; i < survey->name_count; i++)
        add_figures(&rest, &survey->names[i].figures, -1);
    for (size_t i = 0; i < survey->path_count; i++)
        if (told_paths[i])
            add_figures(&rest, &survey->paths[i].figures, -1);
    return rest;
}
