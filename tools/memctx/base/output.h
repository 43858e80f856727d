/* SPDX-License-Identifier: MIT */
/*
 * output.h - writes a file that appears under its name only when it is complete.
 *
 * A path that exists and is not a regular file (a pipe), or is the standard output or error output
 * (/dev/stdout), is written to directly. If the path is a symbolic link, the link stays, and the
 * file that it leads to is replaced. These functions end the command with a message if the file
 * cannot be written. A new file that replaces an old one gives no permission that the old one did
 * not give. exit() removes an unfinished file, and so do SIGINT, SIGTERM, SIGHUP and SIGPIPE;
 * another signal leaves the temporary file behind. One file is written at a time.
 */
#ifndef MEMCTX_OUTPUT_H
#define MEMCTX_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *file;
    FILE *plain; /* stream that `file` writes to, if `file` compresses; else NULL */
    const char *path;
    char *final;     /* path that the complete file gets, behind links; NULL: `path` is written to
                        directly */
    char *temporary; /* path of the temporary file; NULL: `path` is written to directly */
    int fd;
    unsigned mode; /* permissions of the file that is replaced; 0666 if there is none */
};

/* True if what is written to `path` appears on a terminal: `path` is a terminal, or "-", and
 * standard output is a terminal. */
bool output_is_terminal(const char *path);
/* Begins to write to `path`; "-" is standard output. */
void output_begin(struct output *output, const char *path);
/* Like output_begin, but writes the file compressed, in gzip's format. */
void output_begin_compressed(struct output *output, const char *path);
/* Returns a stream that writes to a descriptor in gzip's format, at a level from 1 (fast) to 9
 * (small). It owns the descriptor. NULL: out of memory; then the descriptor is still the caller's.
 */
FILE *output_gzip(int fd, int level);
/* Completes the file, and gives it its final name. */
void output_finish(struct output *output);
/* Writes `length` bytes as the text of an HTML element: the characters that HTML reserves are
 * escaped, and bytes that are not UTF-8 are replaced by U+FFFD. The byte behind `text` must be 0.
 */
void output_put_html(FILE *file, const char *text, size_t length);

#endif
