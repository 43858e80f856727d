/* SPDX-License-Identifier: MIT */
/*
 * output.h - a file that appears under its name only when it is whole.
 *
 * What is there already and is no ordinary file (a pipe, /dev/stdout) is written to directly.
 * These functions end the process with a message where the file cannot be written.
 */
#ifndef MEMCTX_OUTPUT_H
#define MEMCTX_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *file;
    FILE *plain; /* what `file` writes to, if it compresses; else NULL */
    const char *path;
    char *temporary; /* NULL: written to directly */
    int fd;
};

/* "-" is standard output. */
void output_begin(struct output *output, const char *path);
/* The same, compressed by gzip. */
void output_begin_compressed(struct output *output, const char *path);
void output_finish(struct output *output);

#endif
