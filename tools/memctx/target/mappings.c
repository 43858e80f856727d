/* SPDX-License-Identifier: MIT */
/*
 * mappings.c - tells the mappings of a process apart by kind, and adds up their resident memory.
 *
 * The kinds: files (with the .bss behind the data of a file), stacks (the main thread's by its
 * name, other threads' by the guard page at their lower end), the brk heap, code made at run time,
 * and shared memory. The rest is anonymous memory of the library, its .bss among it, and of the
 * program. The library knows how much of its own memory is resident; the remaining anonymous memory
 * is the program's.
 */
#include "target/mappings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cli.h"

#define THREAD_STACK_MIN_BYTES (1 << 20)
/* greatest .bss of a file that cannot be read; larger anonymous memory behind such a file is more
 * likely a mapping that the kernel put there */
#define BSS_GUESS_MAX_BYTES (1 << 20)
#define GUARD_BYTES 4096
#define RESERVED_BYTES (1UL << 30)
#define USER_END (1ULL << 47)  /* pagemap has no words for addresses from here on ([vsyscall]) */
#define MAPPING_PATH_BYTES 256 /* longer paths are cut */

/* The headers of an older glibc do not define these two. */
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4U
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

/* One mapping of the text. */
struct mapping {
    uint64_t start, end, offset;
    char permissions[5];
    unsigned long inode;
    dev_t device;
    enum model_place_kind kind;
    char *path; /* NULL: none */
};

struct map {
    struct mapping *list;
    size_t count, capacity;
};

static bool starts_with(const char *path, const char *start) {
    return path && strncmp(path, start, strlen(start)) == 0;
}

static bool parse_line(const char *line, struct mapping *mapping) {
    unsigned long long start, end, offset;
    unsigned major, minor;
    char path[MAPPING_PATH_BYTES] = "";
    *mapping = (struct mapping){.kind = MODEL_PLACE_ANONYMOUS};
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %lu %255[^\n]", &start, &end, mapping->permissions,
               &offset, &major, &minor, &mapping->inode, path) < 7)
        return false;
    mapping->device = makedev(major, minor);
    mapping->start = start;
    mapping->end = end;
    mapping->offset = offset;
    mapping->path = path[0] != '\0' ? cli_copy(path) : NULL;
    return true;
}

/* Removes mappings that the kernel shows a second time. The map is read in pieces. Each piece
 * begins with the mapping at the address where the last piece ended. If the last mapping has grown
 * meanwhile, this address lies in it, so the kernel shows it again, with its new size. */
static void remove_shown_before(struct map *map, uint64_t start) {
    while (map->count > 0 && map->list[map->count - 1].end > start)
        free(map->list[--map->count].path);
}

static struct mapping *add(struct map *map, const struct mapping *mapping) {
    if (map->count == map->capacity) {
        map->capacity = 2 * map->capacity + 64;
        map->list = cli_grow(map->list, map->capacity, sizeof *map->list);
    }
    map->list[map->count] = *mapping;
    return &map->list[map->count++];
}

/* True if .bss may lie behind a mapping: the mapping is private, maps a file, and is writable or
 * begins behind offset 0 of the file. A data file is mostly mapped read-only from offset 0;
 * anonymous memory that the kernel puts directly behind it is no .bss. */
static bool may_be_data(const struct mapping *mapping) {
    return mapping->kind == MODEL_PLACE_FILE && mapping->inode != 0 &&
           mapping->permissions[3] == 'p' &&
           (mapping->offset != 0 || mapping->permissions[1] == 'w');
}

/* True if the file is the library. Its .bss counts as anonymous memory of the library, not as a
 * part of the file: the library's first tables lie there, and the ledger has a line for all tables.
 */
static bool is_library(const struct mapping *mapping) {
    const char *slash = mapping->path ? strrchr(mapping->path, '/') : NULL;
    return starts_with(slash, "/libmemctx.so");
}

/* Returns the end of the .bss that begins with `mapping`, directly behind the mapping `before`; 0:
 * there is none. The kernel may put other memory there, and may merge the .bss with a mapping
 * behind it. */
