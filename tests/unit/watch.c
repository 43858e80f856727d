/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/diagnosis/conditions.h: the conditions of `memctx watch`, with made-up
 * times. */
#include <criterion/criterion.h>
#include <string.h>

#include "diagnosis/conditions.h"

#define MI (INT64_C(1) << 20)
#define COOL_MS 1000

/* --- the grammar ----------------------------------------------------------------------------- */

static struct condition parse(const char *text) {
    struct condition condition;
    char error[CONDITION_ERROR_BYTES] = "";
    cr_assert(condition_parse(text, &condition, error, sizeof error), "%s: %s", text, error);
    cr_assert_str_eq(condition.text, text);
    return condition;
}

Test(conditions, good_ones_parse) {
    static const struct {
        const char *text;
        enum condition_kind kind;
        enum condition_scale scale;
        int64_t threshold, window_ms;
    } cases[] = {
        {"rss>85%limit", CONDITION_RSS, CONDITION_OF_LIMIT, 850000, 0},
        {"rss>12.5%limit", CONDITION_RSS, CONDITION_OF_LIMIT, 125000, 0},
        {"rss>2G", CONDITION_RSS, CONDITION_ABSOLUTE, 2048 * MI, 0},
        {"rss>1.5G", CONDITION_RSS, CONDITION_ABSOLUTE, 1536 * MI, 0},
        {"rss>1T", CONDITION_RSS, CONDITION_ABSOLUTE, INT64_C(1) << 40, 0},
        {"rss>7", CONDITION_RSS, CONDITION_ABSOLUTE, 7, 0},
        {"rss>7B", CONDITION_RSS, CONDITION_ABSOLUTE, 7, 0},
        {"inuse>3MiB", CONDITION_INUSE, CONDITION_ABSOLUTE, 3 * MI, 0},
        {"inuse>3MB", CONDITION_INUSE, CONDITION_ABSOLUTE, 3 * MI, 0},
        {"waste>30%", CONDITION_WASTE, CONDITION_OF_RESIDENT, 300000, 0},
        {"waste>30%rss", CONDITION_WASTE, CONDITION_OF_RESIDENT, 300000, 0},
        {"waste>30%limit", CONDITION_WASTE, CONDITION_OF_LIMIT, 300000, 0},
        {"waste>64k", CONDITION_WASTE, CONDITION_ABSOLUTE, 65536, 0},
        {"growth>100M/10m", CONDITION_GROWTH, CONDITION_ABSOLUTE, 100 * MI, 600000},
        {"growth>1K/24h", CONDITION_GROWTH, CONDITION_ABSOLUTE, 1024, 86400000},
        {"psi>150ms/2s", CONDITION_PSI, CONDITION_ABSOLUTE, 150000, 2000},
        {"psi>1.5/10", CONDITION_PSI, CONDITION_ABSOLUTE, 1500000, 10000},
        {"used>90%limit", CONDITION_USED, CONDITION_OF_LIMIT, 900000, 0},
        {"ends", CONDITION_ENDS, CONDITION_ABSOLUTE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct condition condition = parse(cases[i].text);
        cr_assert_eq(condition.kind, cases[i].kind, "%s", cases[i].text);
        cr_assert_eq(condition.scale, cases[i].scale, "%s", cases[i].text);
        cr_assert_eq(condition.threshold, cases[i].threshold, "%s: %lld", cases[i].text,
                     (long long)condition.threshold);
        cr_assert_eq(condition.window_ms, cases[i].window_ms, "%s", cases[i].text);
    }
}

Test(conditions, bad_ones_say_why) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "no figure"},
        {"rss", "quote the condition"},
        {"rss<5", "only comparison is >"},
        {"rss>=5", "only comparison is >"},
        {"rss=5", "only comparison is >"},
        {"rsss>5", "no figure"},
        {"RSS>5", "no figure"},
        {"rss>", "no size"},
        {"rss>-5", "no size"},
        {"rss>1.2.3M", "no size"},
        {"rss>5Q", "no size"},
        {"rss>5Mx", "no size"},
        {"rss> 5", "no size"},
        {"rss>99999999999999999999", "no size"},
        {"rss>9999999999T", "no size"},
        {"rss>%limit", "no share"},
        {"rss>85%", "%limit"},
        {"rss>85%limits", "%limit"},
        {"inuse>85%rss", "%limit"},
        {"used>5M", "no share of a limit"},
        {"used>100%limit", "no share of a limit"},
        {"used>90%", "%limit"},
        {"used>", "no size"},
        {"waste>85%foo", "does not say of what it is a share"},
        {"waste>100%", "never holds"},
        {"waste>101%rss", "never holds"},
        {"growth>100M", "growth>100M/10m"},
        {"growth>100M/", "no time"},
        {"growth>100M/10x", "no time"},
        {"growth>100M/10ms", "no time"},
        {"growth>100M/25h", "no time"},
        {"growth>/10m", "no size"},
        {"psi>150ms", "psi>150ms/2s"},
        {"psi>150ms/100ms", "no window"},
        {"psi>3s/2s", "smaller"},
        {"ends>5", "no figure"},
        {"rss>0000000000000000000000000000000000000000000000001", "too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct condition condition;
        char error[CONDITION_ERROR_BYTES] = "";
        cr_assert_not(condition_parse(cases[i].text, &condition, error, sizeof error), "%s",
                      cases[i].text);
        cr_assert(strstr(error, cases[i].reason), "%s: %s", cases[i].text, error);
    }
}

