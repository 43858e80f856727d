/* SPDX-License-Identifier: MIT */
/* next_mallocx.h - jemalloc's functions beside the malloc family, as jemalloc(3) declares them. */
#ifndef ABUSE_NEXT_MALLOCX_H
#define ABUSE_NEXT_MALLOCX_H

#include <stddef.h>

#define MALLOCX_LG_ALIGN(power) (power)
#define MALLOCX_ZERO 0x40
#define MALLOCX_TCACHE_NONE (1 << 8)
#define MALLOCX_ARENA(number) (((number) + 1) << 20)

void *mallocx(size_t size, int flags);
void *rallocx(void *old, size_t size, int flags);
size_t xallocx(void *chunk, size_t size, size_t extra, int flags);
size_t sallocx(const void *chunk, int flags);
void dallocx(void *chunk, int flags);
void sdallocx(void *chunk, size_t size, int flags);
size_t nallocx(size_t size, int flags);

/* Returns the number of live chunks of the library next_mallocx.c. */
int next_live(void);

#endif
