/* SPDX-License-Identifier: MIT */
/*
 * plain_file.h - opens files under paths that the target chose.
 *
 * Such a path may lead to a FIFO, where an open blocks, or to a device, where an open alone may act
 * (a watchdog, a tape). So the type of a file is known before the file is opened.
 */
#ifndef MEMCTX_PLAIN_FILE_H
#define MEMCTX_PLAIN_FILE_H

#include <stdbool.h>
#include <sys/types.h>

/* Opens a file for reading if it is a regular file. `root_of`: pid of a process; the path, and each
 * symbolic link on it, begins at the root folder of that process. 0: at the root folder of this
 * command. Returns -1 if there is no such file, or if it is not a regular file. */
int plain_file_open(pid_t root_of, const char *path);
/* Returns false if an open of the path may block or act. True also if there is no such file. */
bool plain_file_is_harmless(const char *path);

#endif
