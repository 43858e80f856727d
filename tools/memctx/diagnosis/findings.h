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
#include "model/who.h"
#include "target/limits.h"

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL, SEVERITIES };
#define SEVERITY_WORDS "info, warning, critical"

/* One of several groups of call paths that have one cause. */
struct finding_part {
    uint32_t example, frames; /* as in struct finding */
    size_t contexts;
    double share;  /* of what all groups have together */
    int64_t bytes; /* WIRE_UNKNOWN: the rule counts chunks, not bytes */
};

struct finding {
    const char *id, *title, *why;
    const char *advice; /* what to do in the source */
    size_t rule; /* index of the rule in the table, which begins with the most telling rules */
    enum severity severity;
    uint32_t context; /* index; WIRE_NONE: the whole process, or several contexts */
    uint32_t example; /* index of a context whose innermost frames are meant; WIRE_NONE: none */
    uint32_t frames;
    size_t contexts; /* number of contexts that the finding is about */
    char *selector;  /* these contexts for --context (model/selector.h); NULL: no selector */
    int64_t bytes;
    double ratio;
    /* A finding about call paths that only share an outer function: that function, and the groups
     * of paths below it, the largest first. `example` and `frames` are the whole path of the
     * largest group. */
    struct who_step common; /* common.context is WIRE_NONE: the paths share inner frames */
    struct finding_part *parts;
    size_t part_count;
    char *evidence, *action;
    /* Sentences for the text; NULL: nothing is known. */
    char *verdict;     /* the finding in one clause, without the function */
    char *since;       /* since when */
    char *now;         /* command that helps at once, or at least from now on */
    char *now_effect;  /* what `now` does; without `now`, why no command helps */
    int64_t now_bytes; /* bytes that it returns or will save */
    char *out;         /* when memory is used up if the growth goes on, and which limit says so */
    double out_s;      /* seconds until then; 0: only `out` has a rough time */
    /* Growth along a straight line; a rate of 0: there is none. */
    struct finding_rate {
        double bytes_per_s, since_uptime_s;
        bool began; /* false: it may have begun before the first look */
    } rate;
    const char *sure; /* how sure the finding is, and from what */
    bool overshadows; /* much smaller growth beside this one is no alarm */
};

struct findings {
    struct finding *list; /* sorted, the worst first */
    size_t count, capacity;
};

struct findings_input {
    const struct model *model; /* with thread views, residency and pinned bytes, if available */
    const struct memory_ledger *ledger;
    const struct samples *samples;
    const char *target; /* the user's word for the target, for the command in `action` */
    bool exact_bytes;   /* texts have 1572864 bytes instead of 1.5 MiB */
    int64_t now_s;      /* the time of the model, in s since 1970; 0: not known */
    const struct limits_found *limit; /* the limit that leaves least; NULL: not known */
    int64_t foreign_frees;            /* frees that the library ignored; WIRE_UNKNOWN: not asked */
};

/* Returns the part of the call path that the finding is about: what its paths share. */
struct who_part finding_who(const struct model *model, const struct finding *finding);
void findings_make(struct findings *findings, const struct findings_input *input);
const char *severity_word(enum severity severity);
/* Returns SEVERITIES if no severity has this name. */
enum severity severity_of(const char *word);

#endif
