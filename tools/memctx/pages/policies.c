/* SPDX-License-Identifier: MIT */
/* policies.c - computes how the policies slab and generation would lay out a context's chunks. */
#include "pages/policies.h"

#include <stdlib.h>

#include "model/memory.h"

#define UNIT 16
#define OS_PAGE_BYTES 4096
#define PAGE_BYTES 16384      /* size of a page for blocks and chunks of up to NARROW_MAX bytes */
#define WIDE_PAGE_BYTES 65536 /* size of a page for larger blocks and chunks */
#define NARROW_MAX 1024       /* the largest block with a record of one byte */
#define SMALL_MAX 9216        /* the largest block */
#define GRANULE_BLOCK_MAX 128 /* pages of blocks up to this size are cut into OS pages */
/* greatest number of blocks of a granule with records of one byte */
#define GRANULE_BLOCKS_MAX 255
#define SERIAL_LARGE_BYTES (256 << 10)
/* bytes of the record of a chunk in a serial page, if the chunk before has another size */
#define RECORD_BYTES 4
/* the most that is predicted, because a damaged dump may have any figures */
#define SAVED_MAX ((int64_t)1 << 50)
/* a context's pages must still have room for this share of its chunks at the peak */
#define KEPT_LEAST 0.8
#define GONE_SHARE 64 /* a serial page with frees has a table of 1/GONE_SHARE of its size */
/* Chunks that are freed in the order of their allocation leave few pages partly free: those where
 * the oldest and the newest chunks stand. Chunks that are freed in any order leave a page partly
 * free for nearly each free block. */
#define PARTIAL_MOST 3      /* greatest number of partly free pages of one block size and thread */
#define FREE_IN_PARTIAL 1.5 /* the least mean number of free blocks in such a page */
/* the order of frees is judged only if at least one chunk was freed for every TURNED_OVER live
 * ones */
#define TURNED_OVER 4
#define FOREIGN_PART 4 /* the order is not known if other threads freed 1/FOREIGN_PART of all */
/* chunks of different sizes are rounded up by 0 to 15 bytes, by this number on average */
#define SMALLEST_MEAN 7.5

/* A context's own pages of one block size. */
struct block_size {
    uint32_t block_bytes;
    uint32_t spare_units; /* at least this many units of each block are spare */
    double live;          /* live chunks */
    double blocks;        /* blocks that the touched part of the pages has */
    double held_bytes;    /* bytes in memory */
    double partial;       /* pages with some blocks that are free */
    double free_blocks;   /* free blocks in pages that count in `partial` */
    bool usual;           /* all pages have the usual size, and no chunk is aligned */
};

static double round_up(double bytes, int step) {
    int64_t steps = ((int64_t)(bytes + 0.5) + step - 1) / step;
    return (double)steps * step;
}

/* How a page of blocks of one size is laid out. */
struct layout {
    uint32_t page_bytes, blocks;
    double block_bytes; /* memory that the page needs for each of its blocks */
};

static struct layout layout_of(uint32_t block_bytes) {
    if (block_bytes <= NARROW_MAX) { /* the records take the place of some blocks */
        uint32_t granule = block_bytes <= GRANULE_BLOCK_MAX ? OS_PAGE_BYTES : PAGE_BYTES;
        uint32_t blocks = granule / block_bytes;
        blocks = blocks < GRANULE_BLOCKS_MAX ? blocks : GRANULE_BLOCKS_MAX;
        blocks -= (blocks + block_bytes - 1) / block_bytes;
        return (struct layout){PAGE_BYTES, PAGE_BYTES / granule * blocks, (double)granule / blocks};
    }
    uint32_t blocks = WIDE_PAGE_BYTES / (block_bytes + 2), records;
    while ((records = (blocks * 2 + 63) / 64 * 64) + blocks * block_bytes > WIDE_PAGE_BYTES)
        blocks--;
    double touched = round_up(records + (double)blocks * block_bytes, OS_PAGE_BYTES);
    return (struct layout){WIDE_PAGE_BYTES, blocks, touched / blocks};
}

/* Returns the bytes that `chunks` chunks need in serial pages. `bytes`: their mean size, rounded to
 * units; `spread`: the standard deviation of their sizes. */
static double bytes_for_chunks(double chunks, double bytes, double spread) {
    double page =
        bytes <= NARROW_MAX && chunks * bytes < SERIAL_LARGE_BYTES ? PAGE_BYTES : WIDE_PAGE_BYTES;
    bool alike = spread < 1;
    double each = bytes + (alike ? 0 : RECORD_BYTES), fit = page / each;
    /* A chunk that does not fit into the rest of a page goes to the next page. If all chunks have
     * one size, this rest is known; if their sizes differ much, it is half a chunk on average.
     * `variety` says how far between these two cases the chunks are, from 0 (one size) to 1. */
    double whole = (double)(int64_t)fit, half = fit - 0.5;
    double variety = spread * (double)(int64_t)(1 + fit / 8) / (0.29 * bytes);
    variety = alike ? 0 : variety < 1 ? variety : 1;
    double in_page = variety * half + (1 - variety) * whole;
    /* The records stand at the end of the page, so all of it is touched. Without records, the last
     * OS pages of the page stay untouched. */
    double touched = alike ? round_up(in_page * each, OS_PAGE_BYTES) : page;
    return chunks * touched / (in_page < 1 ? 1 : in_page) * (1 + 1.0 / GONE_SHARE);
}

