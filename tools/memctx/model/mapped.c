/* SPDX-License-Identifier: MIT */
/* mapped.c - tells the program's own mappings from the library's, and compares two moments. */
#include "model/mapped.h"

#include "model/memory.h"

const struct mapped_kind mapped_kinds[MODEL_PLACE_KINDS] = {
    [MODEL_PLACE_FILE] = {"files_bytes", "mapped files"},
    [MODEL_PLACE_STACK] = {"stacks_bytes", "thread stacks"},
    [MODEL_PLACE_HEAP] = {"brk_heap_bytes", "the brk heap"},
    [MODEL_PLACE_CODE] = {"runtime_code_bytes", "code generated at run time"},
    [MODEL_PLACE_SHARED] = {"shared_bytes", "shared memory and named mappings"},
    [MODEL_PLACE_ANONYMOUS] = {"own_mappings_bytes", "mappings that the program made itself"},
};

/* Returns the index of the first place that ends behind an address. */
static size_t first_behind(const struct mapped *mapped, uint64_t address) {
    size_t low = 0, high = mapped->place_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mapped->places[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Subtracts a page from the places in which it lies. A large chunk may lie in several places,
 * because the kernel shows a mapping in several entries if their flags differ. Which parts of the
 * chunk are resident is not known, so each place loses as much as can lie there. */
static void take_page_away(const struct mapped *mapped, const struct wire_page *page) {
    int64_t left = model_tame(page->resident_bytes);
    for (size_t i = first_behind(mapped, page->start);
         i < mapped->place_count && mapped->places[i].start < page->start + page->bytes; i++) {
        struct model_place *place = &mapped->places[i];
        uint64_t end =
            page->start + page->bytes < place->end ? page->start + page->bytes : place->end;
        uint64_t start = page->start > place->start ? page->start : place->start;
        int64_t part = (int64_t)(end - start) < left ? (int64_t)(end - start) : left;
        part = part < place->bytes ? part : place->bytes;
        place->bytes -= part;
        left -= part;
    }
}

void mapped_take(struct mapped *mapped, struct model *model) {
    const struct model_mappings *sums = &model->mappings;
    const struct wire_ledger *ledger = &model->ledger;
    *mapped = (struct mapped){.places = model->places, .place_count = model->place_count};
    model->places = NULL;
    model->place_count = 0;
    if (!model->has_mappings || ledger->segments_resident == WIRE_UNKNOWN ||
        ledger->metadata_resident == WIRE_UNKNOWN)
        return;
    mapped->known = true;
    mapped->sums[MODEL_PLACE_FILE] = model_tame(sums->file_bytes);
    mapped->sums[MODEL_PLACE_STACK] = model_tame(sums->stack_bytes);
    mapped->sums[MODEL_PLACE_HEAP] = model_tame(sums->heap_bytes);
    mapped->sums[MODEL_PLACE_CODE] = model_tame(sums->executable_bytes);
    mapped->sums[MODEL_PLACE_SHARED] = model_tame(sums->shared_bytes);
    mapped->sums[MODEL_PLACE_ANONYMOUS] = memory_own_mappings(model);
    mapped->segments_bytes = model_tame(ledger->segments_resident);
    mapped->peak_bytes = model_tame(sums->peak_rss_bytes);
    mapped->rss_bytes = model_tame(ledger->rss_bytes) - model_tame(ledger->control_bytes);
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (!page->further && page->resident_bytes != WIRE_UNKNOWN)
            take_page_away(mapped, page);
    }
}

/* Returns the resident bytes of mappings of the range's kind that lie in the range. A mapping that
 * lies only partly in the range counts as a whole. So the computed growth may be too small, but
 * never too large. */
static int64_t bytes_in(const struct mapped *mapped, const struct model_place *range) {
    int64_t sum = 0;
    for (size_t i = first_behind(mapped, range->start);
         i < mapped->place_count && mapped->places[i].start < range->end; i++) {
        const struct model_place *place = &mapped->places[i];
        if (place->kind == range->kind)
            sum = model_tame(sum + place->bytes);
    }
    return sum;
}

struct mapped_growth mapped_compare(const struct mapped *earlier, const struct mapped *later,
                                    enum model_place_kind kind) {
    struct mapped_growth growth = {.place = NULL};
    for (size_t i = 0; i < later->place_count; i++) {
        const struct model_place *place = &later->places[i];
        if (place->kind != kind)
            continue;
        int64_t before = bytes_in(earlier, place);
        growth.new_places += before == 0;
        if (place->bytes - before > growth.bytes) {
            growth.bytes = place->bytes - before;
            growth.place = place;
        }
    }
    return growth;
}
