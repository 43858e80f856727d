/* SPDX-License-Identifier: MIT */
/*
 * root.c - finds the library's root in the target's memory, and checks every number in it.
 *
 * The root stands in data of libmemctx.so that the loader has written to. Such data are anonymous
 * memory, so a core file has the root even if coredump_filter leaves out mapped files.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outside/outside.h"
#include "outside/tables.h"

#define SEARCH_MAX (64UL << 20)   /* greatest number of bytes of a mapping that are searched */
#define LIBRARY_MAX (256UL << 20) /* greatest number of bytes between two places in the library */
#define SEARCH_STEP (1UL << 20)
/* greatest number of bytes of the mapping that has the root; 8 KiB now */
#define DATA_MAX (32UL << 10)
#define STRUCT_MAX 65536U
#define CONSTANT_MAX (1U << 26)
#define TREE_BYTES_MAX (1UL << 33) /* greatest number of bytes of all nodes */

static void write_magic(char magic[OUTSIDE_MAGIC_BYTES]) {
    /* In two steps, so that no constant of the command has the whole magic. */
    memcpy(magic, OUTSIDE_MAGIC_A, sizeof OUTSIDE_MAGIC_A - 1);
    memcpy(magic + sizeof OUTSIDE_MAGIC_A - 1, OUTSIDE_MAGIC_B, sizeof OUTSIDE_MAGIC_B);
}

/* The file of a library that was renamed since it was loaded has another name. */
static bool is_library(const char *name) {
    const char *slash = strrchr(name, '/');
    return strncmp(slash ? slash + 1 : name, "libmemctx", 9) == 0;
}

/* Where the magic was found. */
struct found {
    uint64_t root;  /* address of the root; 0: not found */
    uint64_t other; /* address of the first root of another layout; 0: there is none */
};

/* Notes a place with the magic. The file of the library may also be mapped as data, as a program
 * that reads symbols does. In such a mapping the addresses are not those of the process. */
static void take_magic(struct tables *tables, uint64_t at, struct found *found) {
    struct {
        uint32_t version;
        uint64_t heap_global;
    } head;
    uint64_t address = at + offsetof(struct outside_root, addresses) +
                       OUTSIDE_AT_heap_global * sizeof head.heap_global;
    if (!reach_read(&tables->reach, at + offsetof(struct outside_root, version), &head.version,
                    sizeof head.version))
        return;
    if (head.version != OUTSIDE_VERSION)
        found->other = found->other ? found->other : at;
    else if (reach_read(&tables->reach, address, &head.heap_global, sizeof head.heap_global) &&
             head.heap_global + LIBRARY_MAX - at < 2 * LIBRARY_MAX)
        found->root = at;
}

/* Looks for the root in a mapping. Skips parts that cannot be read. */
static void search(struct tables *tables, uint64_t start, uint64_t end, struct found *found) {
    char magic[OUTSIDE_MAGIC_BYTES], *bytes = cli_alloc(SEARCH_STEP, 1);
    write_magic(magic);
    if (end > start + SEARCH_MAX)
        end = start + SEARCH_MAX;
    for (; start < end && !found->root; start += SEARCH_STEP) {
        size_t part = end - start < SEARCH_STEP ? (size_t)(end - start) : SEARCH_STEP;
        if (reach_hole_bytes(&tables->reach, start) >= part)
            continue;
        if (!reach_read(&tables->reach, start, bytes, part))
            continue;
        for (size_t at = 0; at + sizeof magic <= part && !found->root; at += OUTSIDE_ALIGNMENT)
            if (memcmp(bytes + at, magic, sizeof magic) == 0)
                take_magic(tables, start + at, found);
    }
    free(bytes);
}

/* struct_of[a field]: number of the struct that the field is in. */
static const uint32_t struct_of[OUTSIDE_FIELD_COUNT] = {
#define X(type, field) [OUTSIDE_##type##_##field] = OUTSIDE_SIZE_##type,
    OUTSIDE_FIELDS(X)
#undef X
};

/* Checks the sizes, places and constants of the root: a field must lie in its struct, and no
 * product of sizes and numbers may be too large. */
