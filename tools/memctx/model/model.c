/* SPDX-License-Identifier: MIT */
/* model.c - links a loaded tree, finds contexts and marks, and adds without overflow. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static int compare_ids(const void *a, const void *b) {
    const struct model_id *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

bool model_has_sums_only(const struct model *model) {
    return model->totals.reserved_bytes == WIRE_UNKNOWN;
}

const char *model_doubt(const struct model *model) {
    return model->exact    ? NULL
           : model->how    ? model->how
           : model->paused ? "this command paused while it read the process"
                           : "some operations were not charged to their path";
}

const char *model_program(const struct model *model) {
    const char *slash = strrchr(model->exe, '/');
    return model->program ? model->program : slash && slash[1] != '\0' ? slash + 1 : model->exe;
}

uint64_t model_time_ns(const struct model *model) {
    struct timespec time;
    struct stat status;
    if (model->recording)
        return model->recording->moments[model->recording->chosen].wall_ns;
    clock_gettime(CLOCK_REALTIME, &time);
    if (model->from_snapshot && stat(model->source, &status) == 0)
        time = status.st_mtim;
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

uint32_t model_find_context(const struct model *model, uint32_t id) {
    size_t low = 0, high = model->context_count;
    if (!model->by_id)
        return id < high ? id : WIRE_NONE;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->by_id[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->context_count && model->by_id[low].id == id ? model->by_id[low].index
                                                                    : WIRE_NONE;
}

static bool link_parents(struct model *model, size_t from, struct cli_failure *failure) {
    size_t count = model->context_count;
    for (size_t i = from; i < count; i++) {
        struct model_context *context = &model->contexts[i];
        context->first_child = context->next_sibling = WIRE_NONE;
        if (i == 0) {
            if (context->parent != WIRE_NONE) {
                return cli_fail(
                    failure, CLI_REFUSED,
                    "%s: damaged dump; its first context is not the root; take it again",
                    model->source);
            }
            continue;
        }
        uint32_t parent = model_find_context(model, context->parent);
        if (parent == WIRE_NONE || parent >= i) {
            return cli_fail(failure, CLI_REFUSED,
                            "%s: damaged dump; context %u has no parent before it; take it again",
                            model->source, context->id);
        }
        context->parent = parent;
        context->level = model->contexts[parent].level + 1;
        if (context->level > MODEL_LEVELS_MAX) {
            return cli_fail(
                failure, CLI_REFUSED,
                "%s: damaged dump; context %u is more than %d levels deep; take it again",
                model->source, context->id, MODEL_LEVELS_MAX);
        }
    }
    /* Goes backwards, because each child is put at the head of its parent's list. So the children
     * that one call links stay in the order of arrival. */
    for (size_t i = count; i-- > (from > 0 ? from : 1);) {
        struct model_context *parent = &model->contexts[model->contexts[i].parent];
        model->contexts[i].next_sibling = parent->first_child;
        parent->first_child = (uint32_t)i;
    }
    return true;
}

/* Makes the list of contexts by id. No list is needed while each id equals its index. */
static bool sort_ids(struct model *model, struct cli_failure *failure) {
    size_t count = model->context_count, same = 0;
    while (same < count && model->contexts[same].id == same)
        same++;
    if (same == count)
        return true;
    free(model->by_id);
    struct model_id *ids = cli_alloc(count, sizeof *ids);
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        ids[i] = (struct model_id){model->contexts[i].id, (uint32_t)i};
        sorted = sorted && (i == 0 || ids[i - 1].id < ids[i].id);
    }
    if (!sorted)
        qsort(ids, count, sizeof *ids, compare_ids);
    model->by_id = ids;
    for (size_t i = 1; i < count; i++) {
        if (ids[i - 1].id == ids[i].id) {
            return cli_fail(failure, CLI_REFUSED,
                            "%s: damaged dump; context %u occurs twice; take it again",
                            model->source, ids[i].id);
        }
    }
    return true;
}

static int compare_resizes(const void *a, const void *b) {
    const struct wire_resizes *left = a, *right = b;
    return (left->context > right->context) - (left->context < right->context);
}

void model_sort_resizes(struct model *model) {
    struct wire_resizes *list = model->resizes;
    size_t count = 0;
    if (model->resize_count == 0)
        return;
    qsort(list, model->resize_count, sizeof *list, compare_resizes);
    for (size_t i = 0; i < model->resize_count; i++) {
        if (count == 0 || list[count - 1].context != list[i].context) {
            list[count++] = list[i];
            continue;
        }
#define X(name) list[count - 1].name = model_add(list[count - 1].name, list[i].name);
        MODEL_RESIZES(X)
#undef X
    }
    model->resize_count = count;
}

