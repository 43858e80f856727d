/* SPDX-License-Identifier: MIT */
/* rhythm.c - compares how the numbers of chunks of two suspects grow. It says nothing of suspects
 * that gain few chunks, such as a table that becomes larger. */
#include "diagnosis/rhythm.h"

#include <stdlib.h>

#define INTERVALS_MIN 3    /* fewer intervals show no rhythm */
#define LEADER_PER_CENT 10 /* a suspect with this share of the growth may be a cause of its own */
#define CHUNKS_MIN 200     /* fewer new chunks vary by chance */
/* In the interval in which a suspect's share of the new chunks is largest, the share is larger by
 * SHARES_DIFFER than in the interval in which it is smallest. If only some objects own a chunk, and
 * each interval has n new chunks, the shares differ by about the square root of 1/n. Shares that
 * differ by less than EQUAL times that root are those of loops with a fixed number of turns. */
#define SHARES_DIFFER 0.12
#define EQUAL 0.1
/* Short-lived chunks change the number of live chunks by up to CHANCE times the standard deviation
 * between two looks. */
#define CHANCE 3.0
#define MULTIPLE_MOST 8      /* ratios above MULTIPLE_MOST + 0.5 are not judged */
#define MULTIPLE_NEAR 0.035  /* relative distance of a ratio from a multiple */
#define COMPANIONS_DIFFER 64 /* companions differ by at most 1/64 of the chunks */
#define COMPANIONS_CHUNKS 32 /* companions gain at least so many chunks */
#define COMPANIONS_MOST 100  /* to save time, only the largest suspects are compared */

static int64_t chunks_at(const struct look *look, const struct series *series,
                         const struct blame_suspect *suspect, size_t sample) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t number = blame_number(&look->paths, suspect->members[i]);
        sum = model_tame(sum + series->rows[sample][number].live_chunks);
    }
    return sum;
}

static int64_t chunks_gained(const struct look *look, const struct series *series,
                             const struct blame_suspect *suspect) {
    return chunks_at(look, series, suspect, series->samples->count - 1) -
           chunks_at(look, series, suspect, 0);
}

/* Returns the innermost function that two paths have in common and that can be a cause; its context
 * is WIRE_NONE if there is none. */
static struct who_step find_shared(const struct model *model, uint32_t a, uint32_t b) {
    struct who_step step = who_first(model, a), other = who_first(model, b);
    for (; step.context != WIRE_NONE; step = who_next(model, step)) {
        enum who_kind kind = who_kind_of(model, step);
        if ((kind == WHO_MEANS || kind == WHO_MAIN || kind == WHO_INTERPRETER) &&
            who_find(model, other, step).context != WIRE_NONE)
            break;
    }
    return step;
}

/* Returns the innermost function of this kind; its context is WIRE_NONE if the path has none. */
static struct who_step find_kind(const struct model *model, uint32_t context, enum who_kind kind) {
    struct who_step step = who_first(model, context);
    while (step.context != WIRE_NONE && who_kind_of(model, step) != kind)
        step = who_next(model, step);
    return step;
}

static bool is_interpreted(const struct model *model, uint32_t context) {
    return find_kind(model, context, WHO_INTERPRETER).context != WIRE_NONE;
}

/* True if a script made the paths, and they share no function of the program but main. Some paths
 * of an interpreter lack its loop, because a function ended in a tail call. */
static bool share_only_loop(const struct model *model, uint32_t a, uint32_t b) {
    struct who_step shared = find_shared(model, a, b);
    bool one = is_interpreted(model, a), other = is_interpreted(model, b);
    return shared.context == WIRE_NONE ? one && other
                                       : (one || other) && who_kind_of(model, shared) != WHO_MEANS;
}

/* True if both numbers may be those of chunks of the same objects: their ratio is (nearly) a small
 * multiple or 3 to 2, or too large to be judged. */
static bool is_small_ratio(int64_t a, int64_t b) {
    double ratio = a > b ? (double)a / (double)b : (double)b / (double)a;
    double times = (double)(int64_t)(ratio + 0.5);
    double off = ratio > times ? ratio - times : times - ratio, half = ratio - 1.5;
    return ratio > MULTIPLE_MOST + 0.5 || off <= MULTIPLE_NEAR * ratio ||
           (half <= MULTIPLE_NEAR * ratio && half >= -MULTIPLE_NEAR * ratio);
}

static int64_t allocs_at(const struct look *look, const struct series *series,
                         const struct blame_suspect *suspect, size_t sample) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t number = blame_number(&look->paths, suspect->members[i]);
        sum = model_tame(sum + series->rows[sample][number].allocs);
    }
    return sum;
}

