/* SPDX-License-Identifier: MIT */
/*
 * moments.h - snapshots of one process that the server keeps in memory.
 *
 * Where there are too many, those go that lie closest together for their age: the last minutes stay
 * dense, and older times stay with larger and larger gaps. The first one and the last one stay. One
 * thread.
 */
#ifndef MEMCTX_MOMENTS_H
#define MEMCTX_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

#define MOMENTS_MAX 240                  /* most moments of one process */
#define MOMENTS_BYTES ((size_t)64 << 20) /* most bytes of the moments of all processes together */

struct moment {
    uint64_t id; /* counts the moments from 1 on */
    int64_t ms;  /* time of the moment, since 1970 */
    char *bytes; /* content of the snapshot file */
    size_t length;
};

struct moments {
    struct moment list[MOMENTS_MAX + 1]; /* the kept moments, by rising time */
    size_t count, bytes;                 /* bytes: the sum of all lengths */
    uint64_t last_id;
};

/* Keeps a snapshot, whose bytes it takes over. Afterwards there may be one more than MOMENTS_MAX;
 * the caller thins them out. */
void moments_add(struct moments *moments, int64_t ms, char *bytes, size_t length);
/* Drops the moment that is missed least, and returns its id; 0: there are only two. */
uint64_t moments_thin(struct moments *moments);
/* Returns the moment with this id (0: the last one); NULL: it is not kept. */
const struct moment *moments_find(const struct moments *moments, uint64_t id);
void moments_free(struct moments *moments);

#endif