const struct wire_resizes *model_resizes_of(const struct model *model, uint32_t context) {
    struct wire_resizes key = {.context = context};
    if (model->resize_count == 0)
        return NULL;
    return bsearch(&key, model->resizes, model->resize_count, sizeof key, compare_resizes);
}

bool model_link(struct model *model, struct cli_failure *failure) {
    if (model->context_count == 0) {
        return cli_fail(failure, CLI_REFUSED, "%s: damaged dump; it has no contexts; take it again",
                        model->source);
    }
    return model_link_more(model, 0, failure);
}

bool model_link_more(struct model *model, size_t from, struct cli_failure *failure) {
    if (!sort_ids(model, failure))
        return false;
    /* recursive_from may name a context that is newer than the dump. It then becomes WIRE_NONE. */
    for (size_t i = from; i < model->context_count; i++) {
        struct model_context *context = &model->contexts[i];
        if (context->recursive_from != WIRE_NONE)
            context->recursive_from = model_find_context(model, context->recursive_from);
    }
    return link_parents(model, from, failure);
}

static void own_figures_of_pages_and_marks(struct model *model) {
    for (size_t i = 0; i < model->page_count; i++)
        if (model->pages[i].context != WIRE_NONE)
            model_own_figures(model, &model->contexts[model->pages[i].context]);
    for (size_t i = 0; i < model->share_count; i++)
        if (model->shares[i].context != WIRE_NONE)
            model_own_figures(model, &model->contexts[model->shares[i].context]);
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        for (size_t k = 0; k < mark->entry_count; k++)
            model_own_figures(model, &model->contexts[mark->entries[k].context]);
    }
}

void model_add_up(struct model *model) {
    own_figures_of_pages_and_marks(model);
    model_compute_totals(model, NULL);
    model->totals = *model->contexts[0].total;
    if (model->left_out_count > 0) {
        int64_t peak = model->contexts[0].figures->self.peak_requested_bytes;
        model_add_totals(&model->totals, &model->left_out.figures->self);
        model->totals.peak_requested_bytes = peak;
    }
}

/* Returns a view of a thread that made and freed all chunks of the context. What a context holds in
 * pages is not known by thread. */
static struct model_view view_of_all(const struct model_figures *figures, uint32_t thread) {
    struct model_view view = {
        .context = figures->context, .thread = thread, .totals = figures->self};
    struct model_totals *totals = &view.totals;
    totals->block_bytes = totals->reserved_bytes = totals->resident_bytes = WIRE_UNKNOWN;
    totals->pinned_bytes = totals->sole_pinned_bytes = totals->pages = WIRE_UNKNOWN;
    return view;
}

struct model_view model_view_at(const struct model *model, const struct model_figures *figures,
                                uint32_t index) {
    return figures->lone_view ? view_of_all(figures, figures->first_view)
                              : model->views[figures->first_view + index];
}

void model_fold_view(struct model *model, struct model_figures *figures) {
    const struct model_view *last = &model->views[model->view_count - 1];
    struct model_view all = view_of_all(figures, last->thread);
    if (figures->view_count != 1 || memcmp(&all.totals, &last->totals, sizeof all.totals) != 0)
        return;
    figures->first_view = last->thread;
    figures->lone_view = true;
    model->view_count--;
}

void model_unfold_view(struct model *model, struct model_figures *figures) {
    if (!figures->lone_view)
        return;
    model->views[model->view_count] = model_view_at(model, figures, 0);
    figures->first_view = (uint32_t)model->view_count++;
    figures->lone_view = false;
}

int64_t model_add(int64_t a, int64_t b) {
    int64_t sum;
    if (a == WIRE_UNKNOWN || b == WIRE_UNKNOWN || __builtin_add_overflow(a, b, &sum))
        return WIRE_UNKNOWN;
    return sum;
}

int64_t model_subtract(int64_t a, int64_t b) {
    return b == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_add(a, -b);
}

int64_t model_tame(int64_t value) {
    const int64_t limit = (int64_t)1 << 58;
    return value == WIRE_UNKNOWN ? 0 : value > limit ? limit : value < -limit ? -limit : value;
}

int64_t model_share(int64_t a, int64_t b, int64_t c) {
    __int128 share = c != 0 ? (__int128)a * b / c : 0;
    return share > INT64_MAX ? model_tame(INT64_MAX) : model_tame((int64_t)share);
}

int64_t model_peak(const struct model_context *context) {
    bool exact = context->frame->kind != WIRE_KIND_UNKNOWN &&
                 context->frame->kind != WIRE_KIND_ROOT &&
                 (context->flags & WIRE_CONTEXT_PARTIAL) == 0;
    return exact ? context->figures->self.peak_requested_bytes : WIRE_UNKNOWN;
}

static uint64_t at_most(uint64_t value, uint64_t most) {
    return value < most ? value : most;
}

