/* SPDX-License-Identifier: MIT */
/* program.h - finds the program that `memctx run` is to start; whether preloading reaches it. */
#ifndef MEMCTX_PROGRAM_H
#define MEMCTX_PROGRAM_H

#include <stdbool.h>

#include "base/cli.h"

/* The path that execvp would take for a name; CLI_NOT_FOUND or CLI_CANNOT_EXECUTE where there is
 * none. In memory that stays. */
bool program_find(const char *name, char **path, struct cli_failure *failure);
/* True where a preloaded library reaches the program: not where it is statically linked, has more
 * rights than its caller (then the loader ignores LD_PRELOAD), or is of another machine. */
bool program_check(const char *path, struct cli_failure *failure);
/* The file that the kernel executes for that path: of a script, its interpreter. free() it. */
char *program_executed(const char *path);

#endif
