/* SPDX-License-Identifier: MIT */
/*
 * growth.h - whether the memory of call paths grew from look to look, and how.
 */
#ifndef MEMCTX_GROWTH_H
#define MEMCTX_GROWTH_H

#include "diagnosis/series.h"

/* What to say of growth that a runtime may free as garbage. */
struct garbage {
    const char *means; /* what the growing chunks are */
    const char *sure;  /* how sure it is that they are garbage */
};

/* The growth of a context, or of all contexts of a suspect. */
struct growth {
    enum trend_kind kind;
    int64_t bytes, chunks, allocs;
    int64_t live;       /* number of chunks, at the end */
    int64_t mean_bytes; /* mean size of the chunks, at the end */
    double a_day;       /* bytes */
    double seconds;     /* time in which it grew */
    bool slowing;       /* the growth becomes ever slower, like that of a cache that fills */
    bool seldom;        /* nearly all of the growth was in one or two intervals */
    bool even;          /* five intervals or more added about as much each */
    bool swings;        /* its chunks live shortly, and it was higher before (chance_hides_waves) */
    bool by_load;       /* the load rose, and the memory followed it (load.h) */
    /* 0, or the number of intervals at the end in which the growth went on evenly. The other fields
     * are about these intervals. */
    size_t even_end;
    /* The growth is that of all members of its suspect, which make chunks larger in turn (turns.h).
     * It stands in the row of the suspect's first member. */
    bool in_turns;
    /* 0, or the number of the figures of another path: this growth is the difference from that path
     * (paired.h). The fields above are about the difference. */
    size_t beside;
    /* Set only for a suspect; NULL: the memory is not freed as garbage. */
    const struct garbage *garbage;
    struct trend_line line; /* set only for a suspect, for the sum and for TREND_STEPS */
    /* Set only for a suspect: the number of new threads, and the number of the suspect's new chunks
     * for each of these threads. Both 0: the number of chunks does not follow that of threads. */
    int64_t threads, per_thread;
};

/* Returns the growth of a row; its kind is TREND_NONE if it did not grow. */
struct growth growth_of(struct series *series, size_t number);
/* True if a row's growth per allocation of the program, or from sample to sample, becomes a little
 * slower, and in time, too. */
bool growth_slackens(struct series *series, size_t number);
/* Returns the growth of a suspect. `growths` has the growth of each row. */
struct growth growth_of_suspect(const struct look *look, struct series *series,
                                const struct growth *growths, const struct blame_suspect *suspect);
/* True if the chunks became larger, such as a buffer by realloc, rather than more. */
bool growth_made_chunks_larger(const struct growth *growth);
/* While growth was watched for less than FILLS_S seconds, and nothing of it was freed, it may be a
 * cache or a table that is being filled. */
#define FILLS_S 600.0
/* True if the growth may be that of a cache or a table that is being filled: it was watched for a
 * short time, is steady or had pauses, and nearly every chunk stays. A path that frees most of its
 * chunks and keeps some is more likely a leak. */
bool growth_may_be_filling(const struct growth *growth);

#endif
