/* SPDX-License-Identifier: MIT */
/* Fits the size of a region's next blocks to the sizes that its context requests; see slab.h. */
#include "region/slab.h"
#include "os/meta.h"
#include "region/bins.h"

#define BANDS_BYTES (SIZE_CLASSES * sizeof(struct page *))

void slab_fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size) {
    if (UNLIKELY(!region_of(bins)->emptier)) /* out of memory: the pages stay in one band */
        region_of(bins)->emptier = meta_alloc(BANDS_BYTES);
    uint16_t *units = &region_of(bins)->units[size_class];
    uint16_t needed = (uint16_t)((size + BINS_UNIT - 1) / BINS_UNIT);
    if (LIKELY(*units >= needed) && *units)
        return;
    *units = needed ? needed : 1;
    bins_put_aside_others(heap, bins, size_class);
}

void slab_one_band(struct bins *bins) {
    if (region_of(bins)->emptier)
        __builtin_memset(region_of(bins)->emptier, 0, BANDS_BYTES);
}
