/* SPDX-License-Identifier: MIT */
/* holders.c - adds up page records by context. */
#include "pages/holders.h"

#include <stdlib.h>
#include <string.h>

#include <memctx/record.h>

#include "model/memory.h"
#include "pages/policies.h"

#define OS_PAGE_BYTES 4096
/* A saving is predicted only if the part of it that is unknown is at most 1/UNKNOWN_PART. */
#define UNKNOWN_PART 10

/* Returns the number of blocks that a thread freed last and that are in no list of the page. Such
 * blocks keep their OS pages while the thread sleeps. */
static uint32_t recent_blocks(const struct wire_page *page) {
    return page->kind == WIRE_PAGE_MIXED && page->tid != 0 ? page->spare_units : 0;
}

/* Returns the bytes of OS pages without live chunks in a page that is in use. If residency was
 * asked for, os_empty counts only resident OS pages. In snapshots of older libraries it counts all
 * empty OS pages, so the resident bytes of the page are the upper bound. Which OS pages the recent
 * blocks are in is not known, so they count as spread over the page at random. */
static int64_t empty_os_bytes(const struct wire_page *page) {
    int64_t os_pages = model_tame((int64_t)page->touched_bytes) / OS_PAGE_BYTES;
    int64_t empty = (int64_t)page->os_empty * OS_PAGE_BYTES, held = memory_held_bytes(page);
    empty = empty < held ? empty : held;
    for (uint32_t i = recent_blocks(page); i > 0 && os_pages > 0; i--)
        empty -= empty / os_pages;
    return empty;
}

/* Returns the bytes that a trim returns of pages without live blocks. A thread that sleeps keeps
 * the OS page of the records of each of these pages. A page with recent blocks has blocks in use
 * for the library: a trim of all contexts (`all`) leaves it as it is, a trim of some returns its
 * other OS pages. */
static int64_t returned_bytes(const struct wire_page *page, bool all) {
    int64_t kept = page->tid != 0 ? (int64_t)page->pages * OS_PAGE_BYTES : 0;
    int64_t held = memory_held_bytes(page), rest = held > kept ? held - kept : 0;
    int64_t os_pages = model_tame((int64_t)page->touched_bytes) / OS_PAGE_BYTES;
    uint32_t recent = recent_blocks(page);
    if (all && recent > 0)
        return 0;
    for (uint32_t i = recent; i > 0 && os_pages > 0; i--)
        rest -= rest / os_pages;
    return rest;
}

/* Returns the bytes of `live` live blocks of a page. */
static int64_t live_bytes(const struct wire_page *page, uint32_t live) {
    return live == page->live ? model_tame((int64_t)page->live_bytes)
                              : (int64_t)live * page->block_bytes;
}

static void add_to(int64_t *sum, int64_t bytes) {
    *sum = model_tame(*sum + bytes);
}

/* The shares of a page. A page of a single context has one share, if it has live chunks. */
struct shares {
    const struct model_share *list;
    size_t count;
    struct model_share own;
};

static void shares_of(const struct model *model, const struct wire_page *page,
                      struct shares *shares) {
    shares->own = (struct model_share){page->context, page->live};
    bool is_own = page->context != WIRE_NONE;
    shares->list = is_own ? &shares->own : model->shares + page->first_share;
    shares->count = is_own ? page->live > 0 : page->share_count;
}

/* --- ages ------------------------------------------------------------------------------------ */

/* The live chunks of one share: their number, and the bounds of their ages (no chunk is older than
 * `most` or younger than `least`). */
struct aged {
    uint32_t live, most, least;
};

static int by_most(const void *a, const void *b) {
    const struct aged *left = a, *right = b;
    return (left->most > right->most) - (left->most < right->most);
}

static int by_least(const void *a, const void *b) {
    const struct aged *left = a, *right = b;
    return (left->least > right->least) - (left->least < right->least);
}

