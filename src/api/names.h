/* SPDX-License-Identifier: MIT */
/*
 * names.h - renames the exported functions in the build for unit tests, so that the test runner
 * keeps libc's malloc.
 */
#ifndef MEMCTX_NAMES_H
#define MEMCTX_NAMES_H

/* Defines a second name of a function: ALIAS an exported one, such as glibc's __libc_malloc for
 * malloc, HIDDEN_ALIAS one that means this library's function, whatever the program defines. */
#if __has_attribute(copy)
#define ALIAS(name) __attribute__((alias(#name), visibility("default"), copy(name)))
#define HIDDEN_ALIAS(name) __attribute__((alias(#name), visibility("hidden"), copy(name)))
#else
#define ALIAS(name) __attribute__((alias(#name), visibility("default")))
#define HIDDEN_ALIAS(name) __attribute__((alias(#name), visibility("hidden")))
#endif

#ifdef MEMCTX_UNIT
#define malloc memctx_test_malloc
#define free memctx_test_free
#define calloc memctx_test_calloc
#define realloc memctx_test_realloc
#define reallocarray memctx_test_reallocarray
#define memalign memctx_test_memalign
#define aligned_alloc memctx_test_aligned_alloc
#define posix_memalign memctx_test_posix_memalign
#define valloc memctx_test_valloc
#define pvalloc memctx_test_pvalloc
#define malloc_usable_size memctx_test_malloc_usable_size
#define malloc_trim memctx_test_malloc_trim
/* takes arguments, so that `struct mallinfo` keeps its name */
#define mallinfo(...) memctx_test_mallinfo(__VA_ARGS__)
#define mallinfo2(...) memctx_test_mallinfo2(__VA_ARGS__)
#define malloc_info memctx_test_malloc_info
#define malloc_stats memctx_test_malloc_stats
#define mallopt memctx_test_mallopt
#define free_sized memctx_test_free_sized
#define free_aligned_sized memctx_test_free_aligned_sized
#define cfree memctx_test_cfree
void *malloc(size_t size);
void free(void *chunk);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void *reallocarray(void *old, size_t count, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **result, size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
size_t malloc_usable_size(void *chunk);
int malloc_trim(size_t pad);
#endif

#endif
