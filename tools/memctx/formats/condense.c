/* SPDX-License-Identifier: MIT */
/*
 * condense.c - adds small samples to their callers until few enough are left.
 *
 * Samples are visited callees before callers. A sample below a threshold is added to the sample of
 * its caller. So many small samples below one function become one sample that is large enough to
 * stay, and a small sample among large ones moves farther out. A search finds the smallest
 * threshold that leaves at most `limit` samples. (Always moving the smallest sample would bring
 * most samples to the root, because inner functions seldom have large samples.)
 */
#include "formats/condense.h"

#include <stdlib.h>
#include <string.h>

struct condense {
    const struct model *model;
    const uint64_t *weights; /* size of each context's sample (weigh_rows); 0: no sample */
    uint64_t *sums; /* each context's weight plus the weights that moved to it from callees */
};

/* Samples below `weight` move to their callers. A sample of exactly `weight` moves if its context's
 * index is at least `first`. */
struct threshold {
    uint64_t weight;
    size_t first;
};

static double size_of(int64_t figure) {
    return figure < 0 ? -(double)figure : (double)figure;
}

/* Returns the weight of each row: its largest share of any column in units of 2^-40, plus 1, so
 * that no sample weighs 0. */
static uint64_t *weigh_rows(const int64_t *rows, size_t count, size_t columns) {
    double *totals = cli_alloc(columns, sizeof *totals);
    uint64_t *weights = cli_alloc(count, sizeof *weights);
    for (size_t i = 0; i < count * columns; i++)
        totals[i % columns] += size_of(rows[i]);
    for (size_t i = 0; i < count * columns; i++) {
        if (rows[i] != 0) {
            double share = size_of(rows[i]) / totals[i % columns];
            uint64_t weight = 1 + (uint64_t)(share * (double)((uint64_t)1 << 40));
            uint64_t *most = &weights[i / columns];
            *most = weight > *most ? weight : *most;
        }
    }
    free(totals);
    return weights;
}

/* Returns the number of samples that this threshold leaves. Sets sums[] to their weights, and to 0
 * for samples that move. */
static size_t count_left(struct condense *work, const struct threshold *threshold) {
    size_t count = work->model->context_count, left = 0;
    memcpy(work->sums, work->weights, count * sizeof *work->sums);
    for (size_t i = count; i-- > 1;) {
        uint64_t sum = work->sums[i];
        if (sum < threshold->weight || (sum == threshold->weight && i >= threshold->first)) {
            work->sums[work->model->contexts[i].parent] += sum;
            work->sums[i] = 0;
        } else {
            left++;
        }
    }
    return left + (work->sums[0] > 0);
}

static struct threshold find_threshold(struct condense *work, size_t limit) {
    size_t count = work->model->context_count;
    /* the threshold `low` leaves too many samples, the threshold `high` few enough */
    uint64_t low = 1, high = 1;
    for (size_t i = 0; i < count; i++)
        high += work->weights[i];
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        bool few = count_left(work, &(struct threshold){middle, count}) <= limit;
        *(few ? &high : &low) = middle;
    }
    /* For samples of weight `low`: if the samples from index `all` on move, few enough are left; if
     * only the samples from index `none` on move, too many are left. */
    size_t all = 0, none = count;
    while (none - all > 1) {
        size_t middle = all + (none - all) / 2;
        bool few = count_left(work, &(struct threshold){low, middle}) <= limit;
        *(few ? &all : &none) = middle;
    }
    return (struct threshold){low, all};
}

bool condense_rows(const struct model *model, int64_t *rows, size_t columns, size_t limit) {
    size_t count = model->context_count;
    uint64_t *weights = weigh_rows(rows, count, columns);
    struct condense work = {model, weights, cli_alloc(count, sizeof *work.sums)};
    bool into_root = false;
    if (count_left(&work, &(struct threshold){1, count}) > limit) {
        struct threshold threshold = find_threshold(&work, limit);
        count_left(&work, &threshold);
        for (size_t i = count; i-- > 1;) {
            uint32_t parent = model->contexts[i].parent;
            for (size_t k = 0; work.sums[i] == 0 && k < columns; k++) {
                int64_t *sum = &rows[parent * columns + k], *part = &rows[i * columns + k];
                into_root = into_root || (parent == 0 && *part != 0);
                /* Figures of a damaged dump may be too large; the sum is exact modulo 2^64. */
                *sum = (int64_t)((uint64_t)*sum + (uint64_t)*part);
                *part = 0;
            }
        }
    }
    free(work.sums);
    free(weights);
    return into_root;
}
