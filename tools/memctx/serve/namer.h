/* SPDX-License-Identifier: MIT */
/*
 * namer.h - names of call paths, as labels: "row_new < table_load < main".
 *
 * Looking up functions may take seconds, and a damaged file may crash the process that does it. So
 * a child process looks them up, over a connection of its own; until the names arrive, the teller
 * (teller.h) goes on without them. Names are kept by the hash of the path's frames, so a path is
 * looked up once.
 */
#ifndef MEMCTX_NAMER_H
#define MEMCTX_NAMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/model.h"

struct namer {
    struct namer_entry *entries; /* a hash table */
    size_t count;
    pid_t child; /* 0: no child runs */
    int fd;      /* the child's answer */
    char *answer;
    size_t answer_bytes;
    uint64_t *asked; /* hashes of the paths that the child looks up */
    size_t asked_count;
    bool noted;        /* a look-up has printed notes about files; later ones print none */
    unsigned failures; /* look-ups in a row in which the child failed */
    int64_t resume_ms; /* the next look-up begins at this time or later */
};

/* A path that needs a name: the id of its context, and the hash of its frames. */
struct namer_wish {
    uint32_t id;
    uint64_t hash;
};

/* Bounds the look-ups of all child processes that the calling process makes from now on: at most
 * one per processor runs at a time. But a look-up that has waited 20 s for its turn runs anyway. */
void namer_share_turns(void);
void namer_begin(struct namer *namer);
/* Adds one frame to the hash of a path. */
uint64_t namer_hash(uint64_t hash, const struct model_frame *frame);
/* Sets *label and returns true if the path was looked up. A label of NULL means that no name was
 * found. */
bool namer_find(const struct namer *namer, uint64_t hash, const char **label);
/* Starts a child that looks up the names of these paths, unless a child runs already. */
void namer_ask(struct namer *namer, pid_t pid, const struct namer_wish *wishes, size_t count);
/* Waits up to `wait_ms` for the child's answer. If it has come, adds its names. */
void namer_take(struct namer *namer, int wait_ms);
/* Forgets all names, because the process runs another program. */
void namer_forget(struct namer *namer);
/* Kills the child, if one runs. */
void namer_stop(struct namer *namer);

#endif
