/* SPDX-License-Identifier: MIT */
/*
 * memory.c - reads the kernel's map of a process and makes the ledger.
 *
 * smaps tells the kinds of mappings apart: files (with the .bss behind the writable part of a
 * file), stacks (the main thread's by its name, other threads' by the guard page at their lower
 * end), the brk heap, code made at run time, shared memory, and the control thread's memory by its
 * flags. The rest is anonymous memory of the library, its .bss among it, and of the program. The
 * library knows how much of its own memory is resident; the remaining anonymous memory is the
 * program's.
 */
#include "model/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREAD_STACK_MIN_BYTES (1 << 20)
#define BSS_MAX_BYTES (256 << 20)
#define GUARD_BYTES 4096
#define PAGEMAP_GUARD (1ULL << 58) /* a guard page in /proc/PID/pagemap, since Linux 6.15 */
#define MAPPING_PATH_BYTES 256     /* longer paths are cut */

struct mapping {
    uint64_t start, end, offset;
    char permissions[5];
    unsigned long inode;
    char path[MAPPING_PATH_BYTES];
};

static bool parse_header(const char *line, struct mapping *mapping) {
    unsigned long long start, end, offset;
    *mapping = (struct mapping){0};
    if (sscanf(line, "%llx-%llx %4s %llx %*s %lu %255[^\n]", &start, &end, mapping->permissions,
               &offset, &mapping->inode, mapping->path) < 5)
        return false;
    mapping->start = start;
    mapping->end = end;
    mapping->offset = offset;
    return true;
}

/* True if .bss may lie behind a mapping: the mapping is private, maps a file, and is writable or
 * begins behind offset 0 of the file. A data file is mostly mapped read-only from offset 0;
 * anonymous memory that the kernel puts directly behind it is no .bss. */
static bool may_be_data(const struct mapping *mapping, enum model_place_kind kind) {
    return kind == MODEL_PLACE_FILE && mapping->inode != 0 && mapping->permissions[3] == 'p' &&
           (mapping->offset != 0 || mapping->permissions[1] == 'w');
}

/* True if the file is the library. Its .bss counts as anonymous memory of the library, not as a
 * part of the file: the library's first tables lie there, and the ledger has a line for all tables.
 */
static bool is_library(const struct mapping *mapping) {
    const char *slash = strrchr(mapping->path, '/');
    return slash && strncmp(slash, "/libmemctx.so", strlen("/libmemctx.so")) == 0;
}

/* True if .bss of this size may lie behind the mapping. Static tables of the program may have any
 * size. Large anonymous memory directly behind the data of a library is more likely a mapping that
 * the kernel put there. `exe`: path of the program's file; NULL: not known. */
static bool may_have_bss(const struct mapping *mapping, uint64_t bytes, const char *exe) {
    return bytes < BSS_MAX_BYTES || (exe && strcmp(mapping->path, exe) == 0);
}

static enum model_place_kind find_kind(const struct mapping *mapping, const struct mapping *before,
                                       enum model_place_kind before_kind, const char *exe) {
    bool adjacent = before->end == mapping->start;
    uint64_t bytes = mapping->end - mapping->start;
    if (strncmp(mapping->path, "/dev/zero", 9) == 0 || strncmp(mapping->path, "/memfd:", 7) == 0 ||
        strncmp(mapping->path, "/SYSV", 5) == 0 || strncmp(mapping->path, "/dev/shm/", 9) == 0 ||
        strncmp(mapping->path, "[anon", 5) == 0)
        return MODEL_PLACE_SHARED;
    if (mapping->inode != 0 || strncmp(mapping->path, "[v", 2) == 0)
        return MODEL_PLACE_FILE;
    if (strncmp(mapping->path, "[stack", 6) == 0)
        return MODEL_PLACE_STACK;
    if (strcmp(mapping->path, "[heap]") == 0)
        return MODEL_PLACE_HEAP;
    if (mapping->permissions[2] == 'x')
        return MODEL_PLACE_CODE;
    if (adjacent && may_be_data(before, before_kind) && mapping->permissions[1] == 'w' &&
        may_have_bss(before, bytes, exe))
        return is_library(before) ? MODEL_PLACE_ANONYMOUS : MODEL_PLACE_FILE;
    if (adjacent && strcmp(before->permissions, "---p") == 0 && before->inode == 0 &&
        before->end - before->start == GUARD_BYTES && bytes >= THREAD_STACK_MIN_BYTES)
        return MODEL_PLACE_STACK;
    return MODEL_PLACE_ANONYMOUS;
}

