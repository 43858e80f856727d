/* SPDX-License-Identifier: MIT */
/*
 * findings.h - finds the problems that memctx doctor reports, by a table of rules over a dump. Each
 * rule has a floor in bytes and a floor as a share, so that it stays silent for small processes and
 * for busy ones.
 *
 * A rule reads exact figures, but its conclusion is a judgement. The evidence names the figures.
 */
#ifndef MEMCTX_FINDINGS_H
#define MEMCTX_FINDINGS_H

#include "model/memory.h"
#include "model/samples.h"

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL, SEVERITIES };
#define SEVERITY_WORDS "info, warning, critical"

struct finding {
    const char *id, *title, *why;
    size_t rule; /* index of the rule in the table, which begins with the most telling rules */
    enum severity severity;
    uint32_t context; /* index; WIRE_NONE: the whole process, or several contexts */
    uint32_t example; /* index of a context whose innermost frames are meant; WIRE_NONE: none */
    uint32_t frames;
    size_t contexts; /* number of contexts that the finding is about */
    char *selector;  /* these contexts for --context (model/selector.h); NULL: not told */
    int64_t bytes;
    double ratio;
    char *evidence, *action;
};

struct findings {
    struct finding *list; /* sorted, the worst first */
    size_t count, capacity;
};

struct findings_input {
    const struct model *model; /* with thread views, residency and pinned bytes, if available */
    const struct memory_ledger *ledger;
    const struct samples *samples;
    const char *target;    /* the user's word for the target, for the command in `action` */
    int64_t foreign_frees; /* frees that the library ignored; WIRE_UNKNOWN: not asked */
};

void findings_make(struct findings *findings, const struct findings_input *input);
const char *severity_word(enum severity severity);
/* Returns SEVERITIES if no severity has this name. */
enum severity severity_of(const char *word);

#endif
