/* SPDX-License-Identifier: MIT */
/*
 * pinners.h - pinners: call paths, or groups of call paths, whose chunks keep otherwise empty pages
 * from going back to the kernel; and the commands that would help.
 */
#ifndef MEMCTX_PINNERS_H
#define MEMCTX_PINNERS_H

#include "base/json.h"
#include "diagnosis/blame.h"
#include "pages/holders.h"

#define PINNERS_MAX 12

struct pinner {
    const struct blame_suspect *suspect;
    bool *members; /* members[index of a context]: the context belongs to the pinner */
    /* sum over the members; `oldest` is the maximum; the medians are set only for a single member
     */
    struct holder sum;
    struct holder_own own; /* sum over the members of what the pages of one context tell */
    int64_t requested_bytes;
    struct holder_partner partners[HOLDERS_PARTNERS_MAX];
    size_t partner_count;
    int64_t isolate_bytes; /* saving of memctx isolate, as holders_isolate predicts */
    int64_t punch_bytes; /* saving of memctx trim in the pages in use, as holders_punch predicts */
};

struct pinners {
    /* sorted by falling bytes that come back when the pinner's chunks are freed */
    struct pinner list[PINNERS_MAX];
    size_t count;
    struct blame blame; /* owns the suspects of `list` */
};

/* Finds the pinners that keep at least a hundredth of the resident set. */
void pinners_make(struct pinners *pinners, const struct model *model, const struct holders *holders,
                  int64_t rss_bytes);
/* Prints the pinners, each with at most `functions` functions of its path (model/who.h). */
void pinners_print(const struct pinners *pinners, const struct model *model,
                   const struct holders *holders, int64_t functions, bool human);
/* Writes the key "pinners". */
void pinners_write(const struct pinners *pinners, const struct model *model,
                   struct json_writer *json);

#endif