static int64_t *find_sum(struct model_mappings *mappings, enum model_place_kind kind) {
    switch (kind) {
    case MODEL_PLACE_FILE: return &mappings->file_bytes;
    case MODEL_PLACE_STACK: return &mappings->stack_bytes;
    case MODEL_PLACE_HEAP: return &mappings->heap_bytes;
    case MODEL_PLACE_CODE: return &mappings->executable_bytes;
    case MODEL_PLACE_SHARED: return &mappings->shared_bytes;
    default: return &mappings->anonymous_bytes;
    }
}

/* Fills in the figures that the kernel counts. A figure that it does not tell becomes WIRE_UNKNOWN.
 */
static void read_counters(pid_t pid, struct model_mappings *mappings) {
    const struct {
        const char *format;
        int64_t *bytes;
    } lines[] = {{"VmHWM: %lld kB", &mappings->peak_rss_bytes},
                 {"RssAnon: %lld kB", &mappings->counted_anonymous_bytes},
                 {"RssFile: %lld kB", &mappings->counted_file_bytes},
                 {"RssShmem: %lld kB", &mappings->counted_shared_bytes},
                 {"VmData: %lld kB", &mappings->counted_data_bytes},
                 {"VmSwap: %lld kB", &mappings->counted_swap_bytes}};
    char path[64], line[256];
    long long kib;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        *lines[i].bytes = WIRE_UNKNOWN;
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            if (sscanf(line, lines[i].format, &kib) == 1)
                *lines[i].bytes = kib * 1024;
    if (file)
        fclose(file);
}

/* True for the control thread's memory: no other mapping has both flags, "wf" (empty after a fork)
 * and "nr" (MAP_NORESERVE). The ledger shows this memory in a line of its own, with a figure from
 * another moment. */
static bool is_control_memory(const char *flags) {
    return strstr(flags, " wf") && strstr(flags, " nr");
}

/* True for anonymous memory that lies directly behind the data of a file but is no .bss. .bss is
 * never mapped with MAP_NORESERVE ("nr"); the library's segments and tables always are. */
static bool is_no_bss(const struct model_place *place, const char *flags) {
    return place->kind == MODEL_PLACE_FILE && !place->path && strstr(flags, " nr");
}

/* A mapping, with those of its lines in smaps that the ledger needs. */
struct entry {
    struct model_place place;
    int64_t huge_bytes, swap_bytes;
    bool is_control; /* memory of the control thread */
};

struct entries {
    struct entry *list;
    size_t count, capacity;
};

/* Removes entries that the kernel shows a second time. smaps is read in pieces. Each piece begins
 * with the mapping at the address where the last piece ended. If the last mapping has grown
 * meanwhile, this address lies in it, so the kernel shows it again, with its new size. Returns the
 * kind of a removed mapping that began at `start`, or else `kind`. */
static enum model_place_kind remove_shown_before(struct entries *entries, uint64_t start,
                                                 enum model_place_kind kind) {
    while (entries->count > 0 && entries->list[entries->count - 1].place.end > start) {
        struct model_place *place = &entries->list[--entries->count].place;
        if (place->start == start)
            kind = place->kind;
        free(place->path);
    }
    return kind;
}

static struct entry *add_entry(struct entries *entries, const struct mapping *mapping,
                               enum model_place_kind kind) {
    kind = remove_shown_before(entries, mapping->start, kind);
    if (entries->count == entries->capacity) {
        entries->capacity = 2 * entries->capacity + 64;
        entries->list = cli_grow(entries->list, entries->capacity, sizeof *entries->list);
    }
    struct entry *entry = &entries->list[entries->count++];
    *entry = (struct entry){.place = {.start = mapping->start, .end = mapping->end, .kind = kind}};
    if (mapping->path[0] != '\0')
        entry->place.path = cli_clean(cli_copy(mapping->path));
    return entry;
}

