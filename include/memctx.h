/* SPDX-License-Identifier: MIT */
/*
 * memctx.h - for programs that want to know whether memctx is under them.
 *
 * Nothing needs to be linked: the function is a weak reference, NULL when libmemctx.so is not
 * preloaded. May be called by any thread at any time.
 */
#ifndef MEMCTX_H
#define MEMCTX_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that serves this process, such as "0.1.0". */
const char *memctx_version(void) __attribute__((weak));

/* 1 when libmemctx.so is this process's allocator, else 0. */
static inline int memctx_is_active(void) {
    return memctx_version != 0;
}

#ifdef __cplusplus
}
#endif
#endif