static uint32_t units_most(const struct block_size *size) {
    uint32_t units = size->block_bytes / UNIT;
    return units > size->spare_units + 1 ? units - size->spare_units : 1;
}

/* Returns the units of the smallest chunks that have blocks of this size: one more than the units
 * of the next smaller class. */
static uint32_t units_least(const struct block_size *size) {
    uint32_t units = size->block_bytes / UNIT, step = 1;
    while (units > 8 * step)
        step *= 2;
    return units > step ? units - step + 1 : 1;
}

static int64_t saving(double held, double then) {
    double saved = held - then;
    return saved > SAVED_MAX ? SAVED_MAX : saved > 0 ? (int64_t)saved : 0;
}

static int64_t slab_saving(const struct block_size *sizes, size_t count) {
    int64_t saved = 0;
    for (size_t i = 0; i < count; i++) {
        const struct block_size *size = &sizes[i];
        uint32_t block = units_most(size) * UNIT;
        if (block < size->block_bytes)
            saved = model_tame(
                saved + saving(size->held_bytes, size->blocks * layout_of(block).block_bytes));
    }
    return saved;
}

/* Predicts the bytes that serial pages would save, from a context's block sizes and the mean
 * requested size of its chunks. */
static int64_t serial_saving(const struct block_size *sizes, size_t count,
                             const struct model_totals *self) {
    double live = 0, blocks = 0, least = 0, most = 0, smallest = 1e9, largest = 0, held = 0;
    double room = 0; /* memory that pages need for the live blocks */
    for (size_t i = 0; i < count; i++) {
        double low = (double)units_least(&sizes[i]) * UNIT;
        double high = (double)units_most(&sizes[i]) * UNIT;
        low = low < high ? low : high;
        live += sizes[i].live;
        blocks += sizes[i].live * sizes[i].block_bytes;
        least += sizes[i].live * low;
        most += sizes[i].live * high;
        held += sizes[i].held_bytes;
        room += sizes[i].live * layout_of(sizes[i].block_bytes).block_bytes;
        smallest = low < smallest ? low : smallest;
        largest = high > largest ? high : largest;
    }
    int64_t chunks = model_tame(self->live_chunks), asked = model_tame(self->requested_bytes);
    double all = (double)model_tame(self->block_bytes);
    if (live < 1 || chunks < 1 || all < 1 || room < 1 || blocks < all / 2)
        return 0; /* most chunks are large ones, or stand in mixed pages */
    bool alike = count == 1 && asked % chunks == 0;
    double mean = (double)asked * blocks / all / live;
    mean = mean < 0 ? 0 : mean > SMALL_MAX ? SMALL_MAX : mean;
    double bytes = alike ? round_up(mean, UNIT) : mean + SMALLEST_MEAN;
    bytes = bytes < least / live ? least / live : bytes > most / live ? most / live : bytes;
    /* 3.46 is the square root of 12: the standard deviation of values spread evenly over a range is
     * the range divided by it */
    double spread = alike ? 0 : (largest - smallest + UNIT) / 3.46;
    /* Assumes that serial pages will have as many holes as the pages have now. */
    return saving(held, bytes_for_chunks(live, bytes, spread) * held / room);
}

/* True if threads freed many chunks that other threads allocated. Such blocks come back to their
 * pages in batches, so the pages do not show in which order they were freed. */
static bool is_freed_elsewhere(const struct model *model, const struct model_figures *figures) {
    int64_t foreign = 0;
    for (uint32_t i = 0; i < figures->view_count; i++) {
        struct model_totals view = model_view_at(model, figures, i).totals;
        int64_t more = model_tame(view.frees) - model_tame(view.allocs);
        foreign = model_tame(foreign + (more > 0 ? more : 0));
    }
    return foreign > model_tame(figures->self.frees) / FOREIGN_PART;
}

/* True if the context's chunks may be freed in another order than they are allocated. */
static bool has_another_order(const struct model *model, const struct model_figures *figures,
                              const struct block_size *sizes, size_t count) {
    double partial = 0, free_blocks = 0;
    double heaps = figures->view_count > 1 ? figures->view_count : 1;
    for (size_t i = 0; i < count; i++) {
        partial += sizes[i].partial;
        free_blocks += sizes[i].free_blocks;
    }
    if (model_tame(figures->self.frees) < model_tame(figures->self.live_chunks) / TURNED_OVER)
        return false;
    return is_freed_elsewhere(model, figures) || partial < 1 ||
           partial > PARTIAL_MOST * heaps * (double)count ||
           free_blocks < FREE_IN_PARTIAL * partial;
}