static void read_figure(struct entry *entry, const char *line) {
    long long kib;
    if (sscanf(line, "Rss: %lld kB", &kib) == 1)
        entry->place.bytes = kib * 1024;
    else if (sscanf(line, "AnonHugePages: %lld kB", &kib) == 1)
        entry->huge_bytes = kib * 1024;
    else if (sscanf(line, "Swap: %lld kB", &kib) == 1)
        entry->swap_bytes = kib * 1024;
    else if (strncmp(line, "VmFlags:", 8) == 0) {
        entry->is_control = is_control_memory(line);
        if (is_no_bss(&entry->place, line))
            entry->place.kind = MODEL_PLACE_ANONYMOUS;
    }
}

static struct entries read_entries(FILE *file, const char *exe) {
    struct entries entries = {0};
    struct entry *entry = NULL;
    struct mapping mapping = {0}, before = {0};
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        /* a header line begins with lower-case hex digits */
        bool is_header = line[0] < 'A' || line[0] > 'Z';
        if (is_header) {
            before = mapping;
            enum model_place_kind kind = entry ? entry->place.kind : MODEL_PLACE_ANONYMOUS;
            if (parse_header(line, &mapping))
                entry = add_entry(&entries, &mapping, find_kind(&mapping, &before, kind, exe));
        } else if (entry) {
            read_figure(entry, line);
        }
    }
    free(line);
    return entries;
}

/* Adds a mapping to the sums. Adds it to the places, too, if it has resident memory and is not the
 * control thread's. Takes over the path. */
static void count_entry(const struct entry *entry, struct model_mappings *mappings,
                        struct memory_places *places) {
    mappings->rss_bytes += entry->place.bytes;
    mappings->huge_bytes += entry->huge_bytes;
    mappings->swap_bytes += entry->swap_bytes;
    if (!entry->is_control)
        *find_sum(mappings, entry->place.kind) += entry->place.bytes;
    if (entry->place.bytes > 0 && !entry->is_control)
        places->list[places->count++] = entry->place;
    else
        free(entry->place.path);
}

/* True for a thread's stack whose guard page is a part of its mapping: glibc 2.42 makes guard pages
 * with MADV_GUARD_INSTALL. */
static bool has_guard_inside(const struct model_place *place, int pagemap) {
    uint64_t page;
    return place->kind == MODEL_PLACE_ANONYMOUS &&
           place->end - place->start >= THREAD_STACK_MIN_BYTES && pagemap >= 0 &&
           pread(pagemap, &page, sizeof page, (off_t)(place->start / GUARD_BYTES * sizeof page)) ==
               sizeof page &&
           (page & PAGEMAP_GUARD) != 0;
}

bool memory_read_smaps(FILE *file, const char *exe, int pagemap, struct model_mappings *mappings,
                       struct memory_places *places) {
    struct entries entries = read_entries(file, exe);
    *mappings = (struct model_mappings){.peak_rss_bytes = WIRE_UNKNOWN,
                                        .counted_anonymous_bytes = WIRE_UNKNOWN};
    *places = (struct memory_places){cli_alloc(entries.count, sizeof *places->list), 0};
    for (size_t i = 0; i < entries.count; i++) {
        if (has_guard_inside(&entries.list[i].place, pagemap))
            entries.list[i].place.kind = MODEL_PLACE_STACK;
        count_entry(&entries.list[i], mappings, places);
    }
    free(entries.list);
    return entries.count > 0;
}

bool memory_read_mappings(pid_t pid, struct model_mappings *mappings,
                          struct memory_places *places) {
    char path[64], exe[MAPPING_PATH_BYTES];
    *mappings = (struct model_mappings){0};
    *places = (struct memory_places){0};
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    bool good = memory_read_smaps(file, length > 0 ? exe : NULL, pagemap, mappings, places);
    fclose(file);
    if (pagemap >= 0)
        close(pagemap);
    read_counters(pid, mappings);
    return good;
}

