/* SPDX-License-Identifier: MIT */
/*
 * Looks up the context and the sizes of the chunk at a pointer, and prints the report that ends a
 * program that misused a chunk.
 *
 * For: malloc_usable_size, realloc, memctx_owner, and every check that finds a misuse. Cannot do:
 * find call paths; the layer named prints these (hooks.h).
 */
#include "region/hooks.h"
#include "region/page_kinds.h"
#include "region/region.h"
#include "region/reset.h"

struct page *region_page_of(const void *chunk) {
    struct page *page = region_is_behind_segment(chunk) ? NULL : segment_page_of(chunk);
    return page ? page : segment_huge_of(chunk);
}

uint32_t region_context_of(const void *chunk) {
    const struct page *page = region_page_of(chunk);
    return page ? page_kind_of(page)->context_of(page, chunk) : REGION_NO_CONTEXT;
}

/* Returns the size of the block that starts at `chunk` and holds nothing but the chunk; 0: the
 * chunk may be of another kind. redis calls malloc_usable_size for each malloc and each free, so
 * the common case calls no function. Reads the header of a page that may belong to another thread:
 * these members do not change while the page has a chunk, and no flag that other threads set
 * changes the result. */
INLINE size_t usable_of_narrow(const void *chunk) {
    const unsigned others = META_WIDE | META_ALIGNED | META_CHECKED;
    bool exact;
    if (UNLIKELY(!segment_is_near(chunk)))
        return 0;
    const struct page *page = segment_slice_of(chunk);
    /* Only the header of a page's first slice has the heap; `heap` is NULL in the others. */
    if (UNLIKELY(!page->heap) && !(page -= page->back)->heap)
        return 0;
    if (UNLIKELY(load_relaxed(&page->meta_shift) & others))
        return 0;
    (void)blocks_index_narrow(page, blocks_granule_narrow(page, chunk), chunk, &exact);
    return LIKELY(exact) ? page->block_bytes : 0;
}

static NOINLINE size_t usable_by_page_kind(const void *chunk) {
    const struct page *page = region_page_of(chunk);
    return page ? page_kind_of(page)->usable(page, chunk) : 0;
}

size_t region_usable(const void *chunk) {
    size_t narrow = usable_of_narrow(chunk);
    return LIKELY(narrow) ? narrow : usable_by_page_kind(chunk);
}

size_t region_requested(const void *chunk) {
    const struct page *page = region_page_of(chunk);
    return page ? page_kind_of(page)->requested(page, chunk) : 0;
}

COLD void region_report(enum region_misuse misuse, const struct page *page, const void *chunk) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    const struct page_kind *kind = page_kind_of(page);
    uint32_t context = kind->context_of(page, chunk);
    static const char *const words[] = {
        [MISUSE_DOUBLE_FREE] = "memctx: double free of ",
        [MISUSE_INTERIOR] = "memctx: free of an invalid pointer ",
        [MISUSE_OVERFLOW] = "memctx: write past the end of ",
        [MISUSE_WRITTEN_FREE] = "memctx: write into freed memory at ",
        [MISUSE_FREED_IN_RESET] =
            "memctx: a context was reset while another thread freed a chunk in the page ",
    };
    /* After a reset, the blocks of the page may start at other addresses than before it. */
    bool may_be_reset = misuse == MISUSE_INTERIOR && page->view && region_is_named(page->view);
    text_add(&text, may_be_reset
                        ? "memctx: free of a chunk that a reset freed, or of an invalid pointer "
                        : words[misuse]);
    text_add_hex(&text, (uintptr_t)chunk);
    kind->describe(page, &text);
    if (context != REGION_NO_CONTEXT) {
        text_add(&text, " of context ");
        text_add_number(&text, context);
    }
    text_add(&text, "\n");
    os_print(&text);
    if (kind->explain)
        kind->explain(page);
    else
        REGION_HOOK(explain_misuse, context, misuse >= MISUSE_OVERFLOW);
    os_abort();
}
