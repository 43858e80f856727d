/* SPDX-License-Identifier: MIT */
/*
 * frames.h - takes the unwind information of loaded objects out of the resident set.
 *
 * The kernel maps 16 OS pages of a file at each page fault, so a few hundred unwind rules make most
 * of an object's .eh_frame resident, although each entry is read once. These OS pages stay in the
 * kernel's cache of files, and a later read maps them again.
 */
#ifndef MEMCTX_CONTROL_FRAMES_H
#define MEMCTX_CONTROL_FRAMES_H

#include "base/base.h"

#define FRAMES_POLL_MS 100 /* time between two looks while there are new rules */

/* For the control thread. True: there were new rules, so the caller looks again after
 * FRAMES_POLL_MS. Opens a file, so the thread must have descriptors of its own. */
bool frames_look(void);

#endif
