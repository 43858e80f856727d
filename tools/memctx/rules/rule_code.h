/* SPDX-License-Identifier: MIT */
/*
 * rule_code.h - which code of one ELF file rules hold for, by its symbols and its debug
 * information.
 *
 * elfutils reads the file: compressed and split debug information, debug files by build-id or debug
 * link and .gnu_debugdata come with it. Code that was inlined counts to the functions it came from,
 * and to the source files of these. Each file is read in a child process, because a damaged one can
 * end it.
 */
#ifndef MEMCTX_RULE_CODE_H
#define MEMCTX_RULE_CODE_H

#include "names/elf_names.h"
#include "names/symbols.h"
#include "rules/rule_patterns.h"

struct rule_range {
    uint64_t start, end; /* addresses in the file */
    uint32_t rule;       /* from 1 on */
};

/* The code of an object that rules hold for. */
struct rule_object {
    const struct model_module *module;
    enum symbols_source source; /* what was read, or why nothing was */
    bool good;                  /* all of it was read */
    struct rule_range *ranges;  /* by rising start; none overlaps */
    size_t count;
};

/* Fills in the objects, whose modules are set. live_pid: the process that maps them; 0: none does
 * yet. */
void rule_code_find(struct rule_object *objects, size_t count, const struct rule_patterns *patterns,
                    pid_t live_pid);
/* Says why an object is not resolved. */
void rule_code_warn(const struct rule_object *object);

#endif
