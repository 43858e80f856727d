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
    bool all;          /* print every finding instead of the first five */
    bool color;
};

#define TELL_PARTS 5 /* most groups of call paths that are printed of a finding with one cause */

/* Returns the functions that a finding is about; NULL if it is about the whole process. The caller
 * frees it. */
char *tell_who(const struct model *model, const struct finding *finding,
               const struct tell_options *options);
/* Returns one of the groups of call paths with one cause: its share of the finding, and its
 * functions up to the one that the groups have in common. The caller frees it. */
char *tell_part(const struct model *model, const struct finding *finding, size_t index,
                const struct tell_options *options);
void tell_findings(const struct findings_input *input, const struct findings *findings,
                   const struct tell_options *options);

#endif
