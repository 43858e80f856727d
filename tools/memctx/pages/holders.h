/* SPDX-License-Identifier: MIT */
/*
 * holders.h - tells which contexts keep a page in use, since when, and together with which other
 * contexts. Predicts what another placement of their chunks would save.
 *
 * All figures come from the page records of a model (has_pages). Each record is exact at the moment
 * when it was taken. A prediction assumes that the program does the same again.
 */
#ifndef MEMCTX_HOLDERS_H
#define MEMCTX_HOLDERS_H

#include "model/model.h"

/* The figures that come from a context's own pages. Most contexts of a large tree have none, since
 * they are small and share their pages. */
struct holder_own {
    int64_t large_bytes; /* the part of block_bytes that is large chunks */
    int64_t kept_bytes;  /* bytes of its pages without live chunks, kept for its next chunks */
    /* bytes of the context's large chunks that are not in memory */
    int64_t absent_bytes;
    /* Bytes of OS pages without live chunks in pages that are in use. memctx trim TARGET CONTEXT
     * gives them back. */
    int64_t empty_os_bytes;
    /* Bytes that other policies would save (policies.h). generation_bytes holds only if the chunks
     * are freed in the order of their allocation, or all together. */
    int64_t slab_bytes, generation_bytes;
    /* OS pages of own pages and large chunks, by share of live bytes */
    uint32_t os_pages[WIRE_OCCUPANCY_BINS];
};

struct holder {
    int64_t chunks, block_bytes; /* live chunks, and bytes of their blocks */
    /* bytes in memory of the context's own pages, and bytes of its blocks in mixed pages */
    int64_t held_bytes;
    /* Bytes in memory of the pages that only this context keeps in use. They come back if the
     * context frees all its chunks there. */
    int64_t alone_bytes;
    int64_t alone_free; /* free bytes in the pages of alone_bytes */
    /* the context's part, by live chunks, of the free bytes in pages that it shares with others */
    int64_t shared_free;
    /* Ages in units of WIRE_AGE_NS. No chunk is older than `oldest`; the age of the median chunk
     * lies between median_least and median_most. */
    uint32_t oldest, median_most, median_least;
    uint32_t own; /* index in holders->own; the figures with index 0 are 0 */
};

struct holders {
    /* indexed by the number of a context's figures; NULL: the pages are not known */
    struct holder *list;
    struct holder_own *own;
    size_t own_count, own_room;
    int64_t kept_bytes; /* bytes in memory of all pages without live chunks, mixed ones included */
    int64_t
        returned_bytes; /* the part of kept_bytes that a trim returns even if all threads sleep */
    int64_t mixed_free_bytes; /* free bytes in mixed pages, with and without live chunks */
};

static inline struct holder *holders_of(const struct holders *holders, const struct model *model,
                                        uint32_t context) {
    return &holders->list[model->contexts[context].figures->number];
}
/* Returns the figures from own pages of the context with this number of figures. `list` must not be
 * NULL. */
static inline const struct holder_own *holders_own(const struct holders *holders, size_t number) {
    return &holders->own[holders->list[number].own];
}
/* Frees the lists. */
void holders_free(struct holders *holders);
void holders_make(struct holders *holders, const struct model *model);
/* Returns true for a recorded moment that has sums over the pages of each context. `list` is NULL
 * then: single pages, ages and predictions are not known. */
bool holders_recorded(const struct model *model);
/* Returns true if the contexts `members` (`count` indices) may keep more pages in use alone than
 * holders_alone says: a recording does not say which pages several contexts keep in use together,
 * and some contexts of it are sums over others (RECORD_REST, RECORD_FORGOTTEN). */
bool holders_know_least(const struct model *model, const uint32_t *members, size_t count);
/* Returns the figures of a context from `list`, or from the recorded moment. */
struct holder holders_look(const struct holders *holders, const struct model *model,
                           uint32_t context);

/* Returns the free bytes in the members' own pages and in all mixed pages. In this and the
 * following functions, `members` is an array with an element for each context: true for the
 * contexts that are meant. */
int64_t holders_free_around(const struct model *model, const bool *members);
/* Returns the bytes that are lost by rounding all chunks of the members up to blocks, and by holes
 * in the members' own pages. */
int64_t holders_waste(const struct model *model, const bool *members);

#define HOLDERS_PARTNERS_MAX 3
struct holder_partner {
    uint32_t context;
    int64_t block_bytes; /* the context's blocks in mixed pages that also hold chunks of members */
};
/* Finds the contexts, other than members, that have most bytes in mixed pages with chunks of
 * members. Returns how many were found. */
size_t holders_partners(const struct model *model, const bool *members,
                        struct holder_partner partners[HOLDERS_PARTNERS_MAX]);

/* Returns the bytes in memory of pages in which only chunks of members are live; *free_bytes
 * receives how many of these bytes are free. */
int64_t holders_alone(const struct model *model, const bool *members, int64_t *free_bytes);
/* Predicts the bytes that memctx isolate would have saved if it had been in force from the start:
 * the mixed pages that only the members keep in use, less the own pages that they would need, less
 * the bytes that they have freed since their peak. The result may be negative. WIRE_UNKNOWN: it
 * depends on peaks that are not known, because several threads use the contexts, or because a
 * context freed blocks of several sizes, whose peaks may have been at different times. */
int64_t holders_isolate(const struct model *model, const bool *members);
/* Predicts the bytes that memctx trim of the members gives back: empty OS pages, and empty pages
 * that are kept for the next chunks. */
int64_t holders_trim(const struct model *model, const bool *members);

/* Predicts the bytes of empty OS pages in the pages that the members keep in use, alone or together
 * with other contexts. That is a part of holders_trim. */
int64_t holders_punch(const struct model *model, const bool *members);

/* Returns the seconds of an age in units of WIRE_AGE_NS. */
double holders_seconds(uint32_t age);
/* Returns an age as text, such as "6.2 h". The uptime was read before the pages; an age above the
 * uptime is shown as the uptime. The text stays valid for the next seven calls. */
const char *holders_age(const struct model *model, uint32_t age);

#endif
