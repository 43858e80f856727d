/* SPDX-License-Identifier: MIT */
/*
 * wire_pages.c - reads the records of pages in an answer to WIRE_PIECE: adds them up by context,
 * and keeps them in the model if the loader says so.
 */
#include "model/wire_records.h"

/* Returns the index of a page's context. A context that was created after the contexts were read
 * counts as [unknown], which always has the index 1. If the model has only some contexts
 * (`partial`), returns WIRE_NONE for a context that it lacks. */
static uint32_t page_context(const struct loader *loader, uint32_t id) {
    uint32_t index = model_find_context(loader->model, id);
    return index != WIRE_NONE || loader->partial ? index : loader->model->context_count > 1;
}

/* Returns the figures to which the bytes in pages are added. With loader->held these are `spare`,
 * from which take_held adds the bytes to that array. */
static struct model_figures *figures_of(const struct loader *loader, uint32_t index,
                                        struct model_figures *spare) {
    struct model *model = loader->model;
    if (loader->held)
        return spare;
    return model_own_figures(model,
                             index != WIRE_NONE ? &model->contexts[index] : &model->left_out);
}

static void take_held(struct loader *loader, uint32_t index, struct model_figures *spare) {
    if (loader->held && index != WIRE_NONE)
        loader->held[index] = model_add(loader->held[index], spare->self.reserved_bytes);
    *spare = (struct model_figures){0};
}

/* Adds the page to the model. A record that continues the last page (`further`) adds nothing; its
 * shares are added later. Returns false if it continues another page than the last one. */
static bool keep_page(struct loader *loader, const struct wire_page *page) {
    struct model *model = loader->model;
    if (page->further) {
        const struct wire_page *last =
            model->page_count > 0 ? &model->pages[model->page_count - 1] : NULL;
        return last && last->start == page->start && last->context == WIRE_NONE;
    }
    model->pages =
        loader_make_room(model->pages, &loader->page_room, model->page_count, sizeof *page);
    struct wire_page *kept = &model->pages[model->page_count++];
    *kept = *page;
    model->shares = /* room even for no shares, so that `shares` is not NULL */
        loader_make_room(model->shares, &loader->share_room, model->share_count,
                         sizeof *model->shares);
    kept->first_share = (uint32_t)model->share_count;
    kept->share_count = 0;
    return true;
}

static void keep_share(struct loader *loader, const struct model_share *share) {
    struct model *model = loader->model;
    model->shares =
        loader_make_room(model->shares, &loader->share_room, model->share_count, sizeof *share);
    model->shares[model->share_count++] = *share;
    model->pages[model->page_count - 1].share_count++;
}

bool loader_take_page(struct loader *loader, struct loader_records *records) {
    struct wire_page page;
    if (!loader_take_bytes(records, &page, sizeof page))
        return loader_damaged(loader, "a page record is cut off");
    bool shared = page.context == WIRE_NONE;
    if (page.share_count > records->left / sizeof(struct wire_share) ||
        (page.share_count > 0 && !shared))
        return loader_damaged(loader, "a page has shares that do not exist");
    model_tame_page(&page);
    page.context = shared ? WIRE_NONE : page_context(loader, page.context);
    if (page.further && !shared)
        return loader_damaged(loader, "a page has shares that do not exist");
    if (loader->keep_pages && !keep_page(loader, &page))
        return loader_damaged(loader, "shares of a page that is not there");
    struct model_figures spare = {0};
    figures_add_page(&loader->figures, shared ? NULL : figures_of(loader, page.context, &spare),
                     &page);
    take_held(loader, page.context, &spare);
    for (uint32_t i = 0; i < page.share_count; i++) {
        struct wire_share wire = {0};
        loader_take_bytes(records, &wire, sizeof wire);
        struct model_share share = {page_context(loader, wire.context), wire.live};
        figures_add_share(&loader->figures, figures_of(loader, share.context, &spare), &page,
                          wire.live, wire.resident);
        take_held(loader, share.context, &spare);
        if (loader->keep_pages)
            keep_share(loader, &share);
    }
    return true;
}
