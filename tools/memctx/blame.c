/* SPDX-License-Identifier: MIT */
/* blame.c - groups contexts by the innermost frames of their paths. */
#include "blame.h"

#include <stdlib.h>
#include <string.h>

/* A context that is not named yet, and the frame of its path that is compared next. */
struct walk {
    uint32_t context;
    uint32_t at; /* index of the frame's node; WIRE_NONE: the path has ended */
};

struct search {
    const struct model *model;
    const int64_t *figures;
    int64_t floor;
    struct blame *blame;
    size_t capacity;
};

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static const struct search *sorting; /* for the comparisons, which get no argument */

static int by_falling_figure(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int64_t x = sorting->figures[left], y = sorting->figures[right];
    return x != y ? (x > y ? -1 : 1) : left < right ? -1 : left > right;
}

static int by_suspect(const void *a, const void *b) {
    const struct blame_suspect *left = a, *right = b;
    if (left->figure != right->figure) {
        return left->figure > right->figure ? -1 : 1;
    }
    return left->members[0] < right->members[0] ? -1 : left->members[0] > right->members[0];
}

static int compare_frames(const struct model *model, uint32_t a, uint32_t b) {
    if (a == WIRE_NONE || b == WIRE_NONE) {
        return (a == WIRE_NONE) - (b == WIRE_NONE);
    }
    const struct model_context *left = &model->contexts[a], *right = &model->contexts[b];
    if (left->kind != right->kind) {
        return left->kind < right->kind ? -1 : 1;
    }
    if (left->kind != WIRE_KIND_PATH) {
        return strcmp(left->label != NULL ? left->label : "",
                      right->label != NULL ? right->label : "");
    }
    return left->address < right->address ? -1 : left->address > right->address;
}

static int by_frame(const void *a, const void *b) {
    const struct walk *left = a, *right = b;
    int order = compare_frames(sorting->model, left->at, right->at);
    return order != 0 ? order
                      : (left->context < right->context ? -1 : left->context > right->context);
}

static void accuse(struct search *search, const struct walk *walks, size_t count, int64_t figure,
                   uint32_t frames) {
    struct blame *blame = search->blame;
    if (blame->count == search->capacity) {
        search->capacity = 2 * search->capacity + 16;
        blame->suspects = cli_grow(blame->suspects, search->capacity, sizeof(*blame->suspects));
    }
    struct blame_suspect *suspect = &blame->suspects[blame->count++];
    *suspect = (struct blame_suspect){.figure = figure, .count = count, .frames = frames};
    suspect->members = cli_alloc(count, sizeof(*suspect->members));
    for (size_t i = 0; i < count; i++) {
        suspect->members[i] = walks[i].context;
    }
    qsort(suspect->members, count, sizeof(*suspect->members), by_falling_figure);
}

static int64_t sum_of(const struct search *search, const struct walk *walks, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum = add(sum, search->figures[walks[i].context]);
    }
    return sum;
}

static uint32_t level_of(const struct search *search, uint32_t context) {
    return search->model->contexts[context].level;
}

/* The walks share their innermost `frames` frames. Names what can be named among them, and leaves
 * the others in front; returns how many. */
static size_t divide(struct search *search, struct walk *walks, size_t count, uint32_t frames) {
    if (count == 0 || sum_of(search, walks, count) < search->floor) {
        return count;
    }
    if (count == 1) {
        accuse(search, walks, 1, search->figures[walks[0].context],
               level_of(search, walks[0].context));
        return 0;
    }
    size_t left = 0;
    qsort(walks, count, sizeof(*walks), by_frame);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1;
             end < count && compare_frames(search->model, walks[end].at, walks[first].at) == 0;
             end++) {
        }
        size_t kept = end - first;
        if (walks[first].at != WIRE_NONE) {
            for (size_t i = first; i < end; i++) {
                walks[i].at = search->model->contexts[walks[i].at].parent;
            }
            kept = divide(search, walks + first, kept, frames + 1);
        }
        memmove(walks + left, walks + first, kept * sizeof(*walks));
        left += kept;
    }
    int64_t figure = sum_of(search, walks, left);
    if (frames == 0 || figure < search->floor) {
        return left;
    }
    accuse(search, walks, left, figure, frames);
    return 0;
}

void blame_make(struct blame *blame, const struct model *model, const int64_t *figures,
                int64_t floor) {
    struct search search = {
        .model = model, .figures = figures, .floor = floor > 0 ? floor : 1, .blame = blame};
    struct walk *walks = cli_alloc(model->context_count, sizeof(*walks));
    size_t count = 0;
    *blame = (struct blame){0};
    for (size_t i = 0; i < model->context_count; i++) {
        if (figures[i] > 0) {
            walks[count++] = (struct walk){(uint32_t)i, (uint32_t)i};
        }
    }
    sorting = &search;
    count = divide(&search, walks, count, 0);
    blame->rest = sum_of(&search, walks, count);
    free(walks);
    if (blame->count > 0) {
        qsort(blame->suspects, blame->count, sizeof(*blame->suspects), by_suspect);
    }
    sorting = NULL;
}

void blame_free(struct blame *blame) {
    for (size_t i = 0; i < blame->count; i++) {
        free(blame->suspects[i].members);
    }
    free(blame->suspects);
    *blame = (struct blame){0};
}
