/* SPDX-License-Identifier: MIT */
/*
 * The table of page kinds, and the two kinds without a chunk in use; see page_kinds.h.
 *
 * For: pointers to memory that holds no chunk in use: a chunk is freed twice, or a pointer is
 * wrong. The functions that free or resize end the program with a report. Cannot do: say which
 * chunk was there, except where the memory of a guarded chunk waits.
 */
#include "region/page_kinds.h"
#include "region/guard.h"
#include "region/region.h"

/* --- PAGE_NONE: slices that belong to no page ------------------------------------------------- */

static void free_freed(struct heap *heap, struct page *page, void *chunk) {
    (void)heap;
    region_report(MISUSE_DOUBLE_FREE, page, chunk);
}

static void *resize_freed(struct heap *heap, struct view *view, struct page *page, void *chunk,
                          size_t size, size_t *had) {
    (void)heap, (void)view, (void)size, (void)had;
    region_report(MISUSE_DOUBLE_FREE, page, chunk);
}

static size_t no_bytes(const struct page *page, const void *chunk) {
    (void)page, (void)chunk;
    return 0;
}

static uint32_t no_context(const struct page *page, const void *chunk) {
    (void)page, (void)chunk;
    return REGION_NO_CONTEXT;
}

static void describe_empty(const struct page *page, struct text *text) {
    (void)page;
    text_add(text, "; in empty memory");
}

static const struct page_kind page_kind_none = {
    .free_own = free_freed,
    .free_foreign = free_freed,
    .resize = resize_freed,
    .context_of = no_context,
    .usable = no_bytes,
    .requested = no_bytes,
    .describe = describe_empty,
};

/* --- PAGE_WAITING: memory of a freed guarded chunk that is not used again yet (guard.h) ------- */

static uint32_t last_context(const struct page *page, const void *chunk) {
    (void)chunk;
    return page->context;
}

static void describe_guarded(const struct page *page, struct text *text) {
    (void)page;
    text_add(text, "; a chunk with a guard page");
}

static const struct page_kind page_kind_waiting = {
    .free_own = free_freed,
    .free_foreign = free_freed,
    .resize = resize_freed,
    .context_of = last_context,
    .usable = no_bytes,
    .requested = no_bytes,
    .describe = describe_guarded,
    .explain = guard_explain,
};

const struct page_kind *const page_kinds[PAGE_KINDS] = {
    [PAGE_NONE] = &page_kind_none,       [PAGE_OWN] = &page_kind_blocks,
    [PAGE_MIXED] = &page_kind_blocks,    [PAGE_SPAN] = &page_kind_large,
    [PAGE_HUGE] = &page_kind_large,      [PAGE_SERIAL] = &page_kind_serial,
    [PAGE_WAITING] = &page_kind_waiting,
};
