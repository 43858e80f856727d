/* SPDX-License-Identifier: MIT */
/*
 * holes.h - gives back the empty OS pages inside pages that nobody has used for a while.
 *
 * Of many short-lived chunks a few stay, each in a page of its own, and the page is resident whole.
 * The control thread looks at the headers of all pages now and then. A page is *quiet* if two looks
 * found the same head of its list of free blocks and the same number of blocks in use. The empty OS
 * pages of a quiet page are punched (region/punch.h), as `memctx trim TARGET CONTEXT` does on
 * request.
 *
 * The page belongs to a thread that may sleep for ever, so the control thread punches it, in a
 * visit (context/evict.h) with two barriers. If the owner is inside the allocator after the first
 * one, the visitor gives up. Otherwise the owner allocates nothing and destroys no page before the
 * visit ends, because both wait at heap_await. The owner still frees chunks the common way, which
 * does not look at heap->visited. So the visitor then sets META_PUNCHED in the pages that it wants:
 * the common free leaves pages with this flag to their kind, which waits. If the owner is inside
 * the allocator after the second barrier, it may be freeing into one of these pages, and the
 * visitor gives up. If the owner is outside, its next free finds the flag.
 *
 * Cannot punch: pages of named contexts, serial pages, pages with a table of owners (META_OWNERS).
 * With MEMCTX_THP=always nothing is punched. Nothing is done without a control thread, nor where
 * the kernel has no membarrier, except in heaps without a thread.
 *
 * Cost: the headers of at most LOOK_SEGMENTS segments a look, those of VISIT_SEGMENTS more for each
 * visit, and some microseconds for a page that has become quiet. All of it takes at most a 32nd of
 * a processor. The fast paths cost nothing. The owner may wait for one visit, PAGES_MAX pages.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_HOLES_H
#define MEMCTX_HOLES_H

#include "region/heap.h"

/* Looks at pages if it is time, and punches those that are quiet. */
void holes_look(void);
/* Returns how long the control thread may sleep, at most `wait` milliseconds. */
int holes_wait_ms(int wait);
/* One look, whatever the time. Returns the bytes that went back. */
size_t holes_look_now(void);

#endif
