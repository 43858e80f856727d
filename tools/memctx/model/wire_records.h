/* SPDX-License-Identifier: MIT */
/*
 * wire_records.h - what wire_load.c and wire_pages.c share: reading the records of a piece.
 */
#ifndef MEMCTX_WIRE_RECORDS_H
#define MEMCTX_WIRE_RECORDS_H

#include "model/wire_load.h"

/* The part of a piece that is not read yet. */
struct loader_records {
    const char *at;
    size_t left;
};

/* Sets the failure "damaged answer" with the detail `what`. Returns false. */
bool loader_damaged(struct loader *loader, const char *what);
/* Copies the next `bytes` bytes, which need not be aligned. Returns false if fewer are left. */
bool loader_take_bytes(struct loader_records *records, void *to, size_t bytes);
/* Returns the array with room for one more element. A full array is doubled. */
void *loader_make_room(void *list, size_t *room, size_t count, size_t bytes);
/* Reads one record of a page, with its shares. */
bool loader_take_page(struct loader *loader, struct loader_records *records);

#endif
