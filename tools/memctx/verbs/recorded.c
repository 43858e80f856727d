/* SPDX-License-Identifier: MIT */
/* recorded.c - the time and the limit of a process or of a recorded moment, for the rules of
 * doctor. */
#include "verbs/recorded.h"

#include <stdio.h>
#include <time.h>

void recorded_take(struct findings_input *input, const struct target *target,
                   struct limits_found *limit) {
    const struct model_recording *recording = input->model->recording;
    struct limits_mounts mounts;
    if (!target->is_snapshot) {
        input->now_s = (int64_t)time(NULL);
        limits_read_mounts(&mounts, "");
        if (limits_find_tightest(&mounts, target->facts.thread, limit))
            input->limit = limit;
    }
    if (!recording)
        return;
    input->now_s = (int64_t)(recording->moments[recording->chosen].wall_ns / 1000000000U);
    if (recording->cgroup_limit == WIRE_UNKNOWN || recording->cgroup_bytes == WIRE_UNKNOWN)
        return;
    int64_t bytes = model_tame(recording->cgroup_limit);
    int64_t left = bytes - model_tame(recording->cgroup_bytes);
    *limit = (struct limits_found){.bytes = bytes, .left_bytes = left > 0 ? left : 0};
    snprintf(limit->from, sizeof limit->from, "%s of %s",
             recording->cgroup_v1 ? "memory.limit_in_bytes" : "memory.max",
             recording->cgroup_above > 0 ? "a cgroup above its own" : "its cgroup");
    input->limit = limit;
}
