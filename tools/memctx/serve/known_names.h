/* SPDX-License-Identifier: MIT */
/*
 * known_names.h - labels of call paths that processes of one machine share. Many processes of a
 * machine run one program, so a path that was named for one of them needs no look-up in the others.
 *
 * A key stands for the frames of a path in files, not in memory: for each frame the file, its build
 * id and the address in it. The file's identity (device, inode, time of change) belongs to the key,
 * so that a process that gives its own file the path and build id of another cannot name the paths
 * of others. The table lies in memory that the server shares with its child processes. It has a
 * bounded size and is emptied when it is full. For any number of processes.
 */
#ifndef MEMCTX_KNOWN_NAMES_H
#define MEMCTX_KNOWN_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/model.h"

/* Makes the table, before the first fork. Without memory for it, no label is ever known. */
void known_names_share(void);
/* Returns the key of the path of a context of process `pid`; 0 if the path has none, because code
 * on it is in no file, or in a file without a build id. */
uint64_t known_names_key(const struct model *model, uint32_t context, pid_t pid);
/* Returns the label of a key, which the caller frees; NULL: not known. */
char *known_names_find(uint64_t key);
void known_names_add(uint64_t key, const char *label);

#endif