/* A figure, and the square of its standard deviation. */
struct varying {
    double figure, variance;
};

/* Returns the new chunks of a suspect in one interval, as a part of `all` its new chunks. Chunks
 * that came and went in the interval vary the number of live chunks by about the square root of
 * their number, and by no more than the square root of twice the number of live chunks. */
static struct varying part_in(const struct look *look, const struct series *series,
                              const struct blame_suspect *suspect, size_t interval, int64_t all) {
    int64_t live = chunks_at(look, series, suspect, interval);
    int64_t gained = larger(0, live - chunks_at(look, series, suspect, interval - 1));
    int64_t went = allocs_at(look, series, suspect, interval) -
                   allocs_at(look, series, suspect, interval - 1) - gained;
    double variance = 2.0 * (double)larger(0, went < live ? went : live);
    return (struct varying){(double)gained / (double)all, variance / (double)all / (double)all};
}

/* How the shares of suspect `a` in the new chunks of `a` and `b` differ between the intervals. */
struct distance {
    bool known;    /* false: they gained too few chunks */
    size_t judged; /* number of intervals with enough new chunks */
    double most;   /* the largest difference of two shares: 0 if both grow alike, 1 if they grow in
                    * different intervals */
    bool certain;  /* two shares differ by SHARES_DIFFER, and chance does not explain that */
};

/* Compares the share of an interval with those of earlier intervals. */
static void add_share(struct distance *distance, struct varying *shares, struct varying share) {
    for (size_t i = 0; i < distance->judged; i++) {
        double off = share.figure - shares[i].figure, beyond = (off < 0 ? -off : off);
        distance->most = beyond > distance->most ? beyond : distance->most;
        beyond -= SHARES_DIFFER;
        distance->certain |=
            beyond >= 0 &&
            beyond * beyond >= CHANCE * CHANCE * (share.variance + shares[i].variance);
    }
    shares[distance->judged++] = share;
}

static struct distance distance_of(const struct look *look, const struct series *series,
                                   const struct blame_suspect *a, const struct blame_suspect *b) {
    int64_t all_a = chunks_gained(look, series, a), all_b = chunks_gained(look, series, b);
    struct distance distance = {.known = false};
    if (all_a < CHUNKS_MIN || all_b < CHUNKS_MIN)
        return distance;
    struct varying *shares = cli_alloc(series->samples->count, sizeof *shares);
    for (size_t i = 1; i < series->samples->count; i++) {
        struct varying of_a = part_in(look, series, a, i, all_a);
        struct varying of_b = part_in(look, series, b, i, all_b);
        double both = of_a.figure + of_b.figure, squared = both * both;
        /* an interval with few new chunks says nothing */
        if (both * (double)(all_a < all_b ? all_a : all_b) < CHUNKS_MIN / 2.0)
            continue;
        double variance =
            of_a.variance * of_b.figure * of_b.figure + of_b.variance * of_a.figure * of_a.figure;
        add_share(&distance, shares,
                  (struct varying){of_a.figure / both, variance / squared / squared});
    }
    free(shares);
    distance.known = distance.judged > 0;
    return distance;
}

/* True if two suspects can hardly be chunks of the same objects: their new chunks come in different
 * intervals, or their numbers have a fixed ratio that is_small_ratio rejects. */
static bool grow_differently(const struct look *look, const struct series *series,
                             const struct blame_suspect *a, const struct blame_suspect *b) {
    struct distance distance = distance_of(look, series, a, b);
    int64_t all_a = chunks_gained(look, series, a), all_b = chunks_gained(look, series, b);
    double each = (double)(all_a < all_b ? all_a : all_b) / (double)(series->samples->count - 1);
    return distance.known &&
           (distance.certain || (distance.judged >= INTERVALS_MIN &&
                                 distance.most * distance.most * each <= EQUAL * EQUAL &&
                                 !is_small_ratio(all_a, all_b)));
}

/* Finds the leaders: suspects of a script that have LEADER_PER_CENT of the growth or more, and grow
 * differently from each other. Returns their number. */
