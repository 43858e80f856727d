/* SPDX-License-Identifier: MIT */
/* best.c - loads only the contexts with the largest figures of the sort key, for a short list. */
#include "verbs/best.h"

#include <stdlib.h>
#include <string.h>

#include "model/folding.h"

/* The longest list that best_load serves. The path of each context in it costs a request. */
#define LIMIT_MAX 500

struct best {
    uint32_t id;
    int64_t key; /* the context's figure of the sort key */
    struct model_totals self;
};

struct survey {
    enum view_sort sort;
    struct best *best; /* sorted by falling figures, then by rising ids */
    size_t best_count, limit;
    int64_t minimum;  /* --min: contexts with a smaller figure are left out */
    uint64_t next_id; /* the next context has this id or a higher one */
    /* matches[number of a frame]: true if the frame matches --site; NULL without --site. A frame
     * that was added later has no entry and does not match. */
    bool *matches;
    size_t frame_count;
    size_t matched; /* number of matching contexts */
    int64_t matched_bytes;
    /* A hash table of the ids of the loaded contexts. loaded_room is a power of two. */
    uint32_t *loaded; /* id + 1; 0: free */
    size_t loaded_count, loaded_room;
};

static enum wire_figure figure_of(enum view_sort sort) {
    switch (sort) {
    case VIEW_SORT_REQUESTED: return WIRE_FIGURE_REQUESTED;
    case VIEW_SORT_CHUNKS: return WIRE_FIGURE_CHUNKS;
    case VIEW_SORT_ALLOCS: return WIRE_FIGURE_ALLOCS;
    case VIEW_SORT_FREES: return WIRE_FIGURE_FREES;
    case VIEW_SORT_PEAK: return WIRE_FIGURE_PEAK;
    default: return WIRE_FIGURES; /* the target cannot sort by this key */
    }
}

static struct model_totals totals_of(const struct wire_sums *sums) {
    return (struct model_totals){.requested_bytes = sums->requested_bytes,
                                 .live_chunks = sums->live_chunks,
                                 .allocs = sums->allocs,
                                 .frees = sums->frees,
                                 .requested_cum_bytes = sums->requested_cum_bytes,
                                 .peak_requested_bytes = sums->peak_requested_bytes};
}

/* --- the best -------------------------------------------------------------------------------- */

/* Puts the context into the list of the best if its figure is large enough. The list stays sorted,
 * and has at most `limit` contexts. */
static void consider(struct survey *survey, uint32_t id, const struct model_totals *self) {
    int64_t key = view_key(self, survey->sort);
    size_t place = survey->best_count;
    if (key < survey->minimum)
        return;
    while (place > 0 && survey->best[place - 1].key < key)
        place--;
    if (place == survey->limit)
        return;
    if (survey->best_count < survey->limit)
        survey->best_count++;
    memmove(&survey->best[place + 1], &survey->best[place],
            (survey->best_count - place - 1) * sizeof *survey->best);
    survey->best[place] = (struct best){id, key, *self};
}

/* Returns the smallest figure with which the next context enters the list of the best. A full list
 * takes only a larger figure than its last one: contexts come by rising ids, and of two equal
 * figures the one with the lower id is better. */
static int64_t least_of(const struct survey *survey) {
    if (survey->best_count < survey->limit)
        return survey->minimum;
    int64_t last = survey->best[survey->limit - 1].key;
    return last < INT64_MAX ? last + 1 : last;
}

static struct model_frame *frame_of(struct model *model, const struct wire_context *context,
                                    char *label) {
    struct model_frame frame = {.address = context->address,
                                .module = context->module,
                                .kind = context->kind,
                                .exact_address = context->exact_address != 0,
                                .label = label};
    return model_find_frame(model, &frame);
}

/* Checks that the ids of the contexts rise. */
static bool is_in_order(struct loader *loader, const struct wire_context *context) {
    struct survey *survey = loader->visit_argument;
    if (context->id < survey->next_id) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged dump; context %u occurs twice or out of order; take it again",
                        loader->model->source, context->id);
    }
    survey->next_id = (uint64_t)context->id + 1;
    return true;
}

static enum loader_visit visit_frame(struct loader *loader, const struct wire_context *context,
                                     const struct wire_sums *sums, char *label) {
    (void)sums;
    if (!is_in_order(loader, context))
        return LOADER_FAIL;
    frame_of(loader->model, context, label);
    return LOADER_DROP;
}

