/* SPDX-License-Identifier: MIT */
/* recording.h - finds the recording that a running process writes. */
#ifndef MEMCTX_TARGET_RECORDING_H
#define MEMCTX_TARGET_RECORDING_H

#include "target/process.h"

/* Opens the file that a process is recording into, however the recording was begun. Returns a
 * descriptor, or -1 if the process does not record, or this user may not read the file. The file is
 * regular, belongs to the process's user or to root, and begins as a recording of this process. */
int recording_open(const struct process_facts *facts);
/* Opens a recording of the process by its path, as the process sees it. Returns a descriptor or -1,
 * as recording_open does. */
int recording_open_path(const struct process_facts *facts, const char *path);
/* Prints a warning if the file system of a directory has no room for even a short recording,
 * because the library itself only counts the moments that it cannot write. `shown`: the directory's
 * name in the message. */
void recording_warn_without_room(const char *path, const char *shown);

#endif
