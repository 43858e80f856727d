/* SPDX-License-Identifier: MIT */
/* ranges.c - sorted lists of code ranges with their rules; see ranges.h. */
#include "rules/ranges.h"
#include "os/meta.h"

bool ranges_add(struct rule_ranges *ranges, struct rule_range range) {
    if (ranges->count == ranges->room) {
        uint32_t room = ranges->room ? ranges->room * 2 : 64;
        struct rule_range *list = meta_alloc(room * sizeof *list);
        if (!list)
            return false;
        if (ranges->count)
            __builtin_memcpy(list, ranges->list, ranges->count * sizeof *list);
        meta_free(ranges->list, ranges->room * sizeof *list);
        ranges->list = list;
        ranges->room = room;
    }
    ranges->list[ranges->count++] = range;
    return true;
}

void ranges_free(struct rule_ranges *ranges) {
    meta_free(ranges->list, ranges->room * sizeof *ranges->list);
    *ranges = (struct rule_ranges){0};
}

static bool is_behind(const struct rule_range *a, const struct rule_range *b) {
    return a->start != b->start ? a->start > b->start : a->rule > b->rule;
}

/* Sorts by Shell's method, which needs no further memory. */
void ranges_sort(struct rule_ranges *sorted) {
    struct rule_range *ranges = sorted->list;
    uint32_t gap = 1, kept = 0;
    while (gap < sorted->count / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (uint32_t i = gap; i < sorted->count; i++) {
            struct rule_range moved = ranges[i];
            uint32_t at = i;
            for (; at >= gap && is_behind(&ranges[at - gap], &moved); at -= gap)
                ranges[at] = ranges[at - gap];
            ranges[at] = moved;
        }
    for (uint32_t i = 0; i < sorted->count; i++)
        if (!kept || ranges[kept - 1].start != ranges[i].start)
            ranges[kept++] = ranges[i];
        else if (ranges[kept - 1].end < ranges[i].end)
            ranges[kept - 1].end = ranges[i].end;
    sorted->count = kept;
}

uint8_t ranges_rule_of(const struct rule_ranges *ranges, uint64_t address) {
    const struct rule_range *list = ranges->list;
    uint32_t low = 0, high = ranges->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < list[low - 1].end ? list[low - 1].rule : 0;
}
