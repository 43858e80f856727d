/* SPDX-License-Identifier: MIT */
/*
 * zstd_file.h - writes bytes into a file as one zstd frame with a checksum, for both forms of
 * snapshots that are compressed (pack.h, stream.h). Bytes that are not compressed may stand before
 * and behind the frame.
 *
 * Cannot do: fail. A frame that cannot be made ends the command with a message; the caller sees a
 * write that failed when it closes the file (ferror).
 */
#ifndef MEMCTX_ZSTD_FILE_H
#define MEMCTX_ZSTD_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct zstd_file {
    FILE *file;
    void *zstd;       /* the compressor of libzstd */
    void *out;        /* buffer for compressed bytes */
    size_t out_bytes; /* size of `out` */
    uint64_t written; /* bytes that were written into `file`, also outside of the frame */
};

/* Begins a frame. `level`: a higher one makes files smaller and takes longer. The compressor finds
 * equal bytes in the last 2^window_log bytes, and a reader needs as much memory. */
void zstd_file_begin(struct zstd_file *to, FILE *file, int level, int window_log);

/* Writes bytes as they are. Only before the first byte of the frame or behind its end. */
void zstd_file_put_plain(struct zstd_file *to, const void *bytes, size_t length);

/* Adds bytes to the frame. */
void zstd_file_put(struct zstd_file *to, const void *bytes, size_t length);

/* Ends the frame. */
void zstd_file_end_frame(struct zstd_file *to);

/* Frees the memory. The file stays open. */
void zstd_file_free(struct zstd_file *to);

#endif
