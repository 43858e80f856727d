/* SPDX-License-Identifier: MIT */
/*
 * Tests of `memctx watch`: conditions (tools/memctx/diagnosis/conditions.c) with made-up times, and
 * memory limits (tools/memctx/target/limits.c) read from made-up trees of /proc and /sys.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diagnosis/conditions.h"
#include "target/limits.h"

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

static struct condition_reading at(int64_t now_ms) {
    return (struct condition_reading){.now_ms = now_ms,
                                      .rss_bytes = CONDITION_UNKNOWN,
                                      .inuse_bytes = CONDITION_UNKNOWN,
                                      .waste_bytes = CONDITION_UNKNOWN,
                                      .limit_bytes = CONDITION_UNKNOWN,
                                      .fullest_bytes = CONDITION_UNKNOWN,
                                      .used_bytes = CONDITION_UNKNOWN,
                                      .pressure_us = CONDITION_UNKNOWN};
}

static struct condition_result rss_at(const struct condition *condition, int64_t now_ms,
                                      int64_t rss) {
    struct condition_reading reading = at(now_ms);
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
    struct condition_reading reading = at(10);
    reading.rss_bytes = INT64_C(1) << 50;
    cr_assert_not(condition_evaluate(&condition, &state, &reading, COOL_MS).known);
}

Test(conditions, used_is_a_share_of_the_fullest_limit) {
    struct condition condition = parse("used>90%limit");
    struct condition_reading reading = at(0);
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
    struct condition_reading reading = at(0);
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
    struct condition_reading reading = at(now_ms);
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
    struct condition_reading reading = at(now_ms);
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
    struct condition_reading reading = at(0);
    cr_assert_not(condition_evaluate(&condition, &state, &reading, 0).holds);
    reading.ended = true;
    cr_assert(condition_evaluate(&condition, &state, &reading, 0).fires);
    cr_assert_not(condition_evaluate(&condition, &state, &reading, 0).fires);
}

/* --- limits: trees that are made up ---------------------------------------------------------- */

static char root[] = "/tmp/memctx-limits-XXXXXX";
static struct limits_mounts mounts;
static struct limits_found found;

