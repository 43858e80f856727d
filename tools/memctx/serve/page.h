/* SPDX-License-Identifier: MIT */
/* page.h - the page at "/": the served processes, with doctor's verdict on each. */
#ifndef MEMCTX_PAGE_H
#define MEMCTX_PAGE_H

#include "serve/fleet.h"

struct page_wish {
    const struct fleet *fleet;
    bool gzip; /* the page is written in gzip's format */
};

/* Writes the page for a struct page_wish, in parts: the processes at once, then each verdict when
 * it is known. Runs in a child process, because doctor may take seconds for each process. */
void page_write(int fd, const void *wish);

#endif
