/* SPDX-License-Identifier: MIT */
/*
 * pieces.h - one piece of a dump under construction: an answer with as many records as fit.
 *
 * The request of a piece says where the piece begins and how many records the client wants at most.
 * `next` says where the next piece has to begin; 0: this piece is the last one. The library keeps
 * nothing between two pieces.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_FIGURES_PIECES_H
#define MEMCTX_FIGURES_PIECES_H

#include "figures/buffers.h"
#include <memctx/wire.h>

struct piece {
    const struct wire_piece_request *request;
    struct answer *answer; /* begins with struct wire_piece */
    uint64_t next;         /* where the next piece begins; 0: this piece is the last one */
    uint32_t count;        /* records so far */
    /* Resident bytes of segments. A segment counts in the piece that begins it. */
    int64_t segments_resident;
};
/* Appends a zeroed record. NULL: no room is left, so the piece ends before this record. */
void *piece_record(struct piece *piece, size_t bytes);
/* Makes the answer a refusal with the reason `why`; returns the refusal's status. */
uint32_t piece_refuse(struct piece *piece, const char *why);

#endif
