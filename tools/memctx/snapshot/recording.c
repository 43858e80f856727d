/* SPDX-License-Identifier: MIT */
/*
 * recording.c - reads the recording of a process (memctx/record.h) into a model.
 *
 * The writer may have been killed at any byte, and the file may be damaged. A block is used only if
 * its checksums are right. The reader uses the newest directory, and every moment that it finds.
 * The ring has no index: a moment begins at a multiple of RECORD_ALIGN, and sequence numbers give
 * the order. The content of a block is checked too.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <memctx/marks.h>

#include "snapshot/recording.h"

#define MARKS_MOST 24 /* moments that become marks */
/* The library writes no larger moments (MOMENT_BYTES in src/control/recorder.h). Without this bound
 * a forged file could make the reader add up megabytes for each 64 bytes of the ring. */
#define MOMENT_BYTES_MOST (64UL << 10)

/* Returns the most bytes that the body of a block can have. */
static size_t most_bytes(enum record_kind kind) {
    return kind == RECORD_MOMENT      ? MOMENT_BYTES_MOST
           : kind == RECORD_DIRECTORY ? RECORD_DIRECTORY_BYTES
                                      : RECORD_END_AT;
}

bool recording_damaged(const struct snapshot_replay *reader, const char *what) {
    return cli_fail(
        reader->failure, CLI_REFUSED,
        "%s: damaged recording; %s; use another recording of the process, if there is one",
        reader->model->source, what);
}

/* Returns the body of the block at offset `at` of the file; NULL if there is no valid block of this
 * kind. */
static const char *body_at(const struct snapshot_replay *reader, size_t at, enum record_kind kind,
                           struct record_block *block) {
    if (at > reader->length || reader->length - at < sizeof *block)
        return NULL;
    memcpy(block, reader->bytes + at, sizeof *block);
    if (block->kind != kind || block->bytes > most_bytes(kind) ||
        block->bytes > reader->length - at - sizeof *block ||
        block->sum != record_sum(block, offsetof(struct record_block, sum), RECORD_SUM_SEED) ||
        block->body_sum !=
            record_sum(reader->bytes + at + sizeof *block, block->bytes, RECORD_SUM_SEED))
        return NULL;
    return reader->bytes + at + sizeof *block;
}

static void end_text(char *text, size_t bytes) {
    text[bytes - 1] = '\0';
    cli_clean(text);
}

static bool read_head(struct snapshot_replay *reader) {
    struct record_block block;
    struct record_head *head = &reader->head;
    const char *body = body_at(reader, RECORD_HEAD_AT, RECORD_HEAD, &block);
    if (!body || block.bytes < offsetof(struct record_head, pid) + sizeof head->pid)
        return recording_damaged(reader, "its head is not complete");
    memcpy(head, body, block.bytes < sizeof *head ? block.bytes : sizeof *head);
    bool known = head->version >= RECORD_VERSION_READ && head->version <= RECORD_VERSION &&
                 block.bytes == sizeof *head;
    if (known && head->wire_version != WIRE_VERSION) {
        return cli_fail(reader->failure, CLI_REFUSED,
                        "%s: a recording with figures of version %u; this memctx reads version %d; "
                        "use the memctx of the library that wrote it",
                        reader->model->source, head->wire_version, WIRE_VERSION);
    }
    if (!known) {
        return cli_fail(reader->failure, CLI_REFUSED,
                        "%s: a recording of version %u; this memctx reads versions %d to %d; use "
                        "the memctx of the library that wrote it",
                        reader->model->source, head->version, RECORD_VERSION_READ, RECORD_VERSION);
    }
    end_text(head->boot_id, sizeof head->boot_id);
    end_text(head->library_version, sizeof head->library_version);
    end_text(head->program, sizeof head->program);
    end_text(head->cgroup, sizeof head->cgroup);
    end_text(head->exe, sizeof head->exe);
    return true;
}

/* Takes the newer directory with right checksums. The library writes the two directories in turn,
 * so one is whole if the library was killed while it wrote the other. */
static void find_directory(struct snapshot_replay *reader) {
    uint64_t newest = 0;
    for (int i = 0; i < 2; i++) {
        struct record_block block;
        size_t at = RECORD_DIRECTORY_AT + (size_t)i * RECORD_DIRECTORY_BYTES;
        const char *body = body_at(reader, at, RECORD_DIRECTORY, &block);
        if (!body || block.sequence <= newest)
            continue;
        newest = block.sequence;
        reader->directory = body;
        reader->directory_bytes = block.bytes;
    }
}

