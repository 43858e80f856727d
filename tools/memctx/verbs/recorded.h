/* SPDX-License-Identifier: MIT */
/* recorded.h - the time and the memory limits that the rules of doctor need beside the model: all
 * limits of a running process, or the limit of the control group that a recording has. Also tells
 * from its path whether a recording is an older one. */
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
