/* SPDX-License-Identifier: MIT */
/* Tests of how the command reads the kernel's map of a process (tools/memctx/target/mappings.c). */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "model/mapped.h"
#include "model/memory.h"
#include "target/mappings.h"

#define KI 1024

static struct model_mappings mappings;
static struct mapped_places places;

/* --- a process that is only a text ------------------------------------------------------------ */

/* The lines of /proc/PID/maps. Behind each line may stand others, as in /proc/PID/smaps, with the
 * figures that the functions below give for this mapping: Rss, Swap, Huge (part of Rss); and Bss,
 * the size of the .bss behind the mapping's file, which begins Behind bytes behind the mapping. */
static struct line {
    unsigned long start, end, rss, swap, huge, bss, behind;
    bool has_bss;
} lines[16];
static size_t line_count;
static bool text_scans; /* the kernel of the process knows PAGEMAP_SCAN */

static struct residency_count count_line(const struct residency *residency, uint64_t start,
                                         uint64_t end) {
    (void)residency;
    for (size_t i = line_count; i-- > 0;)
        if (lines[i].start <= start && end <= lines[i].end)
            /* a part of a mapping has its share of the figure */
            return (struct residency_count){
                (int64_t)(lines[i].rss * KI * (end - start) / (lines[i].end - lines[i].start)),
                (int64_t)lines[i].swap * KI, (int64_t)lines[i].huge * KI};
    return (struct residency_count){0};
}

static bool no_guard(const struct residency *residency, uint64_t address) {
    (void)residency;
    (void)address;
    return false;
}

static enum bss bss_of_line(pid_t root_of, const char *path, uint64_t offset, uint64_t start,
                            uint64_t *first, uint64_t *end) {
    (void)root_of;
    (void)path;
    (void)offset;
    for (size_t i = 0; i < line_count; i++) {
        if (lines[i].start != start || !lines[i].has_bss)
            continue;
        *first = lines[i].end + lines[i].behind * KI;
        *end = *first + lines[i].bss * KI;
        return lines[i].bss ? BSS_KNOWN : BSS_NONE;
    }
    return BSS_UNKNOWN;
}

static void read_text(const char *text) {
    char maps[2048] = "", *at = maps, *copy = strdup(text), *rest = copy;
    const struct mappings_source source = {.exe = "/bin/program",
                                           .pools = {makedev(0, 0x11)},
                                           .residency.scans = text_scans,
                                           .count = count_line,
                                           .has_guard = no_guard,
                                           .find_bss = bss_of_line};
    line_count = 0;
    for (const char *line; (line = strsep(&rest, "\n"));) {
        struct line *now = &lines[line_count - (line_count > 0)];
        if (sscanf(line, "Rss: %lu kB", &now->rss) == 1 ||
            sscanf(line, "Swap: %lu kB", &now->swap) == 1 ||
            sscanf(line, "Huge: %lu kB", &now->huge) == 1)
            continue;
        if (sscanf(line, "Bss: %lu kB Behind: %lu kB", &now->bss, &now->behind) >= 1) {
            now->has_bss = true;
            continue;
        }
        now = &lines[line_count];
        *now = (struct line){0};
        line_count += sscanf(line, "%lx-%lx", &now->start, &now->end) == 2;
        at += sprintf(at, "%s\n", line);
    }
    FILE *file = fmemopen(maps, strlen(maps), "r");
    cr_assert(file);
    cr_assert_eq(mappings_read(file, &source, &mappings, &places), text[0] != '\n');
    fclose(file);
    free(copy);
}

static void check_place(size_t at, uint64_t start, uint64_t end, int64_t kib,
                        enum model_place_kind kind) {
    cr_assert(at < places.count, "place %zu of %zu", at, places.count);
    const struct model_place *place = &places.list[at];
    cr_assert(place->start == start && place->end == end, "place %zu: %lx-%lx", at,
              (unsigned long)place->start, (unsigned long)place->end);
    cr_assert_eq(place->bytes, kib * KI);
    cr_assert_eq(place->kind, kind);
}

