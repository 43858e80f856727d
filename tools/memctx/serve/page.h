/* SPDX-License-Identifier: MIT */
/* page.h - the page at "/": the served processes, with doctor's verdict on each. */
#ifndef MEMCTX_PAGE_H
#define MEMCTX_PAGE_H

#include "serve/fleet.h"

/* Writes the page for all processes of a fleet. Runs in a child process, because doctor may take
 * seconds for each process. */
void page_write(int fd, const void *fleet);

#endif
