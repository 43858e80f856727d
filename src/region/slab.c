/* SPDX-License-Identifier: MIT */
/* Fits the size of a region's next blocks to the sizes that its context requests; see slab.h. */
#include "region/slab.h"
#include "os/meta.h"
#include "region/bins.h"

#define BANDS_BYTES (SIZE_CLASSES * sizeof(struct page *))

/* Returns the array region.emptier, all NULL. NULL: out of memory, or the tables' budget has no
 * room; the pages then stay in one band. The budget does not count contexts that the program makes
 * (TABLES_UNCOUNTED). */
static struct page **make_bands(const struct region *region) {
    int64_t bytes = region->named ? 0 : (int64_t)meta_block_bytes(BANDS_BYTES);
    if (bytes && !tables_take(bytes, TABLES_PLACED))
        return NULL;
    struct page **made = meta_alloc(BANDS_BYTES);
    tables_add(made ? 0 : -bytes);
    return made;
}

void slab_fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size) {
    if (UNLIKELY(!region_of(bins)->emptier))
        region_of(bins)->emptier = make_bands(region_of(bins));
    uint16_t *units = &region_of(bins)->units[size_class];
    uint16_t needed = (uint16_t)((size + BINS_UNIT - 1) / BINS_UNIT);
    if (LIKELY(*units >= needed) && *units)
        return;
    *units = needed ? needed : 1;
    bins_put_aside_unfit(heap, bins, size_class);
}

void slab_free_bands(const struct region *region) {
    if (!region->emptier)
        return;
    tables_add(region->named ? 0 : -(int64_t)meta_block_bytes(BANDS_BYTES));
    meta_free(region->emptier, BANDS_BYTES);
}

void slab_one_band(struct bins *bins) {
    if (region_of(bins)->emptier)
        __builtin_memset(region_of(bins)->emptier, 0, BANDS_BYTES);
}
