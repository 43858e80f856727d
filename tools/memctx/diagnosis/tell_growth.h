/* SPDX-License-Identifier: MIT */
/*
 * tell_growth.h - the words of a finding about memory that grows.
 */
#ifndef MEMCTX_TELL_GROWTH_H
#define MEMCTX_TELL_GROWTH_H

#include "diagnosis/growth.h"

/* Adds a finding on a suspect that grew, with all its texts but the forecast. Returns the finding.
 */
struct finding *tell_growth(struct look *look, const struct rule *rule, enum severity severity,
                            const struct blame_suspect *suspect, const struct growth *growth);

#endif
