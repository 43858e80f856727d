/* SPDX-License-Identifier: MIT */
/*
 * moments.h - snapshots (moments) of one process that the server keeps in memory.
 *
 * If there are too many, moments_thin drops the moment that would leave the smallest gap in
 * proportion to its age, so the gaps between kept moments grow with age. The first moment goes only
 * when there are no others but the last one, which always stays. For one thread.
 */
#ifndef MEMCTX_MOMENTS_H
#define MEMCTX_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

#define MOMENTS_MAX 240 /* greatest number of moments of one process */
/* greatest number of bytes of the moments of all processes together */
#define MOMENTS_BYTES ((size_t)64 << 20)

struct moment {
    uint64_t id; /* number of the moment; the server never uses a number twice */
    int64_t ms;  /* time of the moment, since 1970 */
    char *bytes; /* content of the snapshot file */
    size_t length;
};

struct moments {
    struct moment list[MOMENTS_MAX + 1]; /* the kept moments, by rising time */
    size_t count, bytes;                 /* bytes: the sum of all lengths */
};

/* Keeps a snapshot and owns `bytes` from now on. If there are now MOMENTS_MAX + 1 moments, the
 * caller calls moments_thin. */
void moments_add(struct moments *moments, uint64_t id, int64_t ms, char *bytes, size_t length);
/* Drops the moment that would leave the smallest gap in proportion to its age, or the first one of
 * two, and returns its id. Returns 0 if there is only one. */
uint64_t moments_thin(struct moments *moments);
/* Returns the moment with this id (0: the last one); NULL: it is not kept. */
const struct moment *moments_find(const struct moments *moments, uint64_t id);
void moments_free(struct moments *moments);

#endif
