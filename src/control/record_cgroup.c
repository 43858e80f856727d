/* SPDX-License-Identifier: MIT */
/*
 * Reads the figures of the process's control group for the black box.
 *
 * Cannot do: find a group that is not mounted below /sys/fs/cgroup. The figures are then
 * WIRE_UNKNOWN.
 */
#include "base/text.h"
#include "control/recorder.h"
#include "os/os.h"
#include "os/syscall.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Returns the number at the start of `text`; WIRE_UNKNOWN: there is none, as in "max". */
static int64_t number_of(const char *text) {
    int64_t value = 0;
    if (*text < '0' || *text > '9')
        return WIRE_UNKNOWN;
    for (; *text >= '0' && *text <= '9' && value < INT64_MAX / 16; text++)
        value = value * 10 + (*text - '0');
    return value;
}

/* Returns a number from `file` in the folder of a control group. The folder is the first
 * `folder_length` bytes of recorder->cgroup. The number follows `line_name` at the start of a line,
 * or begins the first line if `line_name` is NULL. WIRE_UNKNOWN: there is no number. */
static int64_t read_figure(size_t folder_length, const char *file, const char *line_name) {
    char path[600], room[4096];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    text_add_bytes(&text, recorder->cgroup, folder_length);
    text_add(&text, file);
    path[text.length] = 0;
    if (!recorder->cgroup[0] || text.full || os_read_file(path, room, sizeof room) <= 0)
        return WIRE_UNKNOWN;
    const char *at = room;
    size_t length = line_name ? text_length(line_name) : 0;
    while (line_name && *at && __builtin_strncmp(at, line_name, length) != 0) {
        while (*at && *at != '\n')
            at++;
        at += *at == '\n';
    }
    int64_t value = number_of(at + (*at ? length : 0));
    /* Version 1 writes a number near INT64_MAX if there is no limit. */
    return value >= INT64_MAX / 32 ? WIRE_UNKNOWN : value;
}

/* Returns the bytes that a group uses, less those that the kernel takes back before it kills a
 * process: the contents of files fill most groups up to their limit. */
static int64_t read_use(size_t length) {
    static const char *const version_1[] = {"total_inactive_file ", "total_active_file "},
                             *const version_2[] = {"inactive_file ", "active_file ",
                                                   "slab_reclaimable "};
    bool v1 = recorder->cgroup_v1;
    int64_t bytes = read_figure(length, v1 ? "/memory.usage_in_bytes" : "/memory.current", NULL);
    const char *const *names = v1 ? version_1 : version_2;
    size_t count = v1 ? sizeof version_1 / sizeof *names : sizeof version_2 / sizeof *names;
    for (size_t i = 0; i < count && bytes != WIRE_UNKNOWN; i++) {
        int64_t part = read_figure(length, "/memory.stat", names[i]);
        if (part != WIRE_UNKNOWN)
            bytes = bytes > part ? bytes - part : 0;
    }
    return bytes;
}

/* The limit of a group above holds for the process, too. The loop ends at the mount point, because
 * the process sees no group above it. The length of the path bounds the number of groups. */
void recorder_read_cgroup(struct record_moment *moment) {
    const char *most = recorder->cgroup_v1 ? "/memory.limit_in_bytes" : "/memory.max";
    const char *events = recorder->cgroup_v1 ? "/memory.oom_control" : "/memory.events";
    size_t length = text_length(recorder->cgroup);
    int64_t least = INT64_MAX; /* bytes that the tightest limit so far leaves */
    moment->cgroup_bytes = read_use(length);
    moment->cgroup_limit = WIRE_UNKNOWN;
    moment->cgroup_oom_kills = read_figure(length, events, "oom_kill ");
    for (uint32_t above = 0;; above++) {
        int64_t limit = read_figure(length, most, NULL);
        int64_t bytes = limit == WIRE_UNKNOWN ? WIRE_UNKNOWN : read_use(length);
        if (bytes != WIRE_UNKNOWN && limit - bytes < least) {
            least = limit - bytes;
            moment->cgroup_bytes = bytes;
            moment->cgroup_limit = limit;
            moment->cgroup_above = above;
        }
        if (length <= recorder->cgroup_top)
            break;
        while (recorder->cgroup[--length] != '/') {
        }
    }
}

uint64_t recorder_cgroup_inode(void) {
    struct stat status = {0};
    if (!recorder->cgroup[0] ||
        OS_CALL(SYS_newfstatat, AT_FDCWD, recorder->cgroup, &status, 0, 0, 0))
        return 0;
    return status.st_ino;
}

void recorder_find_cgroup(void) {
    char room[8192]; /* hosts with cgroup v1 have a dozen lines of up to 200 bytes */
    int64_t length = os_read_file("/proc/self/cgroup", room, sizeof room);
    for (int64_t i = 0, line = 0; i < length; i++) {
        if (room[i] != '\n')
            continue;
        room[i] = 0;
        const char *at = room + line;
        line = i + 1;
        bool v1 = text_has(at, ":memory:");
        if (!v1 && __builtin_strncmp(at, "0::", 3) != 0)
            continue;
        for (int colons = 0; *at && colons < 2; at++)
            colons += *at == ':';
        /* in a container the mount point may be the group itself */
        for (int top = 0; top < 2; top++) {
            struct text text = {.bytes = recorder->cgroup, .capacity = sizeof recorder->cgroup - 1};
            text_add(&text, v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
            recorder->cgroup_top = text.length;
            text_add(&text, top || text_equal(at, "/") ? "" : at);
            recorder->cgroup[text.length] = 0;
            recorder->cgroup_v1 = v1;
            const char *current = v1 ? "/memory.usage_in_bytes" : "/memory.current";
            if (!text.full && read_figure(text.length, current, NULL) != WIRE_UNKNOWN)
                return;
        }
    }
    recorder->cgroup[0] = 0;
}
