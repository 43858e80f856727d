/* SPDX-License-Identifier: MIT */
/* replaced.c - compares the growth of a suspect with other call paths that shrink. */
#include "diagnosis/replaced.h"

#include <stdlib.h>

#include "model/folding.h"

/* The *site* of a call path: the place that allocates. It is the innermost return address, unless
 * that lies in a wrapper of malloc or in a library, which the whole program may share. Then the
 * site is the function that called the wrapper or the library. */
struct sites {
    const struct model *model;
    /* for each frame, by its number */
    struct site_frame {
        bool known;
        uint64_t own;      /* key of the return address; 0: it lies in a wrapper or a library */
        uint64_t function; /* key of the frame's innermost function that is neither; 0: none */
    } * frames;
    uint64_t *falling; /* keys of the sites of series->falling */
    /* the paths that shrank in the second half of the looks, and the keys of their sites */
    size_t *late, late_count;
    uint64_t *late_sites;
    uint64_t *keys; /* of the site of each path, by its number; NULL: not known yet */
};

static bool is_shared_code(const struct model *model, struct who_step step) {
    enum who_kind kind = who_kind_of(model, step);
    return kind == WHO_ALLOCATOR || kind == WHO_LIBRARY || kind == WHO_RUNTIME;
}

/* Returns the keys of the context's frame. They are found once for each frame, because it takes
 * time to find the kind of a function. */
static const struct site_frame *site_frame_of(struct sites *sites, uint32_t context) {
    const struct model *model = sites->model;
    const struct model_frame *frame = model->contexts[context].frame;
    struct site_frame *found = &sites->frames[frame->number];
    if (found->known)
        return found;
    struct who_step step = who_first(model, context);
    enum who_kind kind = step.context == context ? who_kind_of(model, step) : WHO_RUNTIME;
    found->known = true;
    if (kind != WHO_ALLOCATOR && kind != WHO_LIBRARY)
        found->own = folding_mix(folding_mix(1, frame->kind), frame->address) | 1;
    while (step.context == context && is_shared_code(model, step))
        step = who_next(model, step);
    if (step.context == context)
        found->function = who_key(model, step) | 1;
    return found;
}

/* Returns the key of the context's site. */
static uint64_t site_of(struct sites *sites, uint32_t context) {
    const struct model *model = sites->model;
    const struct model_frame *frame = model->contexts[context].frame;
    uint64_t own = site_frame_of(sites, context)->own, function = 0;
    for (; own == 0 && function == 0 && model->contexts[context].parent != WIRE_NONE;
         context = model->contexts[context].parent)
        function = site_frame_of(sites, context)->function;
    return own != 0        ? own
           : function != 0 ? function
                           : folding_mix(folding_mix(1, frame->kind), frame->address) | 1;
}

/* Returns by how many bytes a path shrank between two looks. `number` is the index of the path's
 * figures. */
static int64_t bytes_lost(const struct series *series, size_t number, size_t before, size_t after) {
    return series->rows[before][number].requested_bytes -
           series->rows[after][number].requested_bytes;
}

/* Finds the paths that shrank in the second half of the looks. */
static void find_late(struct sites *sites, const struct series *series) {
    const struct model *model = sites->model;
    size_t middle = series->few[series->few_count / 2], last = series->few[series->few_count - 1];
    sites->late = cli_alloc(model->figures_count, sizeof *sites->late);
    sites->late_sites = cli_alloc(model->figures_count, sizeof *sites->late_sites);
    for (size_t i = 1; i < model->figures_count; i++) {
        uint32_t context = model_figures_at(model, i)->context;
        if (context == WIRE_NONE || context == 0 || bytes_lost(series, i, middle, last) <= 0)
            continue;
        sites->late_sites[sites->late_count] = site_of(sites, context);
        sites->late[sites->late_count++] = i;
    }
}

static void sites_make(struct sites *sites, const struct look *look, const struct series *series) {
    const struct model *model = look->model;
    *sites = (struct sites){.model = model,
                            .frames = cli_alloc(model->frame_count, sizeof *sites->frames),
                            .falling = cli_alloc(series->falling_count, sizeof(uint64_t))};
    for (size_t k = 0; k < series->falling_count; k++) {
        uint32_t context = model_figures_at(model, series->falling[k])->context;
        if (series->falling[k] != 0 && context != WIRE_NONE && context != 0)
            sites->falling[k] = site_of(sites, context);
    }
    find_late(sites, series);
}

