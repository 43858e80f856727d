/* SPDX-License-Identifier: MIT */
/*
 * options.h - the settings of include/memctx/options.h, as the library stores them.
 *
 * The library fills `options` once at its start, from the environment. Later the control thread may
 * change the fields of live options: those that `memctx set` may change. Any thread reads these
 * fields at any time.
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
/* True if the user has set the depth. */
INTERNAL bool options_depth_is_set;

/* Reads the MEMCTX_* variables of `environment`. Appends one line to `warnings` for each refused
 * value. */
void options_read(char *const *environment, struct text *warnings);

enum option_result { OPTION_SET, OPTION_UNKNOWN, OPTION_BAD_VALUE, OPTION_FIXED };
/* Sets a live option from "name=value". Appends an answer for the user to `answer`. */
enum option_result options_set(const char *assignment, struct text *answer);
/* Appends one line for each option: "name\tvalue\tdefault\tlive\thelp", with "start" in place of
 * "live" if the option cannot change while the program runs. */
void options_describe(struct text *text);

#endif
