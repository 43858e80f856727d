/* SPDX-License-Identifier: MIT */
/*
 * pinners.h - the call paths, or groups of them, that keep otherwise empty pages from going back to
 * the kernel, and what would help.
 */
#ifndef MEMCTX_PINNERS_H
#define MEMCTX_PINNERS_H

#include "base/json.h"
#include "diagnosis/blame.h"
#include "pages/holders.h"

#define PINNERS_MAX 12

struct pinner {
    const struct blame_suspect *suspect;
    bool *members;     /* true for each member, by index of the context */
    struct holder sum; /* sum over the members; `oldest` is their maximum, medians are for a single
                          context only */
    int64_t requested_bytes;
    struct holder_partner partners[HOLDERS_PARTNERS_MAX];
    size_t partner_count;
    int64_t isolate_bytes; /* predicted saving, from holders_isolate */
};

struct pinners {
    struct pinner list[PINNERS_MAX]; /* sorted by the bytes that come back when all chunks of a
                                        pinner are freed */
    size_t count;
    struct blame blame;
};

/* Finds the pinners that hold at least a hundredth of the resident set. */
void pinners_make(struct pinners *pinners, const struct model *model, const struct holders *holders,
                  int64_t rss_bytes);
/* Prints the pinners, each with at most `functions` functions of its path (model/who.h). */
void pinners_print(const struct pinners *pinners, const struct model *model,
                   const struct holders *holders, int64_t functions, bool human);
/* Writes the key "pinners". */
void pinners_write(const struct pinners *pinners, const struct model *model,
                   struct json_writer *json);

#endif