static uint64_t end_of_bss(const struct mappings_source *source, const struct mapping *mapping,
                           const struct mapping *before) {
    uint64_t first, end;
    bool is_program = source->exe && before->path && strcmp(before->path, source->exe) == 0;
    switch (
        source->find_bss(source->pid, before->path, before->offset, before->start, &first, &end)) {
    case BSS_NONE: return 0;
    case BSS_KNOWN: return first != mapping->start ? 0 : end < mapping->end ? end : mapping->end;
    case BSS_UNKNOWN: break;
    }
    return is_program || mapping->end - mapping->start <= BSS_GUESS_MAX_BYTES ? mapping->end : 0;
}

static bool is_shared(const char *path) {
    return starts_with(path, "/dev/zero") || starts_with(path, "/memfd:") ||
           starts_with(path, "/SYSV") || starts_with(path, "/dev/shm/") ||
           starts_with(path, "[anon");
}

/* `before`: the mapping before this one in the map; NULL: none. Cuts the mapping at the end of a
 * .bss, and sets *rest to the address of the remainder. */
static enum model_place_kind find_kind(const struct mappings_source *source,
                                       struct mapping *mapping, const struct mapping *before,
                                       uint64_t *rest) {
    bool adjacent = before && before->end == mapping->start;
    if (is_shared(mapping->path))
        return MODEL_PLACE_SHARED;
    if (mapping->inode != 0 || starts_with(mapping->path, "[v"))
        return MODEL_PLACE_FILE;
    if (starts_with(mapping->path, "[stack"))
        return MODEL_PLACE_STACK;
    if (mapping->path && strcmp(mapping->path, "[heap]") == 0)
        return MODEL_PLACE_HEAP;
    if (mapping->permissions[2] == 'x')
        return MODEL_PLACE_CODE;
    if (adjacent && may_be_data(before) && mapping->permissions[1] == 'w') {
        uint64_t end = end_of_bss(source, mapping, before);
        if (end != 0) {
            *rest = end;
            mapping->end = end;
            return is_library(before) ? MODEL_PLACE_ANONYMOUS : MODEL_PLACE_FILE;
        }
    }
    if (adjacent && strcmp(before->permissions, "---p") == 0 && before->inode == 0 &&
        before->end - before->start == GUARD_BYTES &&
        mapping->end - mapping->start >= THREAD_STACK_MIN_BYTES)
        return MODEL_PLACE_STACK;
    return MODEL_PLACE_ANONYMOUS;
}

/* Finds the kind of each mapping. The mapping that holds a .bss and more becomes two. */
static struct map find_kinds(const struct mappings_source *source, const struct map *text) {
    struct map map = {0};
    for (size_t i = 0; i < text->count; i++) {
        struct mapping mapping = text->list[i];
        uint64_t end = mapping.end, rest = end;
        mapping.kind =
            find_kind(source, &mapping, map.count ? &map.list[map.count - 1] : NULL, &rest);
        add(&map, &mapping);
        if (rest < end)
            add(&map, &(struct mapping){.start = rest,
                                        .end = end,
                                        .permissions = "rw-p",
                                        .kind = MODEL_PLACE_ANONYMOUS});
    }
    return map;
}

static struct map read_text(FILE *file) {
    struct map text = {0};
    struct mapping mapping;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        if (!parse_line(line, &mapping))
            continue;
        remove_shown_before(&text, mapping.start);
        add(&text, &mapping);
    }
    free(line);
    return text;
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

/* True for memory in the kernel's pool of huge pages, which no resident set counts. Files of
 * memfd_create and shared memory of System V may be there, too: their device tells it. */
static bool is_from_pool(const struct mappings_source *source, const struct mapping *mapping) {
    bool on_device = false;
    for (size_t i = 0; i < MAPPINGS_POOLS; i++)
        on_device |= source->pools[i] != 0 && source->pools[i] == mapping->device;
    return on_device || starts_with(mapping->path, "/anon_hugepage") ||
           starts_with(mapping->path, "/dev/hugepages/");
}

