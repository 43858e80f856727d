/* SPDX-License-Identifier: MIT */
/* Each chunk by itself, in a list; see simple.h. */
#include "region/simple.h"
#include "region/aset.h"
#include "region/region.h"

static struct simple_node *node_of(const struct page *page, const char *block) {
    return (struct simple_node *)(void *)(uintptr_t)(block + page->block_bytes) - 1;
}

void simple_link(const struct page *page, const char *block) {
    struct region *region = region_of(page->view->region);
    struct simple_node *node = node_of(page, block);
    *node = (struct simple_node){.next = region->chunks};
    if (region->chunks)
        region->chunks->prev = node;
    region->chunks = node;
}

void simple_unlink(const struct page *page, const char *block) {
    struct region *region = region_of(page->view->region);
    const struct simple_node *node = node_of(page, block);
    if (node->prev)
        node->prev->next = node->next;
    else
        region->chunks = node->next;
    if (node->next)
        node->next->prev = node->prev;
}

void simple_unlink_all(const struct page *page, const char *blocks) {
    for (; blocks; blocks = *(const char *const *)(const void *)blocks)
        simple_unlink(page, blocks);
}

void simple_reset(struct heap *heap, struct region *region) {
    while (region->chunks) {
        const char *inside = (const char *)region->chunks;
        const struct page *page = segment_page_of(inside);
        region_free(heap, (char *)(uintptr_t)inside + sizeof *region->chunks - page->block_bytes);
    }
}

const struct policy policy_simple = {.name = "simple", .alloc = aset_alloc, .lists_chunks = true};
