/* SPDX-License-Identifier: MIT */
/* subtract.c - subtracts the figures of an earlier state of a process, path by path. */
#include "formats/subtract.h"

#include <stdlib.h>
#include <string.h>

#include "model/folding.h"

/* The lists have indices of contexts, or WIRE_NONE. Here a *site* is a context below [other
 * callers]: a function to which the library merged call paths. */
struct match {
    const struct model *model, *before;
    uint32_t *then;   /* then[context]: the context of `before` with an equal path */
    uint32_t *now;    /* now[context of `before`]: the context of `model` with an equal path */
    uint32_t *others; /* others[context]: its child [other callers] */
    uint32_t *above;  /* above[site]: the parent of the site's [other callers] */
    uint32_t *sites;  /* a hash table of the sites */
    size_t site_mask;
};

static uint32_t *make_list(size_t count) {
    uint32_t *list = cli_alloc(count + 1, sizeof *list);
    for (size_t i = 0; i <= count; i++)
        list[i] = WIRE_NONE;
    return list;
}

/* Compares frames of different models of one process. */
static bool is_same_frame(const struct model_frame *one, const struct model_frame *other) {
    return one->kind == other->kind && one->address == other->address &&
           one->module == other->module && one->exact_address == other->exact_address &&
           strcmp(one->label ? one->label : "", other->label ? other->label : "") == 0;
}

static void match_paths(struct match *match) {
    const struct model *model = match->model, *before = match->before;
    for (uint32_t i = 0; i < model->context_count; i++) { /* parents come first */
        const struct model_context *context = &model->contexts[i];
        uint32_t was = model_find_context(before, context->id);
        if (was == WIRE_NONE || !is_same_frame(context->frame, before->contexts[was].frame))
            continue;
        uint32_t parent = context->parent, old_parent = before->contexts[was].parent;
        if (parent == WIRE_NONE ? old_parent != WIRE_NONE
                                : old_parent == WIRE_NONE || match->then[parent] != old_parent)
            continue;
        match->then[i] = was;
        match->now[was] = i;
    }
}

/* --- sites ----------------------------------------------------------------------------------- */

/* Returns the frame of the function that called the context's function; NULL: the tree does not
 * have it. */
static const struct model_frame *caller_of(const struct model *model, uint32_t index) {
    uint32_t parent = model->contexts[index].parent;
    const struct model_frame *frame = parent != WIRE_NONE ? model->contexts[parent].frame : NULL;
    return frame && frame->kind == WIRE_KIND_PATH ? frame : NULL;
}

static bool is_same_caller(const struct model_frame *one, const struct model_frame *other) {
    return one && other ? is_same_frame(one, other) : one == other;
}

/* Returns the slot of the site below [other callers] of context `above` for a frame and its caller.
 */
static uint32_t *find_site(const struct match *match, uint32_t above,
                           const struct model_frame *frame, const struct model_frame *caller) {
    const struct model *model = match->model;
    uint64_t hash = folding_mix(folding_mix(above, frame->address), caller ? caller->address : 0);
    for (size_t at = hash ^ hash >> 32;; at++) {
        uint32_t *slot = &match->sites[at & match->site_mask];
        if (*slot == WIRE_NONE ||
            (match->above[*slot] == above && is_same_frame(model->contexts[*slot].frame, frame) &&
             is_same_caller(caller_of(model, *slot), caller)))
            return slot;
    }
}

static void find_sites(struct match *match) {
    const struct model *model = match->model;
    size_t count = 0;
    for (uint32_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        bool is_others = folding_is_others(context->frame->kind, context->frame->label);
        match->above[i] = is_others ? context->parent : match->above[context->parent];
        if (is_others)
            match->others[context->parent] = i;
        count += match->above[i] != WIRE_NONE;
    }
    match->site_mask = 15;
    while (match->site_mask < 2 * count)
        match->site_mask = 2 * match->site_mask + 1;
    match->sites = make_list(match->site_mask);
    for (uint32_t i = 1; i < model->context_count; i++)
        if (match->above[i] != WIRE_NONE)
            *find_site(match, match->above[i], model->contexts[i].frame, caller_of(model, i)) = i;
}

/* --- subtracting ----------------------------------------------------------------------------- */

static bool is_count(size_t column) {
    return column == TYPE_ALLOC_OBJECTS || column == TYPE_ALLOC_SPACE;
}