static bool is_later(const struct recording_moment *a, const struct recording_moment *b) {
    return a->sequence > b->sequence;
}

static int compare_found(const void *a, const void *b) {
    return is_later(a, b) - is_later(b, a);
}

#define ENTRY_BYTES_LEAST 3 /* least bytes of an entry: its step, live bytes, live chunks */

static void add_moment(struct snapshot_replay *reader, const char *body,
                       const struct record_block *block) {
    if (reader->count == reader->room) {
        reader->room = 2 * reader->room + 64;
        reader->found = cli_grow(reader->found, reader->room, sizeof *reader->found);
    }
    struct recording_moment *found = &reader->found[reader->count];
    size_t before = sizeof found->moment;
    *found = (struct recording_moment){.sequence = block->sequence};
    memcpy(&found->moment, body, sizeof found->moment);
    memcpy(&found->dump, found->moment.dump, sizeof found->moment.dump);
    if (reader->head.version == RECORD_VERSION_READ)
        found->moment.paged = 0;
    if (found->moment.paged && block->bytes >= before + sizeof found->pages) {
        memcpy(&found->pages, body + before, sizeof found->pages);
        before += sizeof found->pages;
    }
    found->body = body + before;
    found->bytes = block->bytes - before;
    if (found->moment.entry_bytes == found->bytes &&
        found->moment.entries <= found->bytes / ENTRY_BYTES_LEAST)
        reader->count++;
}

