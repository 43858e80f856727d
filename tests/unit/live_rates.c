/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/live/rates.c: the changes and rates that `memctx top` computes between two
 * looks. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "live/rates.h"

/* Context 0 is the root, 1 and 2 are its children, 3 and 4 are children of 2. */
static struct model_context contexts[5] = {
    {.parent = WIRE_NONE}, {.parent = 0}, {.parent = 0}, {.parent = 2}, {.parent = 2}};
static const struct model tree = {.contexts = contexts, .context_count = 4};

static void look(struct rates *rates, double time_s, const int64_t *live, size_t count) {
    rates_begin(rates);
    for (size_t i = 0; i < count; i++)
        rates_set(rates, i, time_s, live[i], live[i] / 10, 2 * live[i]);
    rates_end_range(rates, 0, rates->count, time_s);
    rates_end(rates, time_s);
}

static int64_t own(const struct rates *rates, size_t index, enum rates_column column) {
    return rates_value(rates, index, column, false, false);
}

Test(live_rates, first_look_has_no_rates) {
    struct rates rates = {0};
    rates_reserve(&rates, 4);
    look(&rates, 10, (int64_t[]){0, 100, 0, 50}, 4);
    cr_assert_eq(own(&rates, 1, RATES_LIVE), 100);
    cr_assert_eq(own(&rates, 1, RATES_CHUNKS), 10);
    cr_assert_eq(own(&rates, 1, RATES_GROWTH), WIRE_UNKNOWN);
    cr_assert_eq(own(&rates, 1, RATES_ALLOCS), WIRE_UNKNOWN);
    cr_assert_eq(own(&rates, 1, RATES_WASTE), WIRE_UNKNOWN);
    rates_clear(&rates);
}

Test(live_rates, change_is_divided_by_the_time) {
    struct rates rates = {0};
    rates_reserve(&rates, 4);
    look(&rates, 10, (int64_t[]){0, 100, 0, 50}, 4);
    look(&rates, 12.5, (int64_t[]){0, 350, 0, 40}, 4);
    cr_assert_eq(own(&rates, 1, RATES_GROWTH), 100);
    cr_assert_eq(own(&rates, 1, RATES_ALLOCS), 200);
    cr_assert_eq(own(&rates, 3, RATES_GROWTH), -4);
    cr_assert_eq(own(&rates, 2, RATES_GROWTH), WIRE_UNKNOWN, "it never had figures");
    rates_clear(&rates);
}

Test(live_rates, only_contexts_with_figures_take_a_row) {
    struct rates rates = {0};
    rates_reserve(&rates, 100000);
    look(&rates, 10, (int64_t[]){0, 100, 0, 50}, 4);
    look(&rates, 12, (int64_t[]){0, 100, 0, 50}, 4);
    cr_assert_eq(rates.row_count, 3, "one for each, and one for all others");
    look(&rates, 14, (int64_t[]){0, 100, 500, 50}, 4);
    cr_assert_eq(rates.row_count, 4);
    cr_assert_eq(own(&rates, 2, RATES_GROWTH), 250, "it held nothing at 12 s");
    cr_assert_eq(own(&rates, 2, RATES_WASTE), 0);
    cr_assert_eq(own(&rates, 99999, RATES_LIVE), 0);
    rates_clear(&rates);
}

Test(live_rates, first_figures_count_from_the_last_reading_of_the_context) {
    struct rates rates = {0};
    rates_reserve(&rates, 2 * RATES_BLOCK);
    look(&rates, 10, (int64_t[]){0, 100}, 2);
    rates_begin(&rates);
    rates_end_range(&rates, 0, RATES_BLOCK, 12); /* the other block is not read in this look */
    rates_end(&rates, 12);
    rates_begin(&rates);
    rates_set(&rates, RATES_BLOCK, 14, 400, 1, 1);
    cr_assert_eq(own(&rates, RATES_BLOCK, RATES_GROWTH), 100);
    rates_clear(&rates);
}

Test(live_rates, the_first_reading_of_a_part_has_no_rates) {
    struct rates rates = {0};
    rates_reserve(&rates, RATES_BLOCK);
    rates_begin(&rates);
    rates_end_range(&rates, 0, 5, 10);
    rates_end(&rates, 10);
    rates_begin(&rates);
    rates_set(&rates, 5, 11, 400, 1, 1);
    rates_end_range(&rates, 5, RATES_BLOCK, 11);
    cr_assert_eq(own(&rates, 5, RATES_GROWTH), WIRE_UNKNOWN);
    rates_clear(&rates);
}

Test(live_rates, a_mark_needs_new_sums) {
    struct rates rates = {0};
    rates_reserve(&rates, 4);
    look(&rates, 0, (int64_t[]){1, 10, 100, 1000}, 4);
    rates_add_up(&rates, &tree, NULL);
    rates_mark(&rates);
    cr_assert_eq(rates_value(&rates, 2, RATES_LIVE, true, true), 0, "before the sums are made");
    look(&rates, 1, (int64_t[]){1, 10, 100, 3000}, 4);
    rates_add_up(&rates, &tree, NULL);
    cr_assert_eq(rates_value(&rates, 2, RATES_LIVE, true, true), 2000);
    rates_clear(&rates);
}

