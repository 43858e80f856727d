/* SPDX-License-Identifier: MIT */
/*
 * weak.h - the symbols of libmemctx.so that the functions of memctx.h call.
 *
 * A program does not call these symbols itself: a symbol is NULL when the library is absent, or
 * older than the symbol. Each does what the function of memctx.h with the matching name says, for a
 * context that is not NULL.
 *
 * Symbols stay: a program that was compiled with the header of any version runs with every later
 * library. A function that takes a struct also takes the size of the struct, and has a name that
 * ends in _sized. Version 0.1.0 passed no sizes. Its functions memctx_do_stats,
 * memctx_do_create_with and memctx_do_set_limit read and write only the fields that 0.1.0 had.
 */
#ifndef MEMCTX_H
#include "../memctx.h" /* memctx.h declares the types, and includes this file again */
#elif !defined MEMCTX_WEAK_H
#define MEMCTX_WEAK_H

/* A weak symbol must not be hidden, or its value is 0 even if the library is preloaded; it would be
 * hidden where the program has #pragma GCC visibility push(hidden). Code that is not
 * position-independent (-fno-pie) would find the value 0, too. __noplt__ makes gcc read the address
 * of a function from the global offset table, which the dynamic linker fills in. */
#if defined __GNUC__ && !defined __clang__ && __GNUC__ >= 6
#define MEMCTX_WEAK __attribute__((__weak__, __visibility__("default"), __noplt__))
#else
#define MEMCTX_WEAK __attribute__((__weak__, __visibility__("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- since 0.1.0 ------------------------------------------------------------------------- */

const char *memctx_version(void) MEMCTX_WEAK;
memctx_t memctx_do_create(memctx_t parent, const char *name, enum memctx_policy policy) MEMCTX_WEAK;
memctx_t memctx_do_create_with(memctx_t parent, const char *name, enum memctx_policy policy,
                               const struct memctx_options *with) MEMCTX_WEAK;
void memctx_do_delete(memctx_t context) MEMCTX_WEAK;
void memctx_do_reset(memctx_t context) MEMCTX_WEAK;
void memctx_do_reset_children(memctx_t context) MEMCTX_WEAK;
int memctx_do_reset_requested(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_switch(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_current(void) MEMCTX_WEAK;
MEMCTX_SIZE_IS(2)
MEMCTX_NEW_CHUNK void *memctx_do_alloc(memctx_t context, size_t bytes) MEMCTX_WEAK;
MEMCTX_SIZE_IS(2)
MEMCTX_NEW_CHUNK void *memctx_do_zalloc(memctx_t context, size_t bytes) MEMCTX_WEAK;
MEMCTX_SIZE_IS(3)
MEMCTX_NEW_CHUNK void *memctx_do_alloc_aligned(memctx_t context, size_t alignment,
                                               size_t bytes) MEMCTX_WEAK;
memctx_t memctx_do_owner(const void *chunk) MEMCTX_WEAK;
int memctx_do_hand_over(memctx_t context) MEMCTX_WEAK; /* memctx_give */
int memctx_do_take(memctx_t context) MEMCTX_WEAK;
memctx_t memctx_do_parent(memctx_t context) MEMCTX_WEAK;
void memctx_do_set_parent(memctx_t context, memctx_t parent) MEMCTX_WEAK;
int memctx_do_is_empty(memctx_t context) MEMCTX_WEAK;
const char *memctx_do_name(memctx_t context) MEMCTX_WEAK;
const char *memctx_do_identifier(memctx_t context) MEMCTX_WEAK;
/* memctx_set_identifier */
void memctx_do_identify(memctx_t context, const char *identifier) MEMCTX_WEAK;
/* memctx_add_callback */
void memctx_do_call_on_reset(memctx_t context, struct memctx_callback *callback) MEMCTX_WEAK;
int memctx_do_set_limit(memctx_t context, const struct memctx_limit *limit) MEMCTX_WEAK;
void memctx_do_stats(memctx_t context, struct memctx_stats *stats) MEMCTX_WEAK;
int memctx_do_walk(memctx_t context, int (*visit)(memctx_t context, int depth, void *argument),
                   void *argument) MEMCTX_WEAK;
const char *memctx_do_check(memctx_t context) MEMCTX_WEAK;

/* --- since 0.2.0 ------------------------------------------------------------------------- */

int memctx_do_version_number(void) MEMCTX_WEAK;
/* `limit_bytes` is the size of the struct that with->limit points to. */
memctx_t memctx_do_create_sized(memctx_t parent, const char *name, enum memctx_policy policy,
                                const struct memctx_options *with, size_t with_bytes,
                                size_t limit_bytes) MEMCTX_WEAK;
int memctx_do_set_limit_sized(memctx_t context, const struct memctx_limit *limit,
                              size_t limit_bytes) MEMCTX_WEAK;
/* Writes `stats_bytes` bytes: the fields that the library knows, then zeros. */
void memctx_do_get_stats_sized(memctx_t context, struct memctx_stats *stats,
                               size_t stats_bytes) MEMCTX_WEAK;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
