/* SPDX-License-Identifier: MIT */
/* recorded.h - what a recording tells the rules of doctor beside the model: its time and the limit
 * of its control group. */
#ifndef MEMCTX_RECORDED_H
#define MEMCTX_RECORDED_H

#include "diagnosis/findings.h"

/* Sets input->now_s and, if the control group had a limit, input->limit. Does nothing if the model
 * is not from a recording. `limit` must stay valid as long as the input. */
void recorded_take(struct findings_input *input, struct limits_found *limit);

#endif
