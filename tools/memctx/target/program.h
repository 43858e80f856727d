/* SPDX-License-Identifier: MIT */
/* program.h - finds the program that `memctx run` is to start, and checks whether preloading
 * reaches it. */
#ifndef MEMCTX_PROGRAM_H
#define MEMCTX_PROGRAM_H

#include <stdbool.h>

#include "base/cli.h"

/* Finds the path that execvp would take for a name. If there is no such program, returns false with
 * CLI_NOT_FOUND or CLI_CANNOT_EXECUTE in the failure. The path is never freed. */
bool program_find(const char *name, char **path, struct cli_failure *failure);
/* Returns true if a preloaded library reaches the program. It does not reach a program that is
 * statically linked, has more rights than its caller (then the loader ignores LD_PRELOAD), or is
 * built for another machine. */
bool program_check(const char *path, struct cli_failure *failure);
/* Returns true if a file is the shared library of this name, whatever the file is called. */
bool program_is_library(const char *path, const char *name);
/* Returns the file that the kernel executes for a path: for a script, its interpreter; if that is
 * env, the program that env executes. The caller frees it. */
char *program_executed(const char *path);

#endif