#define RANDOM_CONTEXTS 60U

/* The sum over a subtree, as its definition says. */
static int64_t sum_below(const struct rates *rates, const struct model *model, const bool *counts,
                         size_t top, bool difference) {
    int64_t sum = 0;
    for (size_t i = top; i < model->context_count; i++) {
        size_t at = i;
        while (at > top)
            at = model->contexts[at].parent;
        if (at == top && counts[i])
            sum += rates_value(rates, i, RATES_LIVE, false, difference);
    }
    return sum;
}

/* Contexts share sums; no sum may have the figures of a context beside it. */
Test(live_rates, sums_of_random_trees_equal_their_definition) {
    for (unsigned seed = 1; seed <= 300; seed++) {
        struct model_context random[RANDOM_CONTEXTS] = {{.parent = WIRE_NONE}};
        const struct model model = {.contexts = random, .context_count = RANDOM_CONTEXTS};
        bool counts[RANDOM_CONTEXTS];
        int64_t live[RANDOM_CONTEXTS];
        struct rates rates = {0};
        srand(seed);
        rates_reserve(&rates, RANDOM_CONTEXTS);
        for (unsigned step = 0; step < 3; step++) {
            for (uint32_t i = 0; i < RANDOM_CONTEXTS; i++) {
                if (i > 0 && step == 0) /* chains and stars */
                    random[i].parent = rand() % 3 == 0 ? (uint32_t)rand() % i : i - 1;
                counts[i] = seed % 2 == 0 || rand() % 2 == 0;
                live[i] = rand() % 4 == 0 ? rand() % 1000 : 0;
            }
            look(&rates, step, live, RANDOM_CONTEXTS);
            rates_add_up(&rates, &model, counts);
            for (size_t i = 0; i < RANDOM_CONTEXTS; i++) {
                for (int difference = 0; difference < 2; difference++) {
                    cr_assert_eq(rates_value(&rates, i, RATES_LIVE, true, difference != 0),
                                 sum_below(&rates, &model, counts, i, difference != 0),
                                 "context %zu of tree %u, step %u", i, seed, step);
                }
            }
            if (step == 0)
                rates_mark(&rates);
        }
        rates_clear(&rates);
    }
}

Test(live_rates, a_chain_needs_no_sums) {
    struct model_context chain[RANDOM_CONTEXTS] = {{.parent = WIRE_NONE}};
    const struct model model = {.contexts = chain, .context_count = RANDOM_CONTEXTS};
    int64_t live[RANDOM_CONTEXTS] = {[RANDOM_CONTEXTS - 1] = 7};
    struct rates rates = {0};
    for (uint32_t i = 1; i < RANDOM_CONTEXTS; i++)
        chain[i].parent = i - 1;
    rates_reserve(&rates, RANDOM_CONTEXTS);
    look(&rates, 0, live, RANDOM_CONTEXTS);
    rates_add_up(&rates, &model, NULL);
    cr_assert_eq(rates_value(&rates, 0, RATES_LIVE, true, false), 7);
    cr_assert_eq(rates.sum_count, 0);
    rates_clear(&rates);
}

Test(live_rates, contexts_read_at_other_times_have_rates_of_their_own) {
    struct rates rates = {0};
    rates_reserve(&rates, 2);
    look(&rates, 0, (int64_t[]){10, 10}, 2);
    rates_begin(&rates);
    rates_set(&rates, 0, 1, 20, 1, 20);
    rates_end_range(&rates, 0, 1, 1); /* context 1 is not read in this look */
    rates_end(&rates, 1);
    cr_assert_eq(own(&rates, 0, RATES_GROWTH), 10);
    cr_assert_eq(own(&rates, 1, RATES_LIVE), 10);
    rates_begin(&rates);
    rates_set(&rates, 1, 2, 50, 1, 20);
    rates_end_range(&rates, 1, 2, 2);
    rates_end(&rates, 2);
    /* 40 bytes more, two seconds after its last figures */
    cr_assert_eq(own(&rates, 1, RATES_GROWTH), 20);
    rates_clear(&rates);
}

Test(live_rates, what_is_not_told_has_become_zero) {
    struct rates rates = {0};
    rates_reserve(&rates, 3);
    look(&rates, 0, (int64_t[]){10, 20, 30}, 3);
    look(&rates, 1, (int64_t[]){10, 20}, 2);
    cr_assert_eq(own(&rates, 2, RATES_LIVE), 0);
    cr_assert_eq(own(&rates, 2, RATES_GROWTH), -30);
    rates_clear(&rates);
}

Test(live_rates, new_context_held_nothing_at_the_look_before) {
    struct rates rates = {0};
    rates_reserve(&rates, 2);
    look(&rates, 4, (int64_t[]){10, 20}, 2);
    rates_reserve(&rates, 3);
    look(&rates, 6, (int64_t[]){10, 20, 500}, 3);
    cr_assert_eq(own(&rates, 2, RATES_GROWTH), 250);
    cr_assert_eq(own(&rates, 2, RATES_ALLOCS), 500);
    rates_clear(&rates);
}

