/* SPDX-License-Identifier: MIT */
/* bss.h - tells where the .bss of a mapped program or library lies. */
#ifndef MEMCTX_BSS_H
#define MEMCTX_BSS_H

#include <stdint.h>
#include <sys/types.h>

enum bss {
    BSS_UNKNOWN, /* the file cannot be read: it was deleted, or it is no ELF file */
    BSS_NONE,
    BSS_KNOWN,
};

/* Finds the anonymous memory that the loader maps behind a file's data. The file is mapped at
 * `start`, from its byte `offset` on. `path`: as the process `root_of` sees it; 0: as this command
 * sees it. BSS_KNOWN: the memory is from *first to before *end. */
enum bss bss_find(pid_t root_of, const char *path, uint64_t offset, uint64_t start, uint64_t *first,
                  uint64_t *end);

#endif
