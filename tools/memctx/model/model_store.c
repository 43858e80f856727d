/* SPDX-License-Identifier: MIT */
/*
 * model_store.c - stores frames, figures and totals. Contexts may share a frame or totals;
 * contexts in which nothing was ever allocated share their figures.
 */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/tails.h"

#define BLOCK_FIGURES 1024

/* Totals that are not the figures of one context are stored in blocks of this many. */
#define BLOCK_TOTALS 1024
struct totals_block {
    struct totals_block *next;
    struct model_totals list[BLOCK_TOTALS];
};

struct model_store {
    struct model_figures **figures; /* blocks of BLOCK_FIGURES */
    size_t figures_room;            /* capacity of `figures` */
    /* The figures with number 0 are set. They are those of the first context that has only figures
     * of 0 and unknown figures. */
    bool has_none;
    struct totals_block *totals; /* list of blocks; all but the first are full */
    size_t totals_used;          /* used elements of the first block */
    /* the totals that begin_total made last for a context that contributes nothing; the next such
     * context with equal figures shares them */
    struct model_totals *empty;
    struct model_frame **slots; /* hash table of the frames by their contents */
    size_t slot_count, slots_used;
};

/* --- figures --------------------------------------------------------------------------------- */

static struct model_figures *add_figures(struct model *model) {
    struct model_store *store = model->store;
    size_t number = model->figures_count++, block = number / BLOCK_FIGURES;
    if (block == store->figures_room) {
        store->figures_room = 2 * store->figures_room + 16;
        store->figures =
            cli_grow(store->figures, store->figures_room, sizeof(struct model_figures *));
    }
    if (number % BLOCK_FIGURES == 0)
        store->figures[block] = cli_alloc(BLOCK_FIGURES, sizeof(struct model_figures));
    struct model_figures *figures = &store->figures[block][number % BLOCK_FIGURES];
    figures->number = (uint32_t)number;
    return figures;
}

struct model_figures *model_figures_at(const struct model *model, size_t number) {
    return &model->store->figures[number / BLOCK_FIGURES][number % BLOCK_FIGURES];
}

struct model_figures *model_own_figures(struct model *model, struct model_context *context) {
    uint32_t number = context->figures->number;
    if (number > 0)
        return model_figures_at(model, number);
    struct model_figures *figures = add_figures(model);
    figures->self = context->figures->self;
    figures->context =
        context != &model->left_out ? (uint32_t)(context - model->contexts) : WIRE_NONE;
    context->figures = figures;
    return figures;
}

/* Returns true if all figures are 0 or unknown. */
static bool are_none(const struct model_figures *figures) {
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        if (figures->occupancy[bin] != 0)
            return false;
#define X(name)                                                                                    \
    if (figures->self.name != 0 && figures->self.name != WIRE_UNKNOWN)                             \
        return false;
    MODEL_TOTALS(X)
#undef X
    return true;
}

void model_set_figures(struct model *model, struct model_context *context,
                       const struct model_figures *figures) {
    struct model_figures *none = model_figures_at(model, 0);
    /* The root's peak differs from those of the other contexts, which are to share one struct. */
    bool empty = are_none(figures) && context != model->contexts;
    if (empty && !model->store->has_none) {
        none->self = figures->self;
        model->store->has_none = true;
    }
    context->figures = none;
    if (empty && memcmp(&none->self, &figures->self, sizeof none->self) == 0)
        return;
    struct model_figures *own = model_own_figures(model, context);
    own->self = figures->self;
    memcpy(own->occupancy, figures->occupancy, sizeof own->occupancy);
}

void model_begin(struct model *model, const char *source) {
    *model = (struct model){.source = cli_copy(source)};
    model->store = cli_alloc(1, sizeof *model->store);
    struct model_figures *none = add_figures(model);
    none->context = WIRE_NONE;
    model->left_out.figures = none;
}

/* --- frames ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

static uint64_t hash_frame(const struct model_frame *frame) {
    uint64_t hash =
        mix(mix(frame->address, frame->module), frame->kind * 2U + frame->exact_address);
    for (const char *at = frame->label; at && *at != '\0'; at++)
        hash = mix(hash, (unsigned char)*at);
    return hash;
}

static bool is_frame(const struct model_frame *frame, const struct model_frame *wanted) {
    return frame->address == wanted->address && frame->module == wanted->module &&
           frame->kind == wanted->kind && frame->exact_address == wanted->exact_address &&
           (!frame->label) == (!wanted->label) &&
           (!frame->label || strcmp(frame->label, wanted->label) == 0);
}

static struct model_frame **find_slot(const struct model_store *store,
                                      const struct model_frame *wanted) {
    size_t at = hash_frame(wanted) & (store->slot_count - 1);
    while (store->slots[at] && !is_frame(store->slots[at], wanted))
        at = (at + 1) & (store->slot_count - 1);
    return &store->slots[at];
}

static void grow_slots(struct model_store *store) {
    struct model_store old = *store;
    store->slot_count = old.slot_count > 0 ? 2 * old.slot_count : 1024;
    store->slots = cli_alloc(store->slot_count, sizeof(struct model_frame *));
    for (size_t i = 0; i < old.slot_count; i++)
        if (old.slots[i])
            *find_slot(store, old.slots[i]) = old.slots[i];
    free(old.slots);
}

struct model_frame *model_new_frame(struct model *model, const struct model_frame *from) {
    struct model_frame *frame = cli_alloc(1, sizeof *frame);
    *frame = *from;
    frame->number = (uint32_t)model->frame_count++;
    frame->next = model->frames;
    model->frames = frame;
    return frame;
}

struct model_frame *model_find_frame(struct model *model, const struct model_frame *wanted) {
    struct model_store *store = model->store;
    if (2 * store->slots_used >= store->slot_count)
        grow_slots(store);
    struct model_frame **slot = find_slot(store, wanted);
    if (!*slot) {
        *slot = model_new_frame(model, wanted);
        (*slot)->label = wanted->label ? cli_copy(wanted->label) : NULL;
        store->slots_used++;
    }
    return *slot;
}

/* --- totals ---------------------------------------------------------------------------------- */

