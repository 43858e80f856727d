/* SPDX-License-Identifier: MIT */
/*
 * The control group's figures for the black box.
 *
 * Cannot do: find a group that is mounted elsewhere than usual; its figures are WIRE_UNKNOWN then.
 */
#include "base/text.h"
#include "control/recorder.h"
#include "os/os.h"

/* Returns the value of a line of digits; WIRE_UNKNOWN if there is none, such as "max". */
static int64_t number_of(const char *text) {
    int64_t value = 0;
    if (*text < '0' || *text > '9')
        return WIRE_UNKNOWN;
    for (; *text >= '0' && *text <= '9' && value < INT64_MAX / 16; text++)
        value = value * 10 + (*text - '0');
    return value;
}

int64_t recorder_read_cgroup(const char *file, const char *line_name) {
    char path[600], room[512];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    text_add(&text, recorder->cgroup);
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
    return value >= INT64_MAX / 32 ? WIRE_UNKNOWN : value; /* version 1 has a number for "none" */
}

void recorder_find_cgroup(void) {
    char room[1024];
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
        for (int top = 0; top < 2; top++) { /* in a container the mount's top is the group */
            struct text text = {.bytes = recorder->cgroup, .capacity = sizeof recorder->cgroup - 1};
            text_add(&text, v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
            text_add(&text, top || text_equal(at, "/") ? "" : at);
            recorder->cgroup[text.length] = 0;
            recorder->cgroup_v1 = v1;
            const char *current = v1 ? "/memory.usage_in_bytes" : "/memory.current";
            if (!text.full && recorder_read_cgroup(current, NULL) != WIRE_UNKNOWN)
                return;
        }
    }
    recorder->cgroup[0] = 0;
}
