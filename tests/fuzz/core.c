/* SPDX-License-Identifier: MIT */
/* A core file in which words of the library's tables are changed before it is opened or between two
 * reads, as in a process that runs on. The sound core is core.base in the current folder. An input
 * is a list of changes (struct change), at places that the reader reads in the sound core. */
#include "fuzz.h"
#include "model/wire_load.h"
#include "outside/outside.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
ssize_t fuzz_pread(int fd, void *to, size_t bytes, off_t offset);

#define RANGES_MOST 8192U
#define HEAD_BYTES 16384U /* the ELF header, the program headers, the notes */
#define CHANGES_MOST 64U

struct change {
    uint8_t when;  /* 0: before the core is opened; N: after 16 N reads */
    uint8_t bytes; /* chooses how many bytes are changed, 1 to 8 */
    uint16_t range, place;
    uint64_t value;
} __attribute__((packed));

static struct range {
    off_t offset;
    size_t bytes;
} ranges[RANGES_MOST];
static size_t range_count;
static bool learning;
static int file = -1;
static uint64_t reads;

static struct change changes[CHANGES_MOST];
static uint64_t before[CHANGES_MOST]; /* the old values of the changed words */
static size_t change_count, changed;  /* changed: number of changes made so far */

static off_t place_of(const struct change *change, size_t *bytes) {
    const struct range *range = &ranges[change->range % range_count];
    size_t place = change->place % range->bytes;
    *bytes = change->bytes % 8U + 1;
    if (change->place % 2 == 0) /* an aligned word */
        place -= place % 8;
    return range->offset + (off_t)place;
}

static void make_changes(void) {
    for (; changed < change_count && changes[changed].when * 16U <= reads; changed++) {
        size_t bytes;
        off_t at = place_of(&changes[changed], &bytes);
        if (pread(file, &before[changed], bytes, at) != (ssize_t)bytes)
            before[changed] = 0;
        if (pwrite(file, &changes[changed].value, bytes, at) != (ssize_t)bytes)
            abort();
    }
}

static void undo_changes(void) {
    while (changed > 0) {
        size_t bytes;
        off_t at = place_of(&changes[--changed], &bytes);
        if (pwrite(file, &before[changed], bytes, at) != (ssize_t)bytes)
            abort();
    }
}

/* Replaces pread in reach.c: notes the range of a read and makes the changes that are due. */
ssize_t fuzz_pread(int fd, void *to, size_t bytes, off_t offset) {
    reads++;
    if (learning && range_count < RANGES_MOST && bytes > 0)
        ranges[range_count++] = (struct range){offset, bytes};
    make_changes();
    return pread(fd, to, bytes, offset);
}

static void *ask(struct outside *outside, enum wire_type type, const void *request, size_t size,
                 size_t *bytes) {
    struct cli_failure failure;
    char *body = NULL;
    uint32_t status = WIRE_REFUSED;
    if (!outside_answer(outside, type, request, size, &body, bytes, &status, &failure))
        return NULL;
    if (status != WIRE_OK)
        return NULL;
    /* so that the sanitizer finds reads behind the answer */
    char *copy = malloc(*bytes ? *bytes : 1);
    memcpy(copy, body, *bytes);
    return copy;
}

static bool load_part(struct outside *outside, struct loader *loader, enum wire_part part) {
    struct wire_piece_request request = {.part = part,
                                         .flags = WIRE_DUMP_RESIDENT | WIRE_DUMP_THREADS};
    if (part == WIRE_PART_ENTRIES) {
        memcpy(request.mark, loader->mark->name, strlen(loader->mark->name));
        loader->mark->has_entries = true;
    }
    do {
        size_t bytes;
        void *answer = ask(outside, WIRE_PIECE, &request, sizeof request, &bytes);
        uint64_t last = request.from;
        bool taken =
            answer && loader_take_piece(loader, part, answer, bytes, (uint64_t *)&request.from);
        if (answer && !taken)
            abort(); /* the loader must accept every answer of the reader */
        free(answer);
        if (!taken || (request.from && request.from == last))
            return false;
    } while (request.from);
    return true;
}

static void load(struct outside *outside) {
    static const enum wire_part parts[] = {WIRE_PART_THREADS, WIRE_PART_REMOTES, WIRE_PART_MARKS,
                                           WIRE_PART_NOTES,   WIRE_PART_RESIZES, WIRE_PART_PAGES};
    struct wire_dump_request request = {.flags = WIRE_DUMP_BEGIN | WIRE_DUMP_RESIDENT};
    struct model model;
    struct loader loader;
    struct cli_failure failure = {0};
    size_t bytes;
    loader_begin(&loader, &model, "the fuzzer", &failure);
    loader.lone_views = true;
    void *head = ask(outside, WIRE_DUMP, &request, sizeof request, &bytes);
    bool good = head && loader_take_head(&loader, head, bytes);
    free(head);
    if (!good || !load_part(outside, &loader, WIRE_PART_CONTEXTS) ||
        !load_part(outside, &loader, WIRE_PART_MODULES) || !loader_link(&loader))
        return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        load_part(outside, &loader, parts[i]);
    for (size_t i = 0; i < model.mark_count; i++) {
        loader.mark = &model.marks[i];
        load_part(outside, &loader, WIRE_PART_ENTRIES);
    }
    loader_finish(&loader, MODEL_THREADS | MODEL_PINNED | MODEL_RESIDENT);
    if (outside_how(outside)[0] == '\0')
        abort();
    fuzz_examine(&model);
}

static void read_core(void) {
    char path[64];
    struct cli_failure failure;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    reads = 0;
    make_changes();
    struct outside *outside = outside_is_core(path) ? outside_open_core(path, &failure) : NULL;
    if (outside)
        load(outside);
    outside_close(outside);
    fuzz_forget();
}

static void begin(void) {
    static char block[1 << 16];
    int base = open("core.base", O_RDONLY | O_CLOEXEC);
    ssize_t got;
    file = memfd_create("core", MFD_CLOEXEC);
    while ((got = read(base, block, sizeof block)) > 0)
        if (write(file, block, (size_t)got) != got)
            abort();
    close(base);
    ranges[range_count++] = (struct range){0, HEAD_BYTES};
    ranges[range_count++] = (struct range){0, 64};
    learning = true;
    read_core();
    learning = false;
    if (range_count < 100)
        abort(); /* the reader did not read the sound core */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (file < 0)
        begin();
    change_count = size / sizeof *changes;
    change_count = change_count < CHANGES_MOST ? change_count : CHANGES_MOST;
    memcpy(changes, data, change_count * sizeof *changes);
    read_core();
    undo_changes();
    return 0;
}
