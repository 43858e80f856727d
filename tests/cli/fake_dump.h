/* SPDX-License-Identifier: MIT */
/*
 * fake_dump.h - the dump of the process that fake_server.c pretends to be: a few contexts, pages,
 * threads and marks, with the fault of the server.
 */
#ifndef CLI_FAKE_DUMP_H
#define CLI_FAKE_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "memctx/wire.h"

extern const char *fault;  /* argument of the program */
bool is(const char *name); /* true if this is the fault */

/* A piece under construction: its head, then its records. */
extern struct fake_piece {
    struct wire_piece head;
    char records[WIRE_ANSWER_MAX - sizeof(struct wire_piece)];
} piece;
extern size_t records_bytes; /* bytes used in `records` */

void make_piece(const struct wire_piece_request *request);
void make_head(struct wire_dump *head);

#endif
