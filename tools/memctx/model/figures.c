/* SPDX-License-Identifier: MIT */
/* figures.c - adds up the pages of each context. */
#include "model/figures.h"

static void add_to(int64_t *sum, int64_t bytes) {
    *sum = model_add(*sum, bytes);
}

unsigned model_occupancy_bin(uint64_t live, uint64_t capacity) {
    static const uint8_t bounds[] = {6, 12, 25, 50, 75};
    unsigned bin = 0;
    if (live >= capacity)
        return WIRE_OCCUPANCY_BINS - 1;
    while (bin < sizeof bounds && live * 100 > bounds[bin] * capacity)
        bin++;
    return bin;
}

static void add_own(struct figures *figures, struct model_figures *own,
                    const struct wire_page *page) {
    struct model_totals *self = &own->self;
    int64_t bytes = (int64_t)page->bytes, live = (int64_t)page->live_bytes;
    bool large = page->kind == WIRE_PAGE_LARGE;
    /* guard bytes are no rounding, so they are no part of the block */
    live -= large ? page->guard_bytes : 0;
    add_to(&self->reserved_bytes, bytes);
    add_to(&self->block_bytes, live);
    add_to(&self->pages, page->pages);
    if (live > 0) {
        add_to(&self->pinned_bytes, large ? 0 : (int64_t)page->touched_bytes - live);
        add_to(&self->sole_pinned_bytes, large ? live : (int64_t)page->touched_bytes);
    }
    if (!large) {
        own->occupancy[model_occupancy_bin(page->live_bytes, (uint64_t)page->capacity *
                                                                 page->block_bytes)] += page->pages;
    }
    if (page->resident_bytes != WIRE_UNKNOWN)
        add_to(&self->resident_bytes, model_tame(page->resident_bytes));
    add_to(&figures->ledger.pages_reserved, bytes);
}

void figures_add_page(struct figures *figures, struct model_figures *own,
                      const struct wire_page *page) {
    int64_t live = page->live;
    int64_t unused = (int64_t)page->touched_bytes - live * page->block_bytes;
    figures->left_bytes = live > 0 ? unused / live : 0;
    figures->left_rest = live > 0 && !page->further ? unused % live : 0;
    if (page->further)
        return;
    add_to(&figures->ledger.untouched_bytes, (int64_t)page->untouched_bytes);
    if (!own)
        add_to(&figures->ledger.mixed_reserved, (int64_t)page->bytes);
    else
        add_own(figures, own, page);
}

void figures_add_share(struct figures *figures, struct model_figures *own,
                       const struct wire_page *page, uint32_t live, uint32_t resident) {
    struct model_totals *self = &own->self;
    int64_t blocks = (int64_t)live * page->block_bytes;
    add_to(&self->block_bytes, blocks);
    add_to(&self->reserved_bytes, blocks);
    add_to(&self->resident_bytes, (int64_t)resident * page->block_bytes);
    add_to(&self->pinned_bytes, model_share(figures->left_bytes, live, 1));
    add_to(&self->pinned_bytes, figures->left_rest);
    figures->left_rest = 0;
    if (live == page->live)
        add_to(&self->sole_pinned_bytes, (int64_t)page->touched_bytes);
    add_to(&figures->ledger.mixed_block_bytes, blocks);
}

static uint8_t policy_of(const struct model_context *context) {
    const struct model_totals *self = &context->figures->self;
    if (self->reserved_bytes == 0)
        return WIRE_POLICY_NONE;
    if (self->pages == 0)
        return WIRE_POLICY_MIXED;
    return context->placement >= WIRE_PLACE_SLAB ? context->placement : WIRE_POLICY_ASET;
}

static void forget_unasked(struct model_figures *own, uint32_t flags) {
    if ((flags & MODEL_RESIDENT) == 0)
        own->self.resident_bytes = WIRE_UNKNOWN;
    if ((flags & MODEL_PINNED) == 0) {
        own->self.pinned_bytes = own->self.sole_pinned_bytes = WIRE_UNKNOWN;
        for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
            own->occupancy[bin] = 0;
    }
}

void figures_finish(const struct figures *figures, struct model *model, uint32_t flags) {
    const struct wire_ledger *from = &figures->ledger;
    struct wire_ledger *ledger = &model->ledger;
    ledger->pages_reserved = from->pages_reserved;
    ledger->mixed_reserved = from->mixed_reserved;
    ledger->mixed_block_bytes = from->mixed_block_bytes;
    ledger->untouched_bytes = from->untouched_bytes;
    ledger->segments_resident = flags & MODEL_RESIDENT ? from->segments_resident : WIRE_UNKNOWN;
    for (size_t i = 0; i < model->context_count; i++)
        model->contexts[i].policy = policy_of(&model->contexts[i]);
    for (size_t i = 0; i < model->figures_count; i++)
        forget_unasked(model_figures_at(model, i), flags);
}
