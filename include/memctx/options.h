/* SPDX-License-Identifier: MIT */
/*
 * options.h - every MEMCTX_* setting, declared once.
 *
 * The library's parser, `memctx options`, `memctx set` and the manual page are made from this list.
 * X(field, NAME, kind, default, minimum, maximum, live, help)
 *   NAME: the environment variable is MEMCTX_NAME; `memctx set` takes the name in lower case
 *   kind: INT; SIZE (bytes with K, M or G, or a percentage, which is stored as a negative number);
 *   MARKS (memctx/marks.h); or the name of a list of words below
 *   live: 1 when `memctx set TARGET name=value` may change the setting while the program runs
 */
#ifndef MEMCTX_OPTIONS_H
#define MEMCTX_OPTIONS_H

#include <memctx/marks.h>

#define MEMCTX_DEPTH_MAX 128

#define MEMCTX_OPTIONS(X)                                                                          \
    X(depth, DEPTH, INT, 32, 0, MEMCTX_DEPTH_MAX, 1,                                               \
      "number of frames kept of each call path; the default is 64 in a program with V8, such as "  \
      "node; 1: only the call site; 0: no call paths")                                             \
    X(control, CONTROL, CONTROL_MODE, 1, 0, 3, 0,                                                  \
      "when the control thread, which answers the command memctx, starts: off (never), auto (at "  \
      "once in a program of memctx run; else at an allocation after 20 ms or before a wait of a "  \
      "second; after 0.5 s before any wait), eager (at once), always (also under a system call "   \
      "filter that was set before the program started; stays after no_new_privs)")                 \
    X(verify, VERIFY, INT, 0, 0, 1000000000, 0,                                                    \
      "unwind every Nth cached call path again with libunwind and compare; 0: never")              \
    X(decay_ms, DECAY_MS, INT, 500, 0, 3600000, 1,                                                 \
      "milliseconds after which empty memory goes back to the kernel")                             \
    X(holes, HOLES, INT, 1, 0, 1, 1,                                                               \
      "1: in pages that nobody used for MEMCTX_DECAY_MS, give OS pages without live chunks back "  \
      "to the kernel; and while a thread sleeps, collect its chunks that other threads freed; "    \
      "0: only on request (memctx trim TARGET CONTEXT)")                                           \
    X(freelist_kib, FREELIST_KIB, INT, 8192, 0, 1073741824, 1,                                     \
      "at most this many KiB of empty memory are kept for reuse, or 5 % of the bytes in use if "   \
      "more; what a program frees and takes again at once is kept, too")                           \
    X(promote_bytes, PROMOTE_BYTES, INT, 16384, 0, 1073741824, 1,                                  \
      "a context with this many live bytes gets pages of its own; above 64 KiB of live bytes in "  \
      "the process, the number doubles each time these quadruple, up to a 64th of them")           \
    X(waste_kib, WASTE_KIB, INT, 2048, 0, 1073741824, 1,                                           \
      "when this many KiB, or 6 % of the live bytes if more, are free in pages of single "         \
      "contexts, further contexts share mixed pages")                                              \
    X(tables, TABLES, SIZE, -5, 65536, 1099511627776, 1,                                           \
      "limit for all tables of the library together: bytes (8M), or a share of the live bytes "    \
      "(5%) that counts as at least 4 MiB; each thread adds 32 KiB to it")                         \
    X(fold, FOLD, FOLD_MODE, 0, 0, 1, 1,                                                           \
      "recursion in call paths: auto (a function that recurs on very many paths appears once on "  \
      "each of these paths), off (every call appears)")                                            \
    X(check, CHECK, INT, 0, 0, 1, 0,                                                               \
      "1: detect writes past the end of a chunk and writes into freed memory, and end the "        \
      "program there; slower")                                                                     \
    X(automatic, AUTO, INT, 0, 0, 1, 1,                                                            \
      "1: choose slab or generation for call paths whose chunk sizes and lifetimes suit it; "      \
      "the dump gives the reason")                                                                 \
    X(marks, MARKS, MARKS, 0, 0, MEMCTX_MARKS_MAX, 1,                                              \
      "set a mark at this interval, and keep this many of the newest marks (10m,24: every 10 "     \
      "minutes, 24 marks), so that memctx doctor finds leaks at its first look; these marks use "  \
      "at most half of the memory that all marks may use")                                         \
    X(thp, THP, THP_MODE, 0, 0, 2, 0,                                                              \
      "transparent huge pages for the program's memory: default (as the system is configured, "    \
      "but none in the first 16 MiB and where memory was given back), always (request them, and "  \
      "return empty ones as a whole), never")                                                      \
    X(verbose, VERBOSE, INT, 0, 0, 2, 0,                                                           \
      "1: report failures of the library on standard error; 2: also print its statistics at exit")

/* The words of each kind that is a list of words. The first word has the value 0. */
#define MEMCTX_CONTROL_MODE_WORDS "off", "auto", "eager", "always"
#define MEMCTX_FOLD_MODE_WORDS "auto", "off"
#define MEMCTX_THP_MODE_WORDS "default", "always", "never"

#endif