/* Returns the element of a sorted list that contains the median chunk. */
static const struct aged *median_of(const struct aged *list, size_t count) {
    uint64_t chunks = 0, passed = 0;
    for (size_t i = 0; i < count; i++)
        chunks += list[i].live;
    for (size_t i = 0; i + 1 < count; i++) {
        passed += list[i].live;
        if (2 * passed >= chunks)
            return &list[i];
    }
    return &list[count - 1];
}

/* Finds the ages of each context's chunks. There may be very many shares, so a counting sort puts
 * them into the order of their contexts. */
static void find_ages(struct holders *holders, const struct model *model) {
    size_t *ends = cli_alloc(model->figures_count + 1, sizeof *ends);
    struct aged *list = cli_alloc(model->page_count + model->share_count, sizeof *list);
    struct shares shares;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < model->page_count; i++) {
            const struct wire_page *page = &model->pages[i];
            shares_of(model, page, &shares);
            for (size_t k = 0; k < shares.count; k++) {
                uint32_t number = model->contexts[shares.list[k].context].figures->number;
                if (pass == 0) {
                    ends[number + 1]++;
                } else {
                    list[ends[number]++] =
                        (struct aged){shares.list[k].live, page->oldest_age, page->newest_age};
                }
            }
        }
        for (size_t i = 1; i <= model->figures_count && pass == 0; i++) {
            /* `ends` has the start of each context's elements now, and their end after the second
             * pass */
            ends[i] += ends[i - 1];
        }
    }
    for (size_t i = 0; i < model->figures_count; i++) {
        struct aged *first = list + (i > 0 ? ends[i - 1] : 0);
        size_t count = (size_t)(list + ends[i] - first);
        struct holder *holder = &holders->list[i];
        if (count == 0)
            continue;
        qsort(first, count, sizeof *first, by_least);
        holder->median_least = median_of(first, count)->least;
        qsort(first, count, sizeof *first, by_most);
        holder->median_most = median_of(first, count)->most;
        holder->oldest = first[count - 1].most;
    }
    free(list);
    free(ends);
}

double holders_seconds(uint32_t age) {
    return (double)age * WIRE_AGE_NS / 1e9;
}

const char *holders_age(const struct model *model, uint32_t age) {
    static char texts[8][32];
    static unsigned next;
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    char *text = texts[next++ % 8];
    double seconds = holders_seconds(age);
    if (seconds > model->uptime_s)
        seconds = model->uptime_s;
    size_t i = 0;
    while (i < 3 && seconds < units[i].seconds * (i == 2 ? 2 : 1))
        i++;
    snprintf(text, sizeof texts[0], "%.*f %s", seconds < 10 * units[i].seconds ? 1 : 0,
             seconds / units[i].seconds, units[i].unit);
    return text;
}

/* --- what each context holds ----------------------------------------------------------------- */

/* Returns the bytes of a large chunk that are not in memory; 0 if residency was not asked for. */
static int64_t absent_bytes(const struct wire_page *page) {
    int64_t bytes = model_tame((int64_t)page->live_bytes), resident = page->resident_bytes;
    return resident == WIRE_UNKNOWN || model_tame(resident) > bytes ? 0
                                                                    : bytes - model_tame(resident);
}

/* Returns the figures from own pages, for writing, of the context with this number of figures. */
static struct holder_own *make_own(struct holders *holders, size_t number) {
    struct holder *holder = &holders->list[number];
    if (holder->own == 0) {
        if (holders->own_count == holders->own_room) {
            holders->own_room = 2 * holders->own_room + 64;
            holders->own = cli_grow(holders->own, holders->own_room, sizeof *holders->own);
        }
        holder->own = (uint32_t)holders->own_count++;
        holders->own[holder->own] = (struct holder_own){0};
    }
    return &holders->own[holder->own];
}

