/* SPDX-License-Identifier: MIT */
/*
 * memory.h - makes the ledger, which explains the resident set of a process line by line.
 */
#ifndef MEMCTX_MEMORY_H
#define MEMCTX_MEMORY_H

#include <stdint.h>

#include "model/model.h"

#define MEMORY_LINES_MAX 20

struct memory_line {
    const char *key;  /* name in JSON */
    const char *name; /* name in text */
    int64_t bytes;
};

/* The lines add up to rss_bytes exactly, because the last one is the residue, which may be
 * negative. */
struct memory_ledger {
    int64_t rss_bytes;
    struct memory_line lines[MEMORY_LINES_MAX];
    size_t count;
};

/* Returns the bytes of resident anonymous memory that are neither in segments nor in tables of the
 * library, nor the control thread's. About 50 KiB of other data in the library's .bss count as the
 * program's here. */
int64_t memory_own_mappings(const struct model *model);

/* Returns how many bytes of the freelist may be resident. Memory in the freelist may never have
 * been touched: a large chunk goes there as a whole. */
int64_t memory_freelist_held(const struct model *model);

/* Returns the resident bytes that memctx itself takes in the process: its tables, and the stack and
 * answers of the control thread. If residency is not known, the used bytes of the tables count. */
int64_t memory_own_bytes(const struct wire_ledger *ledger);
/* Returns an upper bound for the bytes that memctx itself took at any time so far. Tables that have
 * shrunk stay mapped, so the bound counts all mapped bytes of tables. */
int64_t memory_own_most(const struct wire_ledger *ledger);

/* Returns how many touched bytes of a page are in memory. If residency is not known, all touched
 * bytes count. */
int64_t memory_held_bytes(const struct wire_page *page);
/* Returns the part of memory_held_bytes that is in no live block. Which blocks are resident is not
 * known, so free and live blocks count as resident in equal proportion. */
int64_t memory_free_bytes(const struct wire_page *page);

/* Makes the ledger of a model. If residency was not asked for (MODEL_RESIDENT), the line
 * not_resident_bytes is 0. Without model->has_mappings, memory outside memctx is part of the
 * residue. */
void memory_make_ledger(const struct model *model, struct memory_ledger *ledger);

#endif
