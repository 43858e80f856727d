/* SPDX-License-Identifier: MIT */
/* turns.c - finds chunks that several call paths make larger in turn. Does not find several paths
 * that leak new chunks: each of these grows by itself. */
#include "diagnosis/turns.h"

#include <stdlib.h>
#include <string.h>

#include "diagnosis/replaced.h"

/* A chunk that moves is lost by one path and gained by another. So paths take turns if, in the
 * intervals, together they lost at least 1/MOVED_BYTES of the bytes that they gained, or
 * 1/MOVED_CHUNKS of the chunks. */
#define MOVED_BYTES 4
#define MOVED_CHUNKS 2
/* A path that grows by itself, by this share of the site's growth, is judged alone. */
#define ALONE_PER_CENT 75
#define LEAST_BYTES (256 * KIB) /* a site that grew by less is not judged */
/* to save time, at most SITES_MOST sites become suspects, and no site with more than MEMBERS_MOST
 * paths is judged */
#define SITES_MOST 200
#define MEMBERS_MOST 1000

/* A path and the key of its site. */
struct place {
    uint64_t key;
    uint32_t number;
    /* sums over the intervals */
    int64_t gained, lost; /* bytes */
    int64_t gained_chunks, lost_chunks;
};

static int by_site(const void *a, const void *b) {
    const struct place *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    if (left->gained != right->gained)
        return left->gained > right->gained ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Finds the sums of what a path gained and lost between two looks. */
static void find_moves(const struct series *series, struct place *place) {
    for (size_t i = 1; i < series->samples->count; i++) {
        const struct sample_row *from = &series->rows[i - 1][place->number];
        const struct sample_row *to = &series->rows[i][place->number];
        int64_t bytes = to->requested_bytes - from->requested_bytes;
        int64_t chunks = to->live_chunks - from->live_chunks;
        place->gained_chunks = model_tame(place->gained_chunks + larger(0, chunks));
        place->lost_chunks = model_tame(place->lost_chunks + larger(0, -chunks));
        place->gained = model_tame(place->gained + larger(0, bytes));
        place->lost = model_tame(place->lost + larger(0, -bytes));
    }
}

/* Returns the paths that gained bytes in some interval, sorted by their sites. The caller frees the
 * list. */
static struct place *find_places(const struct look *look, const struct series *series,
                                 size_t *count) {
    size_t paths = look->model->figures_count;
    struct place *places = cli_alloc(paths, sizeof *places);
    bool *wanted = cli_alloc(paths, sizeof *wanted);
    *count = 0;
    for (uint32_t i = 1; i < paths; i++) {
        uint32_t context = model_figures_at(look->model, i)->context;
        if (look->paths.same[i] != i || context == WIRE_NONE || context == 0)
            continue;
        struct place place = {.number = i};
        find_moves(series, &place);
        if (place.gained == 0)
            continue;
        wanted[i] = true;
        places[(*count)++] = place;
    }
    uint64_t *keys = replaced_sites(look, wanted);
    for (size_t i = 0; i < *count; i++)
        places[i].key = keys[places[i].number];
    qsort(places, *count, sizeof *places, by_site);
    free(keys);
    free(wanted);
    return places;
}

/* Judges the sum of the paths. Its kind is TREND_NONE if the paths take no turns, if one path
 * alone grew about as much, or if new chunks rather than larger ones made the sum grow. */
static struct growth judge(struct series *series, const int64_t *figures,
                           const struct place *places, size_t count) {
    int64_t alone = 0;
    struct place sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.gained = model_tame(sum.gained + places[i].gained);
        sum.lost = model_tame(sum.lost + places[i].lost);
        sum.gained_chunks = model_tame(sum.gained_chunks + places[i].gained_chunks);
        sum.lost_chunks = model_tame(sum.lost_chunks + places[i].lost_chunks);
        alone = larger(alone, figures[places[i].number]);
    }
    bool move = sum.lost >= sum.gained / MOVED_BYTES ||
                (sum.lost_chunks > 0 && sum.lost_chunks >= sum.gained_chunks / MOVED_CHUNKS);
    if (!move || sum.gained - sum.lost < LEAST_BYTES)
        return (struct growth){0};
    for (size_t i = 0; i < count; i++)
        series_add(series, places[i].number);
    struct growth growth = growth_of(series, series->sum);
    for (size_t i = 0; i < series->samples->count; i++)
        series->rows[i][series->sum] = (struct sample_row){0};
    if (growth.bytes < LEAST_BYTES || alone / ALONE_PER_CENT >= growth.bytes / 100 ||
        (growth.kind != TREND_STEPS && growth.chunks > 0 &&
         growth.chunks * growth.mean_bytes > growth.bytes / 2))
        growth.kind = TREND_NONE;
    growth.in_turns = true;
    return growth;
}

/* Returns the function of the program that is nearest to malloc. */
static struct who_step function_of(const struct model *model, uint32_t context) {
    struct who_step step = who_first(model, context);
    while (step.context != WIRE_NONE && who_kind_of(model, step) != WHO_MEANS)
        step = who_next(model, step);
    return step.context == WIRE_NONE ? who_first(model, context) : step;
}

/* Makes a suspect of one path. It has the path's share of what all paths of the site gained. */
static struct blame_suspect accuse(const struct look *look, const struct place *place,
                                   int64_t figure) {
    uint32_t context = model_figures_at(look->model, place->number)->context;
    struct blame_suspect suspect = {.figure = figure, .count = 1};
    suspect.members = cli_alloc(1, sizeof *suspect.members);
    suspect.members[0] = context;
    suspect.frames = look->model->contexts[context].level;
    blame_add_alike(&look->paths, &suspect);
    /* not the whole path, so that the text shows the callers of the function that all paths share
     */
    suspect.frames = suspect.frames > 2 ? suspect.frames - 1 : suspect.frames;
    return suspect;
}

/* Makes a joined suspect of the paths of a site. */
static struct blame_suspect accuse_all(const struct look *look, struct growth *growths,
                                       int64_t *figures, const struct place *places, size_t count,
                                       const struct growth *growth) {
    const struct model *model = look->model;
    struct blame_suspect all = {0};
    int64_t gained = 0;
    for (size_t i = 0; i < count; i++)
        gained = model_tame(gained + places[i].gained);
    for (size_t i = 0; i < count; i++) {
        double part = (double)places[i].gained / (double)larger(1, gained);
        struct blame_suspect one =
            accuse(look, &places[i], (int64_t)(part * (double)growth->bytes));
        if (i == 0)
            all = one;
        else
            blame_join(model, &all, &one, function_of(model, all.members[0]));
        growths[places[i].number] = (struct growth){0};
        figures[places[i].number] = 0;
    }
    all.figure = growth->bytes;
    growths[look->paths.same[blame_number(&look->paths, all.members[0])]] = *growth;
    return all;
}

void turns_find(const struct look *look, struct series *series, struct growth *growths,
                int64_t *figures, struct blame *turns) {
    size_t count;
    struct place *places = find_places(look, series, &count);
    *turns = (struct blame){.suspects = cli_alloc(SITES_MOST, sizeof *turns->suspects)};
    for (size_t first = 0, end; first < count && turns->count < SITES_MOST; first = end) {
        for (end = first + 1; end < count && places[end].key == places[first].key; end++) {
        }
        if (end - first < 2 || end - first > MEMBERS_MOST)
            continue;
        struct growth growth = judge(series, figures, places + first, end - first);
        if (growth.kind != TREND_NONE)
            turns->suspects[turns->count++] =
                accuse_all(look, growths, figures, places + first, end - first, &growth);
    }
    free(places);
}
