/* SPDX-License-Identifier: MIT */
/* tails.c - stores the functions in a hash table, by pair of frames. */
#include "model/tails.h"

#include <stdlib.h>

struct model_tail_table {
    struct model_tails *slots; /* count is 0: the slot is empty */
    size_t mask, used;
};

static struct model_tails *find_slot(const struct model_tail_table *table, uint32_t outer,
                                     uint32_t inner) {
    uint64_t hash = ((uint64_t)outer << 32 | inner) * 0x9e3779b97f4a7c15U;
    for (size_t at = hash >> 32;; at++) {
        struct model_tails *slot = &table->slots[at & table->mask];
        if (slot->count == 0 || (slot->outer == outer && slot->inner == inner))
            return slot;
    }
}

static void grow(struct model_tail_table *table) {
    struct model_tail_table old = *table;
    size_t slots = old.slots ? 2 * (old.mask + 1) : 256;
    table->slots = cli_alloc(slots, sizeof *table->slots);
    table->mask = slots - 1;
    for (size_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i].count > 0)
            *find_slot(table, old.slots[i].outer, old.slots[i].inner) = old.slots[i];
    free(old.slots);
}

void tails_add(struct model *model, const struct model_tails *tails) {
    if (!model->tails)
        model->tails = cli_alloc(1, sizeof *model->tails);
    if (2 * model->tails->used >= model->tails->mask)
        grow(model->tails);
    struct model_tails *slot = find_slot(model->tails, tails->outer, tails->inner);
    if (slot->count == 0 && tails->count > 0) {
        *slot = *tails;
        model->tails->used++;
    } else {
        free(tails->frames);
    }
}

void tails_visit(const struct model *model,
                 void (*visit)(const struct model_tails *tails, void *data), void *data) {
    const struct model_tail_table *table = model->tails;
    for (size_t i = 0; table && i <= table->mask; i++)
        if (table->slots[i].count > 0)
            visit(&table->slots[i], data);
}

void tails_free(struct model *model) {
    if (model->tails)
        free(model->tails->slots);
    free(model->tails);
    model->tails = NULL;
}

/* Returns true if tail calls may lie between this frame and the next frame inwards: the frame is a
 * return address, and folding left out no frames between the two. */
static bool is_caller(const struct model_context *context) {
    return context->frame->kind == WIRE_KIND_PATH && !context->frame->exact_address &&
           (context->flags & WIRE_CONTEXT_RECURSIVE) == 0;
}

bool tails_possible_before(const struct model *model, const struct model_context *context) {
    return context->parent != WIRE_NONE && context->frame->kind == WIRE_KIND_PATH &&
           is_caller(&model->contexts[context->parent]);
}

bool tails_possible_to_malloc(const struct model_context *context) {
    return is_caller(context) &&
           (context->figures->self.allocs > 0 || model_totals_any(&context->figures->self));
}

static const struct model_tails *find(const struct model *model, uint32_t outer, uint32_t inner) {
    const struct model_tails *slot = find_slot(model->tails, outer, inner);
    return slot->count > 0 ? slot : NULL;
}

const struct model_tails *tails_before(const struct model *model,
                                       const struct model_context *context) {
    return model->tails && tails_possible_before(model, context)
               ? find(model, model->contexts[context->parent].frame->number, context->frame->number)
               : NULL;
}

const struct model_tails *tails_of_frame(const struct model *model,
                                         const struct model_frame *frame) {
    return model->tails ? find(model, frame->number, WIRE_NONE) : NULL;
}

const struct model_tails *tails_to_malloc(const struct model *model,
                                          const struct model_context *context) {
    return tails_possible_to_malloc(context) ? tails_of_frame(model, context->frame) : NULL;
}
