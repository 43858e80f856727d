/* SPDX-License-Identifier: MIT */
/*
 * reach.h - the memory of a process, through /proc/PID/mem or from a core file.
 *
 * No signal is sent and nothing is written. A process goes on running while it is read. The headers
 * of a core file are not trusted: every offset and length is checked against the file.
 */
#ifndef MEMCTX_REACH_H
#define MEMCTX_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cli.h"

struct reach_mapping { /* a part of a file that is mapped */
    uint64_t start, end;
    char *name;
};

struct reach_piece { /* memory that a core file holds */
    uint64_t start, bytes, offset;
};

struct reach {
    int fd;                         /* /proc/PID/mem, or the core file */
    int pagemap;                    /* /proc/PID/pagemap; -1: a core file, or not open */
    bool is_core;                   /* true: a core file; false: a process */
    struct reach_mapping *mappings; /* of a process by rising address */
    size_t mapping_count;
    struct reach_range { /* memory without a file, by rising address; of a process only */
        uint64_t start, end;
    } * anonymous;
    size_t anonymous_count;
    struct reach_piece *pieces; /* parts of memory in a core file, by rising address */
    size_t piece_count;
    /* A core file without any hole. gcore writes zeros for memory that was not resident; copying
     * and compressing a core file fill its holes with zeros. */
    bool is_filled;
    uint64_t cut_bytes; /* memory that is in the headers of a core file, but not in the file */
    char name[17];      /* core file: the program's name, cut by the kernel at 15 characters */
    int64_t pid;
    char *exe; /* NULL: not known */
};

/* Opens a process of this machine. */
bool reach_open_process(struct reach *reach, pid_t pid, struct cli_failure *failure);
/* Opens a core file. */
bool reach_open_core(struct reach *reach, const char *path, struct cli_failure *failure);
/* Tells whether a file begins like a core file. */
bool reach_is_core(const char *path);
void reach_close(struct reach *reach);

/* Returns true if a process has no memory any more: it has ended, or executed another program. */
bool reach_has_ended(const struct reach *reach);

/* Copies memory. Returns false unless all of it can be read; then the copy is undefined. */
bool reach_read(const struct reach *reach, uint64_t address, void *to, size_t bytes);
/* Like reach_read, but sets to zero the OS pages that the process never wrote, or gave back, if the
 * range was anonymous memory when the process was opened. If such a page was read, the kernel would
 * map its zero page there, and would then call it resident. */
bool reach_read_touched(const struct reach *reach, uint64_t address, void *to, size_t bytes);
/* Copies a text of less than `room` bytes with its final 0. */
bool reach_read_text(const struct reach *reach, uint64_t address, char *to, size_t room);
/* Returns how many bytes the core file does not hold from an address on; UINT64_MAX: nothing up to
 * the end of the file; 0 for a process, or if the file system does not tell holes. */
uint64_t reach_hole_bytes(const struct reach *reach, uint64_t address);
/* Sets a byte to 1 for each of `count` OS pages that is resident, else to 0. Returns false if the
 * kernel does not tell. */
bool reach_read_resident(const struct reach *reach, uint64_t address, unsigned char *resident,
                         size_t count);
/* Returns the bytes of memory that a core file holds, without its holes: the best estimate of the
 * resident set. In a file without holes, OS pages of zeros count as holes; this reads the whole
 * file. */
int64_t reach_held_bytes(const struct reach *reach);

/* Add a mapping or a piece. For core.c. */
void reach_add_mapping(struct reach *reach, uint64_t start, uint64_t end, const char *name);
void reach_add_piece(struct reach *reach, uint64_t start, uint64_t bytes, uint64_t offset);

#endif
