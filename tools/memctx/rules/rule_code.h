/* SPDX-License-Identifier: MIT */
/*
 * rule_code.h - finds the code of one ELF file that rules match, by its symbols and its debug
 * information.
 *
 * elfutils reads the file; it also reads compressed and split debug information, debug files found
 * by build-id or debug link, and .gnu_debugdata. Inlined code belongs to the function from which it
 * comes, and to that function's source file. Each file is read in a child process, because a
 * damaged file can crash the process that reads it.
 */
#ifndef MEMCTX_RULE_CODE_H
#define MEMCTX_RULE_CODE_H

#include "names/elf_names.h"
#include "names/symbols.h"
#include "rules/rule_patterns.h"

struct rule_range {
    uint64_t start, end; /* addresses in the file */
    uint32_t rule;       /* number of the rule, from 1 on */
};

/* The code of an object that rules match. */
struct rule_object {
    const struct model_module *module;
    bool unreadable;            /* the library cannot read the names of the object's functions */
    enum symbols_source source; /* where the names came from, or why the file was not read */
    bool good;                  /* the whole file was read */
    struct rule_range *ranges;  /* ranges that match, by rising start, without overlap */
    size_t count;
};

/* Fills in the objects; the caller has set their modules. live_pid: the process that maps the
 * objects; 0: it has not started yet. */
void rule_code_find(struct rule_object *objects, size_t count, const struct rule_patterns *patterns,
                    pid_t live_pid);
/* Prints a note for each pattern from index `from` on that matches no code in the objects, because
 * the pattern may be misspelled. Prints nothing if an object could not be read. `where`: the
 * objects in words. */
void rule_code_note_unmatched(const struct rule_object *objects, size_t count,
                              const struct rule_patterns *patterns, size_t from, const char *where);
/* Warns that the rules are not resolved in an object, with the reason. */
void rule_code_warn(const struct rule_object *object);

#endif
