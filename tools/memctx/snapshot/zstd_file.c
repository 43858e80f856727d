/* SPDX-License-Identifier: MIT */
/* zstd_file.c - writes bytes into a file as one zstd frame; see zstd_file.h. */
#include "snapshot/zstd_file.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/cli.h"

void zstd_file_put_plain(struct zstd_file *to, const void *bytes, size_t length) {
    fwrite(bytes, 1, length, to->file);
    to->written += length;
}

static void compress(struct zstd_file *to, const void *bytes, size_t length,
                     ZSTD_EndDirective end) {
    ZSTD_inBuffer input = {bytes, length, 0};
    size_t left;
    do {
        ZSTD_outBuffer output = {to->out, to->out_bytes, 0};
        left = ZSTD_compressStream2(to->zstd, &output, &input, end);
        if (ZSTD_isError(left)) {
            cli_die(CLI_REFUSED, "the snapshot could not be compressed; %s; free some memory",
                    ZSTD_getErrorName(left));
        }
        zstd_file_put_plain(to, output.dst, output.pos);
    } while (end == ZSTD_e_end ? left != 0 : input.pos < input.size);
}

void zstd_file_begin(struct zstd_file *to, FILE *file, int level, int window_log) {
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    *to = (struct zstd_file){.file = file, .zstd = zstd, .out_bytes = ZSTD_CStreamOutSize()};
    to->out = cli_alloc(to->out_bytes, 1);
    if (!zstd || ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window_log)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)))
        cli_die(
            CLI_REFUSED,
            "out of memory; the snapshot could not be compressed; free some memory and try again");
}

void zstd_file_put(struct zstd_file *to, const void *bytes, size_t length) {
    compress(to, bytes, length, ZSTD_e_continue);
}

void zstd_file_end_frame(struct zstd_file *to) {
    compress(to, NULL, 0, ZSTD_e_end);
}

void zstd_file_free(struct zstd_file *to) {
    ZSTD_freeCCtx(to->zstd);
    free(to->out);
}
