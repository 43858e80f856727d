/* SPDX-License-Identifier: MIT */
/* recorded.c - the time and the limits of a process or of a recorded moment, for the rules of
 * doctor; which recordings are older ones. */
#include "verbs/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void recorded_take(struct findings_input *input, const struct target *target,
                   struct limits_left *limits) {
    const struct model_recording *recording = input->model->recording;
    struct limits_mounts mounts;
    if (!target->is_snapshot) {
        input->now_s = (int64_t)time(NULL);
        limits_read_mounts(&mounts, "");
        limits_find_left(&mounts, target->facts.thread, limits);
        input->limit = limits->count > 0 ? limits->list : NULL;
        input->limit_count = limits->count;
        if (limits_find_throttled(&mounts, target->facts.thread, &limits->throttled))
            input->throttled = &limits->throttled;
    }
    if (!recording)
        return;
    input->now_s = (int64_t)(recording->moments[recording->chosen].wall_ns / 1000000000U);
    if (recording->cgroup_limit == WIRE_UNKNOWN || recording->cgroup_bytes == WIRE_UNKNOWN)
        return;
    int64_t bytes = model_tame(recording->cgroup_limit);
    int64_t left = bytes - model_tame(recording->cgroup_bytes);
    struct limits_found *limit = &limits->list[0];
    *limit = (struct limits_found){.bytes = bytes, .left_bytes = left > 0 ? left : 0};
    snprintf(limit->from, sizeof limit->from, "%s of %s",
             recording->cgroup_v1 ? "memory.limit_in_bytes" : "memory.max",
             recording->cgroup_above > 0 ? "a cgroup above its own" : "its cgroup");
    input->limit = limit;
    input->limit_count = limits->count = 1;
}

/* A program's own name may end in .1, as ruby3.1 does: its recording memctx-PID-ruby3.1.rec is no
 * older one. So a recording counts as older only if one without .1 is there. */
bool recorded_was_replaced(const char *path) {
    static const char end[] = ".1.rec";
    size_t length = strlen(path), end_length = sizeof end - 1;
    if (length < end_length || strcmp(path + length - end_length, end) != 0)
        return false;
    char *later = cli_format("%.*s.rec", (int)(length - end_length), path);
    bool found = access(later, F_OK) == 0;
    free(later);
    return found;
}