/* Adds what a page of a single context says of this context. */
static void add_own_page(struct holders *holders, const struct model *model,
                         const struct wire_page *page) {
    size_t number = model->contexts[page->context].figures->number;
    struct holder_own *own = make_own(holders, number);
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        own->os_pages[bin] += page->os_pages[bin];
    own->os_pages[0] += page->os_empty;
    add_to(&own->empty_os_bytes, empty_os_bytes(page));
    add_to(&holders->list[number].held_bytes, memory_held_bytes(page));
    if (page->block_bytes == 0)
        add_to(&own->absent_bytes, absent_bytes(page));
    if (page->live == 0)
        add_to(&own->kept_bytes, memory_held_bytes(page));
    else if (page->kind == WIRE_PAGE_LARGE)
        add_to(&own->large_bytes, live_bytes(page, page->live));
}

static void add_page(struct holders *holders, const struct model *model,
                     const struct wire_page *page) {
    struct shares shares;
    int64_t free_bytes = memory_free_bytes(page);
    bool is_own = page->context != WIRE_NONE;
    if (page->kind == WIRE_PAGE_MIXED)
        add_to(&holders->mixed_free_bytes, free_bytes);
    if (is_own)
        add_own_page(holders, model, page);
    if (page->live == 0) {
        add_to(&holders->kept_bytes, memory_held_bytes(page));
        add_to(&holders->returned_bytes, returned_bytes(page, true));
        return;
    }
    shares_of(model, page, &shares);
    for (size_t i = 0; i < shares.count; i++) {
        const struct model_share *share = &shares.list[i];
        struct holder *holder = holders_of(holders, model, share->context);
        add_to(&holder->chunks, share->live);
        add_to(&holder->held_bytes, !is_own ? live_bytes(page, share->live) : 0);
        add_to(&holder->block_bytes, live_bytes(page, share->live));
        if (shares.count == 1) {
            add_to(&holder->alone_bytes, memory_held_bytes(page));
            add_to(&holder->alone_free, free_bytes);
        } else {
            add_to(&holder->shared_free, model_share(free_bytes, share->live, page->live));
        }
    }
}

bool holders_recorded(const struct model *model) {
    return model->recording && model->recording->paged;
}

bool holders_know_least(const struct model *model, const uint32_t *members, size_t count) {
    uint32_t id = count > 0 ? model->contexts[members[0]].id : WIRE_NONE;
    return holders_recorded(model) && (count > 1 || id == RECORD_REST || id == RECORD_FORGOTTEN);
}

struct holder holders_look(const struct holders *holders, const struct model *model,
                           uint32_t context) {
    if (holders->list)
        return *holders_of(holders, model, context);
    const struct model_figures *figures = model->contexts[context].figures;
    int64_t alone_free = model->recording->alone_free[figures->number];
    return (struct holder){.chunks = figures->self.live_chunks,
                           .block_bytes = figures->self.block_bytes,
                           .held_bytes = figures->self.reserved_bytes,
                           .alone_bytes = figures->self.sole_pinned_bytes,
                           .alone_free = alone_free,
                           .shared_free = model_tame(figures->self.pinned_bytes) - alone_free};
}

void holders_make(struct holders *holders, const struct model *model) {
    *holders = (struct holders){0};
    if (!model->has_pages)
        return;
    holders->list = cli_alloc(model->figures_count, sizeof *holders->list);
    holders->own_room = 64;
    holders->own = cli_alloc(holders->own_room, sizeof *holders->own);
    holders->own_count = 1;
    for (size_t i = 0; i < model->page_count; i++)
        add_page(holders, model, &model->pages[i]);
    struct policies_saving *savings = policies_predict(model);
    for (size_t i = 0; i < model->figures_count; i++) {
        if (savings[i].slab_bytes == 0 && savings[i].serial_bytes == 0)
            continue;
        struct holder_own *own = make_own(holders, i);
        own->slab_bytes = savings[i].slab_bytes;
        own->generation_bytes = savings[i].serial_bytes;
    }
    free(savings);
    find_ages(holders, model);
}

void holders_free(struct holders *holders) {
    free(holders->list);
    free(holders->own);
    *holders = (struct holders){0};
}

/* --- some contexts together ------------------------------------------------------------------ */