static void add_line(struct memory_ledger *ledger, const char *key, const char *name,
                     int64_t bytes) {
    ledger->lines[ledger->count++] = (struct memory_line){key, name, bytes};
}

int64_t memory_held_bytes(const struct wire_page *page) {
    int64_t touched = model_tame((int64_t)page->touched_bytes);
    int64_t resident =
        page->resident_bytes == WIRE_UNKNOWN ? touched : model_tame(page->resident_bytes);
    return resident < touched ? resident : touched;
}

int64_t memory_free_bytes(const struct wire_page *page) {
    int64_t touched = model_tame((int64_t)page->touched_bytes);
    int64_t unused = touched - model_tame((int64_t)page->live_bytes);
    return unused > 0 ? model_share(unused, memory_held_bytes(page), touched) : unused;
}

/* The bytes of pages of one kind (enum wire_page_kind) that are in no live block. `holes` and
 * `kept` are in memory. */
struct free_bytes {
    int64_t holes;  /* free bytes in pages with live blocks */
    int64_t kept;   /* bytes of pages without live blocks */
    int64_t unheld; /* free bytes that were never touched, or are not resident */
};

/* Adds up the pages of one kind. */
static struct free_bytes free_in(const struct model *model, uint8_t kind) {
    struct free_bytes sum = {0};
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (page->kind != kind)
            continue;
        int64_t all = model_tame((int64_t)page->bytes) - model_tame((int64_t)page->live_bytes) +
                      page->guard_bytes;
        int64_t held = memory_free_bytes(page);
        if (kind == WIRE_PAGE_LARGE) { /* the bytes behind the chunk may be resident, too */
            held = model_tame(page->resident_bytes) - model_tame((int64_t)page->live_bytes);
            held = held > 0 ? held : 0;
        }
        int64_t *part = page->live > 0 ? &sum.holes : &sum.kept;
        *part = model_tame(*part + held);
        sum.unheld = model_tame(sum.unheld + all - held);
    }
    return sum;
}

int64_t memory_own_bytes(const struct wire_ledger *ledger) {
    int64_t tables = ledger->metadata_resident != WIRE_UNKNOWN ? ledger->metadata_resident
                                                               : ledger->metadata_used;
    return model_tame(tables) + model_tame(ledger->control_bytes);
}

int64_t memory_own_most(const struct wire_ledger *ledger) {
    int64_t tables = model_tame(ledger->metadata_mapped), own = memory_own_bytes(ledger);
    tables = model_tame(tables + model_tame(ledger->control_bytes));
    return tables > own ? tables : own;
}

int64_t memory_freelist_held(const struct model *model) {
    int64_t bytes = model_tame(model->ledger.freelist_bytes);
    int64_t left = model_tame(model->ledger.segments_resident);
    if (!model->has_pages || model->ledger.segments_resident == WIRE_UNKNOWN)
        return bytes;
    for (size_t i = 0; i < model->page_count; i++)
        left = model_tame(left - memory_held_bytes(&model->pages[i]));
    left = left > 0 ? left : 0;
    return left < bytes ? left : bytes;
}

int64_t memory_own_mappings(const struct model *model) {
    int64_t ours =
        model_tame(model->ledger.segments_resident) + model_tame(model->ledger.metadata_resident);
    int64_t left = model_tame(model->mappings.anonymous_bytes) - ours;
    return left > 0 ? left : 0;
}

/* Adds the lines with figures from the kernel's list of mappings. */
static void add_mappings(const struct model *model, struct memory_ledger *ledger) {
    const struct model_mappings *mappings = &model->mappings;
    add_line(ledger, "files_bytes", "program, libraries, other mapped files",
             model_tame(mappings->file_bytes));
    add_line(ledger, "stacks_bytes", "thread stacks", model_tame(mappings->stack_bytes));
    add_line(ledger, "brk_heap_bytes", "brk heap (not used by memctx)",
             model_tame(mappings->heap_bytes));
    add_line(ledger, "runtime_code_bytes", "code generated at run time",
             model_tame(mappings->executable_bytes));
    add_line(ledger, "shared_bytes", "shared memory and named mappings",
             model_tame(mappings->shared_bytes));
    if (model->ledger.segments_resident != WIRE_UNKNOWN &&
        model->ledger.metadata_resident != WIRE_UNKNOWN)
        add_line(ledger, "own_mappings_bytes", "the program's own anonymous mappings",
                 memory_own_mappings(model));
}

