/* SPDX-License-Identifier: MIT */
/*
 * share.h - numbers texts, lists of functions and frames, so that a snapshot stores equal ones
 * once.
 *
 * Numbers are given in the order of first appearance, so equal models give equal files.
 */
#ifndef MEMCTX_SHARE_H
#define MEMCTX_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

struct share_slot {
    uint32_t hash, number; /* number of the element, plus 1; 0: the slot is empty */
};

/* A hash table of the numbers of texts, lists or frames. The elements themselves are in an array.
 * capacity is a power of two. */
struct share_set {
    struct share_slot *slots;
    size_t capacity;
    uint32_t count;
};

struct share_function { /* name and file are numbers of share_text */
    uint32_t name, file;
    int64_t line;
};

struct share_list { /* `count` functions, from the one with number `first` on */
    uint32_t first, count;
};

struct share_frame {
    uint64_t address;
    uint32_t module, list; /* numbers plus 1; 0: none */
};

#define SHARE_RECENT 16384U /* a power of two */

struct share {
    struct share_set text_set, list_set, frame_set;
    const char **texts;
    struct share_function *functions;
    struct share_list *lists;
    struct share_frame *frames;
    size_t text_capacity, function_count, function_capacity, list_capacity, frame_capacity;
    /* Cache of share_names. Many contexts point to one struct model_names, so its list is mostly
     * found here without comparing names. */
    struct share_recent {
        const struct model_names *names;
        uint32_t list;
    } * recent;
};

void share_begin(struct share *share);
void share_end(struct share *share);
/* Returns the number of a text plus 1; 0 for NULL. The text must stay valid as long as `share`. */
uint32_t share_text(struct share *share, const char *text);
/* Returns the number of a frame plus 1. `list`: the result of share_names. */
uint32_t share_frame(struct share *share, uint64_t address, uint32_t module, uint32_t list);
/* Returns the number of a list of functions plus 1; 0 for NULL. */
uint32_t share_names(struct share *share, const struct model_names *names);

#endif
