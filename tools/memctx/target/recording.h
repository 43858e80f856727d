/* SPDX-License-Identifier: MIT */
/* recording.h - finds the recording that a running process writes. */
#ifndef MEMCTX_TARGET_RECORDING_H
#define MEMCTX_TARGET_RECORDING_H

#include "target/process.h"

/* Opens the recording that a process writes into the directory MEMCTX_RECORD of its environment.
 * Returns a descriptor, or -1 if this user may read no recording there. The function opens only a
 * regular file that belongs to the process's user or to root and begins as a recording does. The
 * directory is taken in the process's root, so this works for a container, too. */
int recording_open(const struct process_facts *facts);

#endif
