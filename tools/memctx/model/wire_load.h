/* SPDX-License-Identifier: MIT */
/*
 * wire_load.h - fills in a model from the answers of a target, one after the other.
 *
 * Feed the answers in this order: the head; all pieces of the modules and the contexts; then call
 * loader_link; then the other parts and the head of the end; then call loader_finish. No answer is
 * trusted: each one is checked, and a damaged one is a failure with a message.
 */
#ifndef MEMCTX_WIRE_LOAD_H
#define MEMCTX_WIRE_LOAD_H

#include "model/figures.h"
#include "model/model.h"

struct loader_view {        /* before the threads are known */
    uint32_t context, heap; /* index */
    struct wire_sums sums;
};

struct loader {
    struct model *model;
    struct cli_failure *failure;
    bool keep_pages;
    /* Where not all contexts are kept: told of each, with its sums (NULL: it has none). */
    enum loader_visit {
        LOADER_KEEP,
        LOADER_DROP,
        LOADER_FAIL /* loader->failure says why */
    } (*visit)(struct loader *loader, const struct wire_context *context,
               const struct wire_sums *sums, char *label);
    void *visit_argument;
    bool partial; /* only some contexts are kept: the others' pages are those of model->left_out */
    uint32_t contexts;         /* that the head announced */
    struct wire_survey survey; /* the sum of all */
    struct figures figures;
    uint64_t took_ns; /* in the target, by all answers */
    struct loader_view *views;
    size_t view_count;
    uint32_t *thread_of; /* by heap: index of its thread; 0: exited */
    size_t heap_count;
    /* How much there is room for. */
    size_t context_room, module_room, view_room, remote_room, page_room, share_room;
    size_t thread_room, entry_room;
    struct model_mark *mark; /* whose entries come */
};

/* A model of a target that messages call `source`. */
void loader_begin(struct loader *loader, struct model *model, const char *source,
                  struct cli_failure *failure);
/* An answer to WIRE_DUMP. The last one has the ledger. */
bool loader_take_head(struct loader *loader, const void *bytes, size_t length);
/* An answer to WIRE_PIECE; *next is where to go on, 0: that was all. */
bool loader_take_piece(struct loader *loader, enum wire_part part, const void *bytes, size_t length,
                       uint64_t *next);
/* That what frames say of modules is true; loader_link does it, too. */
bool loader_check_frames(struct loader *loader);
bool loader_link(struct loader *loader);
/* flags: enum model_flags. */
void loader_finish(struct loader *loader, uint32_t flags);

#endif