Test(conditions, times_parse_or_are_refused) {
    int64_t ms;
    cr_assert(condition_parse_time("150ms", &ms) && ms == 150);
    cr_assert(condition_parse_time("2", &ms) && ms == 2000);
    cr_assert(condition_parse_time("1.5m", &ms) && ms == 90000);
    cr_assert(condition_parse_time("24h", &ms) && ms == CONDITION_WINDOW_MS_MAX);
    cr_assert_not(condition_parse_time("25h", &ms));
    cr_assert_not(condition_parse_time("", &ms));
    cr_assert_not(condition_parse_time("s", &ms));
    cr_assert_not(condition_parse_time("-1s", &ms));
    cr_assert_not(condition_parse_time("5d", &ms));
}

/* --- when they hold -------------------------------------------------------------------------- */

static struct condition_state state;

static struct condition_result rss_at(const struct condition *condition, int64_t now_ms,
                                      int64_t rss) {
    struct condition_reading reading = condition_no_reading(now_ms);
    reading.rss_bytes = rss;
    reading.limit_bytes = 1000 * MI;
    return condition_evaluate(condition, &state, &reading, COOL_MS);
}

Test(conditions, holds_above_the_threshold_only) {
    struct condition condition = parse("rss>100M");
    cr_assert_not(rss_at(&condition, 0, 100 * MI).holds);
    struct condition_result result = rss_at(&condition, 1, 100 * MI + 1);
    cr_assert(result.known && result.holds && result.fires);
    cr_assert_eq(result.value, 100 * MI + 1);
    cr_assert_eq(result.threshold, 100 * MI);
}

Test(conditions, is_not_repeated_while_it_holds) {
    struct condition condition = parse("rss>100M");
    cr_assert(rss_at(&condition, 0, 200 * MI).fires);
    for (int64_t ms = 10; ms < 10 * COOL_MS; ms += 10) {
        struct condition_result result = rss_at(&condition, ms, 200 * MI);
        cr_assert(result.holds && !result.fires, "%lld ms", (long long)ms);
    }
}

Test(conditions, needs_to_fall_five_percent_below) {
    struct condition condition = parse("rss>100M");
    cr_assert(rss_at(&condition, 0, 101 * MI).fires);
    cr_assert_not(rss_at(&condition, 2000, 96 * MI).holds);
    /* 96 MiB is only 4 % below the limit, so the condition does not fire again */
    cr_assert_not(rss_at(&condition, 2010, 101 * MI).fires);
    cr_assert_not(rss_at(&condition, 2020, 95 * MI).holds);
    cr_assert(rss_at(&condition, 2030, 101 * MI).fires);
}

Test(conditions, cool_time_goes_first) {
    struct condition condition = parse("rss>100M");
    cr_assert(rss_at(&condition, 5000, 200 * MI).fires);
    cr_assert_not(rss_at(&condition, 5100, 10 * MI).holds);
    struct condition_result result = rss_at(&condition, 5999, 200 * MI);
    cr_assert(result.holds && !result.fires);
    /* fires after the cool time, because the condition was false during it */
    cr_assert(rss_at(&condition, 6000, 200 * MI).fires);
}

Test(conditions, failed_action_is_due_again) {
    struct condition condition = parse("rss>100M");
    cr_assert(rss_at(&condition, 0, 200 * MI).fires);
    condition_action_failed(&state);
    cr_assert_not(rss_at(&condition, 999, 200 * MI).fires);
    cr_assert(rss_at(&condition, 1000, 200 * MI).fires);
    cr_assert_not(rss_at(&condition, 3000, 200 * MI).fires);
}

Test(conditions, share_of_a_limit_follows_it) {
    struct condition condition = parse("rss>85%limit");
    cr_assert(condition_needs_limit(&condition) && !condition_needs_target(&condition));
    cr_assert_not(rss_at(&condition, 0, 850 * MI).holds);
    struct condition_result result = rss_at(&condition, 0, 851 * MI);
    cr_assert(result.holds);
    cr_assert_eq(result.threshold, 850 * MI);
    struct condition_reading reading = condition_no_reading(10);
    reading.rss_bytes = INT64_C(1) << 50;
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).known);
}

Test(conditions, used_is_a_share_of_the_fullest_limit) {
    struct condition condition = parse("used>90%limit");
    struct condition_reading reading = condition_no_reading(0);
    cr_assert(!condition_needs_limit(&condition) && !condition_needs_target(&condition));
    reading.limit_bytes = MI; /* the smallest limit does not count */
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).known);
    reading.fullest_bytes = 1000 * MI;
    reading.used_bytes = 900 * MI;
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).holds);
    reading.used_bytes = 901 * MI;
    struct condition_result result = condition_evaluate(&condition, &state, &reading, COOL_MS);
    cr_assert(result.fires);
    cr_assert_eq(result.threshold, 900 * MI);
}

