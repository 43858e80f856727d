/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/target/limits.h: a process's limits of memory, and how much is left of
 * them, read from made-up trees of /proc and /sys. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/limits.h"

#define MI (INT64_C(1) << 20)

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
