/* SPDX-License-Identifier: MIT */
/*
 * wire_load.h - makes a model from the answers of a target, one answer after the other.
 *
 * Take the answers in this order: the head (WIRE_DUMP_BEGIN); all pieces of the modules and of the
 * contexts. Then call loader_link. Take all other parts, and the last head (WIRE_DUMP_END). Then
 * call loader_finish. No answer is trusted: a function that finds an answer damaged returns false
 * and sets loader->failure.
 */
#ifndef MEMCTX_WIRE_LOAD_H
#define MEMCTX_WIRE_LOAD_H

#include "model/figures.h"
#include "model/model.h"

struct loader_view {        /* figures of a heap in a context, before the heap's thread is known */
    uint32_t context, heap; /* index of the context, number of the heap */
    struct wire_sums sums;
};

struct loader {
    struct model *model;
    struct cli_failure *failure;
    bool keep_pages;
    /* Is called for each context, with its sums (NULL: it has none), and decides whether the model
     * keeps the context. NULL: the model keeps all contexts. */
    enum loader_visit {
        LOADER_KEEP,
        LOADER_DROP,
        LOADER_FAIL /* loader->failure says why */
    } (*visit)(struct loader *loader, const struct wire_context *context,
               const struct wire_sums *sums, char *label);
    void *visit_argument;
    /* Is called with the sums of each context that the model keeps; the model then gets no figures.
     * NULL: the figures of the model's contexts get the sums. */
    void (*take_sums)(struct loader *loader, uint32_t context, const struct wire_sums *sums);
    /* held[index of a context]: is increased by the bytes that the context holds in pages; the
     * model then gets no figures. NULL: the figures of the model's contexts get the bytes. */
    int64_t *held;
    /* A view with all sums of its context is kept in the context's figures, and not in `views`. If
     * this is set, loader_finish needs the flag MODEL_THREADS. */
    bool lone_views;
    /* the model has only some contexts; pages of all other contexts count for model->left_out */
    bool partial;
    uint32_t contexts;         /* number of contexts that the head announced */
    struct wire_survey survey; /* sum over all pieces, with the uptime of the last piece */
    struct figures figures;
    uint64_t took_ns; /* time that the target took for all answers */
    struct loader_view *views;
    size_t view_count;
    uint32_t *thread_of; /* index of each heap's thread; 0: no thread has the heap for itself */
    size_t heap_count;
    /* Capacities of the arrays. */
    size_t context_room, module_room, view_room, remote_room, page_room, share_room, resize_room;
    size_t thread_room, entry_room;
    struct model_mark *mark; /* the mark whose entries are being read */
};

/* Begins a model of a target. Messages call the target `source`. */
void loader_begin(struct loader *loader, struct model *model, const char *source,
                  struct cli_failure *failure);
/* Takes an answer to WIRE_DUMP. After the first answer, only the ledger, `exact` and the number of
 * contexts are taken. */
bool loader_take_head(struct loader *loader, const void *bytes, size_t length);
/* Takes an answer to WIRE_PIECE. Sets *next to the start of the next piece; 0: there is none. */
bool loader_take_piece(struct loader *loader, enum wire_part part, const void *bytes, size_t length,
                       uint64_t *next);
/* Checks that the modules of all frames exist, for callers that do not call loader_link, which also
 * checks this. */
bool loader_check_frames(struct loader *loader);
bool loader_link(struct loader *loader);
/* Computes figures and totals. `flags`: a sum of enum model_flags. */
void loader_finish(struct loader *loader, uint32_t flags);
/* Sets the figures of chunks; leaves those of blocks and pages. */
void loader_set_sums(struct model_totals *totals, const struct wire_sums *sums);

#endif