static enum loader_visit visit_best(struct loader *loader, const struct wire_context *context,
                                    const struct wire_sums *sums, char *label) {
    struct survey *survey = loader->visit_argument;
    if (!is_in_order(loader, context))
        return LOADER_FAIL;
    if (!sums)
        return LOADER_DROP;
    struct model_totals self = totals_of(sums);
    if (survey->matches) {
        uint32_t number = frame_of(loader->model, context, label)->number;
        if (number >= survey->frame_count || !survey->matches[number])
            return LOADER_DROP;
        survey->matched++;
        survey->matched_bytes = model_add(survey->matched_bytes, self.requested_bytes);
    }
    consider(survey, context->id, &self);
    return LOADER_DROP;
}

/* Asks for all contexts in pieces, and calls `visit` for each context that the target sends.
 * `adapt`: asks only for contexts that may be among the best. */
static void look_at_all(struct target *target, struct survey *survey, bool adapt,
                        enum loader_visit (*visit)(struct loader *, const struct wire_context *,
                                                   const struct wire_sums *, char *)) {
    struct loader *loader = &target->loader;
    struct wire_piece_request request = {
        .part = WIRE_PART_BEST, .figure = figure_of(survey->sort), .ids_below = loader->contexts};
    uint64_t before;
    survey->next_id = 0;
    loader->survey = (struct wire_survey){.root_peak_bytes = WIRE_UNKNOWN};
    loader->visit = visit;
    loader->visit_argument = survey;
    do {
        before = request.from;
        request.least = adapt ? least_of(survey) : INT64_MIN;
        target_ask_piece(target, &request);
    } while (request.from > before);
    loader->visit = NULL;
}

/* --- a site ---------------------------------------------------------------------------------- */

/* Asks for the modules that are not loaded yet. */
static void ask_modules(struct target *target) {
    struct wire_piece_request request = {.part = WIRE_PART_MODULES,
                                         .from = target->loader.model->module_count};
    target_ask_pieces(target, &request);
}

/* Finds the frames that match --site: loads the frames of all contexts, and looks up their names.
 */
static void find_matches(struct target *target, struct model *model, struct survey *survey,
                         const char *site, const struct reading_names *names) {
    regex_t regex;
    look_at_all(target, survey, false, visit_frame);
    ask_modules(target);
    if (!loader_check_frames(&target->loader))
        cli_die_failure(&target->failure);
    reading_resolve_sites(model, target, names);
    model->has_names = false; /* frames that are added later need names, too */
    view_compile_site(&regex, site);
    survey->frame_count = model->frame_count;
    survey->matches = cli_alloc(survey->frame_count, sizeof *survey->matches);
    for (struct model_frame *frame = model->frames; frame; frame = frame->next)
        survey->matches[frame->number] =
            view_matches_frame(model, frame, &regex) || view_matches_tails(model, frame, &regex);
    regfree(&regex);
}

/* --- paths ----------------------------------------------------------------------------------- */

static uint32_t *find_loaded(const struct survey *survey, uint32_t id) {
    uint32_t hash = id * 0x9e3779b1U;
    size_t at = hash & (survey->loaded_room - 1);
    while (survey->loaded[at] != 0 && survey->loaded[at] != id + 1)
        at = (at + 1) & (survey->loaded_room - 1);
    return &survey->loaded[at];
}

/* Adds an id to the loaded ones. Returns true if it is new. */
static bool add_loaded(struct survey *survey, uint32_t id) {
    if (2 * survey->loaded_count >= survey->loaded_room) {
        struct survey old = *survey;
        survey->loaded_room = old.loaded_room > 0 ? 2 * old.loaded_room : 1024;
        survey->loaded = cli_alloc(survey->loaded_room, sizeof *survey->loaded);
        for (size_t i = 0; i < old.loaded_room; i++)
            if (old.loaded[i] != 0)
                *find_loaded(survey, old.loaded[i] - 1) = old.loaded[i];
        free(old.loaded);
    }
    uint32_t *slot = find_loaded(survey, id);
    bool is_new = *slot == 0;
    *slot = id + 1;
    survey->loaded_count += is_new;
    return is_new;
}

static enum loader_visit visit_path(struct loader *loader, const struct wire_context *context,
                                    const struct wire_sums *sums, char *label) {
    (void)sums;
    (void)label;
    return add_loaded(loader->visit_argument, context->id) ? LOADER_KEEP : LOADER_DROP;
}