static void put(const char *path, const char *text) {
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        cr_assert(mkdir(whole, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", whole);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void remove_tree(void) {
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_tree(void) {
    cr_assert(mkdtemp(root));
    cr_assert(atexit(remove_tree) == 0);
    put("/proc/meminfo", "MemTotal:        8192 kB\nMemFree: 1 kB\n");
}

static int64_t find(void) {
    limits_read_mounts(&mounts, root);
    return limits_find_smallest(&mounts, 7, &found) ? found.bytes : -1;
}

#define V2_MOUNT "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define V1_MOUNT "35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n"

Test(limits, machine_without_cgroups, .init = make_tree) {
    cr_assert_eq(find(), 8 * MI);
    cr_assert_str_eq(found.from, "MemTotal of the machine");
}

Test(limits, nothing_can_be_read, .init = make_tree) {
    limits_read_mounts(&mounts, "/tmp/memctx-no-such-root");
    cr_assert_not(limits_find_smallest(&mounts, 7, &found));
}

Test(limits, version_2_smallest_of_the_way_up, .init = make_tree) {
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/pods/pod1/c\n");
    put("/sys/fs/cgroup/pods/pod1/c/memory.max", "max\n");
    put("/sys/fs/cgroup/pods/pod1/c/memory.high", "max\n");
    cr_assert_eq(find(), 8 * MI);
    put("/sys/fs/cgroup/pods/pod1/memory.max", "5000000\n");
    cr_assert_eq(find(), 5000000);
    cr_assert_str_eq(found.from, "memory.max of /pods/pod1");
    put("/sys/fs/cgroup/pods/pod1/c/memory.high", "4000000\n");
    cr_assert_eq(find(), 4000000);
    cr_assert_str_eq(found.from, "memory.high of /pods/pod1/c");
    put("/sys/fs/cgroup/memory.max", "3000000\n");
    cr_assert_eq(find(), 3000000);
    cr_assert_str_eq(found.from, "memory.max of /");
    put("/sys/fs/memory.max", "10\n"); /* above the mount point, so it is not read */
    cr_assert_eq(find(), 3000000);
}

Test(limits, version_1_with_a_version_2_beside_it, .init = make_tree) {
    put("/proc/self/mountinfo",
        V2_MOUNT V1_MOUNT "36 31 0:33 / /cg/cpu rw - cgroup cgroup rw,cpu\n");
    put("/proc/7/cgroup", "4:memory:/docker/abc\n1:cpu:/other\n0::/unified\n");
    put("/cg/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(find(), 8 * MI);
    put("/cg/memory/docker/memory.limit_in_bytes", "7000000\n");
    cr_assert_eq(find(), 7000000);
    cr_assert_str_eq(found.from, "memory.limit_in_bytes of /docker");
    put("/cg/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
    put("/proc/meminfo", "");
    cr_assert_eq(find(), -1);
    put("/proc/meminfo", "MemTotal:        8192 kB\n");
    put("/cg/memory/docker/abc/memory.limit_in_bytes", "6000000\n");
    cr_assert_eq(find(), 6000000);
}

Test(limits, mount_of_a_cgroup_below_the_root, .init = make_tree) {
    put("/proc/self/mountinfo",
        "35 31 0:32 /docker/abc /cg/my\\040memory rw - cgroup cgroup rw,memory\n");
    put("/proc/7/cgroup", "4:memory,hugetlb:/docker/abc/inner\n");
    put("/cg/my memory/memory.limit_in_bytes", "6000000\n");
    put("/cg/my memory/inner/memory.limit_in_bytes", "6500000\n");
    cr_assert_eq(find(), 6000000);
    put("/cg/my memory/inner/memory.limit_in_bytes", "5000000\n");
    cr_assert_eq(find(), 5000000);
    cr_assert_str_eq(found.from, "memory.limit_in_bytes of /docker/abc/inner");
    /* The name begins like that of the mounted group, but the group is not below it. */
    put("/proc/7/cgroup", "4:memory,hugetlb:/docker/abcd\n");
    put("/cg/my memoryd/memory.limit_in_bytes", "1000\n");
    cr_assert_eq(find(), 6000000);
}

Test(limits, cgroup_of_a_neighbour_in_a_namespace, .init = make_tree) {
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/../other\n");
    /* limit of this container, but process 7 is in a neighbour */
    put("/sys/fs/cgroup/memory.max", "1000\n");
    cr_assert_eq(find(), 8 * MI);
    put("/proc/7/root/sys/fs/cgroup/memory.max", "2000000\n");
    cr_assert_eq(find(), 2000000);
}

Test(limits, resource_limits, .init = make_tree) {
    put("/proc/7/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max data size             unlimited            unlimited            bytes\n"
        "Max address space         unlimited            unlimited            bytes\n");
    cr_assert_eq(find(), 8 * MI);
    put("/proc/7/limits",
        "Max data size             3000000              unlimited            bytes\n"
        "Max stack size            10                   10                   bytes\n"
        "Max address space         2000000              unlimited            bytes\n");
    cr_assert_eq(find(), 2000000);
    cr_assert_str_eq(found.from, "RLIMIT_AS of the process");
}

Test(limits, damaged_files_are_left_out, .init = make_tree) {
    put("/proc/self/mountinfo", "nonsense\n - \n1 2 3 - cgroup2\n" V2_MOUNT);
    put("/proc/7/cgroup", "nonsense\n0::\n0:\n\n0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "");
    put("/sys/fs/cgroup/a/memory.high", "-5\n");
    put("/proc/7/limits", "Max data size\n");
    cr_assert_eq(find(), 8 * MI);
}

static bool is_throttled(struct limits_throttled *throttled) {
    limits_read_mounts(&mounts, root);
    return limits_find_throttled(&mounts, 7, throttled);
}

/* Above memory.high, the kernel makes threads wait that allocate. */
Test(limits, group_above_memory_high, .init = make_tree) {
    struct limits_throttled throttled;
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/pods/pod1\n");
    cr_assert_not(is_throttled(&throttled));
    put("/sys/fs/cgroup/pods/memory.high", "3000000\n");
    put("/sys/fs/cgroup/pods/memory.current", "3600000\n");
    put("/sys/fs/cgroup/pods/memory.stat", "inactive_file 600000\n");
    cr_assert_not(is_throttled(&throttled), "no pressure is known");
    put("/sys/fs/cgroup/pods/memory.pressure",
        "some avg10=0.00 avg60=4.90 avg300=0.00 total=1\nfull avg10=0.00 avg60=90.00\n");
    cr_assert_not(is_throttled(&throttled));
    put("/sys/fs/cgroup/pods/memory.pressure", "some avg10=0.00 avg60=37.20 avg300=0.00 total=1\n");
    cr_assert(is_throttled(&throttled));
    cr_assert_eq(throttled.high_bytes, 3000000);
    cr_assert_eq(throttled.used_bytes, 3000000);
    cr_assert_eq(throttled.waited_percent, 37);
    cr_assert_str_eq(throttled.group, "/pods");
    put("/sys/fs/cgroup/pods/memory.stat", "inactive_file 700000\n");
    cr_assert_not(is_throttled(&throttled), "the kernel can still drop contents of files");
    put("/sys/fs/cgroup/pods/memory.stat", "");
    put("/sys/fs/cgroup/pods/memory.high", "max\n");
    cr_assert_not(is_throttled(&throttled));
}

static struct limits_left left;

/* Returns the bytes left below the limit that leaves the fewest; -1: no limit is known. */
static int64_t find_left(void) {
    limits_read_mounts(&mounts, root);
    limits_find_left(&mounts, 7, &left);
    found = left.list[0];
    return left.count > 0 ? found.left_bytes : -1;
}

Test(limits, left_on_the_machine, .init = make_tree) {
    cr_assert_eq(find_left(), -1); /* /proc/meminfo has no MemAvailable yet */
    put("/proc/meminfo", "MemTotal:        8192 kB\nMemFree: 1 kB\nMemAvailable:    4096 kB\n");
    cr_assert_eq(find_left(), 4 * MI);
    cr_assert_eq(found.bytes, 8 * MI);
    cr_assert_str_eq(found.from, "the machine's memory");
}

Test(limits, left_in_cgroups_of_version_2, .init = make_tree) {
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/pods/pod1\n");
    put("/sys/fs/cgroup/pods/pod1/memory.max", "3000000\n");
    /* memory.high only slows processes down */
    put("/sys/fs/cgroup/pods/pod1/memory.high", "1000\n");
    cr_assert_eq(find_left(), -1); /* memory.current does not exist yet */
    put("/sys/fs/cgroup/pods/pod1/memory.current", "1000000\n");
    cr_assert_eq(find_left(), 2000000);
    cr_assert_eq(found.bytes, 3000000);
    cr_assert_str_eq(found.from, "memory.max of cgroup /pods/pod1");
    put("/sys/fs/cgroup/pods/pod1/memory.stat",
        "anon 5\nactive_file 70000\ninactive_file 600000\ninactive_file_more 9\n"
        "slab_reclaimable 5000\n");
    cr_assert_eq(find_left(), 2675000);
    /* the limit is larger, but other pods use most of it */
    put("/sys/fs/cgroup/pods/memory.max", "9000000\n");
    put("/sys/fs/cgroup/pods/memory.current", "8000000\n");
    cr_assert_eq(find_left(), 1000000);
    cr_assert_str_eq(found.from, "memory.max of cgroup /pods");
    put("/sys/fs/cgroup/pods/memory.current", "9500000\n");
    cr_assert_eq(find_left(), 0);
    cr_assert_eq(find(), 1000);
    cr_assert_eq(found.left_bytes, LIMITS_UNKNOWN);
}

Test(limits, left_in_a_cgroup_of_version_1, .init = make_tree) {
    put("/proc/self/mountinfo", V2_MOUNT V1_MOUNT);
    put("/proc/7/cgroup", "4:memory:/docker/abc\n0::/unified\n");
    put("/cg/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    put("/cg/memory/docker/abc/memory.usage_in_bytes", "400\n");
    cr_assert_eq(find_left(), -1);
    put("/cg/memory/docker/memory.limit_in_bytes", "7000000\n");
    put("/cg/memory/docker/memory.usage_in_bytes", "5000000\n");
    put("/cg/memory/docker/memory.stat",
        "inactive_file 50\ntotal_inactive_file 1000\ntotal_active_file 500\n");
    cr_assert_eq(find_left(), 2001500);
    cr_assert_str_eq(found.from, "memory.limit_in_bytes of cgroup /docker");
}

Test(limits, left_of_resource_limits, .init = make_tree) {
    put("/proc/7/limits",
        "Max data size             3000000              unlimited            bytes\n"
        "Max address space         2000000              unlimited            bytes\n");
    cr_assert_eq(find_left(), -1);
    put("/proc/7/status", "Name:\tx\nVmSize:\t    1000 kB\nVmData:\t    2000 kB\n");
    cr_assert_eq(find_left(), 3000000 - 2000 * 1024);
    cr_assert_eq(found.bytes, 3000000);
    cr_assert_str_eq(found.from, "RLIMIT_DATA");
    put("/proc/7/limits",
        "Max data size             unlimited            unlimited            bytes\n"
        "Max address space         2000000              unlimited            bytes\n");
    cr_assert_eq(find_left(), 2000000 - 1000 * 1024);
    cr_assert_str_eq(found.from, "RLIMIT_AS");
}

/* All limits are found, the one that leaves least first; of equal ones that of the innermost group
 * is first. */
Test(limits, all_that_is_left, .init = make_tree) {
    static const char *const names[] = {
        "memory.max of cgroup /pods/pod1", "memory.max of cgroup /pods", "RLIMIT_DATA", "RLIMIT_AS",
        "CommitLimit of the machine",      "the machine's memory"};
    static const int64_t bytes[] = {1000000, 2000000, 3000000, 4000000, 5000 * 1024, 6000 * 1024};
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/pods/pod1\n");
    put("/sys/fs/cgroup/pods/pod1/memory.max", "5000000\n");
    put("/sys/fs/cgroup/pods/pod1/memory.current", "4000000\n");
    put("/sys/fs/cgroup/pods/memory.max", "9000000\n");
    put("/sys/fs/cgroup/pods/memory.current", "7000000\n");
    put("/proc/7/status", "Name:\tx\nVmSize:\t    0 kB\nVmData:\t    0 kB\n");
    put("/proc/7/limits",
        "Max data size             3000000              unlimited            bytes\n"
        "Max address space         4000000              unlimited            bytes\n");
    put("/proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 6000 kB\nCommitLimit: 7000 kB\n"
                         "Committed_AS: 2000 kB\n");
    cr_assert_eq(find_left(), 1000000);
    cr_assert_eq(left.count, 5); /* CommitLimit counts only if overcommit_memory is 2 */
    put("/proc/sys/vm/overcommit_memory", "2\n");
    cr_assert_eq(find_left(), 1000000);
    cr_assert_eq(left.count, 6);
    for (size_t i = 0; i < left.count; i++) {
        cr_assert_eq(left.list[i].left_bytes, bytes[i]);
        cr_assert_str_eq(left.list[i].from, names[i]);
    }
    put("/sys/fs/cgroup/pods/memory.current", "8000000\n");
    cr_assert_eq(find_left(), 1000000);
    cr_assert_str_eq(found.from, names[0]);
}

/* Of more groups than the list has room for, those that leave most are left out. */
Test(limits, too_many_groups, .init = make_tree) {
    char folder[512] = "", path[600], text[32], line[600];
    put("/proc/self/mountinfo", V2_MOUNT);
    for (int i = 0; i < LIMITS_MOST + 8; i++) {
        snprintf(folder + strlen(folder), sizeof folder - strlen(folder), "/g%d", i);
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", folder);
        snprintf(text, sizeof text, "%d\n", 1000 + i * 10);
        put(path, text);
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", folder);
        put(path, "1000\n");
    }
    snprintf(line, sizeof line, "0::%s\n", folder);
    put("/proc/7/cgroup", line);
    cr_assert_eq(find_left(), 0);
    cr_assert_eq(left.count, LIMITS_MOST);
    for (int i = 0; i < LIMITS_MOST; i++)
        cr_assert_eq(left.list[i].left_bytes, i * 10);
}

/* Two groups whose paths agree in their first 300 and their last 200 characters have different
 * numbers. The text has both ends of a path. */
Test(limits, groups_with_long_paths, .init = make_tree) {
    char begin[512] = "/start", line[1024], path[PATH_MAX];
    uint64_t groups[2];
    put("/proc/self/mountinfo", V2_MOUNT);
    for (int i = 0; i < 300; i++)
        strcat(begin, i % 100 ? "a" : "/a");
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s%d/%0200d/end", begin, i, 0);
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line);
        put(path, "3000000\n");
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", line);
        put(path, "1000000\n");
        snprintf(path, sizeof path, "0::%s\n", line);
        put("/proc/7/cgroup", path);
        cr_assert_eq(find_left(), 2000000);
        cr_assert(strncmp(found.from, "memory.max of cgroup /start", 27) == 0, "%s", found.from);
        cr_assert_str_eq(found.from + strlen(found.from) - 4, "/end");
        groups[i] = found.group;
    }
    cr_assert(groups[0] != 0 && groups[0] != groups[1]);
}

Test(limits, pressure_of_the_nearest_cgroup, .init = make_tree) {
    char path[PATH_MAX], want[PATH_MAX];
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/7/cgroup", "0::/a/b\n");
    limits_read_mounts(&mounts, root);
    cr_assert_not(limits_find_pressure(&mounts, 7, path, sizeof path));
    put("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=123456789012\n"
                                 "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    cr_assert(limits_find_pressure(&mounts, 7, path, sizeof path));
    cr_assert_eq(limits_read_pressure(path), 123456789012);
    put("/sys/fs/cgroup/a/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
    cr_assert(limits_find_pressure(&mounts, 7, path, sizeof path));
    snprintf(want, sizeof want, "%s/sys/fs/cgroup/a/memory.pressure", root);
    cr_assert_str_eq(path, want);
    cr_assert_eq(limits_read_pressure(path), 77);
    put("/sys/fs/cgroup/a/memory.pressure", "full total=1\n");
    cr_assert_eq(limits_read_pressure(path), -1);
    cr_assert_eq(limits_open_trigger("/nowhere", 150000, 2000000), -1);
}