/* Returns how many live blocks of a page belong to members. */
static uint32_t members_live(const struct model *model, const struct wire_page *page,
                             const bool *members) {
    struct shares shares;
    uint32_t live = 0; /* may wrap around if shares are damaged */
    shares_of(model, page, &shares);
    for (size_t i = 0; i < shares.count; i++)
        live += members[shares.list[i].context] ? shares.list[i].live : 0;
    return live;
}

int64_t holders_waste(const struct model *model, const bool *members) {
    int64_t sum = 0;
    for (size_t i = 1; i < model->figures_count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        const struct model_totals *self = &figures->self;
        if (figures->context != WIRE_NONE && members[figures->context])
            add_to(&sum, model_tame(self->block_bytes) - model_tame(self->requested_bytes));
    }
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->kind == WIRE_PAGE_OWN && members[page->context])
            add_to(&sum, memory_free_bytes(page));
    }
    return sum;
}

int64_t holders_free_around(const struct model *model, const bool *members) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->kind == WIRE_PAGE_MIXED ||
            (page->kind == WIRE_PAGE_OWN && members[page->context]))
            add_to(&sum, memory_free_bytes(page));
    }
    return sum;
}

size_t holders_partners(const struct model *model, const bool *members,
                        struct holder_partner partners[HOLDERS_PARTNERS_MAX]) {
    int64_t *bytes = cli_alloc(model->context_count, sizeof *bytes);
    size_t found = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->context != WIRE_NONE || members_live(model, page, members) == 0)
            continue;
        for (uint32_t k = 0; k < page->share_count; k++) {
            const struct model_share *share = &model->shares[page->first_share + k];
            if (!members[share->context])
                add_to(&bytes[share->context], live_bytes(page, share->live));
        }
    }
    for (; found < HOLDERS_PARTNERS_MAX; found++) {
        size_t best = 0;
        for (size_t i = 1; i < model->context_count; i++)
            best = bytes[i] > bytes[best] ? i : best;
        if (bytes[best] <= 0)
            break;
        partners[found] = (struct holder_partner){(uint32_t)best, bytes[best]};
        bytes[best] = 0;
    }
    free(bytes);
    return found;
}

/* Adds up what a recording says of each member. Pages in which only members have chunks, but
 * several of them, are missing in the sum. */
static int64_t recorded_alone(const struct model *model, const bool *members, int64_t *free_bytes) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_figures *figures = model->contexts[i].figures;
        if (!members[i] || figures->context != i)
            continue;
        add_to(&sum, model_tame(figures->self.sole_pinned_bytes));
        add_to(free_bytes, model->recording->alone_free[figures->number]);
    }
    return sum;
}

int64_t holders_alone(const struct model *model, const bool *members, int64_t *free_bytes) {
    int64_t sum = 0;
    *free_bytes = 0;
    if (holders_recorded(model))
        return recorded_alone(model, members, free_bytes);
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->live > 0 && members_live(model, page, members) == page->live) {
            add_to(&sum, memory_held_bytes(page));
            add_to(free_bytes, memory_free_bytes(page));
        }
    }
    return sum;
}

/* The blocks of one size and one thread that the members have in mixed pages. If the members were
 * isolated, these blocks would need pages of their own. */
struct need {
    uint32_t tid, block_bytes, per_page;
    int64_t blocks, page_bytes;
};
#define NEEDS_MAX 4096

static struct need *need_of(struct need *needs, size_t *count, const struct wire_page *page) {
    for (size_t i = 0; i < *count; i++)
        if (needs[i].tid == page->tid && needs[i].block_bytes == page->block_bytes)
            return &needs[i];
    if (*count == NEEDS_MAX)
        return NULL;
    needs[*count] = (struct need){.tid = page->tid,
                                  .block_bytes = page->block_bytes,
                                  .per_page = page->capacity > 0 ? page->capacity : 1,
                                  .page_bytes = model_tame((int64_t)page->bytes)};
    return &needs[(*count)++];
}