static struct model_totals *add_totals(struct model_store *store, const struct model_totals *from) {
    if (!store->totals || store->totals_used == BLOCK_TOTALS) {
        struct totals_block *block = cli_alloc(1, sizeof *block);
        block->next = store->totals;
        store->totals = block;
        store->totals_used = 0;
    }
    struct model_totals *totals = &store->totals->list[store->totals_used++];
    *totals = *from;
    return totals;
}

static void drop_totals(struct model_store *store) {
    while (store->totals) {
        struct totals_block *next = store->totals->next;
        free(store->totals);
        store->totals = next;
    }
    store->empty = NULL;
}

/* True if adding `totals` changes nothing in `sum` except perhaps its peak: each figure is zero, or
 * unknown in both. */
static bool adds_nothing(const struct model_totals *totals, const struct model_totals *sum) {
#define X(name)                                                                                    \
    if (totals->name != 0 && &totals->name != &totals->peak_requested_bytes &&                     \
        (totals->name != WIRE_UNKNOWN || sum->name != WIRE_UNKNOWN))                               \
        return false;
    MODEL_TOTALS(X)
#undef X
    return true;
}

/* The state of a context's total while totals are computed. PARTS: how many contexts contribute to
 * it (0, 1, or 2 for more). OWN: no other context shares the struct, so it may be changed. */
#define PARTS 3
#define OWN 4

static const struct model_totals no_totals;

/* Starts a context's total with its own figures. If these contribute nothing, the peak of the
 * subtree leaves out their peak. */
static void begin_total(struct model *model, size_t index, bool counts, uint8_t *state) {
    struct model_store *store = model->store;
    struct model_context *context = &model->contexts[index];
    const struct model_totals *self = &context->figures->self;
    int64_t peak = self->peak_requested_bytes;
    bool contributes = counts && (model_totals_any(self) || (index > 0 && peak > 0));
    state[index] = contributes ? 1 : 0;
    context->total = counts ? self : &no_totals;
    if (contributes || !counts || peak == 0)
        return;
    struct model_totals totals = *self;
    totals.peak_requested_bytes = 0;
    if (!store->empty || memcmp(store->empty, &totals, sizeof totals) != 0)
        store->empty = add_totals(store, &totals);
    context->total = store->empty;
}

/* Adds a child's total to its parent's. If one of the two totals adds nothing to the other, the
 * parent shares the other one. */
static void add_child(struct model_store *store, struct model_context *parent,
                      uint8_t *parent_state, const struct model_context *child,
                      uint8_t child_parts) {
    const struct model_totals *part = child->total;
    uint8_t parts = *parent_state & PARTS,
            sum_parts = parts + child_parts > 2 ? 2 : parts + child_parts;
    if (child_parts == 0 && adds_nothing(part, parent->total))
        return;
    if (parts == 0 && (*parent_state & OWN) == 0 && adds_nothing(parent->total, part)) {
        parent->total = part;
        *parent_state = sum_parts;
        return;
    }
    int64_t peak = child_parts == 0 ? parent->total->peak_requested_bytes
                   : parts == 0     ? part->peak_requested_bytes
                                    : WIRE_UNKNOWN;
    struct model_totals *sum = (*parent_state & OWN) != 0
                                   ? (struct model_totals *)(uintptr_t)parent->total
                                   : add_totals(store, parent->total);
    model_add_totals(sum, part);
    sum->peak_requested_bytes = peak;
    parent->total = sum;
    *parent_state = OWN | sum_parts;
}

/* Peaks do not add up, because contexts peak at different moments. A subtree has a peak only if a
 * single context contributes to it. The root gets the peak of the whole process, if that is known.
 */
void model_compute_totals(struct model *model, const bool *included) {
    size_t count = model->context_count;
    struct model_context *contexts = model->contexts;
    uint8_t *state = cli_alloc(count, 1);
    drop_totals(model->store);
    for (size_t i = 0; i < count; i++)
        begin_total(model, i, !included || included[i], state);
    for (size_t i = count; i-- > 1;) {
        uint32_t parent = contexts[i].parent;
        add_child(model->store, &contexts[parent], &state[parent], &contexts[i], state[i] & PARTS);
    }
    free(state);
    int64_t peak = contexts[0].figures->self.peak_requested_bytes;
    if (!included && count > 1 && peak != WIRE_UNKNOWN) {
        struct model_totals *root = add_totals(model->store, contexts[0].total);
        root->peak_requested_bytes = peak;
        contexts[0].total = root;
    }
}

void model_drop(struct model *model) {
    struct model_store *store = model->store;
    drop_totals(store);
    for (size_t i = 0; i * BLOCK_FIGURES < model->figures_count; i++)
        free(store->figures[i]);
    free(store->figures);
    free(store->slots);
    free(store);
    free(model->contexts);
    free(model->by_id);
    tails_free(model);
    *model = (struct model){0};
}