/* --- gathering the pages ---------------------------------------------------------------------- */

static bool is_of_blocks(const struct wire_page *page) {
    return page->kind == WIRE_PAGE_OWN && page->live > 0 && page->block_bytes >= UNIT &&
           page->block_bytes <= SMALL_MAX;
}

static struct block_size size_of(const struct wire_page *page) {
    struct layout layout = layout_of(page->block_bytes);
    /* a page record may stand for several pages */
    uint64_t pages = page->bytes / layout.page_bytes;
    bool partial = page->live < page->capacity;
    return (struct block_size){.block_bytes = page->block_bytes,
                               .spare_units = page->spare_units,
                               .live = page->live,
                               .blocks = (double)page->touched_bytes / layout.block_bytes,
                               .held_bytes = (double)memory_held_bytes(page),
                               .partial = partial ? (double)pages : 0,
                               .free_blocks = partial ? (double)(page->capacity - page->live) : 0,
                               .usual =
                                   page->apart == 0 && page->capacity == pages * layout.blocks};
}

static int by_size(const void *a, const void *b) {
    const struct block_size *left = a, *right = b;
    return (left->block_bytes > right->block_bytes) - (left->block_bytes < right->block_bytes);
}

/* Joins elements of equal block size, and returns how many elements are left. */
static size_t join(struct block_size *sizes, size_t count) {
    size_t joined = 0;
    qsort(sizes, count, sizeof *sizes, by_size);
    for (size_t i = 0; i < count; i++) {
        struct block_size *last = joined > 0 ? &sizes[joined - 1] : NULL;
        if (!last || last->block_bytes != sizes[i].block_bytes) {
            sizes[joined++] = sizes[i];
            continue;
        }
        last->live += sizes[i].live;
        last->blocks += sizes[i].blocks;
        last->held_bytes += sizes[i].held_bytes;
        last->partial += sizes[i].partial;
        last->free_blocks += sizes[i].free_blocks;
        last->usual = last->usual && sizes[i].usual;
        if (sizes[i].spare_units < last->spare_units)
            last->spare_units = sizes[i].spare_units;
    }
    return joined;
}

/* True if the context's pages still have room for most of the chunks that it had at its peak. If
 * not, chunks of other contexts took the blocks that it freed, or the OS pages went back to the
 * kernel. With a policy, other contexts could not take these blocks, so it is not known how much
 * would be left empty. */
static bool has_kept_its_pages(const struct model *model, const struct model_figures *figures,
                               const struct block_size *sizes, size_t count) {
    int64_t peak = model_peak(&model->contexts[figures->context]);
    int64_t chunks = model_tame(figures->self.live_chunks);
    int64_t asked = model_tame(figures->self.requested_bytes);
    double blocks = 0;
    for (size_t i = 0; i < count; i++)
        blocks += sizes[i].blocks;
    if (peak == WIRE_UNKNOWN || asked < 1)
        return true;
    return blocks >= KEPT_LEAST * (double)peak / (double)asked * (double)chunks;
}

static struct policies_saving predict(const struct model *model,
                                      const struct model_figures *figures, struct block_size *sizes,
                                      size_t count) {
    count = join(sizes, count);
    for (size_t i = 0; i < count; i++)
        if (!sizes[i].usual)
            return (struct policies_saving){0};
    if (!has_kept_its_pages(model, figures, sizes, count))
        return (struct policies_saving){0};
    struct policies_saving saving = {.slab_bytes = slab_saving(sizes, count)};
    if (!has_another_order(model, figures, sizes, count))
        saving.serial_bytes = serial_saving(sizes, count, &figures->self);
    return saving;
}

/* A counting sort puts the pages into the order of their contexts, because there may be very many
 * pages. */
struct policies_saving *policies_predict(const struct model *model) {
    struct policies_saving *savings = cli_alloc(model->figures_count, sizeof *savings);
    size_t *ends = cli_alloc(model->figures_count + 1, sizeof *ends);
    struct block_size *sizes = cli_alloc(model->page_count, sizeof *sizes);
    for (size_t i = 0; i < model->page_count; i++)
        if (is_of_blocks(&model->pages[i]))
            ends[model->contexts[model->pages[i].context].figures->number + 1]++;
    for (size_t i = 1; i <= model->figures_count; i++)
        ends[i] += ends[i - 1]; /* start of each context's pages; after the next loop, end */
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (is_of_blocks(page))
            sizes[ends[model->contexts[page->context].figures->number]++] = size_of(page);
    }
    for (size_t i = 0, first = 0; i < model->figures_count; first = ends[i++]) {
        const struct model_figures *figures = model_figures_at(model, i);
        if (ends[i] > first && figures->context != WIRE_NONE &&
            model->contexts[figures->context].placement < WIRE_PLACE_SLAB)
            savings[i] = predict(model, figures, sizes + first, ends[i] - first);
    }
    free(sizes);
    free(ends);
    return savings;
}
