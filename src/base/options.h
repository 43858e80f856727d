/* SPDX-License-Identifier: MIT */
/*
 * options.h - the settings of include/memctx/options.h as the library holds them.
 *
 * `options` is filled once at start from the environment; live fields may be changed later by the
 * control thread (relaxed stores) and are read by any thread (relaxed loads).
 */
#ifndef MEMCTX_SRC_OPTIONS_H
#define MEMCTX_SRC_OPTIONS_H

#include "base/text.h"
#include <memctx/options.h>

enum control_mode { CONTROL_OFF, CONTROL_AUTO, CONTROL_EAGER, CONTROL_ALWAYS };
enum fold_mode { FOLD_AUTO, FOLD_OFF };
enum thp_mode { THP_DEFAULT, THP_ALWAYS, THP_NEVER };

struct options {
#define FIELD(field, ...) int64_t field;
    MEMCTX_OPTIONS(FIELD)
#undef FIELD
};
INTERNAL struct options options;

/* Reads MEMCTX_* of `environment`. One line per refused value is appended to `warnings`. */
void options_read(char *const *environment, struct text *warnings);

enum option_result { OPTION_SET, OPTION_UNKNOWN, OPTION_BAD_VALUE, OPTION_FIXED };
/* Sets a live option from "name=value"; the answer, for people, is appended to `answer`. */
enum option_result options_set(const char *assignment, struct text *answer);
/* One "name\tvalue\tdefault\tsettable\thelp" line an option. */
void options_describe(struct text *text);

#endif