static bool counts_less(const int64_t *row, const int64_t *old) {
    return row[TYPE_ALLOC_OBJECTS] < old[TYPE_ALLOC_OBJECTS] ||
           row[TYPE_ALLOC_SPACE] < old[TYPE_ALLOC_SPACE];
}

/* Subtracts the counts of allocations in `left` from the row, but no more than the row has, and
 * subtracts from `left` what the row gave. */
static void take_counts(int64_t *row, int64_t *left) {
    for (size_t k = 0; k < TYPES; k++) {
        int64_t most = is_count(k) && row[k] > 0 ? row[k] : 0;
        int64_t taken = left[k] < most ? left[k] : most;
        if (!is_count(k) || taken < 0)
            continue;
        row[k] -= taken;
        left[k] -= taken;
    }
}

/* Subtracts the counts of allocations of context `was` of the earlier state. The library has moved
 * these counts to a site below an ancestor, or, if it had no room for a site, to [other callers]
 * itself. */
static void subtract_moved(const struct match *match, uint32_t was, int64_t (*rows)[TYPES],
                           const int64_t *old) {
    const struct model *before = match->before;
    const struct model_frame *frame = before->contexts[was].frame, *caller = caller_of(before, was);
    int64_t left[TYPES];
    memcpy(left, old, sizeof left);
    for (uint32_t at = before->contexts[was].parent; at != WIRE_NONE;
         at = before->contexts[at].parent) {
        uint32_t here = match->now[at];
        if (here == WIRE_NONE || match->others[here] == WIRE_NONE)
            continue;
        uint32_t site = *find_site(match, here, frame, caller);
        if (site != WIRE_NONE)
            take_counts(rows[site], left);
        take_counts(rows[match->others[here]], left);
    }
}

/* Subtracts the figures of a context that is gone, but not its counts of allocations, from the
 * nearest ancestor that is still there. */
static void subtract_gone(const struct match *match, uint32_t was, int64_t (*rows)[TYPES],
                          const int64_t *old) {
    uint32_t at = was;
    while (match->now[at] == WIRE_NONE && match->before->contexts[at].parent != WIRE_NONE)
        at = match->before->contexts[at].parent;
    for (size_t k = 0; match->now[at] != WIRE_NONE && k < TYPES; k++)
        if (!is_count(k))
            rows[match->now[at]][k] = model_tame(rows[match->now[at]][k]) - old[k];
}

/* Returns true if counters were reset between the states: without a reset, the sum of all counts of
 * allocations never falls. */
static bool was_reset(const struct match *match, int64_t (*rows)[TYPES],
                      const int64_t (*old)[TYPES]) {
    uint64_t sums[2] = {0};
    for (size_t i = 0; i < match->model->context_count; i++)
        sums[0] += (uint64_t)rows[i][TYPE_ALLOC_OBJECTS];
    for (size_t i = 0; i < match->before->context_count; i++)
        sums[1] += (uint64_t)old[i][TYPE_ALLOC_OBJECTS];
    return sums[0] < sums[1];
}

void subtract_rows(const struct model *model, const struct model *before, int64_t (*rows)[TYPES],
                   const int64_t (*old)[TYPES]) {
    struct match match = {.model = model,
                          .before = before,
                          .then = make_list(model->context_count),
                          .now = make_list(before->context_count),
                          .others = make_list(model->context_count),
                          .above = make_list(model->context_count)};
    bool *moved = cli_alloc(before->context_count + 1, sizeof *moved);
    bool reset = was_reset(&match, rows, old);
    match_paths(&match);
    find_sites(&match);
    for (uint32_t i = 0; i < before->context_count; i++)
        moved[i] = match.now[i] == WIRE_NONE;
    for (uint32_t i = 0; i < model->context_count; i++) {
        uint32_t was = match.then[i];
        if (was == WIRE_NONE)
            continue;
        /* A path that was evicted and came back counts from 0 again. */
        bool again = counts_less(rows[i], old[was]);
        moved[was] = again && (model->contexts[i].flags & WIRE_CONTEXT_LATE);
        for (size_t k = 0; k < TYPES; k++)
            if (!again || !is_count(k))
                rows[i][k] -= old[was][k];
    }
    for (uint32_t i = 0; i < before->context_count; i++) {
        if (match.now[i] == WIRE_NONE)
            subtract_gone(&match, i, rows, old[i]);
        if (moved[i] && !reset)
            subtract_moved(&match, i, rows, old[i]);
    }
    free(moved);
    free(match.then);
    free(match.now);
    free(match.others);
    free(match.above);
    free(match.sites);
}
