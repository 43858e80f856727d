/* SPDX-License-Identifier: MIT */
/* folding.c - loops of recursive contexts, bounds of partial ones, the share of full call paths. */
#include "folding.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_LABEL "[other callers]"

bool folding_is_others(uint8_t kind, const char *label) {
    return kind == WIRE_KIND_UNKNOWN && label != NULL && strcmp(label, OTHERS_LABEL) == 0;
}

enum folding_kind folding_kind_of(enum folding_kind parent, uint8_t kind, const char *label) {
    return folding_is_others(kind, label)                        ? FOLDING_MERGED
           : parent == FOLDING_FULL && kind == WIRE_KIND_UNKNOWN ? FOLDING_LABELLED
                                                                 : parent;
}

size_t folding_find_loop(const struct model *model, uint32_t index, uint32_t *loop, size_t room) {
    const struct model_context *contexts = model->contexts;
    uint32_t from = contexts[index].recursive_from, outer = contexts[index].parent;
    size_t count = 0;
    if ((contexts[index].flags & WIRE_CONTEXT_RECURSIVE) == 0 || from == WIRE_NONE ||
        outer == WIRE_NONE) {
        return 0;
    }
    uint32_t at = from;
    for (; at != WIRE_NONE && contexts[at].parent != outer; at = contexts[at].parent) {
        count++;
    }
    if (at == WIRE_NONE) {
        return 0; /* the loop is not below the same caller */
    }
    count++;
    at = from;
    for (size_t place = count; place-- > 0; at = contexts[at].parent) {
        if (place < room) {
            loop[place] = at;
        }
    }
    return count;
}

int64_t folding_find_bound(const struct model *model, uint32_t index) {
    int64_t bytes = 0;
    for (uint32_t at = model->contexts[index].parent; at != WIRE_NONE;
         at = model->contexts[at].parent) {
        for (uint32_t child = model->contexts[at].first_child; child != WIRE_NONE;
             child = model->contexts[child].next_sibling) {
            const struct model_context *context = &model->contexts[child];
            if (folding_is_others(context->frame->kind, context->frame->label)) {
                bytes = model_add(bytes, context->total->requested_bytes);
            }
        }
    }
    return bytes;
}

void folding_add(struct folding_shares *shares, enum folding_kind kind, int64_t requested_bytes,
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
        kinds[i] = (uint8_t)folding_kind_of(context->parent != WIRE_NONE ? kinds[context->parent]
                                                                         : FOLDING_FULL,
                                            context->frame->kind, context->frame->label);
        folding_add(&shares, kinds[i], context->figures->self.requested_bytes,
                    context->figures->self.allocs);
    }
    free(kinds);
    return shares;
}
