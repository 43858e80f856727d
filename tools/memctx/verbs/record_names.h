/* SPDX-License-Identifier: MIT */
/* record_names.h - keeps names of functions in recordings. */
#ifndef MEMCTX_RECORD_NAMES_H
#define MEMCTX_RECORD_NAMES_H

#include "verbs/reading.h"

/* Looks up the names that a recording lacks, and writes them into it. Ends the command if that
 * fails. */
void record_names_add(const char *path, const struct reading_names *names);
/* Starts a process beside this one that does so for the recordings that this process and its
 * children make in a directory, until this process ends. It is no child of this process. `words`:
 * those of the command line, which the new process overwrites with what it is. */
void record_names_start(const char *directory, char **words, int word_count);

#endif