Test(mappings, each_kind_has_its_sum) {
    read_text("10000-12000 r-xp 00000000 fe:00 77 /bin/program\nRss: 8 kB\nSwap: 0 kB\n"
              "12000-13000 rw-p 00002000 fe:00 77 /bin/program\nRss: 4 kB\n"
              "13000-15000 rw-p 00000000 00:00 0\nRss: 8 kB\n" /* .bss */
              "20000-30000 rw-p 00000000 00:00 0 [heap]\nRss: 60 kB\nSwap: 4 kB\n"
              "40000-41000 ---p 00000000 00:00 0\nRss: 0 kB\n"
              "41000-241000 rw-p 00000000 00:00 0\nRss: 12 kB\n" /* a thread's stack */
              "400000-500000 rw-p 00000000 00:00 0\nRss: 64 kB\nHuge: 32 kB\n"
              /* reserved, so not counted OS page by OS page */
              "100000000-900000000 ---p 00000000 00:00 0\nRss: 4 kB\n");
    cr_assert_eq(mappings.file_bytes, 20 * KI);
    cr_assert_eq(mappings.heap_bytes, 60 * KI);
    cr_assert_eq(mappings.stack_bytes, 12 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 64 * KI);
    cr_assert_eq(mappings.huge_bytes, 32 * KI);
    cr_assert_eq(mappings.swap_bytes, 4 * KI);
    cr_assert_eq(mappings.rss_bytes, 156 * KI);
    cr_assert_eq(mappings.peak_rss_bytes, WIRE_UNKNOWN);
    cr_assert_eq(places.count, 6, "the guard page holds no memory");
    check_place(3, 0x20000, 0x30000, 60, MODEL_PLACE_HEAP);
}

Test(mappings, names_and_permissions_tell_the_kind) {
    read_text("10000-11000 rw-s 00000000 00:01 7 /dev/zero (deleted)\nRss: 4 kB\n"
              "20000-22000 rw-s 00000000 00:01 8 /SYSV00000000 (deleted)\nRss: 8 kB\n"
              "30000-34000 rw-s 00000000 00:1a 9 /dev/shm/table\nRss: 16 kB\n"
              "40000-48000 rw-p 00000000 00:00 0 [anon:v8]\nRss: 32 kB\n"
              "50000-60000 rw-s 00000000 00:01 10 [anon_shmem:table]\nRss: 64 kB\n"
              "70000-90000 r-xp 00000000 00:00 0\nRss: 128 kB\n"
              "a0000-a1000 r-xp 00000000 00:00 0 [vdso]\nRss: 4 kB\n"
              "b0000-c0000 rw-p 00000000 00:00 0 [stack]\nRss: 12 kB\n");
    cr_assert_eq(mappings.shared_bytes, 124 * KI);
    cr_assert_eq(mappings.executable_bytes, 128 * KI);
    cr_assert_eq(mappings.file_bytes, 4 * KI);
    cr_assert_eq(mappings.stack_bytes, 12 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 0);
}

/* Only a stack lies directly behind one inaccessible OS page and has 1 MiB or more. */
Test(mappings, memory_behind_another_guard_is_no_stack) {
    read_text("10000-11000 ---p 00000000 00:00 0\n"
              "11000-110000 rw-p 00000000 00:00 0\nRss: 4 kB\n" /* too small */
              "200000-210000 ---p 00000000 00:00 0\n"           /* 16 OS pages */
              "210000-410000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
              "500000-501000 ---p 00000000 fe:00 7 /lib/gap.so\n"
              "501000-701000 rw-p 00000000 00:00 0\nRss: 16 kB\n"
              "800000-801000 ---p 00000000 00:00 0\n"
              "802000-a02000 rw-p 00000000 00:00 0\nRss: 32 kB\n" /* not adjacent */
              "b00000-b01000 r--p 00000000 00:00 0\n"
              "b01000-d01000 rw-p 00000000 00:00 0\nRss: 64 kB\n");
    cr_assert_eq(mappings.stack_bytes, 0);
    cr_assert_eq(mappings.anonymous_bytes, 124 * KI);
}

/* Reserved address space is left out only if no access is allowed, only if it is large, and only if
 * the kernel cannot tell the pages in memory by PAGEMAP_SCAN. */