static size_t find_leaders(const struct look *look, const struct series *series,
                           const struct blame *blame, size_t *leaders) {
    int64_t all = 0;
    size_t count = 0;
    for (size_t i = 0; i < blame->count; i++)
        all = model_tame(all + blame->suspects[i].figure);
    for (size_t i = 0; i < blame->count && count < BLAME_RHYTHMS; i++) {
        const struct blame_suspect *suspect = &blame->suspects[i];
        bool differs = suspect->figure / LEADER_PER_CENT >= all / 100 &&
                       is_interpreted(look->model, suspect->members[0]);
        for (size_t k = 0; k < count && differs; k++) {
            const struct blame_suspect *leader = &blame->suspects[leaders[k]];
            differs = share_only_loop(look->model, suspect->members[0], leader->members[0]) &&
                      grow_differently(look, series, suspect, leader);
        }
        if (differs)
            leaders[count++] = i;
    }
    return count;
}

/* Returns the index of the leader that grows most like a suspect; 0 if that is not known. */
static size_t find_leader(const struct look *look, const struct series *series,
                          const struct blame *blame, const size_t *leaders, size_t count,
                          const struct blame_suspect *suspect) {
    size_t found = 0;
    double least = 2;
    for (size_t i = 0; i < count; i++) {
        const struct blame_suspect *leader = &blame->suspects[leaders[i]];
        struct distance distance = distance_of(look, series, suspect, leader);
        if (suspect == leader)
            return i;
        double far = distance.most + grow_differently(look, series, suspect, leader);
        found = distance.known && far < least ? i : found;
        least = distance.known && far < least ? far : least;
    }
    return found;
}

void rhythm_divide(const struct look *look, const struct series *series, struct blame *blame) {
    size_t leaders[BLAME_RHYTHMS];
    if (series->samples->count <= INTERVALS_MIN)
        return;
    size_t count = find_leaders(look, series, blame, leaders);
    blame->divided = count > 1;
    for (size_t i = 0; i < blame->count && count > 1; i++) {
        struct blame_suspect *suspect = &blame->suspects[i];
        if (share_only_loop(look->model, suspect->members[0],
                            blame->suspects[leaders[0]].members[0]))
            suspect->group +=
                (uint8_t)(2 * find_leader(look, series, blame, leaders, count, suspect));
    }
}

/* True if the suspects have equally many chunks at each look, and more and more of them. */
static bool are_companions(const struct look *look, const struct series *series,
                           const struct blame_suspect *a, const struct blame_suspect *b) {
    for (size_t i = 0; i < series->samples->count; i++) {
        int64_t chunks = chunks_at(look, series, a, i);
        int64_t off = chunks - chunks_at(look, series, b, i);
        if ((off < 0 ? -off : off) > chunks / COMPANIONS_DIFFER)
            return false;
    }
    return chunks_gained(look, series, a) >= COMPANIONS_CHUNKS;
}

/* Returns the part of a suspect that has the most bytes, or the suspect itself. */
static const struct blame_suspect *largest_part(const struct blame_suspect *suspect) {
    return suspect->joined ? &suspect->parts[0] : suspect;
}

/* True if the suspects have no function in common, and equally many chunks. */
static bool belong_together(const struct look *look, const struct series *series,
                            const struct blame_suspect *a, const struct blame_suspect *b) {
    const struct blame_suspect *one = largest_part(a), *other = largest_part(b);
    return are_companions(look, series, one, other) &&
           find_shared(look->model, one->members[0], other->members[0]).context == WIRE_NONE;
}

/* Joins two suspects of one group if they have one cause. */
static void join_if_one(const struct look *look, const struct series *series,
                        const struct blame *blame, struct blame_suspect *one,
                        struct blame_suspect *other) {
    const struct model *model = look->model;
    uint32_t a = one->members[0], b = other->members[0];
    bool script = blame->divided && is_interpreted(model, a) &&
                  (is_interpreted(model, b) || find_shared(model, a, b).context != WIRE_NONE);
    if (!script && !belong_together(look, series, one, other))
        return;
    struct who_step common = find_kind(model, a, script ? WHO_INTERPRETER : WHO_MEANS);
    if (common.context == WIRE_NONE)
        common = who_first(model, a);
    blame_join(model, one, other, one->joined ? one->common : common);
    one->companions = !script;
}

void rhythm_join(const struct look *look, const struct series *series, struct blame *blame) {
    size_t searched = blame->count < COMPANIONS_MOST ? blame->count : COMPANIONS_MOST;
    struct blame_suspect *suspects = blame->suspects;
    if (series->samples->count <= INTERVALS_MIN)
        return;
    for (size_t i = 0; i < searched; i++)
        for (size_t k = i + 1; k < searched && suspects[i].count > 0; k++)
            if (suspects[k].count > 0 && suspects[k].group == suspects[i].group)
                join_if_one(look, series, blame, &suspects[i], &suspects[k]);
    blame_tidy(blame);
}