static void ask_path(struct target *target, uint32_t id) {
    struct wire_piece_request request = {.part = WIRE_PART_PATH, .from = WIRE_FROM_ID(id)};
    target_ask_pieces(target, &request);
}

/* Asks for the root, and for the best contexts with their ancestors. A recursive context names the
 * innermost context of its loop (recursive_from), so that context is asked for, too. */
static void ask_paths(struct target *target, struct survey *survey) {
    struct loader *loader = &target->loader;
    loader->visit = visit_path;
    loader->visit_argument = survey;
    ask_path(target, 0);
    for (size_t i = 0; i < survey->best_count; i++)
        ask_path(target, survey->best[i].id);
    size_t count = loader->model->context_count;
    for (size_t i = 0; i < count; i++) {
        uint32_t from = loader->model->contexts[i].recursive_from;
        if (from < loader->contexts && *find_loaded(survey, from) == 0)
            ask_path(target, from);
    }
    loader->visit = NULL;
}

/* --- the short list -------------------------------------------------------------------------- */

/* Gives the best contexts the figures that the survey found. Ancestors that are not among the best
 * get no figures of their own: model->left_out has the sums of all contexts but the best. */
static void set_figures(struct model *model, const struct survey *survey,
                        const struct wire_survey *all) {
    struct model_totals *rest = &model_own_figures(model, &model->left_out)->self;
    *rest = (struct model_totals){.requested_bytes = all->requested_bytes,
                                  .live_chunks = all->live_chunks,
                                  .allocs = all->allocs,
                                  .frees = all->frees,
                                  .requested_cum_bytes = all->requested_cum_bytes};
    bool chosen = survey->matches != NULL;
    model->left_out_bytes = chosen ? survey->matched_bytes : all->requested_bytes;
    model->left_out_leaves = (chosen ? survey->matched : all->with_figures) - survey->best_count;
    for (size_t i = 0; i < model->context_count; i++)
        model->contexts[i].figures = model_figures_at(model, 0);
    for (size_t i = 0; i < survey->best_count; i++) {
        const struct model_totals *self = &survey->best[i].self;
        uint32_t index = model_find_context(model, survey->best[i].id);
        if (index == WIRE_NONE)
            continue;
        model_own_figures(model, &model->contexts[index])->self = *self;
        model->left_out_bytes = model_subtract(model->left_out_bytes, self->requested_bytes);
        rest->requested_bytes = model_subtract(rest->requested_bytes, self->requested_bytes);
        rest->live_chunks = model_subtract(rest->live_chunks, self->live_chunks);
        rest->allocs = model_subtract(rest->allocs, self->allocs);
        rest->frees = model_subtract(rest->frees, self->frees);
        rest->requested_cum_bytes =
            model_subtract(rest->requested_cum_bytes, self->requested_cum_bytes);
    }
    model_own_figures(model, &model->contexts[0])->self.peak_requested_bytes = all->root_peak_bytes;
    model->left_out_shares = (struct folding_shares){
        .full_bytes = all->requested_bytes - all->labelled_bytes - all->merged_bytes,
        .full_allocs = all->allocs - all->labelled_allocs - all->merged_allocs,
        .merged_bytes = all->merged_bytes,
        .merged_allocs = all->merged_allocs};
    model->left_out_count =
        all->contexts > model->context_count ? all->contexts - model->context_count : 0;
}

bool best_load(struct target *target, struct model *model,
               const struct target_load_options *options, const struct view_options *view,
               int64_t limit, const struct reading_names *names) {
    struct survey survey = {.sort = view->sort, .limit = (size_t)limit, .minimum = INT64_MIN};
    struct loader *loader = &target->loader;
    if (limit <= 0 || limit > LIMIT_MAX || figure_of(view->sort) == WIRE_FIGURES)
        return false;
    if (view->min_bytes >= 0)
        survey.minimum = view->min_bytes;
    loader_begin(loader, model, target->client.source, &target->failure);
    target_ask_head(target, WIRE_DUMP_BEGIN);
    survey.best = cli_alloc(survey.limit + 1, sizeof *survey.best);
    if (view->site)
        find_matches(target, model, &survey, view->site, names);
    look_at_all(target, &survey, !view->site, visit_best);
    ask_paths(target, &survey);
    ask_modules(target);
    target_load_begun(target, model, options);
    set_figures(model, &survey, &loader->survey);
    free(survey.best);
    free(survey.matches);
    free(survey.loaded);
    loader->partial = true;
    target_load_rest(target, model, options);
    return true;
}
