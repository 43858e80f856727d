/* SPDX-License-Identifier: MIT */
/*
 * mapped.h - the resident memory of a process at one moment that did not come from malloc: files,
 * stacks, the brk heap, code made at run time, shared memory, and mappings of the program.
 *
 * The kernel may put a mapping of the program and one of the library into one entry of its map. So
 * the sum over the program's own mappings is computed: all anonymous memory less the library's own
 * figures. The bytes of a single entry are those in the map less the library's pages in this entry.
 * That is an estimate, because the library's tables and empty segments have no page records, but it
 * is good enough to name the entry that grew most.
 */
#ifndef MEMCTX_MAPPED_H
#define MEMCTX_MAPPED_H

#include "model/model.h"

/* For each kind of mapping: its key in JSON (also the key of its line in the ledger), and its name
 * in sentences. */
extern const struct mapped_kind { const char *key, *name; } mapped_kinds[MODEL_PLACE_KINDS];

struct mapped {
    /* false: the kernel's map or the library's residency could not be read, or was not asked for */
    bool known;
    int64_t sums[MODEL_PLACE_KINDS]; /* resident bytes by kind */
    int64_t segments_bytes;          /* resident bytes of the library's segments */
    int64_t peak_bytes;              /* the highest resident set so far */
    int64_t rss_bytes;               /* the resident set without the control thread's memory */
    struct model_place *places;      /* sorted by address */
    size_t place_count;
};

/* Fills in `mapped`, and takes the places over from the model. So the places stay valid when the
 * model is dropped. */
void mapped_take(struct mapped *mapped, struct model *model);

/* The mapping of one kind that grew most between two moments. */
struct mapped_growth {
    /* the mapping as it was at the later moment; NULL: no mapping grew */
    const struct model_place *place;
    int64_t bytes;
    /* number of new mappings of this kind: nothing of this kind was resident in their address range
     * at the earlier moment */
    size_t new_places;
};
struct mapped_growth mapped_compare(const struct mapped *earlier, const struct mapped *later,
                                    enum model_place_kind kind);

#endif