/* Adds the lines with figures of single pages. */
static void add_pages(const struct model *model, struct memory_ledger *ledger, int64_t *unheld) {
    const struct wire_ledger *wire = &model->ledger;
    const struct model_totals *totals = &model->totals;
    int64_t own_blocks = model_tame(totals->block_bytes) - model_tame(wire->mixed_block_bytes);
    struct free_bytes own = free_in(model, WIRE_PAGE_OWN);
    struct free_bytes mixed = free_in(model, WIRE_PAGE_MIXED);
    struct free_bytes large = free_in(model, WIRE_PAGE_LARGE);
    *unheld = own.unheld + mixed.unheld + large.unheld;
    add_line(ledger, "rounding_bytes", "rounding up to block sizes",
             model_tame(totals->block_bytes) - model_tame(totals->requested_bytes));
    add_line(ledger, "holes_bytes", "holes (free in pages of one context)",
             model_tame(wire->pages_reserved) - own_blocks - own.unheld - own.kept - large.unheld);
    add_line(ledger, "mixed_free_bytes", "free in mixed pages (of several contexts)",
             model_tame(wire->mixed_reserved) - model_tame(wire->mixed_block_bytes) - mixed.unheld -
                 mixed.kept);
    if (model->has_pages) {
        add_line(ledger, "kept_bytes", "empty pages kept for the next chunks",
                 own.kept + mixed.kept);
    }
}

void memory_make_ledger(const struct model *model, struct memory_ledger *ledger) {
    const struct wire_ledger *wire = &model->ledger;
    int64_t requested = model_tame(model->totals.requested_bytes), unheld = 0;
    int64_t segments = model_tame(wire->pages_reserved) + model_tame(wire->mixed_reserved) +
                       model_tame(wire->freelist_bytes) + model_tame(wire->segment_headers);
    bool pages = !model_has_sums_only(model);
    bool free_known = pages || wire->pages_reserved != WIRE_UNKNOWN;
    *ledger = (struct memory_ledger){.rss_bytes = model_tame(wire->rss_bytes)};
    add_line(ledger, "requested_bytes", "requested by the program", requested);
    if (pages)
        add_pages(model, ledger, &unheld);
    else if (free_known)
        add_line(ledger, "pages_free_bytes", "rounding, and free in pages (recorded as one sum)",
                 model_tame(wire->pages_reserved) - requested);
    add_line(ledger, "freelist_bytes", "freelist (empty memory kept for reuse)",
             model_tame(wire->freelist_bytes));
    add_line(ledger, "segment_headers_bytes", "page headers of memctx",
             model_tame(wire->segment_headers));
    if (pages)
        add_line(ledger, "not_resident_bytes",
                 "counted above, but not resident (positive: resident, but not in use)",
                 wire->segments_resident == WIRE_UNKNOWN
                     ? 0
                     : model_tame(wire->segments_resident) + unheld - segments);
    add_line(ledger, "metadata_bytes", "tables of memctx",
             wire->metadata_resident == WIRE_UNKNOWN ? model_tame(wire->metadata_mapped)
                                                     : model_tame(wire->metadata_resident));
    add_line(ledger, "control_bytes", "control thread of memctx", model_tame(wire->control_bytes));
    if (model->has_mappings)
        add_mappings(model, ledger);
    int64_t sum = 0;
    for (size_t i = 0; i < ledger->count; i++)
        sum += model_tame(ledger->lines[i].bytes);
    add_line(ledger, "residue_bytes",
             model->has_mappings ? "residue (not explained by the lines above)"
             : pages             ? "residue (memory outside memctx; smaps could not be read)"
             : free_known ? "residue (not recorded: memory outside memctx, less memory not touched)"
                          : "residue (not recorded: free blocks, memory outside memctx)",
             ledger->rss_bytes - sum);
}
