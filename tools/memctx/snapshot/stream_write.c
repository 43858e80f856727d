/* SPDX-License-Identifier: MIT */
/* stream_write.c - writes the answers of a process into a file as they come. */
#include <stdlib.h>

#include "base/cli.h"
#include "snapshot/stream.h"
#include "snapshot/zstd_file.h"

#define LEVEL 1       /* low: the stream form is written when memory is short */
#define WINDOW_LOG 18 /* 256 KiB are enough to find equal records */

struct stream_writer {
    struct zstd_file to;
};

struct stream_writer *stream_begin(FILE *file) {
    struct stream_writer *writer = cli_alloc(1, sizeof *writer);
    const uint32_t versions[2] = {STREAM_VERSION, WIRE_VERSION};
    zstd_file_begin(&writer->to, file, LEVEL, WINDOW_LOG);
    zstd_file_put_plain(&writer->to, STREAM_MAGIC, STREAM_MAGIC_BYTES);
    zstd_file_put_plain(&writer->to, versions, sizeof versions);
    return writer;
}

void stream_put(struct stream_writer *writer, enum stream_kind kind, uint32_t part,
                const void *bytes, size_t length) {
    struct stream_record record = {.kind = kind, .part = part, .bytes = (uint32_t)length};
    zstd_file_put(&writer->to, &record, sizeof record);
    zstd_file_put(&writer->to, bytes, length);
}

void stream_finish(struct stream_writer *writer) {
    stream_put(writer, STREAM_END, 0, NULL, 0);
    zstd_file_end_frame(&writer->to);
    zstd_file_free(&writer->to);
    free(writer);
}