static void sites_free(struct sites *sites) {
    free(sites->frames);
    free(sites->falling);
    free(sites->late);
    free(sites->late_sites);
    free(sites->keys);
}

/* Returns by how much falling paths with this site shrank between two samples. */
static struct sample_row lost_at_site(const struct series *series, const struct sites *sites,
                                      uint64_t site, size_t before, size_t after) {
    struct sample_row lost = {0};
    for (size_t k = 0; k < series->falling_count; k++) {
        size_t i = series->falling[k];
        if (sites->falling[k] != site)
            continue;
        int64_t chunks = series->rows[before][i].live_chunks - series->rows[after][i].live_chunks;
        lost.requested_bytes =
            model_tame(lost.requested_bytes + bytes_lost(series, i, before, after));
        lost.live_chunks = model_tame(lost.live_chunks + chunks);
    }
    return lost;
}

/* Returns how many bytes were lost between two samples by the paths that have this site and shrank
 * in the second half of the looks. */
static int64_t lost_late(const struct series *series, const struct sites *sites, uint64_t site,
                         size_t before, size_t after) {
    int64_t lost = 0;
    for (size_t k = 0; k < sites->late_count; k++)
        if (sites->late_sites[k] == site)
            lost = model_tame(lost + bytes_lost(series, sites->late[k], before, after));
    return lost;
}

static bool are_near(int64_t gained, int64_t lost) {
    int64_t difference = gained > lost ? gained - lost : lost - gained;
    return gained > 0 && lost > 0 && difference <= larger(gained, lost) * 3 / 10;
}

/* True if so many of `intervals` match that this is hardly chance. */
static bool match_mostly(size_t matches, size_t intervals) {
    return intervals > 0 && matches >= (intervals > 2 ? intervals - 1 : intervals);
}

/* If the bytes that a suspect gained beyond what its site lost are less than 1/NET_PART of its
 * growth, the suspect replaced the bytes of its site. */
#define NET_PART 16

/* New chunks of a path replace as many freed chunks of other paths only if the freed chunks had at
 * least 1/SMALLER_PART of the bytes of the new ones. Otherwise memory grows: a program may free a
 * small job for each large result that it keeps. */
#define SMALLER_PART 4

/* Replacement in the second half of the looks is judged only if that half has so many intervals. */
#define LATE_INTERVALS 2

/* Chunks moved to a suspect if other paths of its site lost at least 1/MOVED_PART as many chunks as
 * the suspect gained, both in the same intervals. A suspect is judged with its site, too, if it has
 * at most 1/MOVED_PART of the site's growth. */
#define MOVED_PART 4
#define MOVED_SITES 50 /* to save time, only this many suspects are judged with their sites */

/* Returns what a suspect gained between two samples. */
static struct sample_row gained_by(const struct look *look, const struct series *series,
                                   const struct blame_suspect *suspect, size_t before,
                                   size_t after) {
    struct sample_row gained = {0};
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        const struct sample_row *from = &series->rows[before][number];
        const struct sample_row *to = &series->rows[after][number];
        gained.requested_bytes =
            model_tame(gained.requested_bytes + to->requested_bytes - from->requested_bytes);
        gained.live_chunks = model_tame(gained.live_chunks + to->live_chunks - from->live_chunks);
    }
    return gained;
}

/* True if other paths shrink as the suspect grows: a cache may be filled from one call path, and
 * its entries replaced from another. Each of these four patterns counts:
 *   1. In nearly each interval, shrinking paths lose about as many bytes (or, with `by_chunks`,
 *      chunks) as the suspect gains.
 *   2. In nearly each interval in which the suspect grows, the shrinking paths with its site lose
 *      at least half as many bytes.
 *   3. In the intervals in which the suspect grows, these paths lose nearly all that it gains, as
 *      when a configuration is read anew and all entries are replaced at once.
 *   4. In each interval of the second half of the looks, the paths with its site that shrank in
 *      that half lose about as many bytes as the suspect gains. The cache was filled before.
 * `lost`: what shrinking paths lost in each interval. */
