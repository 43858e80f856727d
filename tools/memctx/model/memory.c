/* SPDX-License-Identifier: MIT */
/* memory.c - makes the ledger; see memory.h. */
#include "model/memory.h"

static void add_line(struct memory_ledger *ledger, const char *key, const char *name,
                     int64_t bytes) {
    ledger->lines[ledger->count++] = (struct memory_line){key, name, bytes};
}

int64_t memory_held_bytes(const struct wire_page *page) {
    int64_t touched = model_tame((int64_t)page->touched_bytes);
    int64_t resident =
        page->resident_bytes == WIRE_UNKNOWN ? touched : model_tame(page->resident_bytes);
    return resident < touched ? resident : touched;
}

int64_t memory_free_bytes(const struct wire_page *page) {
    int64_t touched = model_tame((int64_t)page->touched_bytes);
    int64_t unused = touched - model_tame((int64_t)page->live_bytes);
    return unused > 0 ? model_share(unused, memory_held_bytes(page), touched) : unused;
}

/* The bytes of pages of one kind (enum wire_page_kind) that are in no live block. `holes` and
 * `kept` are in memory. */
struct free_bytes {
    int64_t holes;  /* free bytes in pages with live blocks */
    int64_t kept;   /* bytes of pages without live blocks */
    int64_t unheld; /* free bytes that were never touched, or are not resident */
};

/* Adds up the pages of one kind. */
static struct free_bytes free_in(const struct model *model, uint8_t kind) {
    struct free_bytes sum = {0};
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->kind != kind)
            continue;
        int64_t all = model_tame((int64_t)page->bytes) - model_tame((int64_t)page->live_bytes) +
                      page->guard_bytes;
        int64_t held = memory_free_bytes(page);
        if (kind == WIRE_PAGE_LARGE) { /* the bytes behind the chunk may be resident, too */
            held = model_tame(page->resident_bytes) - model_tame((int64_t)page->live_bytes);
            held = held > 0 ? held : 0;
        }
        int64_t *part = page->live > 0 ? &sum.holes : &sum.kept;
        *part = model_tame(*part + held);
        sum.unheld = model_tame(sum.unheld + all - held);
    }
    return sum;
}

/* Returns the resident bytes of memctx's tables. If they are not known, as in a recording, returns
 * the bytes in use; the mappings of the tables also have room that was never touched. */
static int64_t tables_bytes(const struct wire_ledger *ledger) {
    return model_tame(ledger->metadata_resident != WIRE_UNKNOWN ? ledger->metadata_resident
                                                                : ledger->metadata_used);
}

int64_t memory_own_bytes(const struct wire_ledger *ledger) {
    return tables_bytes(ledger) + model_tame(ledger->control_bytes);
}

int64_t memory_own_most(const struct wire_ledger *ledger) {
    int64_t tables = model_tame(ledger->metadata_mapped), own = memory_own_bytes(ledger);
    tables = model_tame(tables + model_tame(ledger->control_bytes));
    return tables > own ? tables : own;
}

int64_t memory_freelist_held(const struct model *model) {
    int64_t bytes = model_tame(model->ledger.freelist_bytes);
    int64_t left = model_tame(model->ledger.segments_resident);
    if (!model->has_pages || model->ledger.segments_resident == WIRE_UNKNOWN)
        return bytes;
    for (size_t i = 0; i < model->page_count; i++)
        left = model_tame(left - memory_held_bytes(&model->pages[i]));
    left = left > 0 ? left : 0;
    return left < bytes ? left : bytes;
}

int64_t memory_own_mappings(const struct model *model) {
    const struct wire_ledger *ledger = &model->ledger;
    int64_t tables = model_tame(ledger->metadata_resident);
    int64_t ours = model_tame(ledger->segments_resident) + tables;
    ours = model_tame(ours + model_tame(ledger->control_bytes));
    int64_t left = model_tame(model->mappings.anonymous_bytes) - ours;
    return left > 0 ? left : 0;
}

