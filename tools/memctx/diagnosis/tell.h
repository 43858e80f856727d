/* SPDX-License-Identifier: MIT */
/*
 * tell.h - tells the findings of memctx doctor as text.
 *
 * The first line is the verdict: the most important finding in one sentence, or that no problem was
 * found. Then come the findings, the worst first.
 */
#ifndef MEMCTX_TELL_H
#define MEMCTX_TELL_H

#include "diagnosis/findings.h"

struct tell_options {
    int64_t functions; /* most functions of a path that are shown */
    bool full;         /* show every frame of each path */
    bool all;          /* tell every finding instead of the first five */
    bool color;
};

void tell_findings(const struct findings_input *input, const struct findings *findings,
                   const struct tell_options *options);

#endif
