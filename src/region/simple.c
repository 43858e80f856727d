/* SPDX-License-Identifier: MIT */
/* Removes blocks from a region's list of chunks; see simple.h. */
#include "region/simple.h"

void simple_unlink(const struct page *page, const char *block) {
    struct region *region = region_of(page->view->region);
    const struct simple_node *node = simple_node_of(page, block);
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