/* Counts the sizes of blocks that each member has in mixed pages: at most SIZES_MOST. The caller
 * frees the list. */
#define SIZES_MOST 64
static uint32_t *count_sizes(const struct model *model, const bool *members) {
    uint32_t sizes[SIZES_MOST], count = 0;
    uint64_t *has = cli_alloc(model->context_count, sizeof *has); /* a bit for each of `sizes` */
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        uint32_t at = 0;
        if (page->kind != WIRE_PAGE_MIXED || page->context != WIRE_NONE)
            continue;
        while (at < count && sizes[at] != page->block_bytes)
            at++;
        if (at == count && count < SIZES_MOST)
            sizes[count++] = page->block_bytes;
        at = at < SIZES_MOST ? at : SIZES_MOST - 1;
        for (uint32_t k = 0; k < page->share_count; k++)
            has[model->shares[page->first_share + k].context] |= (uint64_t)1 << at;
    }
    uint32_t *found = cli_alloc(model->context_count, sizeof *found);
    for (size_t i = 0; i < model->context_count; i++)
        found[i] = members[i] ? (uint32_t)__builtin_popcountll(has[i]) : 0;
    free(has);
    return found;
}

/* Returns the bytes that the members have freed since their peak. Own pages of the members would
 * have these bytes as holes. *unknown_bytes receives further bytes, any part of which may be holes:
 * those freed by members without a known peak, and those freed of blocks of other sizes at other
 * times, because a hole in a page of one size is no room for blocks of another size. */
static int64_t own_holes(const struct model *model, const bool *members, int64_t *unknown_bytes) {
    int64_t sum = 0;
    uint32_t *sizes = count_sizes(model, members);
    *unknown_bytes = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        if (!members[i])
            continue;
        int64_t live = model_tame(self->requested_bytes), peak = model_peak(&model->contexts[i]);
        int64_t all = model_tame(model_tame(self->requested_cum_bytes) - live);
        int64_t since = peak == WIRE_UNKNOWN ? 0 : model_tame(model_tame(peak) - live);
        int64_t most = model_tame(model_tame(peak) * (int64_t)sizes[i] - live);
        most = peak == WIRE_UNKNOWN || most > all ? all : most;
        add_to(&sum, since > 0 ? since : 0);
        add_to(unknown_bytes, most > since ? most - since : 0);
    }
    free(sizes);
    return sum;
}

int64_t holders_isolate(const struct model *model, const bool *members) {
    struct need *needs = cli_alloc(NEEDS_MAX, sizeof *needs);
    size_t count = 0;
    int64_t saved = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        uint32_t live = page->kind == WIRE_PAGE_MIXED && page->apart == 0
                            ? members_live(model, page, members)
                            : 0;
        if (live == 0)
            continue;
        struct need *need = need_of(needs, &count, page);
        if (need)
            add_to(&need->blocks, live);
        if (live == page->live)
            add_to(&saved, memory_held_bytes(page));
    }
    for (size_t i = 0; i < count; i++) {
        const struct need *need = &needs[i];
        int64_t rest = model_share(need->blocks % need->per_page, need->page_bytes, need->per_page);
        add_to(&saved, -model_share(need->blocks / need->per_page, need->page_bytes, 1));
        add_to(&saved, -((rest + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES * OS_PAGE_BYTES));
    }
    free(needs);
    int64_t unknown, most = model_tame(saved - own_holes(model, members, &unknown));
    if (most <= 0)
        return most;
    return unknown <= most / UNKNOWN_PART ? model_tame(most - unknown) : WIRE_UNKNOWN;
}

int64_t holders_punch(const struct model *model, const bool *members) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->live > 0 && members_live(model, page, members) > 0)
            add_to(&sum, empty_os_bytes(page));
    }
    return sum;
}

int64_t holders_trim(const struct model *model, const bool *members) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->context != WIRE_NONE && !members[page->context])
            continue;
        add_to(&sum, page->live == 0 ? returned_bytes(page, false) : empty_os_bytes(page));
    }
    return sum;
}
