/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - looks up functions, files, lines and inlined frames of addresses.
 *
 * Names come from the files that the target maps. The command reads these files; nothing is read in
 * the target. DWARF comes first (also in separate debug files, found by build-id or debug link),
 * then the symbol table (also the small compressed one in .gnu_debugdata), then the dynamic
 * symbols. A file is ignored if its build-id is not that of the file that the process mapped;
 * without a build-id, the process's map decides. /tmp/perf-PID.map names code made at run time. A
 * frame without a name keeps module and offset.
 *
 * Modules are read in child processes: a damaged file may end a child, and its module then has no
 * names, but the dump goes on. With many modules, a child reads several of them.
 */
#ifndef MEMCTX_SYMBOLS_H
#define MEMCTX_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/model.h"

struct symbols_options {
    pid_t live_pid;  /* 0: a snapshot, whose process may be gone */
    pid_t inner_pid; /* pid of the process in its own pid namespace */
    /* debug files are looked for here, too; NULL: only in the usual directories */
    const char *debug_directory;
    bool progress;    /* show long look-ups on standard error */
    const bool *only; /* true for each context that needs names; NULL: all contexts */
    /* any frame may be the innermost one of a path, so tail calls from each frame to malloc are
     * looked up, too */
    bool any_site;
};

/* Give the frames of the model their names (with options->only, the frames of these contexts), and
 * every module that has such frames its `symbols`. Call symbols_begin, then symbols_finish.
 * Children look names up between the two calls; meanwhile the caller may read the model. */
struct symbols_work;
struct symbols_work *symbols_begin(const struct model *model,
                                   const struct symbols_options *options);
void symbols_finish(struct symbols_work *work, struct model *model);

#endif
