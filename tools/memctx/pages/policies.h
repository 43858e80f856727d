/* SPDX-License-Identifier: MIT */
/*
 * policies.h - predicts the memory that a context would need with another policy.
 *
 * The prediction lays out blocks and chunks by the library's rules for pages (src/region/blocks.c,
 * slab.c and serial.c). It uses the block sizes of the context's own pages, the smallest number of
 * 16-byte units that is unused in every block of a page, and the requested bytes of the whole
 * context. There is no prediction for chunks with an alignment of their own, for contexts that have
 * a policy already, and for pages of an unusual size. For generation and bump, there is no
 * prediction if the free blocks are scattered over the context's pages: the context then frees its
 * chunks in another order than it allocates them, so its chunks would keep many serial pages in
 * use.
 */
#ifndef MEMCTX_POLICIES_H
#define MEMCTX_POLICIES_H

#include "model/model.h"

/* The bytes that other policies would save for one context; 0: none, or not known. */
struct policies_saving {
    int64_t slab_bytes;
    /* For generation and bump, if chunks are freed in the order of their allocation, or all
     * together. */
    int64_t serial_bytes;
};

/* Returns an array with the saving for each context, by number of its figures. The caller frees
 * it. */
struct policies_saving *policies_predict(const struct model *model);

#endif
