/* SPDX-License-Identifier: MIT */
/*
 * options.h - every MEMCTX_* setting, declared once.
 *
 * The library's parser, `memctx options`, `memctx set`, the help of `memctx run` and the manual
 * page are made from this list. X(field, NAME, kind, default, minimum, maximum, live, help)
 *   NAME: the environment variable is MEMCTX_NAME; `memctx set` takes the name in lower case
 *   kind: INT; SIZE (bytes with K, M or G, or a percentage, which is stored as a negative number);
 *   or the name of a list of words below
 *   live: 1 when `memctx set TARGET name=value` may change it while the program runs
 */
#ifndef MEMCTX_OPTIONS_H
#define MEMCTX_OPTIONS_H

#define MEMCTX_DEPTH_MAX 128

#define MEMCTX_OPTIONS(X)                                                                          \
    X(depth, DEPTH, INT, 32, 0, MEMCTX_DEPTH_MAX, 1,                                               \
      "frames kept of each call path; 1: the call site only; 0: no call paths")                    \
    X(control, CONTROL, CONTROL_MODE, 1, 0, 3, 0,                                                  \
      "when the control thread starts: off, auto (the program that memctx run started: at once; "  \
      "its children: after 20 ms), eager (at once), always (also under a filter of system calls "  \
      "that was there before the program)")                                                        \
    X(verify, VERIFY, INT, 0, 0, 1000000000, 0,                                                    \
      "unwind every Nth cached call path afresh with libunwind and compare; 0: never")             \
    X(decay_ms, DECAY_MS, INT, 500, 0, 3600000, 1,                                                 \
      "milliseconds after which empty memory goes back to the kernel")                             \
    X(freelist_kib, FREELIST_KIB, INT, 8192, 0, 1073741824, 1,                                     \
      "KiB of empty memory kept for reuse at the most, or 5 % of live bytes where that is more")   \
    X(promote_bytes, PROMOTE_BYTES, INT, 16384, 0, 1073741824, 1,                                  \
      "live bytes at which a context gets pages of its own; twice as many for each four times of " \
      "64 KiB that are alive in the process")                                                      \
    X(waste_kib, WASTE_KIB, INT, 2048, 0, 1073741824, 1,                                           \
      "KiB of free memory in contexts' own pages past which new contexts share mixed pages, or "   \
      "6 % of live bytes where that is more")                                                      \
    X(tables, TABLES, SIZE, -5, 65536, 1099511627776, 1,                                           \
      "memory for all tables of this library together: bytes (8M), or a share of the live bytes "  \
      "(5%), which is never less than 4 MiB; each thread has 32 KiB more")                         \
    X(fold, FOLD, FOLD_MODE, 0, 0, 1, 1,                                                           \
      "recursion in call paths: auto (a function that recurs on very many paths stands on each "   \
      "path once), off")                                                                           \
    X(check, CHECK, INT, 0, 0, 1, 0,                                                               \
      "1: find writes behind a chunk's end and into freed memory, and end the program there; "     \
      "slower")                                                                                    \
    X(automatic, AUTO, INT, 0, 0, 1, 1,                                                            \
      "1: choose slab or generation for call paths whose sizes and lifetimes call for it, and "    \
      "say "                                                                                       \
      "why in the dump")                                                                           \
    X(thp, THP, THP_MODE, 0, 0, 2, 0,                                                              \
      "transparent huge pages under the program's memory: default (as the system is set), "        \
      "always (they are asked for, and empty ones go back whole), never")                          \
    X(verbose, VERBOSE, INT, 0, 0, 2, 0,                                                           \
      "1: say on standard error what could not be had; 2: also the library's statistics at exit")

/* The words of enum kinds, in the order of their values. */
#define MEMCTX_CONTROL_MODE_WORDS "off", "auto", "eager", "always"
#define MEMCTX_FOLD_MODE_WORDS "auto", "off"
#define MEMCTX_THP_MODE_WORDS "default", "always", "never"

#endif