void mappings_find_pools(dev_t pools[MAPPINGS_POOLS]) {
    static const unsigned shifts[MAPPINGS_POOLS] = {21, 30}; /* pages of 2 MiB and 1 GiB */
    for (size_t i = 0; i < MAPPINGS_POOLS; i++) {
        struct stat status;
        /* an empty file there needs no huge page */
        int fd = memfd_create("pool", MFD_CLOEXEC | MFD_HUGETLB | shifts[i] << MFD_HUGE_SHIFT);
        pools[i] = fd >= 0 && fstat(fd, &status) == 0 ? status.st_dev : 0;
        if (fd >= 0)
            close(fd);
    }
}

/* True for address space that a runtime has reserved, up to a TiB, and does not use: no access is
 * allowed. Kernels without PAGEMAP_SCAN would be asked for 2 MiB of words for each GiB. */
static bool is_reserved(const struct mappings_source *source, const struct mapping *mapping) {
    return !source->residency.scans && mapping->end - mapping->start > RESERVED_BYTES &&
           strncmp(mapping->permissions, "---", 3) == 0;
}

/* True for a thread's stack whose guard page is a part of its mapping. */
static bool has_guard_inside(const struct mappings_source *source, const struct mapping *mapping) {
    return mapping->kind == MODEL_PLACE_ANONYMOUS &&
           mapping->end - mapping->start >= THREAD_STACK_MIN_BYTES &&
           source->has_guard(&source->residency, mapping->start);
}

/* Adds a mapping to the sums, and to the places if it has resident memory. Takes over the path. */
static void count_mapping(const struct mappings_source *source, struct mapping *mapping,
                          struct model_mappings *mappings, struct mapped_places *places) {
    bool counts =
        mapping->end <= USER_END && !is_from_pool(source, mapping) && !is_reserved(source, mapping);
    struct residency_count count =
        counts ? source->count(&source->residency, mapping->start, mapping->end)
               : (struct residency_count){0};
    if (has_guard_inside(source, mapping))
        mapping->kind = MODEL_PLACE_STACK;
    mappings->rss_bytes += count.resident_bytes;
    mappings->huge_bytes += count.huge_bytes;
    mappings->swap_bytes += count.swap_bytes;
    *find_sum(mappings, mapping->kind) += count.resident_bytes;
    if (count.resident_bytes > 0)
        places->list[places->count++] =
            (struct model_place){.start = mapping->start,
                                 .end = mapping->end,
                                 .bytes = count.resident_bytes,
                                 .kind = mapping->kind,
                                 .path = mapping->path ? cli_clean(mapping->path) : NULL};
    else
        free(mapping->path);
}

bool mappings_read(FILE *maps, const struct mappings_source *source,
                   struct model_mappings *mappings, struct mapped_places *places) {
    struct map text = read_text(maps), map = find_kinds(source, &text);
    *mappings = (struct model_mappings){0};
    mappings->peak_rss_bytes = mappings->counted_anonymous_bytes = WIRE_UNKNOWN;
    mappings->counted_file_bytes = mappings->counted_shared_bytes = WIRE_UNKNOWN;
    mappings->counted_data_bytes = mappings->counted_swap_bytes = WIRE_UNKNOWN;
    *places = (struct mapped_places){cli_alloc(map.count, sizeof *places->list), 0};
    for (size_t i = 0; i < map.count; i++)
        count_mapping(source, &map.list[i], mappings, places);
    free(text.list);
    free(map.list);
    return map.count > 0;
}

/* Fills in the figures that the kernel counts itself, if it tells them. */
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
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            if (sscanf(line, lines[i].format, &kib) == 1)
                *lines[i].bytes = kib * 1024;
    if (file)
        fclose(file);
}

bool mappings_of_process(pid_t pid, struct model_mappings *mappings, struct mapped_places *places) {
    char path[64], exe[MAPPING_PATH_BYTES];
    struct mappings_source source = {
        .pid = pid, .count = residency_of, .has_guard = residency_has_guard, .find_bss = bss_find};
    *mappings = (struct model_mappings){0};
    *places = (struct mapped_places){0};
    mappings_find_pools(source.pools);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    source.exe = length > 0 ? exe : NULL;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    bool good = residency_open(&source.residency, pid) && file &&
                mappings_read(file, &source, mappings, places);
    residency_close(&source.residency);
    if (file)
        fclose(file);
    read_counters(pid, mappings);
    return good;
}
