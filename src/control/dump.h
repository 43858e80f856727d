/* SPDX-License-Identifier: MIT */
/* dump.h - answers WIRE_DUMP and WIRE_PIECE. Control thread only. */
#ifndef MEMCTX_CONTROL_DUMP_H
#define MEMCTX_CONTROL_DUMP_H

#include "figures/pieces.h"
#include <memctx/wire.h>

/* Fills the head of a dump: the process, totals, the ledger of the library's memory. */
void dump_head(const struct wire_dump_request *request, struct wire_dump *dump);
/* Writes the record of a context without its figures. False: the answer has no room for it. */
bool dump_node(struct piece *piece, uint32_t id);
/* Writes one piece of a dump into an empty answer. Returns enum wire_status. */
uint32_t piece_run(const struct wire_piece_request *request, struct answer *answer);

#endif