Test(mappings, reserved_address_space_is_left_out_without_a_scan) {
    const char *text = "100000000-900000000 rw-p 00000000 00:00 0\nRss: 4 kB\n"
                       "a00000000-a40000000 ---p 00000000 00:00 0\nRss: 8 kB\n"
                       "b00000000-b40001000 ---p 00000000 00:00 0\nRss: 16 kB\n";
    read_text(text);
    cr_assert_eq(mappings.rss_bytes, 12 * KI);
    text_scans = true;
    read_text(text);
    cr_assert_eq(mappings.rss_bytes, 28 * KI);
}

/* Only anonymous memory behind the data of a program or library is its .bss. */
Test(mappings, memory_behind_a_data_file_is_no_bss) {
    read_text("10000-20000 r--p 00000000 fe:00 78 /usr/lib/locale/C.utf8/LC_CTYPE\nRss: 64 kB\n"
              "20000-30000 rw-p 00000000 00:00 0\nRss: 16 kB\n"
              "40000-50000 rw-s 00010000 fe:00 79 /var/lib/table\nRss: 32 kB\n"
              "50000-60000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
              "70000-71000 r--p 00010000 fe:00 80 /lib/relro.so\nRss: 4 kB\n"
              /* .bss of a library whose other data is read-only */
              "71000-72000 rw-p 00000000 00:00 0\nRss: 4 kB\n");
    cr_assert_eq(mappings.file_bytes, 104 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 24 * KI);
}

/* The program's .bss may have any size. If the file of a library cannot be read, small anonymous
 * memory behind its data is taken for its .bss; large memory is more likely a mapping that the
 * kernel put there. */
Test(mappings, the_programs_bss_may_have_any_size) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /bin/program\nRss: 8 kB\n"
              "12000-20012000 rw-p 00000000 00:00 0\nRss: 96 kB\n" /* 512 MiB */
              "30000000-30001000 rw-p 00002000 fe:00 78 /lib/other.so (deleted)\nRss: 4 kB\n"
              "30001000-30201000 rw-p 00000000 00:00 0\nRss: 16 kB\n"
              "40000000-40001000 rw-p 00002000 fe:00 79 /lib/third.so (deleted)\nRss: 4 kB\n"
              "40001000-40101000 rw-p 00000000 00:00 0\nRss: 32 kB\n");
    cr_assert_eq(mappings.file_bytes, 144 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 16 * KI);
}

/* The kernel may put other memory directly behind the data of a file, and may merge such memory
 * with the file's .bss. */
Test(mappings, other_memory_behind_data_is_no_bss) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /lib/libz.so\nRss: 8 kB\nBss: 0 kB\n"
              "12000-42000 rw-p 00000000 00:00 0\nRss: 96 kB\n"
              "50000-51000 rw-p 00002000 fe:00 78 /lib/other.so\nRss: 4 kB\nBss: 8 kB\n"
              "51000-53000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
              "60000-61000 rw-p 00002000 fe:00 79 /lib/third.so\nRss: 4 kB\nBss: 16 kB\n"
              "61000-69000 rw-p 00000000 00:00 0\nRss: 32 kB\n");
    cr_assert_eq(mappings.file_bytes, 40 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 112 * KI);
    cr_assert_eq(mappings.rss_bytes, 152 * KI);
    check_place(1, 0x12000, 0x42000, 96, MODEL_PLACE_ANONYMOUS);
    check_place(3, 0x51000, 0x53000, 8, MODEL_PLACE_FILE);
    check_place(5, 0x61000, 0x65000, 16, MODEL_PLACE_FILE);
    check_place(6, 0x65000, 0x69000, 16, MODEL_PLACE_ANONYMOUS);
}

/* The .bss of the file may begin behind this mapping: the kernel shows data whose permissions
 * differ as several mappings. A .bss may have more than one mapping, too. */
Test(mappings, only_the_end_of_the_data_has_a_bss_behind_it) {
    read_text(
        "10000-11000 r--p 00002000 fe:00 77 /lib/libz.so\nRss: 4 kB\nBss: 8 kB\n"
        "12000-13000 rw-p 00000000 00:00 0\nRss: 4 kB\n" /* not adjacent */
        "20000-21000 rw-p 00002000 fe:00 78 /lib/other.so\nRss: 4 kB\nBss: 32 kB\n"
        "21000-23000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
        "23000-24000 r--p 00000000 00:00 0\nRss: 4 kB\n"
        "30000-31000 rw-p 00002000 fe:00 79 /lib/third.so\nRss: 4 kB\nBss: 8 kB Behind: 4 kB\n"
        "31000-33000 rw-p 00000000 00:00 0\nRss: 8 kB\n");
    cr_assert_eq(mappings.file_bytes, 20 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 16 * KI);
    check_place(3, 0x21000, 0x23000, 8, MODEL_PLACE_FILE);
    check_place(6, 0x31000, 0x33000, 8, MODEL_PLACE_ANONYMOUS);
}

