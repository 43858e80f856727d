/* SPDX-License-Identifier: MIT */
/* child.h - child processes of the server: they keep none of its connections and signals. */
#ifndef MEMCTX_CHILD_H
#define MEMCTX_CHILD_H

#include <sys/types.h>

/* In a forked child: undoes the server's signal mask, closes every descriptor but `fd` and the
 * standard ones, and lets the child end with the server. Returns the descriptor's new number. */
int child_begin(int fd);
/* Kills a child and collects it. */
void child_end(pid_t child);

#endif