static bool is_replacement(const struct look *look, const struct series *series,
                           struct sites *sites, const struct blame_suspect *suspect,
                           const struct sample_row *lost, bool by_chunks) {
    uint64_t site = site_of(sites, suspect->members[0]);
    size_t intervals = series->few_count - 1, matches = 0, rises = 0, at_site = 0;
    size_t late = intervals - series->few_count / 2, late_matches = 0;
    int64_t gained = 0, net = 0;
    for (size_t i = 1; i <= intervals; i++) {
        size_t before = series->few[i - 1], after = series->few[i];
        struct sample_row gain = gained_by(look, series, suspect, before, after);
        int64_t bytes = gain.requested_bytes;
        matches += are_near(bytes, lost[i].requested_bytes) ||
                   (by_chunks && are_near(gain.live_chunks, lost[i].live_chunks) &&
                    lost[i].requested_bytes >= bytes / SMALLER_PART);
        if (bytes <= 0)
            continue;
        struct sample_row from = lost_at_site(series, sites, site, before, after);
        /* A cache whose entries become smaller frees no chunks, so a leak beside it replaces none
         * of its chunks. */
        bool freed = from.live_chunks >= gain.live_chunks / SMALLER_PART;
        int64_t from_site = freed ? from.requested_bytes : 0;
        rises++;
        at_site += from_site >= larger(1, bytes / 2);
        gained = model_tame(gained + bytes);
        net = model_tame(net + larger(0, bytes - from_site));
        late_matches +=
            i > intervals - late && are_near(bytes, lost_late(series, sites, site, before, after));
    }
    return match_mostly(matches, intervals) || match_mostly(at_site, rises) ||
           net < gained / NET_PART || (late >= LATE_INTERVALS && late_matches == late);
}

/* True if realloc makes at least half of the chunks that the suspect allocates. */
static bool is_resized(const struct look *look, const struct series *series,
                       const struct blame_suspect *suspect) {
    int64_t reallocs = 0, allocs = 0;
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t number = blame_number(&look->paths, suspect->members[k]);
        reallocs = model_tame(reallocs + look_resizes(look, number).reallocs);
        allocs = model_tame(allocs + series->rows[series->samples->count - 1][number].allocs);
    }
    return reallocs >= allocs / 2;
}

/* Finds the sites of all paths. Called only if there is a suspect to judge with its site. */
static void find_keys(struct sites *sites, const struct look *look) {
    const struct model *model = look->model;
    sites->keys = cli_alloc(model->figures_count, sizeof *sites->keys);
    for (size_t i = 1; i < model->figures_count; i++) {
        uint32_t context = model_figures_at(model, i)->context;
        if (look->paths.same[i] == i && context != WIRE_NONE && context != 0)
            sites->keys[i] = site_of(sites, context);
    }
}

uint64_t *replaced_sites(const struct look *look, const bool *wanted) {
    const struct model *model = look->model;
    struct sites sites = {.model = model,
                          .frames = cli_alloc(model->frame_count, sizeof *sites.frames)};
    uint64_t *keys = cli_alloc(model->figures_count, sizeof *keys);
    for (size_t i = 1; i < model->figures_count; i++)
        if (wanted[i])
            keys[i] = site_of(&sites, model_figures_at(model, i)->context);
    free(sites.frames);
    return keys;
}

/* Sums the rows of a site's paths in the row series->sum. Returns how many chunks paths of the site
 * lost in the intervals in which the suspect gained chunks; adds the chunks that it gained to
 * *gained. */
