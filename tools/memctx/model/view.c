/* SPDX-License-Identifier: MIT */
/* view.c - chooses and sorts contexts. */
#include "model/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/frames.h"
#include "model/selector.h"
#include "model/shorten.h"
#include "model/tails.h"

/* Without --min, the tree hides a subtree below 1/DEFAULT_SHARE of the whole. */
#define DEFAULT_SHARE 200

static const char *const sort_words[VIEW_SORTS] = {
    [VIEW_SORT_REQUESTED] = "requested", [VIEW_SORT_RESERVED] = "reserved",
    [VIEW_SORT_ALLOCS] = "allocs",       [VIEW_SORT_FREES] = "frees",
    [VIEW_SORT_WASTE] = "waste",         [VIEW_SORT_PINNED] = "pinned",
    [VIEW_SORT_PEAK] = "peak",           [VIEW_SORT_CHUNKS] = "chunks",
};

enum view_sort view_parse_sort(const char *option, const char *word) {
    for (int sort = 0; sort < VIEW_SORTS; sort++)
        if (strcmp(word, sort_words[sort]) == 0)
            return (enum view_sort)sort;
    cli_usage("%s takes one of %s; got \"%s\"", option, VIEW_SORT_WORDS, word);
}

const char *view_sort_word(enum view_sort sort) {
    return sort_words[sort];
}

bool view_counts(enum view_sort sort) {
    return sort == VIEW_SORT_ALLOCS || sort == VIEW_SORT_FREES || sort == VIEW_SORT_CHUNKS;
}

bool view_needs_pages(enum view_sort sort) {
    return sort == VIEW_SORT_RESERVED || sort == VIEW_SORT_WASTE || sort == VIEW_SORT_PINNED;
}

static int64_t key_figure(const struct model_totals *totals, enum view_sort sort) {
    switch (sort) {
    case VIEW_SORT_RESERVED: return totals->reserved_bytes;
    case VIEW_SORT_ALLOCS: return totals->allocs;
    case VIEW_SORT_FREES: return totals->frees;
    case VIEW_SORT_WASTE:
        return totals->requested_bytes == WIRE_UNKNOWN
                   ? WIRE_UNKNOWN
                   : model_add(totals->reserved_bytes, -totals->requested_bytes);
    case VIEW_SORT_PINNED: return totals->pinned_bytes;
    case VIEW_SORT_PEAK: return totals->peak_requested_bytes;
    case VIEW_SORT_CHUNKS: return totals->live_chunks;
    default: return totals->requested_bytes;
    }
}

int64_t view_key(const struct model_totals *totals, enum view_sort sort) {
    int64_t figure = key_figure(totals, sort);
    return figure == WIRE_UNKNOWN ? 0 : figure;
}

void view_compile_site(regex_t *regex, const char *text) {
    int error = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
    if (error != 0) {
        char message[200];
        regerror(error, regex, message, sizeof message);
        cli_usage("--site takes an extended regular expression; \"%s\": %s", text, message);
    }
}

/* True if the text matches. Frees the text. */
static bool matches_text(char *text, const regex_t *regex) {
    bool matches = regexec(regex, text, 0, NULL, 0) == 0;
    free(text);
    return matches;
}

/* True if the function's name, its name as it is printed, or its file:line matches. Each of them is
 * compared by itself, so that ^ and $ stand for its ends. */
static bool matches_function(const struct model_function *function, const regex_t *regex) {
    if (function->name && (regexec(regex, function->name, 0, NULL, 0) == 0 ||
                           matches_text(shorten_function(function->name), regex)))
        return true;
    return function->file && function->line > 0 &&
           matches_text(cli_format("%s:%" PRId64, shorten_path(function->file), function->line),
                        regex);
}

bool view_matches_frame(const struct model *model, const struct model_frame *frame,
                        const regex_t *regex) {
    if (frame->kind == WIRE_KIND_ROOT)
        return false;
    const char *module = frame->module == WIRE_NONE ? NULL : model->modules[frame->module].path;
    bool matches = matches_text(frames_write_frame(model, frame, true), regex) ||
                   (module && (regexec(regex, module, 0, NULL, 0) == 0 ||
                               regexec(regex, shorten_path(module), 0, NULL, 0) == 0));
    for (uint32_t i = 0; !matches && frame->names && i < frame->names->count; i++)
        matches = matches_function(&frame->names->functions[i], regex);
    return matches;
}

