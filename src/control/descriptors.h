/* SPDX-License-Identifier: MIT */
/*
 * descriptors.h - descriptors of ours that the program neither sees nor closes by accident.
 *
 * The control thread has a descriptor table of its own where the kernel lets it (unshare).
 * Elsewhere it shares the table of the program. There, our descriptors have numbers that programs
 * do not expect to get, and each use first checks that the number still refers to the file that we
 * opened.
 *
 * Cost: in a shared table one fstat for each check.
 */
#ifndef MEMCTX_CONTROL_DESCRIPTORS_H
#define MEMCTX_CONTROL_DESCRIPTORS_H

#include "base/base.h"
#include <sys/types.h>

/* False: the table is shared, so the program may close the thread's descriptors, and a fork
 * inherits them. Set by the control thread when it starts. */
INTERNAL bool descriptors_are_own;

/* A descriptor of ours. In a descriptor table shared with the program, the program may close it and
 * reuse its number, so it is ours only as long as the number refers to the file that we opened. */
struct held {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Takes a descriptor that was just opened; fd may be -1. False: no descriptor is held. Moves the
 * descriptor out of the lowest numbers of a shared table, which belong to the program. */
bool descriptors_hold(struct held *held, int fd);
bool descriptors_is_held(const struct held *held);
/* Closes the descriptor. One that is no longer ours is forgotten, never closed. */
void descriptors_let_go(struct held *held);
/* Closes all descriptors from `first` on, in a table of our own. */
void descriptors_close_from(unsigned first);

#endif