static int64_t add_site(const struct look *look, struct series *series, const struct sites *sites,
                        const struct blame_suspect *suspect, int64_t *gained) {
    size_t count = series->samples->count;
    uint64_t site = sites->keys[look->paths.same[blame_number(&look->paths, suspect->members[0])]];
    bool *gains = cli_alloc(count, sizeof *gains);
    int64_t lost = 0;
    for (size_t i = 1; i < count; i++) {
        int64_t chunks = gained_by(look, series, suspect, i - 1, i).live_chunks;
        gains[i] = chunks > 0;
        *gained = model_tame(*gained + larger(0, chunks));
    }
    for (size_t n = 1; n < look->model->figures_count; n++) {
        if (sites->keys[n] != site)
            continue;
        series_add(series, n);
        for (size_t i = 1; i < count; i++)
            if (gains[i])
                lost = model_tame(lost + larger(0, series->rows[i - 1][n].live_chunks -
                                                       series->rows[i][n].live_chunks));
    }
    free(gains);
    return lost;
}

static int64_t row_gained(const struct series *series, size_t number) {
    return -bytes_lost(series, number, 0, series->samples->count - 1);
}

/* A text that becomes longer may be allocated by realloc on another path than before. So the chunks
 * of a table of texts move from path to path, while the table hardly grows. If chunks moved to a
 * suspect, or if the suspect is a small part of its site, judges the growth of all paths of its
 * site instead. Returns true if they do not grow; if their growth slows down, sets `slowing` for
 * the suspect's members. */
static bool judge_site(const struct look *look, struct series *series, const struct sites *sites,
                       struct growth *growths, const struct blame_suspect *suspect) {
    int64_t gained = 0, lost = add_site(look, series, sites, suspect, &gained);
    struct growth growth = {0};
    bool moved = (lost > 0 && lost >= gained / MOVED_PART) ||
                 suspect->figure <= row_gained(series, series->sum) / MOVED_PART;
    if (moved)
        growth = growth_of(series, series->sum);
    bool slowing = moved && (growth.slowing || growth_slackens(series, series->sum));
    for (size_t k = 0; k < suspect->count && slowing; k++)
        growths[look->paths.same[blame_number(&look->paths, suspect->members[k])]].slowing = true;
    for (size_t i = 0; i < series->samples->count; i++)
        series->rows[i][series->sum] = (struct sample_row){0};
    return moved && growth.kind == TREND_NONE;
}

/* Memory that was freed can be replaced only once. So the suspects that match it best, by bytes or
 * by their site, are found first, and what they replaced is subtracted before chunks are compared:
 * a leak of one small chunk for each entry that a cache replaces is no replacement. */
bool *replaced_find(const struct look *look, struct series *series, struct growth *growths,
                    const struct blame *blame) {
    struct sites sites;
    bool *replaced = cli_alloc(blame->count, sizeof *replaced);
    struct sample_row lost[TREND_FEW] = {{0}};
    sites_make(&sites, look, series);
    for (size_t i = 1; i < series->few_count; i++) {
        const struct sample_row *from = &series->shrinking[series->few[i - 1]];
        const struct sample_row *to = &series->shrinking[series->few[i]];
        lost[i].requested_bytes = from->requested_bytes - to->requested_bytes;
        lost[i].live_chunks = from->live_chunks - to->live_chunks;
    }
    for (size_t k = 0; k < blame->count; k++)
        replaced[k] = is_replacement(look, series, &sites, &blame->suspects[k], lost, false);
    for (size_t k = 0; k < blame->count; k++) {
        for (size_t i = 1; i < series->few_count && replaced[k]; i++) {
            struct sample_row gain =
                gained_by(look, series, &blame->suspects[k], series->few[i - 1], series->few[i]);
            lost[i].requested_bytes = model_tame(lost[i].requested_bytes - gain.requested_bytes);
            lost[i].live_chunks = model_tame(lost[i].live_chunks - gain.live_chunks);
        }
    }
    for (size_t k = 0; k < blame->count; k++)
        replaced[k] =
            replaced[k] || is_replacement(look, series, &sites, &blame->suspects[k], lost, true);
    for (size_t k = 0, judged = 0; k < blame->count && judged < MOVED_SITES; k++) {
        const struct blame_suspect *suspect = &blame->suspects[k];
        if (replaced[k] || !is_resized(look, series, suspect))
            continue;
        if (!sites.keys)
            find_keys(&sites, look);
        replaced[k] = judge_site(look, series, &sites, growths, suspect);
        judged++;
    }
    sites_free(&sites);
    return replaced;
}
