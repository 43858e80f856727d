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

/* The flags of pages whose chunks may have another size than their block. */
#define META_OTHER_SIZE (META_ALIGNED | META_CHECKED)

/* Does the work of region_usable for every chunk that does not fill a block of a narrow page. redis
 * often asks for the sizes of chunks in wide blocks, so these chunks come first and need no call.
 */
static NOINLINE size_t usable_not_narrow(const void *chunk) {
    bool exact;
    if (LIKELY(segment_is_near(chunk))) {
        const struct page *page = segment_slice_of(chunk);
        page -= page->back;
        unsigned meta = load_relaxed(&page->meta_shift) & (META_WIDE | META_OTHER_SIZE);
        if (LIKELY(page->heap) && LIKELY(meta == META_WIDE)) {
            unsigned index = blocks_index(page, segment_span_start(page), chunk, &exact);
            if (LIKELY(exact) && LIKELY(index < page->granule_capacity) &&
                LIKELY(blocks_was_handed_out(page, chunk)))
                return page->block_bytes;
        }
    }
    const struct page *page = region_page_of(chunk);
    return page ? page_kind_of(page)->usable(page, chunk) : 0;
}

/* redis calls malloc_usable_size for each malloc and each free, so the common case calls no
 * function: the chunk fills a block of a narrow page. Reads the header of a page that may belong
 * to another thread: these members do not change while the page has a chunk, and no flag that other
 * threads set changes the result. Nearly all narrow pages have one slice, so the header of the
 * pointer's slice is the page's own; in the other headers of a longer page, `heap` is NULL. */
size_t region_usable(const void *chunk) {
    bool exact;
    if (UNLIKELY(!segment_is_near(chunk)))
        return usable_not_narrow(chunk);
    const struct page *page = segment_slice_of(chunk);
    if (UNLIKELY(!page->heap) ||
        UNLIKELY(load_relaxed(&page->meta_shift) & (META_WIDE | META_OTHER_SIZE)))
        return usable_not_narrow(chunk);
    (void)blocks_index_narrow(page, blocks_granule_narrow(page, chunk), chunk, &exact);
    return LIKELY(exact) ? page->block_bytes : usable_not_narrow(chunk);
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