/* The library's first tables lie in its .bss, and the ledger has a line for tables. */
Test(mappings, the_librarys_bss_is_no_file) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /opt/memctx/libmemctx.so (deleted)\nRss: 8 kB\n"
              "12000-42000 rw-p 00000000 00:00 0\nRss: 96 kB\n"
              "50000-51000 rw-p 00002000 fe:00 78 /lib/other-libmemctx.so\nRss: 4 kB\n"
              "51000-53000 rw-p 00000000 00:00 0\nRss: 8 kB\n");
    cr_assert_eq(mappings.file_bytes, 20 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 96 * KI);
    const struct model model = {
        .mappings = mappings,
        .ledger = {.segments_resident = 0, .metadata_resident = 80 * KI, .control_bytes = 4 * KI}};
    cr_assert_eq(memory_own_mappings(&model), 12 * KI, "the tables are not counted twice");
}

/* No resident set counts the kernel's pools of huge pages, whoever made the file there. */
Test(mappings, memory_of_a_pool_is_not_resident) {
    read_text("200000-400000 rw-s 00000000 00:11 78 /memfd:java_heap (deleted)\nRss: 2048 kB\n"
              "400000-600000 rw-s 00000000 00:11 32 /SYSV00000000 (deleted)\nRss: 2048 kB\n"
              "600000-800000 rw-p 00000000 00:12 32 /anon_hugepage (deleted)\nRss: 2048 kB\n"
              "800000-a00000 rw-s 00000000 00:13 33 /dev/hugepages/table\nRss: 2048 kB\n"
              "a00000-a01000 rw-s 00000000 00:01 79 /memfd:other (deleted)\nRss: 4 kB\n");
    cr_assert_eq(mappings.rss_bytes, 4 * KI);
    cr_assert_eq(places.count, 1);
    check_place(0, 0xa00000, 0xa01000, 4, MODEL_PLACE_SHARED);
}

