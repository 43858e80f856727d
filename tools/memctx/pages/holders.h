/* SPDX-License-Identifier: MIT */
/*
 * holders.h - who keeps which pages alive, since when, with whom, and what another way of placing chunks would save.
 *
 * All of it is computed from the pages of a model (has_pages), each of which is exact at its moment. What is predicted
 * holds for a heap like this one: that the program does the same again.
 */
#ifndef MEMCTX_HOLDERS_H
#define MEMCTX_HOLDERS_H

#include "model/model.h"

struct holder {
    int64_t chunks, block_bytes; /* alive */
    int64_t mixed_chunks;        /* of these: in mixed pages */
    int64_t
        alone_bytes; /* of pages in which nothing else is alive: what comes back if it frees all */
    int64_t alone_free;  /* of these: free */
    int64_t shared_free; /* its share, by live chunks, of what is free in pages with others */
    int64_t kept_bytes;  /* of its pages with nothing alive, kept for its next chunks */
    int64_t
        empty_os_bytes; /* of OS pages with nothing alive, in pages with something: memctx trim TARGET CONTEXT */
    /* What other policies would save, of what is alive: blocks of just the size that is asked for (0 where sizes differ);
     * chunks side by side without rounding; the same without a free for single chunks: less all that was freed since
     * the start or the last reset, which would still be there. */
    int64_t slab_bytes, generation_bytes;
    /* In units of WIRE_AGE_NS. No chunk is older than oldest; the median chunk's age is between the other two. */
    uint32_t oldest, median_most, median_least;
    uint32_t os_pages[WIRE_OCCUPANCY_BINS]; /* of its own pages and large chunks */
};

struct holders {
    struct holder *list; /* by number of the contexts' figures; NULL: the pages are not known */
    int64_t kept_bytes;  /* in all, mixed pages too */
    int64_t mixed_empty_os_bytes;
    uint32_t mixed_os_pages[WIRE_OCCUPANCY_BINS];
};

static inline struct holder *holders_of(const struct holders *holders, const struct model *model,
                                        uint32_t context) {
    return &holders->list[model->contexts[context].figures->number];
}
void holders_make(struct holders *holders, const struct model *model);

/* What is free in pages of blocks that some of `members` (by index of the contexts) are in, and its bytes in use. */
int64_t holders_free_around(const struct model *model, const bool *members);
/* Rounding and holes of the members' chunks: of all, in their own pages. */
int64_t holders_waste(const struct model *model, const bool *members);

#define HOLDERS_PARTNERS_MAX 3
struct holder_partner {
    uint32_t context;
    int64_t block_bytes; /* in pages that it shares with the members */
};
/* The contexts that most stand in the pages of these; how many were found. */
size_t holders_partners(const struct model *model, const bool *members,
                        struct holder_partner partners[HOLDERS_PARTNERS_MAX]);

/* Of pages in which nothing but the members is alive; *free_bytes of these are free. */
int64_t holders_alone(const struct model *model, const bool *members, int64_t *free_bytes);
/* What would be saved if the members had stood apart from the start (memctx isolate): mixed pages that only they
 * keep alive, less the pages that they need, and less what they freed themselves. May be negative. */
int64_t holders_isolate(const struct model *model, const bool *members);
/* What memctx trim of these contexts gives back: OS pages, and pages that are kept empty. */
int64_t holders_trim(const struct model *model, const bool *members);

double holders_seconds(uint32_t age);
/* "6.2 h", "40 s" in a static buffer of some, for a text with several. */
const char *holders_age(uint32_t age);

#endif
