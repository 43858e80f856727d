/* SPDX-License-Identifier: MIT */
/* self.h - reads the library's own statistics (WIRE_SELF) and settings (WIRE_OPTIONS), for
 * dump --self, doctor and report. */
#ifndef MEMCTX_SELF_H
#define MEMCTX_SELF_H

#include <stdbool.h>

#include "target/target.h"

/* Prints name, value and meaning of each statistic; returns the exit code. */
int self_print(struct target *target, bool json);
/* Returns a statistic that is a whole number; WIRE_UNKNOWN: it does not exist, or is not known. */
int64_t self_figure(struct target *target, const char *name);

/* Returns the value of a setting in the process, which the caller frees; NULL: not known. */
char *self_setting(struct target *target, const char *name);

#endif
