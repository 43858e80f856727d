/* SPDX-License-Identifier: MIT */
/*
 * holes.h - gives back the empty OS pages inside pages that did not change between two looks.
 *
 * When a program has freed most of many chunks, the few that stay may each keep a page of their own
 * resident. The control thread regularly looks at the headers of all pages. A page is *quiet* if
 * two looks found the same head of its list of free blocks and the same number of blocks in use.
 * The empty OS pages of a quiet page are punched (region/punch.h). `memctx trim TARGET CONTEXT`
 * does the same on request, without two looks.
 *
 * The page belongs to a thread that may sleep for ever, so the control thread punches it, in a
 * visit (context/evict.h) with two barriers. If the owner is inside the allocator after the first
 * barrier, the control thread gives up. Otherwise, until the visit ends, the owner allocates
 * nothing outside of named contexts and destroys no page, because both actions wait at heap_await.
 * But the common free does not look at heap->visited. So the control thread now sets META_PUNCHED
 * in the pages to be punched. The common free leaves pages with this flag to the free of their page
 * kind, which waits. If the owner is inside the allocator after the second barrier, it may be
 * freeing into one of these pages, and the control thread gives up. If the owner is outside, its
 * next free finds the flag.
 *
 * Cannot punch: serial pages, pages of named contexts, and pages with META_OWNERS, META_CHECKED or
 * META_APART (region/blocks.h). With MEMCTX_THP=always nothing is punched. Without a control
 * thread, nothing is punched. Without membarrier in the kernel, only pages in heaps without a
 * thread and in the shared heap are punched.
 *
 * Cost: the headers of at most LOOK_SEGMENTS segments a look, those of VISIT_SEGMENTS more for each
 * visit, and some microseconds for a page that has become quiet. All of it takes at most a 32nd of
 * a processor. malloc and free cost nothing more. The owner may have to wait until one visit has
 * punched PAGES_MAX pages.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_HOLES_H
#define MEMCTX_HOLES_H

#include "region/heap.h"

/* If the pause after the last look is over: collects for owners that sleep (collect_look), then
 * looks at pages and punches the quiet ones. The first call only begins a pause. Does nothing if
 * MEMCTX_HOLES is 0. */
void holes_look(void);
/* Returns how many milliseconds the control thread may sleep until the next look: `wait`, or less
 * if the last look left work. */
int holes_wait_ms(int wait);
/* Looks at pages once, without a pause before, and punches the quiet ones. Returns the bytes that
 * went back to the kernel. */
size_t holes_look_now(void);
/* Answers a trim request (trim_wanted) for threads that have not answered it and are outside the
 * allocator: punches the pages that the request names. Such a thread still destroys its empty pages
 * itself, at its next malloc. Ends at the time `until_ns`. Returns the bytes that went back to the
 * kernel. */
size_t holes_trim(uint64_t until_ns);

#endif
