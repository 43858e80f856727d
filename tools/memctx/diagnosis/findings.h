/* SPDX-License-Identifier: MIT */
/*
 * findings.h - finds the problems that memctx doctor reports, by a table of rules over a dump. Most
 * rules have a floor in bytes and a floor as a share of the process, and report nothing below
 * either of them. Rules about calls have a floor in calls.
 *
 * The figures that a rule reads are exact, but its conclusion is a judgement. The text `evidence`
 * names the figures.
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
    double share;  /* share of the sum over all groups */
    int64_t bytes; /* WIRE_UNKNOWN: the rule counts chunks, not bytes */
};

struct finding {
    const char *id, *title, *why;
    const char *advice; /* what to change in the program's source */
    size_t rule; /* index of the rule in the table; findings of severity info are sorted by it */
    enum severity severity;
    uint32_t context; /* index; WIRE_NONE: the whole process, or several contexts */
    /* index of a context: its `frames` innermost frames are shown; WIRE_NONE: no path is shown */
    uint32_t example;
    uint32_t frames;
    size_t contexts; /* number of contexts that the finding is about */
    /* argument of --context that chooses these contexts (model/selector.h); NULL: none */
    char *selector;
    int64_t bytes;
    double ratio; /* a share: of the resident set, or another one that the rule chooses */
    /* For a finding about call paths that share only an outer function, `common`: `parts` are the
     * groups of paths below that function, the largest first. `example` and `frames` give the whole
     * path of the largest group. */
    struct who_step common; /* common.context is WIRE_NONE: the paths share inner frames */
    struct finding_part *parts;
    size_t part_count;
    char *evidence, *action;
    /* Sentences for the text; NULL: there is nothing to say. */
    char *verdict;     /* the finding in one clause, without the function */
    char *since;       /* since when memory grows, or how old the oldest chunk is */
    char *now;         /* command that helps at once, or at least from now on */
    char *now_effect;  /* what `now` does; without `now`, why no command helps */
    int64_t now_bytes; /* bytes that `now` returns or will save */
    char *out;         /* when memory is used up if the growth goes on, and which limit says so */
    /* seconds until memory is used up; 0: not known, or `out` has only a rough time */
    double out_s;
    double
        out_per_s; /* rate at which all growth uses up the bytes that the limit of `out` counts */
    /* Growth along a straight line; a rate of 0: the growth is not straight. */
    struct finding_rate {
        double bytes_per_s, since_uptime_s;
        bool began; /* false: the growth may have begun before the first look */
    } rate;
    /* Rates of the growth that the finding is about. forecast_tell_ends adds up the rates of all
     * findings, to say in `out` when memory is used up. 0: the growth is not straight, or not
     * known. */
    struct finding_use {
        double asked_per_s;  /* bytes that the program asks for */
        double blocks_per_s; /* with the rounding up to blocks */
        double memory_per_s; /* bytes that become resident */
        double since_s;      /* the growth was watched from this uptime on */
        bool ends;           /* `out` tells when memory is used up */
    } use;
    const char *sure; /* how sure the finding is, and why */
    bool overshadows; /* growth much smaller than this finding's is not reported as a warning */
};

#define FINDINGS_LARGEST 3

struct findings {
    struct finding *list; /* sorted, the worst first */
    size_t count, capacity;
    /* Who holds most of the memory in use, the largest first. `ratio` is the share of it, and
     * `evidence` has the figures. A process of which nothing is wrong has such holders, too. */
    struct finding largest[FINDINGS_LARGEST];
    size_t largest_count;
};

struct findings_input {
    const struct model *model; /* with thread views, residency and pinned bytes, if available */
    const struct memory_ledger *ledger;
    const struct samples *samples;
    const char *target; /* the target in commands, as a user writes it in a shell */
    bool exact_bytes;   /* texts say "1572864 bytes" instead of "1.5 MiB" */
    int64_t now_s;      /* the time of the model, in s since 1970; 0: not known */
    /* the memory limit that leaves fewest bytes, the first of limit_count; NULL: not known */
    const struct limits_found *limit;
    size_t limit_count;
    const struct limits_throttled *throttled; /* NULL: the kernel does not slow the process down */
    const char *marks_kept; /* the setting `marks` of the process; NULL: not asked */
    int64_t foreign_frees;  /* frees that the library ignored; WIRE_UNKNOWN: not asked */
};

/* Returns the part of the call path that all paths of the finding share. */
struct who_part finding_who(const struct model *model, const struct finding *finding);
void findings_make(struct findings *findings, const struct findings_input *input);
const char *severity_word(enum severity severity);
/* Returns SEVERITIES if no severity has this name. */
enum severity severity_of(const char *word);

#endif
