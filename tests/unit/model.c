/* SPDX-License-Identifier: MIT */
/* Tests of what the command computes from the figures of a dump (tools/memctx/model). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "model/mapped.h"
#include "model/shorten.h"

/* A process that allocates 150 MB/s passes 2^50 bytes in three months. */
Test(model, figures_that_only_grow_are_not_cut) {
    const int64_t year_bytes = INT64_C(150000000) * 86400 * 365;
    cr_assert_eq(model_tame(year_bytes), year_bytes);
    cr_assert_eq(model_share(year_bytes, 3, 2), year_bytes / 2 * 3);
    cr_assert_eq(model_tame(INT64_MAX), -model_tame(-INT64_MAX));
    cr_assert(model_tame(INT64_MAX) <= INT64_MAX / 31, "a sum of 31 figures must fit");
    cr_assert_eq(model_tame(WIRE_UNKNOWN), 0);
}

/* In a large snapshot nearly all contexts have no figures. The root's peak is unknown there, the
 * peaks of the others are 0. */
Test(model, contexts_without_figures_share_a_struct) {
    struct model model;
    model_begin(&model, "test");
    model.contexts = calloc(3, sizeof *model.contexts);
    for (model.context_count = 0; model.context_count < 3; model.context_count++) {
        struct model_figures figures = {.number = 0};
        if (model.context_count == 0)
            figures.self.peak_requested_bytes = WIRE_UNKNOWN;
        model_set_figures(&model, &model.contexts[model.context_count], &figures);
    }
    cr_assert_eq(model.contexts[0].figures->self.peak_requested_bytes, WIRE_UNKNOWN);
    cr_assert_eq(model.contexts[1].figures->self.peak_requested_bytes, 0);
    cr_assert_eq(model.contexts[1].figures, model.contexts[2].figures);
    cr_assert_eq(model.figures_count, 2);
    free(model.source);
    model_drop(&model);
}

#define PAGE 4096
#define PLACES 100

static struct mapped places_of(const struct model_place *list, size_t count) {
    struct mapped mapped = {.known = true, .place_count = count};
    mapped.places = calloc(count, sizeof *mapped.places);
    memcpy(mapped.places, list, count * sizeof *list);
    return mapped;
}

/* Every second mapping is a file. File 7 has a page more, and the last file had none before. */
Test(model, the_mapping_that_grew_most_is_found) {
    struct model_place before[PLACES], after[PLACES + 1];
    for (uint64_t i = 0; i < PLACES; i++) {
        before[i] = (struct model_place){.start = 4 * i * PAGE,
                                         .end = (4 * i + 2) * PAGE,
                                         .bytes = PAGE,
                                         .kind = i % 2 ? MODEL_PLACE_FILE : MODEL_PLACE_ANONYMOUS};
        after[i] = before[i];
    }
    after[7].bytes += PAGE;
    before[PLACES - 1].bytes = 0;
    after[PLACES] = (struct model_place){4 * PLACES * PAGE, (4 * PLACES + 1) * PAGE, 5,
                                         MODEL_PLACE_ANONYMOUS, NULL};
    struct mapped earlier = places_of(before, PLACES), later = places_of(after, PLACES + 1);
    struct mapped_growth growth = mapped_compare(&earlier, &later, MODEL_PLACE_FILE);
    cr_assert_eq(growth.place, &later.places[7]);
    cr_assert_eq(growth.bytes, PAGE);
    cr_assert_eq(growth.new_places, 1, "the last file had no resident page");
    growth = mapped_compare(&earlier, &later, MODEL_PLACE_ANONYMOUS);
    cr_assert_eq(growth.place, &later.places[PLACES]);
    cr_assert_eq(growth.bytes, 5);
    cr_assert_eq(growth.new_places, 1);
    free(earlier.places);
    free(later.places);
}

/* Names of more than 60 bytes, and what dump shows of them. */
Test(model, long_names_keep_the_function) {
    static const char *const names[][2] = {
        {"decltype(auto) std::__do_visit<std::__detail::__deduce_visit_result<void>, "
         "main::{lambda(auto:1&&)#1}, std::variant<int, long>&>(main::{lambda(auto:1&&)#1}&&)",
         "std::__do_visit<...>(main::{lambda(auto:1&&)#1}&&)"},
        {"decltype ((to_json({parm#1}, (forward<int>)({parm#2}))), ((void)0)) "
         "nlohmann::to_json_fn::operator()<int>(nlohmann::json&, int&&) const",
         "nlohmann::to_json_fn::operator()<...>(...)"},
        {"<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
         "<alloc::vec::Vec<> as alloc::vec::spec_from_iter::SpecFromIter<...>>::from_iter"},
        {"<alloc::boxed::Box<dyn core::ops::Fn(u8) -> u8> as core::clone::Clone>::clone_from<u8>",
         "<alloc::boxed::Box<...> as core::clone::Clone>::clone_from<>"},
        {"<fn(u8) -> core::option::Option<u8> as core::ops::function::FnOnce>::call_once",
         "<fn(u8) -> core::option::Option<> as core::ops::function::FnOnce>::call_once"},
        {"core::ops::function::FnOnce<fn(core::option::Option<u8>) -> i32>::call_once::long_name",
         "core::ops::function::FnOnce<...>::call_once::long_name"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *text = shorten_function(names[i][0]);
        cr_assert_str_eq(text, names[i][1]);
        free(text);
    }
}

Test(model, a_long_name_is_cut_between_letters) {
    char name[200] = "";
    for (size_t i = 0; i < 60; i++)
        strcat(name, i == 0 ? "n" : "é"); /* letters of two bytes, at odd places */
    char *cut = shorten_function(name);
    cr_assert_eq(strlen(cut), 100);
    cr_assert_eq(strncmp(cut, name, 97), 0);
    cr_assert_str_eq(cut + 97, "...");
    char *even = shorten_function(name + 1);
    cr_assert_eq(strlen(even), 99, "byte 97 is the second of a letter");
    cr_assert_str_eq(even + 96, "...");
    free(cut);
    free(even);
}
