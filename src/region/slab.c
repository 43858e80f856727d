/* SPDX-License-Identifier: MIT */
/* Blocks of the very size that a context asks for; see slab.h. */
#include "region/slab.h"

void slab_fit(struct heap *heap, struct bins *bins, unsigned size_class, size_t size) {
    uint16_t *units = &region_of(bins)->units[size_class];
    uint16_t needed = (uint16_t)((size + SLAB_UNIT - 1) / SLAB_UNIT);
    if (LIKELY(*units >= needed) && *units)
        return;
    *units = needed ? needed : 1;
    bins_put_aside_others(heap, bins, size_class);
}

#define RESIZABLE_MAX 2048U /* of larger blocks too few fit */

uint32_t slab_page_slices(const struct bins *bins, unsigned size_class) {
    if (LIKELY(!bins) || LIKELY(!bins->slices) || blocks_bytes_table[size_class] > RESIZABLE_MAX)
        return size_class < NARROW_CLASSES ? 1 : WIDE_PAGE_SLICES;
    return bins->slices;
}

bool slab_serves_terms(const struct bins *bins, const struct page *page) {
    bool zero = terms_table[bins->terms].flags & TERMS_ZERO;
    return page->slices == slab_page_slices(bins, page->size_class) &&
           (!zero || load_relaxed(&page->meta_shift) & META_ALIGNED);
}
