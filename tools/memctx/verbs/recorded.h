/* SPDX-License-Identifier: MIT */
/* recorded.h - what the rules of doctor need beside the model: the time, and the memory limits
 * of the process, or that of the control group in a recording. Also tells older recordings by their
 * paths. */
#ifndef MEMCTX_RECORDED_H
#define MEMCTX_RECORDED_H

#include "diagnosis/findings.h"
#include "target/target.h"

/* Sets input->now_s and, if there is a limit, input->limit, input->limit_count and
 * input->throttled. Does nothing for a snapshot or a core file. `limits` must stay valid as long as
 * the input. */
void recorded_take(struct findings_input *input, const struct target *target,
                   struct limits_left *limits);

/* Returns true if the library has renamed a recording NAME.rec to this path, NAME.1.rec, because a
 * later recording took its name. */
bool recorded_was_replaced(const char *path);

#endif