/* Adds the lines with figures from the kernel's list of mappings. */
static void add_mappings(const struct model *model, struct memory_ledger *ledger) {
    const struct model_mappings *mappings = &model->mappings;
    add_line(ledger, "files_bytes", "program, libraries, other mapped files",
             model_tame(mappings->file_bytes));
    add_line(ledger, "stacks_bytes", "thread stacks", model_tame(mappings->stack_bytes));
    add_line(ledger, "brk_heap_bytes", "brk heap (not used by memctx)",
             model_tame(mappings->heap_bytes));
    add_line(ledger, "runtime_code_bytes", "code generated at run time",
             model_tame(mappings->executable_bytes));
    add_line(ledger, "shared_bytes", "shared memory and named mappings",
             model_tame(mappings->shared_bytes));
    if (model->ledger.segments_resident != WIRE_UNKNOWN &&
        model->ledger.metadata_resident != WIRE_UNKNOWN)
        add_line(ledger, "own_mappings_bytes", "the program's own anonymous mappings",
                 memory_own_mappings(model));
}

/* Adds the lines with figures of single pages. */
static void add_pages(const struct model *model, struct memory_ledger *ledger, int64_t *unheld) {
    const struct wire_ledger *wire = &model->ledger;
    const struct model_totals *totals = &model->totals;
    int64_t own_blocks = model_tame(totals->block_bytes) - model_tame(wire->mixed_block_bytes);
    struct free_bytes own = free_in(model, WIRE_PAGE_OWN);
    struct free_bytes mixed = free_in(model, WIRE_PAGE_MIXED);
    struct free_bytes large = free_in(model, WIRE_PAGE_LARGE);
    *unheld = own.unheld + mixed.unheld + large.unheld;
    add_line(ledger, "rounding_bytes", "rounding up to block sizes",
             model_tame(totals->block_bytes) - model_tame(totals->requested_bytes));
    add_line(ledger, "holes_bytes", "holes (free in pages of one context)",
             model_tame(wire->pages_reserved) - own_blocks - own.unheld - own.kept - large.unheld);
    add_line(ledger, "mixed_free_bytes", "free in mixed pages (of several contexts)",
             model_tame(wire->mixed_reserved) - model_tame(wire->mixed_block_bytes) - mixed.unheld -
                 mixed.kept);
    if (model->has_pages) {
        add_line(ledger, "kept_bytes", "empty pages kept for the next chunks",
                 own.kept + mixed.kept);
    }
}

void memory_make_ledger(const struct model *model, struct memory_ledger *ledger) {
    const struct wire_ledger *wire = &model->ledger;
    int64_t requested = model_tame(model->totals.requested_bytes), unheld = 0;
    int64_t segments = model_tame(wire->pages_reserved) + model_tame(wire->mixed_reserved) +
                       model_tame(wire->freelist_bytes) + model_tame(wire->segment_headers);
    bool pages = !model_has_sums_only(model);
    bool free_known = pages || wire->pages_reserved != WIRE_UNKNOWN;
    *ledger = (struct memory_ledger){.rss_bytes = model_tame(wire->rss_bytes)};
    add_line(ledger, "requested_bytes", "requested by the program", requested);
    if (pages)
        add_pages(model, ledger, &unheld);
    else if (free_known)
        add_line(ledger, "pages_free_bytes", "rounding, and free in pages (recorded as one sum)",
                 model_tame(wire->pages_reserved) - requested);
    add_line(ledger, "freelist_bytes", "freelist (empty memory kept for reuse)",
             model_tame(wire->freelist_bytes));
    add_line(ledger, "segment_headers_bytes", "page headers of memctx",
             model_tame(wire->segment_headers));
    if (pages)
        add_line(ledger, "not_resident_bytes",
                 "counted above, but not resident (positive: resident, but not in use)",
                 wire->segments_resident == WIRE_UNKNOWN
                     ? 0
                     : model_tame(wire->segments_resident) + unheld - segments);
    add_line(ledger, "metadata_bytes", "tables of memctx", tables_bytes(wire));
    add_line(ledger, "control_bytes", "control thread of memctx", model_tame(wire->control_bytes));
    if (model->has_mappings)
        add_mappings(model, ledger);
    int64_t sum = 0;
    for (size_t i = 0; i < ledger->count; i++)
        sum += model_tame(ledger->lines[i].bytes);
    add_line(ledger, "residue_bytes",
             model->has_mappings ? "residue (not explained by the lines above)"
             : pages      ? "residue (memory outside memctx; the kernel's map could not be read)"
             : free_known ? "residue (not recorded: memory outside memctx, less memory not touched)"
                          : "residue (not recorded: free blocks, memory outside memctx)",
             ledger->rss_bytes - sum);
}
