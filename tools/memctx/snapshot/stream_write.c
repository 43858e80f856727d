/* SPDX-License-Identifier: MIT */
/* stream_write.c - writes the answers of a process into a file as they come. */
#include <stdlib.h>
#include <zstd.h>

#include "snapshot/stream.h"

#define LEVEL 1       /* low: the stream form is written when memory is short */
#define WINDOW_LOG 18 /* 256 KiB are enough to find equal records */

struct stream_writer {
    FILE *file;
    ZSTD_CCtx *zstd;
    void *out;
    size_t out_bytes;
};

static void compress(struct stream_writer *writer, const void *bytes, size_t length,
                     ZSTD_EndDirective end) {
    ZSTD_inBuffer input = {bytes, length, 0};
    size_t left;
    do {
        ZSTD_outBuffer output = {writer->out, writer->out_bytes, 0};
        left = ZSTD_compressStream2(writer->zstd, &output, &input, end);
        if (ZSTD_isError(left)) {
            cli_die(CLI_REFUSED, "the snapshot could not be compressed; %s; free some memory",
                    ZSTD_getErrorName(left));
        }
        fwrite(output.dst, 1, output.pos, writer->file);
    } while (end == ZSTD_e_end ? left != 0 : input.pos < input.size);
}

struct stream_writer *stream_begin(FILE *file) {
    struct stream_writer *writer = cli_alloc(1, sizeof *writer);
    const uint32_t versions[2] = {STREAM_VERSION, WIRE_VERSION};
    *writer = (struct stream_writer){
        .file = file, .zstd = ZSTD_createCCtx(), .out_bytes = ZSTD_CStreamOutSize()};
    writer->out = cli_alloc(writer->out_bytes, 1);
    if (!writer->zstd ||
        ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_windowLog, WINDOW_LOG)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_checksumFlag, 1)))
        cli_die(CLI_REFUSED, "out of memory; the snapshot could not be compressed");
    fwrite(STREAM_MAGIC, 1, STREAM_MAGIC_BYTES, file);
    fwrite(versions, 1, sizeof versions, file);
    return writer;
}

void stream_put(struct stream_writer *writer, enum stream_kind kind, uint32_t part,
                const void *bytes, size_t length) {
    struct stream_record record = {.kind = kind, .part = part, .bytes = (uint32_t)length};
    compress(writer, &record, sizeof record, ZSTD_e_continue);
    compress(writer, bytes, length, ZSTD_e_continue);
}

void stream_finish(struct stream_writer *writer) {
    stream_put(writer, STREAM_END, 0, NULL, 0);
    compress(writer, NULL, 0, ZSTD_e_end);
    ZSTD_freeCCtx(writer->zstd);
    free(writer->out);
    free(writer);
}
