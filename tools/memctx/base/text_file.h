/* SPDX-License-Identifier: MIT */
/*
 * text_file.h - a stream that collects what is written to it in memory.
 *
 * It is used like open_memstream's, but it ends the command when memory runs out. A stream of
 * open_memstream loses the rest of the text then, and neither ferror nor fclose tells (glibc 2.36).
 */
#ifndef MEMCTX_TEXT_FILE_H
#define MEMCTX_TEXT_FILE_H

#include <stdio.h>

/* Opens a stream. fclose sets *text to the text, with a 0 behind it, and *length to its bytes
 * without this 0. The caller then frees the text. The stream cannot seek. */
FILE *text_file_open(char **text, size_t *length);

#endif
