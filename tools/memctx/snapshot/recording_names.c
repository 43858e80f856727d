/* SPDX-License-Identifier: MIT */
/*
 * recording_names.c - names of functions in a recording (memctx/record.h).
 *
 * The library knows no names, so the command adds a packed snapshot of the last moment, whose
 * frames have names. A reader gives its frames the names of the frames with equal module and
 * address. The file has two places for such a snapshot; the newer valid one is read, so a writer
 * that is killed loses nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <memctx/record.h>

#include "base/text_file.h"
#include "model/tails.h"
#include "snapshot/snapshot.h"

static bool is_valid(const struct record_block *block, const char *body) {
    return block->kind == RECORD_NAMES && block->bytes <= RECORD_NAMES_BYTES - sizeof *block &&
           block->sum == record_sum(block, offsetof(struct record_block, sum), RECORD_SUM_SEED) &&
           block->body_sum == record_sum(body, block->bytes, RECORD_SUM_SEED);
}

/* Returns the number (0 or 1) of the place with the newest names, and its block in *newest; -1: the
 * file has no names. */
static int find_newest(const char *bytes, size_t length, struct record_block *newest) {
    int found = -1;
    for (int i = 0; i < 2; i++) {
        struct record_block block;
        size_t at = RECORD_NAMES_AT + (size_t)i * RECORD_NAMES_BYTES;
        if (at + sizeof block > length)
            break;
        memcpy(&block, bytes + at, sizeof block);
        if (block.bytes > length - at - sizeof block ||
            !is_valid(&block, bytes + at + sizeof block) ||
            (found >= 0 && block.sequence < newest->sequence))
            continue;
        *newest = block;
        found = i;
    }
    return found;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct names {
    struct model model;         /* the snapshot that has the names */
    uint32_t *modules;          /* for each module of the snapshot its number in the recording, or
                                 * WIRE_NONE */
    struct model_frame **known; /* the snapshot's frames of call paths, sorted */
    size_t count;
    uint32_t *frames; /* for each frame of the snapshot its number in the recording, or WIRE_NONE */
    struct model *to;
};

/* Frames are compared by address, and then by the number that their module has in the recording. */
static int compare_keys(uint64_t a, uint32_t a_module, const struct model_frame *b,
                        uint32_t b_module) {
    if (a != b->address)
        return a < b->address ? -1 : 1;
    return a_module < b_module ? -1 : a_module > b_module;
}

static const struct names *sorting; /* argument of compare_known; qsort cannot pass one */

static uint32_t module_of(const struct names *names, const struct model_frame *frame) {
    return frame->module == WIRE_NONE ? WIRE_NONE : names->modules[frame->module];
}

static int compare_known(const void *a, const void *b) {
    const struct model_frame *left = *(struct model_frame *const *)a;
    const struct model_frame *right = *(struct model_frame *const *)b;
    return compare_keys(left->address, module_of(sorting, left), right, module_of(sorting, right));
}

static bool is_module(const struct model_module *a, const struct model_module *b) {
    return a->start == b->start && a->end == b->end && strcmp(a->path, b->path) == 0 &&
           a->build_id_bytes == b->build_id_bytes &&
           memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

/* Finds the number in the recording for each module of the snapshot. Tries the equal number first:
 * both list the modules in the order in which the process loaded them. */
static void match_modules(struct names *names) {
    const struct model *from = &names->model;
    struct model *to = names->to;
    names->modules = cli_alloc(from->module_count + 1, sizeof *names->modules);
    for (size_t i = 0; i < from->module_count; i++) {
        names->modules[i] = WIRE_NONE;
        for (size_t k = 0; k < to->module_count; k++) {
            size_t other = (i + k) % to->module_count;
            if (!is_module(&from->modules[i], &to->modules[other]))
                continue;
            names->modules[i] = (uint32_t)other;
            if (!to->modules[other].symbols && from->modules[i].symbols)
                to->modules[other].symbols = cli_copy(from->modules[i].symbols);
            break;
        }
    }
}

static void sort_known(struct names *names) {
    names->known = cli_alloc(names->model.frame_count + 1, sizeof(struct model_frame *));
    struct model_frame *frame = names->model.frames;
    for (; frame; frame = frame->next)
        if (frame->kind == WIRE_KIND_PATH && frame->address != 0)
            names->known[names->count++] = frame;
    sorting = names;
    if (names->count > 0)
        qsort(names->known, names->count, sizeof(struct model_frame *), compare_known);
}

static const struct model_frame *find_known(const struct names *names,
                                            const struct model_frame *wanted) {
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct model_frame *frame = names->known[middle];
        int order = compare_keys(wanted->address, wanted->module, frame, module_of(names, frame));
        if (order == 0)
            return frame;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Gives the recording's frames the names of the snapshot. Returns true if it has names for all
 * frames. */
static bool name_frames(struct names *names) {
    bool all = true;
    names->frames = cli_alloc(names->model.frame_count + 1, sizeof *names->frames);
    memset(names->frames, 0xff, names->model.frame_count * sizeof *names->frames);
    for (struct model_frame *frame = names->to->frames; frame; frame = frame->next) {
        if (frame->kind != WIRE_KIND_PATH || frame->address == 0)
            continue;
        const struct model_frame *known = find_known(names, frame);
        all = all && known;
        if (!known)
            continue;
        frame->names = known->names;
        names->frames[known->number] = frame->number;
    }
    return all;
}

static void take_tails(const struct model_tails *tails, void *data) {
    const struct names *names = data;
    struct model_tails taken = {.outer = names->frames[tails->outer], .inner = WIRE_NONE};
    if (tails->inner != WIRE_NONE)
        taken.inner = names->frames[tails->inner];
    if (taken.outer == WIRE_NONE || (tails->inner != WIRE_NONE && taken.inner == WIRE_NONE))
        return;
    taken.frames = cli_alloc(tails->count, sizeof *taken.frames);
    for (uint32_t i = 0; i < tails->count; i++) {
        struct model_frame frame = tails->frames[i];
        frame.module = module_of(names, &frame);
        if (frame.module != WIRE_NONE)
            taken.frames[taken.count++] = frame;
    }
    if (taken.count > 0)
        tails_add(names->to, &taken);
}

void snapshot_read_names(struct model *model, const char *bytes, size_t length) {
    struct record_block block;
    struct cli_failure failure;
    int place = find_newest(bytes, length, &block);
    if (place < 0)
        return;
    /* The snapshot's model is not freed: the names stay in use until the command ends. */
    struct names *names = cli_alloc(1, sizeof *names);
    names->to = model;
    const char *body = bytes + RECORD_NAMES_AT + (size_t)place * RECORD_NAMES_BYTES + sizeof block;
    model_begin(&names->model, model->source);
    if (!snapshot_read_packed(&names->model, body, block.bytes, &failure) ||
        !names->model.has_names) {
        cli_warn("note: the names in %s cannot be read; they are looked up anew", model->source);
        return;
    }
    match_modules(names);
    sort_known(names);
    model->has_names = name_frames(names);
    tails_visit(&names->model, take_tails, names);
    free(names->known);
    free(names->modules);
    free(names->frames);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Returns true if the file is the recording from which the model was read. Fills in the blocks of
 * names in the file. */
static bool check_file(int fd, const struct model *model, struct record_block blocks[2]) {
    struct record_head head;
    size_t at = RECORD_HEAD_AT + sizeof(struct record_block);
    if (pread(fd, &head, sizeof head, (off_t)at) != sizeof head ||
        memcmp(head.magic, RECORD_MAGIC, RECORD_MAGIC_BYTES) != 0 || head.pid != model->pid ||
        head.start_ticks != model->start_ticks)
        return false;
    for (size_t i = 0; i < 2; i++) {
        blocks[i] = (struct record_block){0};
        size_t place = RECORD_NAMES_AT + i * RECORD_NAMES_BYTES;
        if (pread(fd, &blocks[i], sizeof blocks[i], (off_t)place) != sizeof blocks[i] ||
            blocks[i].kind != RECORD_NAMES)
            blocks[i] = (struct record_block){0};
    }
    return true;
}

static bool write_at(int fd, const void *bytes, size_t length, size_t at) {
    for (size_t done = 0; done < length;) {
        ssize_t put = pwrite(fd, (const char *)bytes + done, length - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

/* Writes the names over the older ones. Erases the old block header first and writes the new one
 * last, so that a body is never valid while it is half written. */
static bool write_names(int fd, const struct record_block old[2], const char *body, size_t length) {
    size_t place = old[0].sequence <= old[1].sequence ? 0 : 1;
    size_t at = RECORD_NAMES_AT + place * RECORD_NAMES_BYTES;
    struct record_block block = {.kind = RECORD_NAMES,
                                 .bytes = (uint32_t)length,
                                 .sequence = old[1 - place].sequence + 1,
                                 .body_sum = record_sum(body, length, RECORD_SUM_SEED)};
    block.sum = record_sum(&block, offsetof(struct record_block, sum), RECORD_SUM_SEED);
    return write_at(fd, &(struct record_block){0}, sizeof block, at) &&
           write_at(fd, body, length, at + sizeof block) && write_at(fd, &block, sizeof block, at);
}

bool snapshot_add_names(struct model *model, const char *path, struct cli_failure *failure) {
    struct model_write_options options = {.names = true, .snapshot = true};
    struct record_block old[2];
    char *body = NULL;
    size_t length = 0;
    bool good = true;
    model->mark_count = 0; /* marks are earlier moments, which the file has already */
    FILE *file = text_file_open(&body, &length);
    snapshot_write(model, file, &options);
    fclose(file);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        good = cli_fail(failure, errno == EACCES ? CLI_NOT_PERMITTED : CLI_REFUSED,
                        "%s: names cannot be written; %s", path, strerror(errno));
    else if (length > RECORD_NAMES_BYTES - sizeof old[0])
        good = cli_fail(failure, CLI_REFUSED,
                        "%s: its names take %zu bytes, and there is room for %zu; memctx dump "
                        "FILE -o SNAPSHOT keeps them in a file of their own",
                        path, length, RECORD_NAMES_BYTES - sizeof old[0]);
    else if (!check_file(fd, model, old))
        good = cli_fail(failure, CLI_REFUSED,
                        "%s: the file has become another recording; try again", path);
    else if (!write_names(fd, old, body, length))
        good = cli_fail(failure, CLI_REFUSED, "%s: names cannot be written; %s", path,
                        strerror(errno));
    if (fd >= 0)
        close(fd);
    free(body);
    return good;
}