Test(live_rates, reset_of_the_counters_begins_anew) {
    struct rates rates = {0};
    rates_reserve(&rates, 1);
    rates_begin(&rates);
    rates_set(&rates, 0, 0, 10, 1, 1000);
    rates_end(&rates, 0);
    rates_begin(&rates);
    rates_set(&rates, 0, 1, 10, 1, 30);
    rates_end(&rates, 1);
    cr_assert_eq(own(&rates, 0, RATES_ALLOCS), 30);
    rates_clear(&rates);
}

Test(live_rates, subtrees_are_sums_of_what_counts) {
    struct rates rates = {0};
    rates_reserve(&rates, 4);
    look(&rates, 0, (int64_t[]){1, 10, 100, 1000}, 4);
    look(&rates, 1, (int64_t[]){1, 20, 100, 3000}, 4);
    rates_set_waste(&rates, 3, 7);
    rates_add_up(&rates, &tree, NULL);
    cr_assert_eq(rates_value(&rates, 0, RATES_LIVE, true, false), 3121);
    cr_assert_eq(rates_value(&rates, 2, RATES_LIVE, true, false), 3100);
    cr_assert_eq(rates_value(&rates, 2, RATES_GROWTH, true, false), 2000);
    cr_assert_eq(rates_value(&rates, 0, RATES_GROWTH, true, false), 2010);
    cr_assert_eq(rates_value(&rates, 2, RATES_WASTE, true, false), 7);
    cr_assert_eq(rates_value(&rates, 1, RATES_WASTE, true, false), WIRE_UNKNOWN);
    rates_add_up(&rates, &tree, (bool[]){true, true, true, false});
    cr_assert_eq(rates_value(&rates, 0, RATES_LIVE, true, false), 121);
    rates_clear(&rates);
}

Test(live_rates, differences_to_the_base) {
    struct rates rates = {0};
    rates_reserve(&rates, 4);
    look(&rates, 0, (int64_t[]){0, 10, 100, 1000}, 4);
    rates_set_waste(&rates, 1, 5);
    rates_mark(&rates);
    look(&rates, 1, (int64_t[]){0, 30, 50, 1000}, 4);
    rates_set_waste(&rates, 1, 2);
    rates_reserve(&rates, 5); /* context 4 is newer than the base */
    rates_begin(&rates);
    rates_set(&rates, 4, 2, 70, 7, 140);
    rates_end(&rates, 2);
    struct model more = {.contexts = contexts, .context_count = 5};
    rates_add_up(&rates, &more, NULL);
    cr_assert_eq(rates_value(&rates, 1, RATES_LIVE, false, true), 20);
    cr_assert_eq(rates_value(&rates, 1, RATES_CHUNKS, false, true), 2);
    cr_assert_eq(rates_value(&rates, 1, RATES_ALLOCS, false, true), 40);
    cr_assert_eq(rates_value(&rates, 1, RATES_WASTE, false, true), -3);
    cr_assert_eq(rates_value(&rates, 1, RATES_LIVE, false, false), 30);
    cr_assert_eq(rates_value(&rates, 4, RATES_LIVE, false, true), 70);
    /* -50 of context 2 itself, 70 of context 4 */
    cr_assert_eq(rates_value(&rates, 2, RATES_LIVE, true, true), 20);
    rates_clear(&rates);
}

Test(live_rates, history_keeps_the_last_values) {
    struct rates_history history = {.count = 0};
    int levels[4];
    cr_assert_eq(rates_past(&history, 0), WIRE_UNKNOWN);
    rates_push(&history, 5);
    rates_levels(&history, levels, 4, 8);
    cr_assert(levels[0] == -1 && levels[2] == -1 && levels[3] == 0);
    for (int64_t i = 0; i < RATES_HISTORY + 10; i++)
        rates_push(&history, i);
    cr_assert_eq(rates_past(&history, 0), RATES_HISTORY + 9);
    cr_assert_eq(rates_past(&history, RATES_HISTORY - 1), 10);
    cr_assert_eq(rates_past(&history, RATES_HISTORY), WIRE_UNKNOWN);
    rates_levels(&history, levels, 4, 8);
    cr_assert(levels[0] == 0 && levels[1] == 2 && levels[2] == 5 && levels[3] == 7);
}

Test(live_rates, rate_of_what_is_unknown_is_unknown) {
    cr_assert_eq(rates_per_second(10, WIRE_UNKNOWN, 1), WIRE_UNKNOWN);
    cr_assert_eq(rates_per_second(WIRE_UNKNOWN, 10, 1), WIRE_UNKNOWN);
    cr_assert_eq(rates_per_second(20, 10, 0), WIRE_UNKNOWN);
    cr_assert_eq(rates_per_second(INT64_MAX, 0, 0.1), WIRE_UNKNOWN);
    cr_assert_eq(rates_less(INT64_MAX, -1), WIRE_UNKNOWN);
    cr_assert_eq(rates_per_second(20, 13, 2), 4);
    cr_assert_eq(rates_per_second(13, 20, 2), -4);
}