static bool is_sound(const struct outside_root *root) {
    for (size_t i = 0; i < OUTSIDE_STRUCT_COUNT; i++)
        if (root->structs[i] == 0 || root->structs[i] > STRUCT_MAX)
            return false;
    for (size_t i = 0; i < OUTSIDE_FIELD_COUNT; i++) {
        uint32_t room = root->structs[struct_of[i]];
        if (root->fields[i].offset > room || root->fields[i].bytes > room - root->fields[i].offset)
            return false;
    }
    for (size_t i = 0; i < OUTSIDE_CONSTANT_COUNT; i++)
        if (root->constants[i] == 0 || root->constants[i] > CONSTANT_MAX)
            return false;
#define IS(name) root->constants[OUTSIDE_IS_##name]
    return IS(SEGMENT_SHIFT) >= 20 && IS(SEGMENT_SHIFT) < 30 && IS(SLICE_SHIFT) >= 12 &&
           IS(SLICE_SHIFT) < IS(SEGMENT_SHIFT) && IS(SEGMENT_LEAF_SHIFT) < 24 &&
           IS(SEGMENT_SHIFT) + IS(SEGMENT_LEAF_SHIFT) + IS(SEGMENT_ROOT_BITS) <= 48 &&
           IS(SEGMENT_ROOT_BITS) < 16 && IS(SEGMENT_TICK_SHIFT) < 40 &&
           IS(HEADER_SLICES) < 1U << (IS(SEGMENT_SHIFT) - IS(SLICE_SHIFT)) &&
           (uint64_t)root->structs[OUTSIDE_SIZE_page] << (IS(SEGMENT_SHIFT) - IS(SLICE_SHIFT)) <=
               (uint64_t)IS(HEADER_SLICES) << IS(SLICE_SHIFT) &&
           IS(VIEW_BLOCKS) <= root->structs[OUTSIDE_SIZE_heap] / sizeof(uint64_t) &&
           root->fields[OUTSIDE_heap_views].bytes >= IS(VIEW_BLOCKS) * sizeof(uint64_t) &&
           (uint64_t)IS(TREE_NODES_PER_BLOCK) * IS(TREE_BLOCKS) <= CONSTANT_MAX &&
           (uint64_t)IS(VIEWS_PER_BLOCK) * IS(VIEW_BLOCKS) <= CONSTANT_MAX &&
           (uint64_t)IS(TREE_NODES_PER_BLOCK) * root->structs[OUTSIDE_SIZE_tree_node] <=
               CONSTANT_MAX &&
           (uint64_t)IS(VIEWS_PER_BLOCK) * root->structs[OUTSIDE_SIZE_view] <= CONSTANT_MAX &&
           (uint64_t)IS(TREE_NODES_PER_BLOCK) * IS(TREE_BLOCKS) *
                   root->structs[OUTSIDE_SIZE_tree_node] <=
               TREE_BYTES_MAX &&
           (uint64_t)IS(MODULES_MAX) * root->structs[OUTSIDE_SIZE_module] <= CONSTANT_MAX &&
           (uint64_t)IS(BUFFERS_MAX) * root->structs[OUTSIDE_SIZE_buffer] <= CONSTANT_MAX &&
           (uint64_t)IS(META_MAPPINGS_MAX) * root->structs[OUTSIDE_SIZE_meta_mapping] <=
               CONSTANT_MAX &&
           root->structs[OUTSIDE_SIZE_meta_usage] <= TABLES_USAGE_BYTES && IS(META_SHIFT) <= 3 &&
           IS(SERIAL_END_BITS) < 32 && IS(SERIAL_UNITS_BITS) < 32 && IS(SERIAL_FIRST_BITS) < 32 &&
           IS(SERIAL_KIND_SHIFT) < 32 && IS(SERIAL_SHAPE_SHIFT) < 64 &&
           IS(SERIAL_COUNT_SHIFT) < 64 && IS(SERIAL_RECORDS_SHIFT) < 64 &&
           IS(TREE_FIXED_COUNT) > FIXED_UNKNOWN && IS(TREE_FIXED_COUNT) <= 64 &&
           root->fields[OUTSIDE_module_build_id].bytes >= sizeof(uint64_t);
#undef IS
}

