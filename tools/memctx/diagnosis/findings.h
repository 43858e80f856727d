/* SPDX-License-Identifier: MIT */
/*
 * findings.h - what memctx doctor can find: a table of rules over a dump. Each rule has a floor in
 * bytes and a floor as a share, so that it stays silent for small processes and for busy ones.
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
    size_t rule; /* its place in the table, the most telling ones first */
    enum severity severity;
    uint32_t context; /* index; WIRE_NONE: it is about the whole process, or several contexts */
    uint32_t example; /* a context whose path's innermost `frames` are meant; WIRE_NONE: none */
    uint32_t frames;
    size_t contexts; /* so many are meant */
    int64_t bytes;
    double ratio;
    char *evidence, *action;
};

struct findings {
    struct finding *list; /* worst first */
    size_t count, capacity;
};

struct findings_input {
    const struct model
        *model; /* with thread views, residency and pinned bytes, if they could be had */
    const struct memory_ledger *ledger;
    const struct samples *samples;
    const char *target;    /* as the user named it, for the next command */
    int64_t foreign_frees; /* WIRE_UNKNOWN: not asked */
};

void findings_make(struct findings *findings, const struct findings_input *input);
const char *severity_word(enum severity severity);
/* SEVERITIES: none of that name. */
enum severity severity_of(const char *word);

#endif