bool view_matches_tails(const struct model *model, const struct model_frame *frame,
                        const regex_t *regex) {
    const struct model_tails *tails = tails_of_frame(model, frame);
    for (uint32_t i = 0; tails && i < tails->count; i++)
        if (view_matches_frame(model, &tails->frames[i], regex))
            return true;
    return false;
}

bool view_matches_site(const struct model *model, const struct model_context *context,
                       const regex_t *regex) {
    return model_totals_any(&context->figures->self) &&
           (view_matches_frame(model, context->frame, regex) ||
            (tails_to_malloc(model, context) && view_matches_tails(model, context->frame, regex)));
}

static void add_weights(struct view *view, const struct model *model) {
    for (size_t i = 0; i < model->context_count; i++) {
        view->weights[i] = !view->included || view->included[i]
                               ? view_key(&model->contexts[i].figures->self, view->sort)
                               : 0;
    }
    /* The root's own peak is the peak of the whole process. Added to the peaks of other contexts,
     * it would count their chunks twice. */
    if (view->sort == VIEW_SORT_PEAK && model->context_count > 1)
        view->weights[0] = 0;
    for (size_t i = model->context_count; i-- > 1;) {
        int64_t *sum = &view->weights[model->contexts[i].parent];
        if (__builtin_add_overflow(*sum, view->weights[i], sum))
            *sum = INT64_MAX;
    }
}

bool view_chooses(const struct view_options *options) {
    return options->site || options->contexts;
}

void view_make(struct view *view, const struct model *model, const struct view_options *options) {
    size_t count = model->context_count;
    *view = (struct view){.sort = options->sort};
    if (options->contexts)
        view->included = selector_members(model, options->contexts);
    if (options->site) {
        regex_t regex;
        bool *before = view->included;
        view_compile_site(&regex, options->site);
        view->included = cli_alloc(count, sizeof *view->included);
        for (size_t i = 0; i < count; i++)
            view->included[i] =
                (!before || before[i]) && view_matches_site(model, &model->contexts[i], &regex);
        regfree(&regex);
        free(before);
    }
    view->weights = cli_alloc(count, sizeof *view->weights);
    add_weights(view, model);
    view->threshold =
        options->min_bytes >= 0 ? options->min_bytes : view->weights[0] / DEFAULT_SHARE + 1;
    if (!view_chooses(options) && options->min_bytes < 0 && options->levels < 0)
        return;
    view->shown = cli_alloc(count, sizeof *view->shown);
    for (size_t i = count; i-- > 0;) {
        const struct model_context *context = &model->contexts[i];
        bool wanted = (!view->included || view->included[i]) &&
                      (options->min_bytes < 0 || view->weights[i] >= options->min_bytes) &&
                      (options->levels < 0 || context->level <= options->levels);
        view->shown[i] = view->shown[i] || wanted || i == 0;
        if (view->shown[i] && context->parent != WIRE_NONE)
            view->shown[context->parent] = true;
    }
}

struct sort_item {
    int64_t weight;
    uint32_t index, id;
};

static int compare_items(const void *a, const void *b) {
    const struct sort_item *left = a, *right = b;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static uint32_t *sort_items(struct sort_item *items, size_t count) {
    uint32_t *indices = cli_alloc(count, sizeof *indices);
    qsort(items, count, sizeof *items, compare_items);
    for (size_t i = 0; i < count; i++)
        indices[i] = items[i].index;
    free(items);
    return indices;
}

uint32_t *view_sort_leaves(const struct view *view, const struct model *model, size_t *count) {
    struct sort_item *items = cli_alloc(model->context_count, sizeof *items);
    *count = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        if ((!view->included || view->included[i]) && model_totals_any(self)) {
            items[(*count)++] =
                (struct sort_item){view_key(self, view->sort), (uint32_t)i, model->contexts[i].id};
        }
    }
    return sort_items(items, *count);
}

uint32_t *view_sort_children(const struct view *view, const struct model *model, uint32_t index,
                             size_t *count) {
    size_t capacity = 0;
    for (uint32_t at = model->contexts[index].first_child; at != WIRE_NONE;
         at = model->contexts[at].next_sibling)
        capacity++;
    struct sort_item *items = cli_alloc(capacity, sizeof *items);
    *count = 0;
    for (uint32_t at = model->contexts[index].first_child; at != WIRE_NONE;
         at = model->contexts[at].next_sibling)
        items[(*count)++] = (struct sort_item){view->weights[at], at, model->contexts[at].id};
    return sort_items(items, *count);
}
