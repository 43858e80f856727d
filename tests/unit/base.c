/* SPDX-License-Identifier: MIT */
/* Tests of src/base: text without libc, number parsing, the options, runs of bits. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/options.h"

static char buffer[4096];

static struct text text_new(size_t capacity) {
    memset(buffer, 0, sizeof buffer);
    return (struct text){.bytes = buffer, .capacity = capacity};
}

Test(text, numbers_print_as_printf_prints_them) {
    static const int64_t values[] = {0, 1, -1, 9, 10, -10, 4096, INT32_MAX, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char wanted[64];
        struct text text = text_new(sizeof buffer - 1);
        text_add_number(&text, values[i]);
        text_add(&text, " ");
        text_add_hex(&text, (uint64_t)values[i]);
        snprintf(wanted, sizeof wanted, "%lld 0x%llx", (long long)values[i], (long long)values[i]);
        cr_assert_str_eq(buffer, wanted);
        cr_assert_not(text.full);
    }
}

Test(text, what_does_not_fit_is_dropped_and_said) {
    struct text text = text_new(5);
    text_add(&text, "abc");
    cr_assert_not(text.full);
    text_add(&text, "defg");
    cr_assert(text.full);
    cr_assert_eq(text.length, 5);
    cr_assert_str_eq(buffer, "abcde");
}

Test(text, words_are_cut_between_characters_and_have_no_control_characters) {
    static const struct {
        const char *word;
        size_t max;
        const char *shown;
    } cases[] = {
        {"abc", 3, "abc"},
        {"abcd", 3, "abc..."},
        {"a\nb\033[31m\x7f", 40, "a?b?[31m?"},
        {"abc\u00e9", 4, "abc..."},
        {"abc\u00e9", 5, "abc\u00e9"},
        {"a\xf0\x9f\x98\x80z", 4, "a..."},
        {"a\xf0\x9f\x98\x80z", 5, "a\xf0\x9f\x98\x80..."},
        {"\xa4\xa4\xa4\xa4\xa4\xa4", 5, "\xa4\xa4\xa4\xa4\xa4..."}, /* no UTF-8 */
        {"", 5, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text text = text_new(sizeof buffer - 1);
        text_add_word(&text, cases[i].word, cases[i].max);
        buffer[text.length] = 0;
        cr_assert_str_eq(buffer, cases[i].shown, "case %zu", i);
    }
}