Test(conditions, waste_is_a_share_of_the_resident_set) {
    struct condition condition = parse("waste>30%");
    struct condition_reading reading = condition_no_reading(0);
    cr_assert(condition_needs_target(&condition));
    reading.rss_bytes = 100 * MI;
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).known);
    reading.waste_bytes = 30 * MI;
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).holds);
    reading.waste_bytes = 31 * MI;
    cr_assert(condition_evaluate(&condition, &state, &reading, COOL_MS).fires);
}

static struct condition_result inuse_at(const struct condition *condition, int64_t now_ms,
                                        int64_t inuse) {
    struct condition_reading reading = condition_no_reading(now_ms);
    reading.inuse_bytes = inuse;
    return condition_evaluate(condition, &state, &reading, COOL_MS);
}

Test(conditions, growth_within_the_time) {
    struct condition condition = parse("growth>100M/1m");
    /* Growth of 90 MiB a minute, read each second for an hour, is below the limit. */
    for (int64_t s = 0; s < 3600; s++) {
        struct condition_result result = inuse_at(&condition, s * 1000, s * 90 * MI / 60);
        cr_assert_not(result.holds, "%lld s: %lld", (long long)s, (long long)result.value);
        cr_assert(s < 120 || result.value > 80 * MI, "%lld", (long long)result.value);
    }
    /* Growth of 120 MiB a minute is above the limit. */
    memset(&state, 0, sizeof state);
    int64_t held = -1;
    for (int64_t s = 0; s < 120 && held < 0; s++)
        if (inuse_at(&condition, s * 1000, s * 120 * MI / 60).fires)
            held = s;
    cr_assert(held == 51, "%lld", (long long)held);
}

Test(conditions, growth_counts_from_the_least_value) {
    struct condition condition = parse("growth>100M/1m");
    cr_assert_not(inuse_at(&condition, 0, 500 * MI).holds);
    cr_assert_not(inuse_at(&condition, 1000, 100 * MI).holds);
    cr_assert_not(inuse_at(&condition, 2000, 150 * MI).holds);
    cr_assert_eq(inuse_at(&condition, 3000, 201 * MI).value, 101 * MI);
    /* A minute later the least value has left the window. */
    cr_assert_eq(inuse_at(&condition, 63500, 201 * MI).value, 0);
    cr_assert_not(inuse_at(&condition, 63600, CONDITION_UNKNOWN).known);
}

static struct condition_result psi_at(const struct condition *condition, int64_t now_ms,
                                      int64_t total_us, bool pressed) {
    struct condition_reading reading = condition_no_reading(now_ms);
    reading.pressure_us = total_us;
    reading.pressed = pressed;
    return condition_evaluate(condition, &state, &reading, COOL_MS);
}

Test(conditions, pressure_within_the_window) {
    struct condition condition = parse("psi>150ms/2s");
    int64_t total = 7000000;
    cr_assert_not(psi_at(&condition, 0, total, false).holds);
    /* The processes stall for 50 ms of each second. */
    for (int64_t s = 1; s < 60; s++)
        cr_assert_not(psi_at(&condition, s * 1000, total += 50000, false).holds);
    cr_assert_eq(psi_at(&condition, 60000, total += 50000, false).value, 100000);
    cr_assert_eq(psi_at(&condition, 61000, total += 120000, false).value, 170000);
    cr_assert(state.fired);
    /* The readings are 10 s apart, the window has 2 s: the value is a fifth of the 500 ms of
     * waiting. */
    cr_assert_eq(psi_at(&condition, 71000, total += 500000, false).value, 100000);
}

Test(conditions, pressure_that_the_kernel_reports) {
    struct condition condition = parse("psi>150ms/2s");
    cr_assert_not(psi_at(&condition, 0, 5000, false).holds);
    struct condition_result result = psi_at(&condition, 100, 154000, true);
    cr_assert(result.fires);
    cr_assert_eq(result.value, 150000);
    /* The total is smaller: the process has moved to another cgroup. From now on, only the waits of
     * the tasks in that cgroup count. */
    cr_assert_eq(psi_at(&condition, 200, 1000, false).value, 0);
    cr_assert_eq(psi_at(&condition, 300, 1000, false).value, 0);
    cr_assert_eq(psi_at(&condition, 400, 61000, false).value, 60000);
}

Test(conditions, end_fires_once) {
    struct condition condition = parse("ends");
    struct condition_reading reading = condition_no_reading(0);
    cr_assert_not(condition_evaluate(&condition, &state, &reading, 0).holds);
    reading.ended = true;
    cr_assert(condition_evaluate(&condition, &state, &reading, 0).fires);
    cr_assert_not(condition_evaluate(&condition, &state, &reading, 0).fires);
}
