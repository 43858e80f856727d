/* SPDX-License-Identifier: MIT */
/* snapshot.c - reads a snapshot file into memory and tells its form by the first bytes. */
#include "snapshot/snapshot.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <memctx/record.h>

#include "snapshot/snapshot_format.h"
#include "snapshot/stream.h"

enum kind { KIND_OTHER, KIND_PACKED, KIND_STREAM, KIND_JSON, KIND_RECORDING };

/* Returns the kind of a file. A file that ends within the magic bytes counts as packed. */
static enum kind kind_of(const char *bytes, size_t length) {
    size_t at = sizeof(struct record_block) + offsetof(struct record_head, magic);
    if (length >= at + RECORD_MAGIC_BYTES &&
        memcmp(bytes + at, RECORD_MAGIC, RECORD_MAGIC_BYTES) == 0)
        return KIND_RECORDING;
    if (length >= STREAM_MAGIC_BYTES && memcmp(bytes, STREAM_MAGIC, STREAM_MAGIC_BYTES) == 0)
        return KIND_STREAM;
    size_t magic = length < SNAPSHOT_MAGIC_BYTES ? length : SNAPSHOT_MAGIC_BYTES;
    if (length > 0 && memcmp(bytes, SNAPSHOT_MAGIC, magic) == 0)
        return KIND_PACKED;
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r\n", bytes[i]))
            return bytes[i] == '{' ? KIND_JSON : KIND_OTHER;
    return KIND_OTHER;
}

static bool is_compressed(enum kind kind) {
    return kind == KIND_PACKED || kind == KIND_STREAM;
}