Test(text, numbers_parse_or_are_refused) {
    static const struct {
        const char *text;
        int64_t value; /* -1: text_to_number refuses the text */
    } cases[] = {
        {"0", 0},
        {"7", 7},
        {"4k", 4096},
        {"2M", 2 << 20},
        {"1g", 1 << 30},
        {"", -1},
        {"k", -1},
        {"-1", -1},
        {"1kk", -1},
        {"1 ", -1},
        {" 1", -1},
        {"0x10", -1},
        {"1.5", -1},
        {"+1", -1},
        {"99999999999999999999", -1},
        {"4611686018427387903", 4611686018427387903},
        {"4611686018427387904", -1},
        {"4611686018427387903k", -1},
        {"18446744073709551680", -1}, /* 2^64 + 64 */
        {"20000000000000000000", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = -1;
        bool good = text_to_number(cases[i].text, &value);
        cr_assert_eq(good, cases[i].value >= 0, "\"%s\"", cases[i].text);
        cr_assert_eq(value, cases[i].value, "\"%s\" gave %lld", cases[i].text, (long long)value);
    }
}

Test(options, defaults_are_those_of_the_list) {
#define CHECK(field, NAME, kind, value, minimum, maximum, live, help)                              \
    cr_assert_eq(options.field, (value), #field);                                                  \
    /* Kind S: a default that is a share of the live bytes is negative. */                         \
    cr_assert(((value) >= (minimum) || #kind[0] == 'S') && (value) <= (maximum), #field);
    MEMCTX_OPTIONS(CHECK)
#undef CHECK
}

Test(options, environment_sets_them_and_says_what_it_refuses) {
    char *const environment[] = {"MEMCTX_DEPTH=7",
                                 "MEMCTX_CONTROL=eager",
                                 "MEMCTX_VERIFY=banana",
                                 "MEMCTX_DECAY_MS=",
                                 "MEMCTX_DEPT=9",
                                 "MEMCTX_DEPTHS=9",
                                 "XMEMCTX_DEPTH=9",
                                 "MEMCTX_WASTE_KIB=-3",
                                 "MEMCTX_FREELIST_KIB=8M",
                                 "MEMCTX_VERBOSE=3",
                                 "MEMCTX_FOLD=o\nff\033[1m",
                                 "PATH=/bin",
                                 NULL};
    struct text warnings = text_new(sizeof buffer - 1);
    options_read(environment, &warnings);
    cr_assert_eq(options.depth, 7);
    cr_assert_eq(options.control, CONTROL_EAGER);
    cr_assert_eq(options.verify, 0);
    cr_assert_eq(options.decay_ms, 500);
    cr_assert_eq(options.waste_kib, 2048);
    cr_assert_eq(options.freelist_kib, 8192);
    cr_assert_eq(options.verbose, 0);
    size_t lines = 0;
    for (const char *at = buffer; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_assert_eq(lines, 6, "%s", buffer);
    cr_assert(!strchr(buffer, 033), "%s", buffer);
    cr_assert(strstr(buffer, "MEMCTX_VERIFY=banana") != NULL, "%s", buffer);
    cr_assert(strstr(buffer, "MEMCTX_DECAY_MS=") != NULL, "%s", buffer);
}

Test(options, a_long_bad_value_is_cut_in_its_warning) {
    char entry[300] = "MEMCTX_DEPTH=";
    memset(entry + strlen(entry), 'x', 200);
    char *const environment[] = {entry, NULL};
    struct text warnings = text_new(sizeof buffer - 1);
    options_read(environment, &warnings);
    cr_assert(warnings.length > 0 && warnings.length < 200);
}

Test(options, set_live_ones_only) {
    static const struct {
        const char *assignment;
        enum option_result result;
    } cases[] = {
        {"depth=16", OPTION_SET},
        {"DEPTH=17", OPTION_SET},
        {"depth=129", OPTION_BAD_VALUE},
        {"depth=-1", OPTION_BAD_VALUE},
        {"depth=", OPTION_BAD_VALUE},
        {"waste_kib=64k", OPTION_BAD_VALUE},
        {"decay_ms=1K", OPTION_BAD_VALUE},
        {"depth", OPTION_UNKNOWN},
        {"nothing=1", OPTION_UNKNOWN},
        {"=1", OPTION_UNKNOWN},
        {"", OPTION_UNKNOWN},
        {"control=off", OPTION_FIXED},
        {"verbose=1", OPTION_FIXED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text answer = text_new(sizeof buffer - 1);
        cr_assert_eq(options_set(cases[i].assignment, &answer), cases[i].result, "\"%s\": %s",
                     cases[i].assignment, buffer);
        cr_assert(answer.length > 0);
    }
    cr_assert_eq(options.depth, 17);
}

Test(options, sizes_are_numbers_with_a_unit_or_a_percentage) {
    static const struct {
        const char *assignment;
        int64_t value; /* 0: refused */
    } cases[] = {
        {"tables=65536", 65536}, {"tables=64k", 65536},
        {"tables=4M", 4 << 20},  {"tables=1024G", 1L << 40},
        {"tables=1%", -1},       {"tables=50%", -50},
        {"tables=65535", 0},     {"tables=1025G", 0},
        {"tables=4KK", 0},       {"tables=1MK", 0},
        {"tables=0%", 0},        {"tables=51%", 0},
        {"tables=%", 0},         {"tables=5%%", 0},
        {"tables=4K%", 0},       {"tables=-5%", 0},
        {"tables=", 0},          {"tables=K", 0},
        {"tables=1e6", 0},       {"tables=000000000000000000000005%", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text answer = text_new(sizeof buffer - 1);
        enum option_result want = cases[i].value ? OPTION_SET : OPTION_BAD_VALUE;
        cr_assert_eq(options_set(cases[i].assignment, &answer), want, "\"%s\": %s",
                     cases[i].assignment, buffer);
        if (cases[i].value)
            cr_assert_eq(options.tables, cases[i].value, "\"%s\"", cases[i].assignment);
    }
}

Test(options, description_has_a_line_of_five_fields_for_each) {
    struct text text = text_new(sizeof buffer - 1);
    options_describe(&text);
    cr_assert_not(text.full);
    size_t lines = 0, tabs = 0;
    for (const char *at = buffer; *at; at++) {
        lines += *at == '\n';
        tabs += *at == '\t';
    }
#define COUNT(...) +1
    cr_assert_eq(lines, 0 MEMCTX_OPTIONS(COUNT));
#undef COUNT
    cr_assert_eq(tabs, lines * 4);
    cr_assert(strncmp(buffer, "depth\t32\t32\tlive\t", 17) == 0, "%s", buffer);
}

/* Reads one bit, without the functions under test. */
static bool bit_at(const uint64_t *bits, unsigned at) {
    return bits[at / 64] >> (at % 64) & 1;
}

Test(bits, agree_with_a_plain_model) {
    srand(7);
    for (int round = 0; round < 2000; round++) {
        uint64_t bits[4] = {0};
        bool model[BITS_COUNT] = {false};
        for (int i = 0; i < 12; i++) {
            unsigned start = (unsigned)rand() % BITS_COUNT;
            unsigned count = (unsigned)rand() % (BITS_COUNT - start + 1);
            bool set = rand() & 1;
            bits_fill(bits, start, count, set);
            for (unsigned at = start; at < start + count; at++)
                model[at] = set;
        }
        unsigned sum = 0;
        for (unsigned at = 0; at < BITS_COUNT; at++) {
            cr_assert_eq(bit_at(bits, at), model[at]);
            sum += model[at];
        }
        cr_assert_eq(bits_count_in(bits, 0, BITS_COUNT), sum);
        unsigned begin = (unsigned)rand() % BITS_COUNT;
        unsigned count = (unsigned)rand() % (BITS_COUNT - begin + 1), part = 0;
        for (unsigned at = begin; at < begin + count; at++)
            part += model[at];
        cr_assert_eq(bits_count_in(bits, begin, count), part);

        unsigned from = (unsigned)rand() % (BITS_COUNT + 1), next = from;
        while (next < BITS_COUNT && !model[next])
            next++;
        cr_assert_eq(bits_next(bits, from, true), next);

        unsigned wanted = (unsigned)rand() % 70 + 1, run = 0, longest = 0, first = BITS_COUNT;
        for (unsigned at = 0; at < BITS_COUNT; at++) {
            run = model[at] ? run + 1 : 0;
            longest = run > longest ? run : longest;
            bool ends = at + 1 == BITS_COUNT || !model[at + 1];
            if (run >= wanted && ends && first == BITS_COUNT)
                first = at + 1 - run;
            if (run && ends)
                cr_assert_eq(bits_run_around(bits, at + 1 - (unsigned)rand() % run - 1), run);
        }
        unsigned told;
        cr_assert_eq(bits_find_run(bits, wanted, &told), first);
        if (first == BITS_COUNT)
            cr_assert_eq(told, longest);
    }
}