static bool take_root(struct tables *tables, uint64_t at, const char *source,
                      struct cli_failure *failure) {
    struct outside_root *root = &tables->root;
    if (!reach_read(&tables->reach, at, root, offsetof(struct outside_root, addresses)))
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the root of the library's tables is cut off; use another core file, "
                        "or a running process",
                        source);
    root->library_version[sizeof root->library_version - 1] = '\0';
    cli_clean(root->library_version);
    if (root->version != OUTSIDE_VERSION || root->bytes != sizeof *root)
        return cli_fail(
            failure, CLI_REFUSED,
            "%s has the library %s, whose tables have layout %u (%u bytes); this memctx "
            "(%s) reads layout %d (%zu bytes) from outside; use the memctx that was "
            "built with the library",
            source, root->library_version, root->version, root->bytes, CLI_VERSION, OUTSIDE_VERSION,
            sizeof *root);
    if (!reach_read(&tables->reach, at, root, sizeof *root) || !is_sound(root))
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the root of the library's tables at 0x%" PRIx64
                        " is damaged; use another core file, or start the process anew",
                        source, at);
    root->library_version[sizeof root->library_version - 1] = '\0';
    cli_clean(root->library_version);
    for (size_t i = OUTSIDE_FIRST_SHOWN; i < OUTSIDE_ADDRESS_COUNT; i++)
        root->addresses[i] = tables_word(tables, root->addresses[i], sizeof(uint64_t));
    return true;
}

/* True if a mapping has the shape of the library's constant data, whatever the file's name is: it
 * is small, and in a process it lies directly behind another part of the file. The list of files of
 * a core is not always sorted. */
static bool may_have_root(const struct reach *reach, size_t i) {
    const struct reach_mapping *mapping = &reach->mappings[i];
    return mapping->end - mapping->start <= DATA_MAX &&
           (reach->is_core || (i > 0 && mapping[-1].end == mapping->start &&
                               strcmp(mapping[-1].name, mapping->name) == 0));
}

bool outside_has_root(int memory, uint64_t start, uint64_t end) {
    char magic[OUTSIDE_MAGIC_BYTES], bytes[DATA_MAX];
    write_magic(magic);
    if (end - start > sizeof bytes ||
        pread(memory, bytes, end - start, (off_t)start) != (ssize_t)(end - start))
        return false;
    for (size_t at = 0; at + sizeof magic <= end - start; at += OUTSIDE_ALIGNMENT)
        if (memcmp(bytes + at, magic, sizeof magic) == 0)
            return true;
    return false;
}

bool tables_open(struct tables *tables, const char *source, struct cli_failure *failure) {
    const struct reach *reach = &tables->reach;
    struct found found = {0};
    size_t candidates = 0;
    for (size_t i = 0; i < reach->mapping_count && !found.root; i++) {
        if (!is_library(reach->mappings[i].name))
            continue;
        candidates++;
        search(tables, reach->mappings[i].start, reach->mappings[i].end, &found);
    }
    for (size_t i = 0; !found.other && i < reach->mapping_count && !found.root; i++)
        if (may_have_root(reach, i))
            search(tables, reach->mappings[i].start, reach->mappings[i].end, &found);
    /* gcore writes the list of files behind the memory, so a file that is cut off lacks it first.
     */
    if (reach->is_core && reach->mapping_count == 0)
        for (size_t i = 0; i < reach->piece_count && !found.root; i++)
            search(tables, reach->pieces[i].start, reach->pieces[i].start + reach->pieces[i].bytes,
                   &found);
    if (found.root || found.other) /* the message tells the other layout */
        return take_root(tables, found.root ? found.root : found.other, source, failure);
    if (candidates == 0)
        return cli_fail(failure, CLI_NO_TARGET,
                        reach->is_core && reach->mapping_count == 0
                            ? "%s: the core file has no list of mapped files (NT_FILE), so the "
                              "library is not found in it; the file is cut off or damaged, or not "
                              "written by Linux or gcore"
                            : "%s: libmemctx.so was not mapped; the process ran without memctx",
                        source);
    if (reach->cut_bytes > 0)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the core file is cut off, %" PRIu64
                        " bytes of memory are missing, the "
                        "data of libmemctx.so among them; look at the room on the disk, ulimit -c "
                        "and, for systemd-coredump, ProcessSizeMax",
                        source, reach->cut_bytes);
    return cli_fail(failure, CLI_REFUSED,
                    reach->is_core
                        ? "%s: the data of libmemctx.so is not in the core file; coredump_filter "
                          "left out anonymous private memory (bit 0), or the library is older than "
                          "this memctx"
                        : "%s: the data of libmemctx.so has no root; the library is older than "
                          "this memctx",
                    source);
}
