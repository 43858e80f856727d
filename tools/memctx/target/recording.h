/* SPDX-License-Identifier: MIT */
/* recording.h - finds the recording that a running process writes. */
#ifndef MEMCTX_TARGET_RECORDING_H
#define MEMCTX_TARGET_RECORDING_H

#include "target/process.h"

/* Opens the recording of a process whose environment names the directory (MEMCTX_RECORD). Returns a
 * descriptor, or -1 if there is none that this user may read. The file is regular, belongs to the
 * process's user or to root, and begins as a recording. It is read as the process sees it, so also
 * in a container. */
int recording_open(const struct process_facts *facts);

#endif
