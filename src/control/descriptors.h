/* SPDX-License-Identifier: MIT */
/*
 * descriptors.h - descriptors of the library that the program neither sees nor closes by accident.
 *
 * The control thread has a descriptor table of its own where the kernel lets it
 * (close_range with CLOSE_RANGE_UNSHARE, or unshare). Elsewhere it shares the table of the program.
 * There, the library's descriptors have numbers that programs do not expect to get, and each use
 * first checks that the number still refers to the file that the library opened.
 *
 * Cost: in a shared table one fstat for each check.
 */
#ifndef MEMCTX_CONTROL_DESCRIPTORS_H
#define MEMCTX_CONTROL_DESCRIPTORS_H

#include "base/base.h"
#include <sys/types.h>

/* True: the control thread has a descriptor table of its own. False: the table is the program's, so
 * the program may close the thread's descriptors, and a forked child inherits them. Set by the
 * control thread when it starts. */
INTERNAL bool descriptors_are_own;

/* A descriptor of the library. In a descriptor table that the library shares with the program, the
 * program may close the descriptor and reuse its number. So the descriptor is the library's only as
 * long as the number refers to the file that the library opened. */
struct held {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Takes a descriptor that was just opened; fd may be -1. False: no descriptor is held. Moves the
 * descriptor out of the lowest numbers of a shared table, which belong to the program. */
bool descriptors_hold(struct held *held, int fd);
bool descriptors_is_held(const struct held *held);
/* Closes the descriptor. A descriptor that is no longer the library's is forgotten, never
 * closed. */
void descriptors_let_go(struct held *held);
/* Gives the control thread a descriptor table of its own, if the kernel lets it, with no descriptor
 * in it, or only standard error (`errors`). Sets descriptors_are_own. */
void descriptors_leave_table(bool errors);

#endif
