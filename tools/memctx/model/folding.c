/* SPDX-License-Identifier: MIT */
/* folding.c - finds loops of recursive contexts and bounds of partial ones, and folds paths. */
#include "model/folding.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_LABEL "[other callers]"

bool folding_is_others(uint8_t kind, const char *label) {
    return kind == WIRE_KIND_UNKNOWN && label && strcmp(label, OTHERS_LABEL) == 0;
}

/* How complete a context's path is: no node of it is a label (FULL), a node is [other callers]
 * (MERGED), or a node is another label (LABELLED). */
enum folding_kind { FOLDING_FULL, FOLDING_MERGED, FOLDING_LABELLED };

static enum folding_kind kind_of(enum folding_kind parent, uint8_t kind, const char *label) {
    return folding_is_others(kind, label)                        ? FOLDING_MERGED
           : parent == FOLDING_FULL && kind == WIRE_KIND_UNKNOWN ? FOLDING_LABELLED
                                                                 : parent;
}

size_t folding_find_loop(const struct model *model, uint32_t index, uint32_t *loop, size_t room) {
    const struct model_context *contexts = model->contexts;
    uint32_t from = contexts[index].recursive_from, outer = contexts[index].parent;
    size_t count = 0;
    if ((contexts[index].flags & WIRE_CONTEXT_RECURSIVE) == 0 || from == WIRE_NONE ||
        outer == WIRE_NONE)
        return 0;
    uint32_t at = from;
    for (; at != WIRE_NONE && contexts[at].parent != outer; at = contexts[at].parent)
        count++;
    if (at == WIRE_NONE)
        return 0; /* the context `from` is not below `outer` */
    count++;
    at = from;
    for (size_t place = count; place-- > 0; at = contexts[at].parent)
        if (place < room)
            loop[place] = at;
    return count;
}

int64_t folding_find_bound(const struct model *model, uint32_t index) {
    int64_t bytes = 0;
    for (uint32_t at = model->contexts[index].parent; at != WIRE_NONE;
         at = model->contexts[at].parent) {
        for (uint32_t child = model->contexts[at].first_child; child != WIRE_NONE;
             child = model->contexts[child].next_sibling) {
            const struct model_context *context = &model->contexts[child];
            if (folding_is_others(context->frame->kind, context->frame->label))
                bytes = model_add(bytes, context->total->requested_bytes);
        }
    }
    return bytes;
}

/* Adds the figures of one context of a kind. */
static void add(struct folding_shares *shares, enum folding_kind kind, int64_t requested_bytes,
                int64_t allocs) {
    if (kind == FOLDING_FULL) {
        shares->full_bytes = model_add(shares->full_bytes, requested_bytes);
        shares->full_allocs = model_add(shares->full_allocs, allocs);
    } else if (kind == FOLDING_MERGED) {
        shares->merged_bytes = model_add(shares->merged_bytes, requested_bytes);
        shares->merged_allocs = model_add(shares->merged_allocs, allocs);
    }
}

struct folding_shares folding_add_shares(const struct model *model) {
    struct folding_shares shares = {0};
    uint8_t *kinds = cli_alloc(model->context_count, 1);
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        kinds[i] =
            (uint8_t)kind_of(context->parent != WIRE_NONE ? kinds[context->parent] : FOLDING_FULL,
                             context->frame->kind, context->frame->label);
        add(&shares, kinds[i], context->figures->self.requested_bytes,
            context->figures->self.allocs);
    }
    free(kinds);
    return shares;
}

/* --- paths folded here ------------------------------------------------------------------------ */

uint64_t folding_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; text && *text != '\0'; text++)
        hash = folding_mix(hash, (unsigned char)*text);
    return hash;
}

uint64_t folding_function_key(const struct model_frame *frame) {
    const char *name = frame->names ? frame->names->functions[0].name : NULL;
    return frame->kind != WIRE_KIND_PATH ? hash_text(1, frame->label)
           : name                        ? hash_text(folding_mix(2, frame->module), name)
                                         : folding_mix(3, frame->address);
}

void folding_paths_begin(struct folding_paths *paths, const struct model *model) {
    size_t slots = 1024;
    while (slots < 2 * model->frame_count)
        slots *= 2;
    uint64_t *keys = cli_alloc(slots, sizeof *keys);
    uint32_t *numbers = cli_alloc(slots, sizeof *numbers), count = 0;
    *paths = (struct folding_paths){.model = model};
    paths->functions = cli_alloc(model->frame_count, sizeof *paths->functions);
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next) {
        uint64_t key = folding_function_key(frame) | 1;
        size_t slot = key >> 7 & (slots - 1);
        while (keys[slot] != 0 && keys[slot] != key)
            slot = (slot + 1) & (slots - 1);
        if (keys[slot] == 0) {
            keys[slot] = key;
            numbers[slot] = count++;
        }
        paths->functions[frame->number] = numbers[slot];
    }
    free(keys);
    free(numbers);
    paths->last = cli_alloc(count, sizeof *paths->last);
}

void folding_paths_end(struct folding_paths *paths) {
    free(paths->functions);
    free(paths->last);
}

/* Returns the element of paths->last for the function of a context. */
static uint32_t *last_of(const struct folding_paths *paths, uint32_t context) {
    return &paths->last[paths->functions[paths->model->contexts[context].frame->number]];
}

size_t folding_fold_path(struct folding_paths *paths, uint32_t index, uint32_t *path,
                         uint32_t *plain) {
    const struct model_context *contexts = paths->model->contexts;
    size_t count = 0, kept = 0;
    for (uint32_t at = index; at != WIRE_NONE && contexts[at].parent != WIRE_NONE;
         at = contexts[at].parent)
        path[count++] = at;
    *plain = (uint32_t)count;
    /* Walks from the outermost frame, the last one of the array, inwards. The part between two
     * labels is folded by itself. If a function recurs in it, the walk skips to the innermost frame
     * of this function and keeps only that frame. The kept frames gather at the end of the
     * array. */
    for (size_t end = count; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && contexts[path[begin]].frame->kind == WIRE_KIND_PATH)
            begin--;
        for (size_t i = end; i-- > begin;)
            *last_of(paths, path[i]) = (uint32_t)i;
        for (size_t i = end; i-- > begin;) {
            size_t last = *last_of(paths, path[i]);
            if (last != i) {
                *plain = (uint32_t)last + 1;
                i = last;
            }
            path[count - ++kept] = path[i];
        }
        end = begin;
    }
    memmove(path, path + (count - kept), kept * sizeof *path);
    return kept;
}
