/* SPDX-License-Identifier: MIT */
/* record_names.h - keeps names of functions in recordings. */
#ifndef MEMCTX_RECORD_NAMES_H
#define MEMCTX_RECORD_NAMES_H

#include "verbs/reading.h"

/* Looks up the names that a recording lacks, and writes them into it. Ends the command if that
 * fails. */
void record_names_add(const char *path, const struct reading_names *names);
/* Starts a process that adds names to the recordings which this process and its children make in
 * `directory`, until this process ends. memctx run calls this function before it becomes the
 * program (exec). The new process is no child of this process. It writes its purpose over its copy
 * of `words`, the words of the command line, so that ps shows it. Prints a note if no process can
 * be started. */
void record_names_start(const char *directory, char **words, int word_count);

#endif
