/* SPDX-License-Identifier: MIT */
/*
 * elf_names.h - looks up the addresses of one ELF file. Only a child process calls this, because a
 * damaged file may crash the libraries that read it.
 */
#ifndef MEMCTX_ELF_NAMES_H
#define MEMCTX_ELF_NAMES_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "model/model.h"
#include "names/answer.h"

/* Two neighbouring frames of a path. Functions between them may have ended in tail calls. */
struct symbols_pair {
    uint64_t return_address;             /* return address of the outer frame, in its file */
    uint64_t inner;                      /* address to look up for the inner frame, in its file */
    uint32_t outer_module, inner_module; /* numbers of the modules */
};
#define SYMBOLS_ALLOCATOR 0 /* value of `inner` if the outer frame's call led to malloc */

struct symbols_request {
    const struct model_module *module;
    pid_t live_pid; /* 0: a snapshot, whose process may be gone */
    const char *debug_directory;
    const uint64_t *addresses; /* addresses to look up, as addresses in the file */
    size_t count;
    /* All modules of the process. `number`: index of `module` in this list. */
    const struct model_module *modules;
    uint32_t module_count, number;
    const struct symbols_pair *pairs;
    size_t pair_count;
};

/* Writes an answer to the request (answer.h). Both frames of each pair lie in request->module. */
void elf_names_answer(const struct symbols_request *request, FILE *answer);
/* Writes the answer for pairs of frames in different modules, and for pairs of a frame and malloc.
 * The request has no module and no addresses. */
void elf_names_answer_across(const struct symbols_request *request, FILE *answer);
/* Opens the file of request->module with elfutils. Returns SYMBOLS_DWARF and sets *module, or
 * returns why the file could not be opened. */
struct Dwfl_Module;
enum symbols_source elf_names_open(const struct symbols_request *request,
                                   struct Dwfl_Module **module);

#endif