static void find_moments(struct snapshot_replay *reader) {
    for (size_t at = RECORD_RING_AT; at < reader->length;) {
        struct record_block block;
        const char *body = body_at(reader, at, RECORD_MOMENT, &block);
        size_t bytes = RECORD_ALIGN;
        if (body && block.bytes >= sizeof(struct record_moment)) {
            add_moment(reader, body, &block);
            bytes = sizeof block + block.bytes;
        }
        at += (bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    }
    if (reader->count > 0)
        qsort(reader->found, reader->count, sizeof *reader->found, compare_found);
}

/* --- which moment ---------------------------------------------------------------------------- */

/* Writes a time as 2h05m00s, 3m20s or 12.5s. */
static void write_age(char *text, size_t bytes, uint64_t ns) {
    uint64_t s = (ns + 500000000) / 1000000000, tenths = (ns + 50000000) / 100000000;
    if (tenths < 600)
        snprintf(text, bytes, "%" PRIu64 ".%" PRIu64 "s", tenths / 10, tenths % 10);
    else if (s < 3600)
        snprintf(text, bytes, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        snprintf(text, bytes, "%" PRIu64 "h%02" PRIu64 "m%02" PRIu64 "s", s / 3600, s / 60 % 60,
                 s % 60);
}

/* Returns the time of a moment on a clock that also runs while the machine sleeps. Only differences
 * of such times mean anything. */
static uint64_t time_of(const struct snapshot_replay *reader, size_t i) {
    return reader->found[i].moment.uptime_ns + (uint64_t)reader->found[i].dump.slept_ns;
}

/* Returns the index of the last moment at `time_ns` or before; 0 if all moments are later. */
static size_t find_moment(const struct snapshot_replay *reader, uint64_t time_ns) {
    size_t i = reader->count - 1;
    while (i > 0 && time_of(reader, i) > time_ns)
        i--;
    return i;
}

static bool choose(const struct snapshot_replay *reader, const char *when, size_t *chosen) {
    size_t last = reader->count - 1;
    char age[32];
    *chosen = last;
    if (!when || strcmp(when, "now") == 0)
        return true;
    if (strcmp(when, "start") == 0) {
        *chosen = 0;
        return true;
    }
    int64_t packed = when[0] == '-' && !strchr(when, ',') ? memctx_marks_parse(when + 1) : -1;
    if (packed <= 0) {
        return cli_fail(reader->failure, CLI_USAGE,
                        "@%s is no moment of a recording; it is @now, @start or @-TIME, such as "
                        "@-10m; a TIME from 100ms to 30d (ms, s, m, h or d)",
                        when);
    }
    uint64_t back = (uint64_t)(packed / MEMCTX_MARKS_PACK) * 1000000, end = time_of(reader, last);
    if (end - time_of(reader, 0) < back) {
        write_age(age, sizeof age, end - time_of(reader, 0));
        return cli_fail(reader->failure, CLI_REFUSED,
                        "%s: begins only %s before its last moment; use @start, or a time below "
                        "that",
                        reader->model->source, age);
    }
    *chosen = find_moment(reader, end - back);
    return true;
}

/* --- figures --------------------------------------------------------------------------------- */

static void take_figures(struct snapshot_replay *reader, uint32_t index,
                         const struct recording_entry *entry) {
    struct model *model = reader->model;
    struct model_totals *self = &model_own_figures(model, &model->contexts[index])->self;
    const struct record_held *held = &entry->held;
    loader_set_sums(self, &entry->sums);
    self->block_bytes = held->block_bytes;
    self->reserved_bytes = held->reserved_bytes;
    self->pinned_bytes = model_add(held->alone_free_bytes, held->shared_free_bytes);
    self->sole_pinned_bytes = held->alone_bytes;
    reader->alone_free[index] = held->alone_free_bytes;
}

static void take_mark_entry(struct snapshot_replay *reader, uint32_t index,
                            const struct recording_entry *entry) {
    const struct wire_sums *sums = &entry->sums;
    struct model_mark *mark = &reader->model->marks[reader->model->mark_count - 1];
    model_own_figures(reader->model, &reader->model->contexts[index]);
    mark->entries[mark->entry_count++] =
        (struct wire_mark_entry){.context = index,
                                 .requested_bytes = sums->requested_bytes,
                                 .live_chunks = sums->live_chunks,
                                 .allocs = sums->allocs,
                                 .frees = sums->frees,
                                 .requested_cum_bytes = sums->requested_cum_bytes};
}

static int64_t rss_of(const struct recording_moment *found) {
    int64_t bytes = found->dump.ledger.rss_bytes;
    return bytes > 0 ? model_tame(bytes) : WIRE_UNKNOWN;
}

/* Makes a mark from the moment `from`, which is before the chosen moment. */
static bool add_mark(struct snapshot_replay *reader, size_t from, size_t chosen) {
    struct model *model = reader->model;
    const struct recording_moment *found = &reader->found[from];
    struct model_mark *mark = &model->marks[model->mark_count++];
    char age[24];
    write_age(age, sizeof age, time_of(reader, chosen) - time_of(reader, from));
    *mark = (struct model_mark){
        .uptime_s = (double)found->moment.uptime_ns / 1e9,
        .slept_s = (double)found->dump.slept_ns / 1e9,
        .rss_bytes = rss_of(found),
        .elsewhere = {.private_bytes = WIRE_UNKNOWN},
        .has_entries = true,
        .entries = cli_alloc((size_t)found->moment.entries + 2, sizeof *mark->entries)};
    snprintf(mark->name, sizeof mark->name, "-%s", age);
    return recording_each_entry(reader, found, take_mark_entry);
}

/* Makes up to MARKS_MOST marks from moments before the chosen one, at about equal distances. */
static bool add_marks(struct snapshot_replay *reader, size_t chosen) {
    struct model *model = reader->model;
    uint64_t first = time_of(reader, 0), span = time_of(reader, chosen) - first;
    size_t before = chosen;
    model->marks = cli_alloc(MARKS_MOST, sizeof *model->marks);
    for (uint64_t i = 0; i < MARKS_MOST; i++) {
        size_t at = find_moment(reader, first + (uint64_t)((double)span * (double)i / MARKS_MOST));
        if (at >= chosen || at == before)
            continue;
        before = at;
        if (!add_mark(reader, at, chosen))
            return false;
    }
    return true;
}

/* --- the model ------------------------------------------------------------------------------- */

static void take_since(struct snapshot_replay *reader, const char *bytes, size_t length) {
    size_t count = length / sizeof *reader->since;
    reader->since = cli_grow(reader->since, reader->since_count + count, sizeof *reader->since);
    memcpy(reader->since + reader->since_count, bytes, count * sizeof *reader->since);
    reader->since_count += count;
}

static bool take_pieces(struct snapshot_replay *reader) {
    const char *at = reader->directory;
    size_t left = reader->directory_bytes;
    while (left >= sizeof(struct record_piece)) {
        struct record_piece piece;
        uint64_t next;
        memcpy(&piece, at, sizeof piece);
        at += sizeof piece;
        left -= sizeof piece;
        if (piece.bytes > left || (piece.part != WIRE_PART_CONTEXTS && piece.part != RECORD_SINCE &&
                                   piece.part != WIRE_PART_MODULES))
            return recording_damaged(reader, "a piece of its directory is cut off");
        if (piece.part == RECORD_SINCE)
            take_since(reader, at, piece.bytes);
        else if (!loader_take_piece(&reader->loader, (enum wire_part)piece.part, at, piece.bytes,
                                    &next))
            return false;
        at += piece.bytes;
        left -= piece.bytes;
    }
    return loader_link(&reader->loader);
}

/* Sets the figures that come from single pages to WIRE_UNKNOWN, because a recording has none; and
 * those that are sums over the pages of a context, unless the moment is paged. A recording has the
 * bytes of all pages together (record.h), unless an older library wrote it. */
static void forget_pages(struct model *model, const struct recording_moment *found) {
    const struct record_pages *pages = &found->pages;
    bool paged = found->moment.paged != 0;
    int64_t reserved = found->dump.ledger.pages_reserved;
    for (size_t i = 0; i < model->figures_count; i++) {
        struct model_totals *self = &model_figures_at(model, i)->self;
        self->resident_bytes = self->pages = WIRE_UNKNOWN;
        if (!paged)
            self->block_bytes = self->reserved_bytes = self->pinned_bytes =
                self->sole_pinned_bytes = WIRE_UNKNOWN;
    }
    struct wire_ledger *ledger = &model->ledger;
    ledger->untouched_bytes = ledger->segments_resident = WIRE_UNKNOWN;
    ledger->pages_reserved = paged          ? model_tame(pages->own_bytes)
                             : reserved > 0 ? model_tame(reserved)
                                            : WIRE_UNKNOWN;
    ledger->mixed_reserved = paged ? model_tame(pages->mixed_bytes) : WIRE_UNKNOWN;
    ledger->mixed_block_bytes = paged ? model_tame(pages->mixed_block_bytes) : WIRE_UNKNOWN;
}

/* Keeps the sums over pages that a model of a live process gets from the page records. */
static void keep_pages(struct snapshot_replay *reader, size_t chosen) {
    struct model *model = reader->model;
    struct model_recording *recording = model->recording;
    const struct recording_moment *found = &reader->found[chosen];
    recording->paged = found->moment.paged != 0;
    while (chosen > 0 && !reader->found[chosen].moment.paged)
        chosen--;
    recording->paged_before = reader->found[chosen].moment.paged ? (int64_t)chosen : -1;
    recording->alone_free = cli_alloc(model->figures_count, sizeof *recording->alone_free);
    for (size_t i = 0; i < model->context_count; i++)
        if (reader->alone_free[i] != 0)
            recording->alone_free[model->contexts[i].figures->number] = reader->alone_free[i];
}

/* Returns the name of the program; NULL: not known. head->program is the process's first argument:
 * a path, perhaps with spaces, or a title that the process set, which begins with its name and a
 * space. */
static char *find_program(const struct record_head *head) {
    const char *slash = strrchr(head->exe, '/'), *file = slash ? slash + 1 : head->exe;
    /* the name of a login shell begins with a dash */
    const char *name = head->program + (head->program[0] == '-');
    size_t length = strlen(name), file_length = strlen(file);
    if (file_length > 0 && length >= file_length && strcmp(name + length - file_length, file) == 0)
        return cli_copy(file);
    length = strcspn(name, " ");
    length -= length > 0 && name[length - 1] == ':';
    return length > 0 ? cli_format("%.*s", (int)length, name) : NULL;
}

static void describe(struct snapshot_replay *reader, size_t chosen) {
    struct model *model = reader->model;
    struct model_recording *recording = cli_alloc(1, sizeof *recording);
    const struct record_moment *moment = &reader->found[chosen].moment;
    struct record_block block;
    *recording =
        (struct model_recording){.moment_count = reader->count,
                                 .chosen = chosen,
                                 .boot_id = cli_copy(reader->head.boot_id),
                                 .cgroup = cli_copy(reader->head.cgroup),
                                 .cgroup_inode = reader->head.cgroup_inode,
                                 .cgroup_v1 = reader->head.v1 != 0,
                                 .cgroup_bytes = moment->cgroup_bytes,
                                 .cgroup_limit = moment->cgroup_limit,
                                 .cgroup_oom_kills = moment->cgroup_oom_kills,
                                 .cgroup_above = moment->cgroup_above,
                                 .changed_user = moment->uid != reader->found[0].moment.uid,
                                 .lost = moment->lost};
    recording->moments = cli_alloc(reader->count, sizeof *recording->moments);
    for (size_t i = 0; i < reader->count; i++) {
        const struct recording_moment *found = &reader->found[i];
        recording->moments[i] =
            (struct model_moment){.wall_ns = found->moment.wall_ns,
                                  .uptime_s = (double)found->moment.uptime_ns / 1e9,
                                  .slept_s = (double)found->dump.slept_ns / 1e9,
                                  .requested_bytes = model_tame(found->dump.requested_bytes),
                                  .live_chunks = model_tame(found->dump.live_chunks),
                                  .rss_bytes = rss_of(found)};
    }
    const char *body = body_at(reader, RECORD_END_AT, RECORD_END, &block);
    struct record_end end;
    if (body && block.bytes == sizeof end) {
        memcpy(&end, body, sizeof end);
        recording->ending = end.ending;
        recording->end_uptime_s = (double)end.uptime_ns / 1e9;
    }
    model->recording = recording;
}

static bool load(struct snapshot_replay *reader, size_t chosen) {
    struct model *model = reader->model;
    struct wire_dump dump = reader->found[chosen].dump;
    snprintf(dump.exe, sizeof dump.exe, "%s", reader->head.exe);
    char *source = model->source;
    loader_begin(&reader->loader, model, source, reader->failure);
    free(source);
    model->from_snapshot = true;
    if (!loader_take_head(&reader->loader, &dump, sizeof dump) || !take_pieces(reader))
        return false;
    reader->alone_free = cli_alloc(model->context_count, sizeof *reader->alone_free);
    if (!recording_each_entry(reader, &reader->found[chosen], take_figures) ||
        !add_marks(reader, chosen))
        return false;
    model->pid = reader->head.pid;
    model->start_ticks = reader->head.start_ticks;
    model->library_version = cli_copy(reader->head.library_version);
    model->program = find_program(&reader->head);
    forget_pages(model, &reader->found[chosen]);
    model_add_up(model);
    describe(reader, chosen);
    keep_pages(reader, chosen);
    return true;
}

static bool fail_without_moment(const struct snapshot_replay *reader) {
    uint32_t kind = 0;
    if (reader->length >= RECORD_RING_AT + sizeof kind)
        memcpy(&kind, reader->bytes + RECORD_RING_AT, sizeof kind);
    if (kind != 0)
        return recording_damaged(reader, "none of its moments is complete");
    return cli_fail(reader->failure, CLI_REFUSED,
                    "%s: a recording without a moment; the process has not written one yet, ended "
                    "before, or could not write, or the file is cut off",
                    reader->model->source);
}

static bool read_file(struct snapshot_replay *reader, const char *when) {
    size_t chosen;
    if (!read_head(reader))
        return false;
    find_directory(reader);
    find_moments(reader);
    if (reader->count == 0)
        return fail_without_moment(reader);
    if (!reader->directory)
        return recording_damaged(reader,
                                 "neither of its two directories of call paths is complete");
    if (!choose(reader, when, &chosen) || !load(reader, chosen))
        return false;
    snapshot_read_names(reader->model, reader->bytes, reader->length);
    return true;
}

bool snapshot_read_recording(struct model *model, const char *bytes, size_t length,
                             const char *when, struct cli_failure *failure) {
    struct snapshot_replay reader = {
        .bytes = bytes, .length = length, .model = model, .failure = failure};
    bool good = read_file(&reader, when);
    free(reader.found);
    free(reader.since);
    free(reader.alone_free);
    return good;
}

/* --- moment by moment ------------------------------------------------------------------------ */

struct snapshot_replay *snapshot_begin_replay(struct model *model, const char *bytes, size_t length,
                                              const char *when, struct cli_failure *failure) {
    struct snapshot_replay *reader = cli_alloc(1, sizeof *reader);
    *reader = (struct snapshot_replay){
        .bytes = bytes, .length = length, .model = model, .failure = failure};
    if (read_file(reader, when))
        return reader;
    free(reader->found);
    free(reader->since);
    free(reader->alone_free);
    free(reader);
    return NULL;
}

static void take_for_caller(struct snapshot_replay *reader, uint32_t index,
                            const struct recording_entry *entry) {
    reader->take(reader->argument, index, &entry->sums);
}

void snapshot_replay_moment(struct snapshot_replay *replay, size_t moment,
                            void (*take)(void *argument, uint32_t index,
                                         const struct wire_sums *sums),
                            void *argument) {
    struct cli_failure failure;
    replay->take = take;
    replay->argument = argument;
    /* ignored: if the moment is cut off, `take` gets only the figures before the cut */
    replay->failure = &failure;
    recording_each_entry(replay, &replay->found[moment], take_for_caller);
}

void snapshot_end_replay(struct snapshot_replay *replay) {
    free((char *)(uintptr_t)replay->bytes);
    free(replay->found);
    free(replay->since);
    free(replay->alone_free);
    free(replay);
}
