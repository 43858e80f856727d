/* SPDX-License-Identifier: MIT */
/*
 * tell.h - prints the findings of memctx doctor as text.
 *
 * The first line is the verdict: the most important finding in one sentence, or that no problem was
 * found. The findings follow, the worst first.
 */
#ifndef MEMCTX_TELL_H
#define MEMCTX_TELL_H

#include "diagnosis/findings.h"

struct tell_options {
    int64_t functions; /* greatest number of functions of a path that are shown */
    bool full;         /* show every frame of each path */
    int64_t findings;  /* greatest number of findings that are printed; 0: all */
    bool all;          /* print every finding and every group of call paths */
    bool color;
};

/* the value of tell_options.findings without --limit */
#define TELL_FINDINGS 5

/* greatest number of groups of call paths that are printed for a finding with a common function */
#define TELL_PARTS 5

/* Returns the verdict. The caller frees it. */
char *tell_verdict(const struct findings_input *input, const struct findings *findings);
/* Returns the functions that a finding is about; NULL if it is about the whole process. The caller
 * frees it. */
char *tell_who(const struct model *model, const struct finding *finding,
               const struct tell_options *options);
/* Returns a text for each group of finding->parts, largest first: its share of the finding, and its
 * functions up to finding->common. Groups with the same functions have one text. The caller frees
 * the *count texts and the array. */
char **tell_parts(const struct model *model, const struct finding *finding,
                  const struct tell_options *options, size_t *count);
void tell_findings(const struct findings_input *input, const struct findings *findings,
                   const struct tell_options *options);

#endif
