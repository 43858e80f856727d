/* SPDX-License-Identifier: MIT */
/*
 * share.h - numbers the texts, the names of addresses and the frames that a snapshot stores once,
 * however often the model has them.
 *
 * The numbers follow the order of first appearance, so the same model always gives the same file.
 */
#ifndef MEMCTX_SHARE_H
#define MEMCTX_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* A set of numbered things that are kept elsewhere: a hash table of their numbers. */
struct share_slot {
    uint32_t hash, number; /* number: and 1; 0: empty */
};

struct share_set {
    struct share_slot *slots;
    size_t capacity;
    uint32_t count;
};

struct share_function { /* texts are as share_text gives them */
    uint32_t name, file;
    int64_t line;
};

struct share_list { /* of functions, that many from the first on */
    uint32_t first, count;
};

struct share_frame {
    uint64_t address;
    uint32_t module, list; /* and 1; 0: none */
};

#define SHARE_RECENT 16384U /* a power of two */

struct share {
    struct share_set text_set, list_set, frame_set;
    const char **texts;
    struct share_function *functions;
    struct share_list *lists;
    struct share_frame *frames;
    size_t text_capacity, function_count, function_capacity, list_capacity, frame_capacity;
    /* Contexts mostly share their names with others already: these need not be compared. */
    struct share_recent {
        const struct model_names *names;
        uint32_t list;
    } * recent;
};

void share_begin(struct share *share);
void share_end(struct share *share);
/* The number of a text and 1; 0 for NULL. The text stays where it is. */
uint32_t share_text(struct share *share, const char *text);
/* The number of a frame and 1. `list`: as of share_names. */
uint32_t share_frame(struct share *share, uint64_t address, uint32_t module, uint32_t list);
/* The number of a list and 1; 0 for NULL. */
uint32_t share_names(struct share *share, const struct model_names *names);

#endif
