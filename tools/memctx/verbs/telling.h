/* SPDX-License-Identifier: MIT */
/* telling.h - options of the verbs that print findings: doctor and postmortem. */
#ifndef MEMCTX_TELLING_H
#define MEMCTX_TELLING_H

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

#endif