void model_tame_page(struct wire_page *page) {
    const uint64_t address_space = (uint64_t)1 << 47, blocks = (uint64_t)1 << 31;
    page->bytes = at_most(page->bytes, address_space);
    page->touched_bytes = at_most(page->touched_bytes, address_space);
    page->live_bytes = at_most(page->live_bytes, address_space);
    page->untouched_bytes = at_most(page->untouched_bytes, address_space);
    page->block_bytes = (uint32_t)at_most(page->block_bytes, 1 << 16);
    page->capacity = (uint32_t)at_most(page->capacity, blocks);
    page->live = (uint32_t)at_most(page->live, page->capacity);
    if ((page->context == WIRE_NONE) != (page->kind == WIRE_PAGE_MIXED))
        page->kind = page->context == WIRE_NONE ? WIRE_PAGE_MIXED : WIRE_PAGE_OWN;
}

void model_tame_elsewhere(struct wire_elsewhere *elsewhere) {
    if (elsewhere->private_bytes != WIRE_UNKNOWN)
        elsewhere->private_bytes = model_tame(elsewhere->private_bytes);
    elsewhere->shared_bytes = model_tame(elsewhere->shared_bytes);
    elsewhere->file_bytes = model_tame(elsewhere->file_bytes);
    elsewhere->data_bytes = model_tame(elsewhere->data_bytes);
    elsewhere->swap_bytes = model_tame(elsewhere->swap_bytes);
}

void model_add_totals(struct model_totals *sum, const struct model_totals *part) {
#define X(name) sum->name = model_add(sum->name, part->name);
    MODEL_TOTALS(X)
#undef X
}

bool model_totals_any(const struct model_totals *totals) {
    return totals->requested_bytes != 0 || totals->live_chunks != 0 || totals->allocs != 0 ||
           totals->frees != 0 || model_tame(totals->reserved_bytes) != 0 ||
           model_tame(totals->block_bytes) != 0;
}

bool model_is_kept_mark(const struct model_mark *mark) {
    static const char prefix[] = "auto-";
    const char *digits = mark->name + sizeof prefix - 1;
    return strncmp(mark->name, prefix, sizeof prefix - 1) == 0 && *digits != '\0' &&
           digits[strspn(digits, "0123456789")] == '\0';
}

static int by_age(const void *a, const void *b) {
    const struct model_mark *left = a, *right = b;
    return left->uptime_s < right->uptime_s ? -1 : left->uptime_s > right->uptime_s;
}

void model_sort_marks(struct model *model) {
    if (model->mark_count > 0)
        qsort(model->marks, model->mark_count, sizeof *model->marks, by_age);
}

double model_slept_since(const struct model *model, double uptime_s) {
    const struct model_mark *last = NULL;
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        if (mark->uptime_s <= uptime_s && (!last || mark->uptime_s > last->uptime_s))
            last = mark;
    }
    return last && model->slept_s > last->slept_s ? model->slept_s - last->slept_s : 0;
}

/* True if `mark` is better to compare with than `than`. A mark of the user is better than one of
 * MEMCTX_MARKS; otherwise the later mark is better. */
static bool is_better_mark(const struct model_mark *mark, const struct model_mark *than) {
    bool kept = model_is_kept_mark(mark), than_kept = model_is_kept_mark(than);
    return kept == than_kept ? mark->uptime_s > than->uptime_s : than_kept;
}

struct model_mark *model_find_mark(struct model *model, const char *name) {
    struct model_mark *found = NULL;
    for (size_t i = 0; i < model->mark_count; i++) {
        struct model_mark *mark = &model->marks[i];
        if (name ? strcmp(mark->name, name) == 0 : !found || is_better_mark(mark, found))
            found = mark;
    }
    return found;
}

const char *model_kind_word(const struct model_context *context) {
    switch (context->frame->kind) {
    case WIRE_KIND_PATH: return "path";
    case WIRE_KIND_NAMED: return "named";
    default: return "unknown";
    }
}

const char *model_placement_word(uint8_t placement) {
    switch (placement) {
    case WIRE_PLACE_APART: return "apart";
    case WIRE_PLACE_SHARED: return "shared";
    case WIRE_PLACE_SLAB: return "slab";
    case WIRE_PLACE_GENERATION: return "generation";
    case WIRE_PLACE_BUMP: return "bump";
    case WIRE_PLACE_SIMPLE: return "simple";
    default: return "default";
    }
}

const char *model_policy_word(uint8_t policy) {
    switch (policy) {
    case WIRE_POLICY_ASET: return "aset";
    case WIRE_POLICY_MIXED: return "mixed";
    case WIRE_POLICY_SLAB: return "slab";
    case WIRE_POLICY_GENERATION: return "generation";
    case WIRE_POLICY_BUMP: return "bump";
    case WIRE_POLICY_SIMPLE: return "simple";
    default: return "none";
    }
}
