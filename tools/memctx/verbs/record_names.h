/* SPDX-License-Identifier: MIT */
/* record_names.h - keeps names of functions in recordings. */
#ifndef MEMCTX_RECORD_NAMES_H
#define MEMCTX_RECORD_NAMES_H

#include "verbs/reading.h"

/* Looks up the names that a recording lacks, and writes them into it. Ends the command if that
 * fails. */
void record_names_add(const char *path, const struct reading_names *names);
/* Starts a process that adds names to the recordings that this process and its children make in a
 * directory, until this process ends. The new process is no child of this process. The new process
 * overwrites `words`, the words of the command line, so that ps shows the purpose of the new
 * process. */
void record_names_start(const char *directory, char **words, int word_count);

#endif
