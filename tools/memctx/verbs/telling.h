/* SPDX-License-Identifier: MIT */
/* telling.h - options and JSON of the verbs that print findings: doctor and postmortem. */
#ifndef MEMCTX_TELLING_H
#define MEMCTX_TELLING_H

#include "base/json.h"
#include "diagnosis/tell.h"
#include "verbs/reading.h"

struct telling {
    struct reading_names names;
    bool json, exact_bytes, no_pager;
    struct tell_options tell;
};

enum { TELLING_DEPTH = 2000, TELLING_LIMIT, TELLING_ALL };
#define TELLING_OPTIONS                                                                            \
    {"json", no_argument, NULL, READING_JSON}, {"depth", required_argument, NULL, TELLING_DEPTH},  \
        {"limit", required_argument, NULL, TELLING_LIMIT},                                         \
        {"all", no_argument, NULL, TELLING_ALL}, READING_UNIT_OPTIONS, READING_NAME_OPTIONS,       \
        READING_PAGER_OPTION

/* Returns the settings of a command line without options. */
struct telling telling_defaults(void);
/* Handles an option of TELLING_OPTIONS. Its value, if it has one, is in optarg. */
void telling_take(struct telling *telling, int option);
/* Writes the functions of the innermost `frames` frames of a call path, innermost first. `example`:
 * index of the path's context; WIRE_NONE: there is no path. For each frame, the inlined functions
 * come before the function that they were inlined into. Functions that ended in tail calls stand
 * between the frames. */
void telling_write_path(struct json_writer *json, const struct model *model, uint32_t example,
                        uint32_t frames);
/* Writes the function that the finding is about, and the groups of call paths below it. */
void telling_write_cause(struct json_writer *json, const struct model *model,
                         const struct finding *finding);
/* Writes who holds most of the memory in use. */
void telling_write_largest(struct json_writer *json, const struct model *model,
                           const struct findings *findings);

#endif
