/* SPDX-License-Identifier: MIT */
/* paired.c - compares the live chunks of paths that allocate equally often. It finds no leak of
 * objects of which all chunks are forgotten, and none in objects with one chunk. */
#include "diagnosis/paired.h"

#include <stdlib.h>

#define LOOKS_MIN 5     /* fewer looks show no even rise */
#define ALLOCS_MIN 1000 /* a path with fewer allocations is not compared */
#define CHUNKS_MIN 64   /* the difference rises by so many chunks or more */
#define NEIGHBOURS 16   /* to save time, a path is compared with at most so many others */
#define ALLOCS_DIFFER                                                                              \
    64 /* in each interval the allocations differ by at most 1/64, and by ALLOWED */
#define ALLOWED 16
/* The difference changes by at most 1/SWING of what the numbers of chunks change by. */
#define SWING 4
/* The difference rises in RISES_MIN intervals or more. The rise that is expected in an interval is
 * the interval's share of the freed chunks times the whole rise. Each rise differs from it by at
 * most 1/UNEVEN of it, and ALLOWED: a look may come between the allocations, or the frees, of one
 * object's chunks. */
#define RISES_MIN 3
#define UNEVEN 2
#define DAY_S 86400.0

struct candidate {
    size_t number; /* of the figures */
    int64_t allocs;
};

static int compare_allocs(const void *a, const void *b) {
    const struct candidate *one = a, *other = b;
    return one->allocs != other->allocs   ? (one->allocs < other->allocs ? -1 : 1)
           : one->number != other->number ? (one->number < other->number ? -1 : 1)
                                          : 0;
}

static const struct sample_row *row_at(const struct series *series, size_t sample, size_t number) {
    return &series->rows[sample][number];
}

static int64_t magnitude(int64_t value) {
    return value < 0 ? -value : value;
}

static int64_t allocs_in(const struct series *series, size_t number, size_t interval) {
    return row_at(series, interval, number)->allocs - row_at(series, interval - 1, number)->allocs;
}

static int64_t change_in(const struct series *series, size_t number, size_t interval) {
    return row_at(series, interval, number)->live_chunks -
           row_at(series, interval - 1, number)->live_chunks;
}

/* True if the number of the path's live chunks rises in some intervals and falls in others. */
static bool swings(const struct series *series, size_t number) {
    bool rises = false, falls = false;
    for (size_t i = 1; i < series->samples->count; i++) {
        rises |= change_in(series, number, i) > 0;
        falls |= change_in(series, number, i) < 0;
    }
    return rises && falls;
}

static bool allocate_alike(const struct series *series, size_t a, size_t b) {
    for (size_t i = 1; i < series->samples->count; i++) {
        int64_t allocs = allocs_in(series, a, i);
        if (allocs < 0 ||
            magnitude(allocs - allocs_in(series, b, i)) > allocs / ALLOCS_DIFFER + ALLOWED)
            return false;
    }
    return true;
}

static int64_t frees_in(const struct series *series, size_t number, size_t interval) {
    return allocs_in(series, number, interval) - change_in(series, number, interval);
}

/* Returns by how many chunks path `a` grew more than path `b`; 0 if the difference swings as the
 * paths do, or does not rise as often as chunks of `b` are freed. */
static int64_t rise_beside(const struct series *series, size_t a, size_t b) {
    size_t last = series->samples->count - 1, rises = 0;
    int64_t rise = 0, swing = 0, frees = 0;
    for (size_t i = 1; i <= last; i++) {
        rise += change_in(series, a, i) - change_in(series, b, i);
        swing += magnitude(change_in(series, a, i));
        frees += frees_in(series, b, i);
    }
    if (rise < CHUNKS_MIN || rise > swing / SWING || frees < rise)
        return 0;
    for (size_t i = 1; i <= last; i++) {
        int64_t step = change_in(series, a, i) - change_in(series, b, i);
        int64_t wanted = model_share(rise, larger(0, frees_in(series, b, i)), frees);
        if (magnitude(step - wanted) > wanted / UNEVEN + ALLOWED)
            return 0;
        rises += step > ALLOWED;
    }
    return rises >= RISES_MIN ? rise : 0;
}

static void take_growth(const struct series *series, size_t number, size_t other, int64_t rise,
                        struct growth *growth) {
    size_t last = series->samples->count - 1;
    const struct sample_row *from = row_at(series, 0, number), *to = row_at(series, last, number);
    int64_t mean = to->requested_bytes / larger(1, to->live_chunks);
    *growth = (struct growth){.kind = TREND_STEADY,
                              .bytes = model_tame(rise * mean),
                              .chunks = rise,
                              .allocs = larger(0, to->allocs - from->allocs),
                              .live = to->live_chunks,
                              .mean_bytes = mean,
                              .seconds = series->seconds[last] - series->seconds[0],
                              .beside = other};
    growth->a_day = growth->seconds > 0 ? (double)growth->bytes / growth->seconds * DAY_S : 0;
}

/* Compares a candidate with those that allocate about as often in all, which stand behind it. */
static void compare(const struct series *series, const struct candidate *list, size_t count,
                    size_t at, struct growth *growths, int64_t *figures) {
    for (size_t k = at + 1; k < count && k <= at + NEIGHBOURS; k++) {
        size_t a = list[at].number, b = list[k].number;
        if (!allocate_alike(series, a, b))
            continue;
        int64_t rise = rise_beside(series, a, b);
        if (rise == 0) {
            rise = rise_beside(series, b, a);
            a = list[k].number;
            b = list[at].number;
        }
        if (rise > 0 && figures[a] == 0) {
            take_growth(series, a, b, rise, &growths[a]);
            figures[a] = growths[a].bytes;
        }
    }
}

void paired_find(const struct look *look, const struct series *series, struct growth *growths,
                 int64_t *figures) {
    size_t paths = look->model->figures_count, count = 0, last = series->samples->count - 1;
    if (series->samples->count < LOOKS_MIN)
        return;
    struct candidate *list = cli_alloc(paths, sizeof *list);
    for (size_t i = 0; i < paths; i++) {
        int64_t allocs = row_at(series, last, i)->allocs - row_at(series, 0, i)->allocs;
        if (model_figures_at(look->model, i)->context != WIRE_NONE && look->paths.same[i] == i &&
            growths[i].kind == TREND_NONE && figures[i] == 0 && allocs >= ALLOCS_MIN &&
            swings(series, i))
            list[count++] = (struct candidate){.number = i, .allocs = allocs};
    }
    qsort(list, count, sizeof *list, compare_allocs);
    for (size_t i = 0; i < count; i++)
        compare(series, list, count, i, growths, figures);
    free(list);
}
