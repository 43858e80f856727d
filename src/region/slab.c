/* SPDX-License-Identifier: MIT */
/* Blocks of the very size that a context asks for; see slab.h. */
#include "region/slab.h"
#include "region/aset.h"

/* Of that class all are as large as this from now on. */
static void fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size) {
    uint16_t *units = &region_of(bins)->units[size_class];
    uint16_t needed = (uint16_t)((size + SLAB_UNIT - 1) / SLAB_UNIT);
    if (LIKELY(*units >= needed) && *units)
        return;
    *units = needed ? needed : 1;
    bins_put_aside_others(heap, bins, size_class);
}

const struct policy policy_slab = {.name = "slab", .alloc = aset_alloc, .fit = fit};