/* The device that the kernel shows for a mapping of a file in the pool. */
Test(mappings, the_pool_is_found) {
    int fd = memfd_create("in the pool", MFD_HUGETLB | 21U << 26);
    if (fd < 0)
        cr_skip("no pool of huge pages here");
    /* maps no huge page, because none is touched */
    char *start = mmap(NULL, 2 << 20, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (start == MAP_FAILED)
        cr_skip("the pool gives no addresses");
    dev_t pools[MAPPINGS_POOLS];
    char line[512];
    unsigned major = 0, minor = 0;
    unsigned long at = 0;
    mappings_find_pools(pools);
    FILE *file = fopen("/proc/self/maps", "r");
    cr_assert(file);
    while (at != (uintptr_t)start && fgets(line, sizeof line, file))
        sscanf(line, "%lx-%*x %*s %*x %x:%x", &at, &major, &minor);
    fclose(file);
    cr_assert_eq(at, (uintptr_t)start);
    cr_assert_eq(pools[0], makedev(major, minor));
}

/* If a mapping grows while the map is read in pieces, the kernel shows it a second time. */
Test(mappings, a_mapping_shown_twice_counts_once) {
    read_text("10000-20000 rw-p 00000000 00:00 0 [heap]\nRss: 64 kB\nSwap: 8 kB\n"
              "10000-30000 rw-p 00000000 00:00 0 [heap]\nRss: 128 kB\nSwap: 4 kB\n"
              "40000-50000 rw-p 00000000 00:00 0\nRss: 4 kB\n");
    cr_assert_eq(mappings.heap_bytes, 128 * KI);
    cr_assert_eq(mappings.rss_bytes, 132 * KI);
    cr_assert_eq(mappings.swap_bytes, 4 * KI);
    cr_assert_eq(places.count, 2);
    check_place(0, 0x10000, 0x30000, 128, MODEL_PLACE_HEAP);
    check_place(1, 0x40000, 0x50000, 4, MODEL_PLACE_ANONYMOUS);
}

Test(mappings, mappings_that_merged_count_once) {
    read_text("10000-20000 rw-p 00000000 00:00 0\nRss: 64 kB\n"
              "20000-30000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
              "10000-38000 rw-p 00000000 00:00 0\nRss: 80 kB\n");
    cr_assert_eq(mappings.anonymous_bytes, 80 * KI);
    cr_assert_eq(places.count, 1);
    check_place(0, 0x10000, 0x38000, 80, MODEL_PLACE_ANONYMOUS);
}

/* The mapping before a .bss tells that it is a .bss. When the .bss is shown a second time, the
 * mapping before it is not. */
Test(mappings, a_mapping_shown_twice_keeps_its_kind) {
    read_text("10000-11000 rw-p 00002000 fe:00 77 /bin/program\nRss: 4 kB\n"
              "11000-12000 rw-p 00000000 00:00 0\nRss: 4 kB\n"
              "11000-13000 rw-p 00000000 00:00 0\nRss: 8 kB\n");
    cr_assert_eq(mappings.file_bytes, 12 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 0);
}

/* glibc 2.42 makes the guard page of a stack inside the stack's mapping. */
Test(mappings, a_guard_page_inside_the_mapping_marks_a_stack) {
    size_t bytes = 2 << 20;
    int major, minor;
    struct utsname kernel;
    cr_assert(!uname(&kernel) && sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
    if (major < 6 || (major == 6 && minor < 15))
        cr_skip("needs Linux 6.15");
    /* the memory around the stack is not accessible, so the kernel merges the stack with nothing */
    char *stack = mmap(NULL, 3 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack += bytes;
    cr_assert_eq(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
    if (madvise(stack, 4 * KI, 102 /* MADV_GUARD_INSTALL */))
        cr_skip("no guard pages here");
    memset(stack + bytes / 2, 1, 4 * KI);
    cr_assert(mappings_of_process(getpid(), &mappings, &places));
    size_t at = 0;
    while (at < places.count && places.list[at].end <= (uintptr_t)stack)
        at++;
    check_place(at, (uintptr_t)stack, (uintptr_t)stack + bytes, 4, MODEL_PLACE_STACK);
}

Test(mappings, text_without_mappings_is_told) {
    read_text("\n");
    cr_assert_eq(places.count, 0);
}

Test(mappings, a_path_cannot_steer_the_terminal) {
    read_text("10000-11000 r--p 00000000 fe:00 78 /tmp/\033[2Jname\nRss: 4 kB\n");
    cr_assert_str_eq(places.list[0].path, "/tmp/?[2Jname");
}

/* The kernel shows one mapping in two entries if their flags differ. A large chunk there has no
 * memory of the program, and no entry has fewer than 0 bytes. */
Test(mappings, a_chunk_in_two_entries_is_taken_from_both) {
    read_text("10000-20000 rw-p 00000000 00:00 0\nRss: 64 kB\n"
              "20000-30000 rw-p 00000000 00:00 0\nRss: 60 kB\n"
              "30000-40000 rw-p 00000000 00:00 0\nRss: 16 kB\n");
    struct wire_page chunk = {.start = 0x18000, .bytes = 0x14000, .resident_bytes = 76 * KI};
    struct model model = {.has_mappings = true,
                          .mappings = mappings,
                          .places = places.list,
                          .place_count = places.count,
                          .pages = &chunk,
                          .page_count = 1,
                          .ledger = {.segments_resident = 76 * KI, .metadata_resident = 0}};
    struct mapped mapped;
    mapped_take(&mapped, &model);
    cr_assert_eq(mapped.places[0].bytes, 32 * KI);
    cr_assert_eq(mapped.places[1].bytes, 16 * KI);
    cr_assert_eq(mapped.places[2].bytes, 16 * KI);
    cr_assert_eq(mapped.sums[MODEL_PLACE_ANONYMOUS], 64 * KI);
}

/* --- this process ----------------------------------------------------------------------------- */

/* Reads a line of /proc/self/status, in bytes. */
static int64_t read_status(const char *name) {
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    cr_assert(file);
    while (kib < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), ": %lld kB", &kib);
    fclose(file);
    return kib * KI;
}

/* Figures that the kernel counts itself. Memory of the three kinds has sizes of its own here. */
Test(mappings, the_kernels_own_figures_are_read) {
    struct {
        const char *name;
        const int64_t *bytes;
        int64_t before;
    } figures[] = {{"VmHWM", &mappings.peak_rss_bytes, 0},
                   {"RssAnon", &mappings.counted_anonymous_bytes, 0},
                   {"RssFile", &mappings.counted_file_bytes, 0},
                   {"RssShmem", &mappings.counted_shared_bytes, 0},
                   {"VmData", &mappings.counted_data_bytes, 0},
                   {"VmSwap", &mappings.counted_swap_bytes, 0}};
    const size_t kinds = sizeof figures / sizeof figures[0], slack = 8 << 20;
    const int flags[] = {MAP_PRIVATE, MAP_SHARED}, sizes[] = {64 << 20, 128 << 20};
    for (int i = 0; i < 2; i++) {
        char *memory =
            mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, flags[i] | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(memory, MAP_FAILED);
        memset(memory, 1, sizes[i]);
    }
    for (size_t i = 0; i < kinds; i++)
        figures[i].before = read_status(figures[i].name);
    cr_assert(mappings_of_process(getpid(), &mappings, &places));
    for (size_t i = 0; i < kinds; i++) {
        int64_t error = *figures[i].bytes - figures[i].before;
        cr_assert(error < (int64_t)slack && error > -(int64_t)slack, "%s: %ld, not %ld",
                  figures[i].name, (long)*figures[i].bytes, (long)figures[i].before);
    }
}

static char zeros[3 * 4096]; /* in the .bss of this program */

Test(mappings, the_bss_of_this_program_is_found) {
    char line[512], path[256];
    unsigned long start, end, offset;
    uint64_t first, last;
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "r");
    cr_assert(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx rw-p %lx %*s %*s %255s", &start, &end, &offset, path) == 4 &&
            strstr(path, "unit-tests")) {
            cr_assert_eq(bss_find(0, path, offset, start, &first, &last), BSS_KNOWN);
            cr_assert_eq(first, end, "the .bss begins behind the data");
            /* the array may begin in the OS page where the data ends */
            cr_assert(first < (uintptr_t)zeros + sizeof zeros &&
                      (uintptr_t)zeros + sizeof zeros <= last);
            found = true;
        }
    }
    fclose(file);
    cr_assert(found);
    cr_assert_eq(bss_find(0, "/nowhere", 0, 0, &first, &last), BSS_UNKNOWN);
    cr_assert_eq(bss_find(0, "/etc/passwd", 0, 0, &first, &last), BSS_UNKNOWN);
    cr_assert_eq(bss_find(0, "/proc/self/exe", UINT32_MAX, 0, &first, &last), BSS_NONE);
}

/* A file that says it has more program headers than any ELF file has, or whose headers are cut off.
 */
Test(mappings, odd_elf_files_have_no_known_bss) {
    char path[] = "/tmp/memctx-odd-elf-XXXXXX";
    uint64_t first, last;
    Elf64_Ehdr file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                       .e_phoff = sizeof file,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 65};
    const Elf64_Phdr data = {.p_type = PT_LOAD, .p_filesz = 4 * KI, .p_memsz = 16 * KI};
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    for (off_t i = 0; i < 65; i++)
        cr_assert_eq(pwrite(fd, &data, sizeof data, (off_t)sizeof file + i * (off_t)sizeof data),
                     (ssize_t)sizeof data);
    cr_assert_eq(pwrite(fd, &file, sizeof file, 0), (ssize_t)sizeof file);
    enum bss many = bss_find(0, path, 0, 0, &first, &last);
    file.e_phnum = 1;
    cr_assert_eq(pwrite(fd, &file, sizeof file, 0), (ssize_t)sizeof file);
    enum bss one = bss_find(0, path, 0, 0, &first, &last);
    cr_assert_eq(ftruncate(fd, (off_t)(sizeof file + sizeof data - 1)), 0);
    enum bss cut = bss_find(0, path, 0, 0, &first, &last);
    close(fd);
    unlink(path);
    cr_assert_eq(many, BSS_UNKNOWN);
    cr_assert_eq(one, BSS_KNOWN);
    cr_assert_eq(cut, BSS_UNKNOWN);
}