static bool is_later(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Returns the path of the newest recording in a directory; NULL: there is none. */
static char *newest_recording(const char *directory) {
    DIR *list = opendir(directory);
    struct timespec newest = {0};
    const struct dirent *entry;
    char *found = NULL;
    while (list && (entry = readdir(list))) {
        size_t length = strlen(entry->d_name);
        struct stat status;
        if (length <= 4 || strcmp(entry->d_name + length - 4, ".rec") != 0 ||
            fstatat(dirfd(list), entry->d_name, &status, 0) != 0 ||
            (found && !is_later(&status.st_mtim, &newest)))
            continue;
        free(found);
        found = cli_format("%s/%s", directory, entry->d_name);
        newest = status.st_mtim;
    }
    if (list)
        closedir(list);
    return found;
}

static FILE *open_file(const char *path, struct cli_failure *failure) {
    FILE *file = fopen(path, "re");
    struct stat status;
    if (!file) {
        cli_set_failure(
            failure, errno == EACCES || errno == EPERM ? CLI_NOT_PERMITTED : CLI_NO_TARGET,
            "%s: cannot be opened; %s; name a file that you may read", path, strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode)) {
        char *recording = newest_recording(path);
        cli_set_failure(failure, CLI_REFUSED, "%s: is a directory, not a snapshot; %s%s", path,
                        recording ? "its newest recording is " : "name a file in it",
                        recording ? recording : "");
        free(recording);
        fclose(file);
        return NULL;
    }
    return file;
}

/* Returns the program that unpacks a compressed file, such as a core file that systemd keeps; NULL:
 * the file is not compressed, or in an unknown way. */
static const char *unpacker_of(const char *bytes, size_t length) {
    static const struct {
        char magic[7], program[9];
    } unpackers[] = {{"\x28\xb5\x2f\xfd", "zstd -d"},
                     {"\xfd\x37zXZ", "xz -d"},
                     {"\x04\x22\x4d\x18", "lz4 -d"},
                     {"\x1f\x8b", "gzip -d"},
                     {"BZh", "bzip2 -d"}};
    for (size_t i = 0; i < sizeof unpackers / sizeof *unpackers; i++) {
        size_t bytes_there = strlen(unpackers[i].magic);
        if (length >= bytes_there && memcmp(bytes, unpackers[i].magic, bytes_there) == 0)
            return unpackers[i].program;
    }
    return NULL;
}

/* True if the bytes begin a core file. outside/core.c reads core files, but not from a pipe,
 * because it reads at many places. */
static bool is_core_head(const char *bytes, size_t length) {
    Elf64_Ehdr head;
    if (length < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    return head.e_type == ET_CORE;
}

/* Returns the size of a file; 0 for a pipe and the like, whose size is not known. */
static size_t size_of(FILE *file) {
    struct stat status;
    return fstat(fileno(file), &status) == 0 ? (size_t)status.st_size : 0;
}

/* True if a file of this kind has more bytes than memctx writes into one. */
static bool is_too_long(enum kind kind, size_t length) {
    return (kind == KIND_RECORDING && length > RECORD_FILE_BYTES) ||
           (is_compressed(kind) && length > SNAPSHOT_FILE_MAX);
}

/* Sets the failure for a file that is of no known kind, or too long. */
static void refuse_file(const char *path, const char *bytes, size_t length, enum kind kind,
                        struct cli_failure *failure) {
    if (kind == KIND_RECORDING) {
        cli_set_failure(failure, CLI_REFUSED,
                        "%s: damaged recording; a recording has at most %lu bytes", path,
                        RECORD_FILE_BYTES);
    } else if (kind != KIND_OTHER) {
        cli_set_failure(
            failure, CLI_REFUSED,
            "%s: damaged snapshot; a snapshot has at most %zu bytes; take it again with "
            "memctx dump -o",
            path, SNAPSHOT_FILE_MAX);
    } else if (unpacker_of(bytes, length)) {
        cli_set_failure(failure, CLI_REFUSED,
                        "%s: not a memctx snapshot; it is compressed; unpack it first: %s %s", path,
                        unpacker_of(bytes, length), path);
    } else if (length >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0) {
        cli_set_failure(failure, CLI_REFUSED,
                        is_core_head(bytes, length)
                            ? "%s: a core file is not read from a pipe; write it to a file first"
                            : "%s: not a memctx snapshot; it is a program; name a process that "
                              "memctx ps shows, or start one with memctx run",
                        path);
    } else {
        cli_set_failure(failure, CLI_REFUSED, SNAPSHOT_NOT_ONE, path);
    }
}

/* Returns the whole file with a 0 byte behind it. Returns NULL and sets the failure if the file
 * cannot be read or is not a snapshot. Checks the first bytes before it reads the rest, so that a
 * large file of another kind is not read. */
static char *read_file(const char *path, size_t *length, enum kind *kind,
                       struct cli_failure *failure) {
    FILE *file = open_file(path, failure);
    size_t capacity = 1 << 16, used = 0, got;
    bool too_long = false;
    if (!file)
        return NULL;
    size_t size = size_of(file);
    char *bytes = cli_alloc(capacity, 1);
    *kind = KIND_OTHER;
    while ((got = fread(bytes + used, 1, capacity - used - 1, file)) > 0) {
        used += got;
        *kind = kind_of(bytes, used);
        too_long = is_too_long(*kind, used) || is_too_long(*kind, size);
        /* no JSON has a 0 byte, but a damaged file may have very many at its end */
        if (*kind == KIND_OTHER || too_long ||
            (*kind == KIND_JSON && memchr(bytes + used - got, '\0', got)))
            break;
        if (capacity - used < 2) {
            capacity *= 2;
            bytes = cli_grow(bytes, capacity, 1);
        }
    }
    bool good = ferror(file) == 0;
    int error = errno;
    fclose(file);
    if (good && *kind != KIND_OTHER && !too_long) {
        bytes[used] = '\0';
        *length = used;
        return bytes;
    }
    if (good)
        refuse_file(path, bytes, used, *kind, failure);
    else
        cli_set_failure(failure, CLI_REFUSED, "%s: could not be read; %s", path, strerror(error));
    free(bytes);
    return NULL;
}

/* Begins an empty model, and reads the file from which it will be made (read_file). */
static char *begin_from_file(struct model *model, const char *path, size_t *length, enum kind *kind,
                             struct cli_failure *failure) {
    model_begin(model, path);
    cli_clean(model->source);
    model->from_snapshot = true;
    return read_file(path, length, kind, failure);
}

struct snapshot_replay *snapshot_open_replay(struct model *model, const char *path,
                                             const char *when, struct cli_failure *failure) {
    size_t length;
    enum kind kind;
    char *bytes = begin_from_file(model, path, &length, &kind, failure);
    if (!bytes)
        return NULL;
    if (kind == KIND_RECORDING)
        return snapshot_begin_replay(model, bytes, length, when, failure);
    free(bytes);
    cli_set_failure(failure, CLI_REFUSED,
                    "%s is a snapshot of one moment; %s takes a process or a recording (memctx run "
                    "--record); see memctx dump %s",
                    path, cli_current_verb->name, path);
    return NULL;
}

bool snapshot_load(struct model *model, const char *path, const char *when,
                   struct cli_failure *failure) {
    size_t length;
    enum kind kind;
    char *bytes = begin_from_file(model, path, &length, &kind, failure);
    if (!bytes)
        return false;
    bool good;
    if (kind == KIND_RECORDING)
        good = snapshot_read_recording(model, bytes, length, when, failure);
    else if (when)
        good = cli_fail(failure, CLI_REFUSED,
                        "%s is a snapshot of one moment; @%s needs a recording (memctx run "
                        "--record)",
                        path, when);
    else
        good = kind == KIND_PACKED   ? snapshot_read_packed(model, bytes, length, failure)
               : kind == KIND_STREAM ? snapshot_read_stream(model, bytes, length, failure)
                                     : snapshot_read_json(model, bytes, length, failure);
    free(bytes);
    return good;
}
