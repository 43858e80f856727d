/* SPDX-License-Identifier: MIT */
/* Reads a damaged or made-up snapshot. The first byte of the input chooses the form: '{' is JSON,
 * 0x89 is a packed file. After any other byte comes the content of a packed file's zstd frame; this
 * program compresses it, because a fuzzer does not guess checksums. If a snapshot can be read, it
 * must be equal after it is written and read again. */
#include "snapshot/snapshot.h"
#include "fuzz.h"
#include "model/model.h"
#include "snapshot/snapshot_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file = -1, copies[2] = {-1, -1};

static bool read_back(struct model *model, int from, struct cli_failure *failure) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", from);
    return snapshot_load(model, path, NULL, failure);
}

static void write_body(const uint8_t *body, size_t size) {
    static const uint8_t version[4] = {SNAPSHOT_VERSION};
    static uint8_t packed[1 << 18];
    static ZSTD_CCtx *zstd;
    if (!zstd)
        zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    size_t length = ZSTD_compress2(zstd, packed, sizeof packed, body, size);
    if (ZSTD_isError(length) ||
        pwrite(file, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES, 0) != SNAPSHOT_MAGIC_BYTES ||
        pwrite(file, version, sizeof version, SNAPSHOT_MAGIC_BYTES) != sizeof version ||
        pwrite(file, packed, length, SNAPSHOT_HEAD_BYTES) != (ssize_t)length)
        abort();
}

static void write_copy(const struct model *model, int copy) {
    const struct model_write_options options = {
        .threads = model->has_threads, .names = model->has_names, .snapshot = true};
    if (ftruncate(copy, 0) || lseek(copy, 0, SEEK_SET))
        abort();
    FILE *stream = fdopen(dup(copy), "w");
    snapshot_write(model, stream, &options);
    if (fclose(stream))
        abort();
}

static bool same_copies(void) {
    static uint8_t bytes[2][1 << 20];
    ssize_t lengths[2];
    for (int i = 0; i < 2; i++)
        lengths[i] = pread(copies[i], bytes[i], sizeof bytes[i], 0);
    return lengths[0] == lengths[1] && memcmp(bytes[0], bytes[1], (size_t)lengths[0]) == 0;
}

static void come_back(const struct model *model) {
    struct model back = {0};
    struct cli_failure failure = {0};
    write_copy(model, copies[0]);
    if (!read_back(&back, copies[0], &failure)) {
        fprintf(stderr, "%s\n", failure.text);
        abort();
    }
    write_copy(&back, copies[1]);
    if (!same_copies() || back.context_count != model->context_count ||
        memcmp(&back.totals, &model->totals, sizeof back.totals) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model model = {0};
    struct cli_failure failure = {0};
    if (file < 0) {
        file = memfd_create("snapshot", 0);
        copies[0] = memfd_create("copy", 0);
        copies[1] = memfd_create("copy of the copy", 0);
    }
    if (ftruncate(file, 0))
        abort();
    if (size == 0 || data[0] == '{' || data[0] == 0x89) {
        if (pwrite(file, data, size, 0) != (ssize_t)size)
            abort();
    } else {
        write_body(data + 1, size - 1);
    }
    if (read_back(&model, file, &failure)) {
        for (uint32_t i = 1; i < model.context_count; i++)
            if (model.contexts[i].parent >= i)
                abort();
        come_back(&model);
        fuzz_examine(&model);
    } else if (failure.code == 0 || strstr(failure.text, "; ") == NULL) {
        abort();
    }
    fuzz_forget();
    return 0;
}
