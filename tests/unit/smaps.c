/* SPDX-License-Identifier: MIT */
/* Tests of how the command reads the kernel's map of a process (tools/memctx/model/memory.c). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "model/mapped.h"
#include "model/memory.h"

#define KI 1024

static struct model_mappings mappings;
static struct memory_places places;

static void read_text(const char *text) {
    FILE *file = fmemopen((char *)text, strlen(text), "r");
    cr_assert(file);
    bool good = memory_read_smaps(file, "/bin/program", -1, &mappings, &places);
    cr_assert_eq(good, text[0] != '\n');
    fclose(file);
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

Test(smaps, each_kind_has_its_sum) {
    read_text("10000-12000 r-xp 00000000 fe:00 77 /bin/program\nRss: 8 kB\nSwap: 0 kB\n"
              "12000-13000 rw-p 00002000 fe:00 77 /bin/program\nRss: 4 kB\n"
              "13000-15000 rw-p 00000000 00:00 0\nRss: 8 kB\nVmFlags: rd wr mr\n" /* .bss */
              "20000-30000 rw-p 00000000 00:00 0 [heap]\nRss: 60 kB\nSwap: 4 kB\n"
              "40000-41000 ---p 00000000 00:00 0\nRss: 0 kB\n"
              "41000-241000 rw-p 00000000 00:00 0\nRss: 12 kB\n" /* a thread's stack */
              "300000-310000 rw-p 00000000 00:00 0\nRss: 16 kB\nVmFlags: rd wr nr wf\n"
              "400000-500000 rw-p 00000000 00:00 0\nRss: 64 kB\nAnonHugePages: 32 kB\n");
    cr_assert_eq(mappings.file_bytes, 20 * KI);
    cr_assert_eq(mappings.heap_bytes, 60 * KI);
    cr_assert_eq(mappings.stack_bytes, 12 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 64 * KI);
    cr_assert_eq(mappings.huge_bytes, 32 * KI);
    cr_assert_eq(mappings.swap_bytes, 4 * KI);
    cr_assert_eq(mappings.rss_bytes, 172 * KI, "the control thread's memory is resident, too");
    cr_assert_eq(places.count, 6, "neither the guard page nor the control thread's memory");
    check_place(3, 0x20000, 0x30000, 60, MODEL_PLACE_HEAP);
}

/* Only anonymous memory behind the data of a program or library is its .bss. */
Test(smaps, memory_behind_a_data_file_is_no_bss) {
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

/* A static table of the program may be large. Large memory behind the data of a library is no .bss.
 */
Test(smaps, the_programs_bss_may_have_any_size) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /bin/program\nRss: 8 kB\n"
              "12000-20012000 rw-p 00000000 00:00 0\nRss: 96 kB\n" /* 512 MiB */
              "30000000-30001000 rw-p 00002000 fe:00 78 /lib/other.so\nRss: 4 kB\n"
              "30001000-50001000 rw-p 00000000 00:00 0\nRss: 16 kB\n");
    cr_assert_eq(mappings.file_bytes, 108 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 16 * KI);
}

/* The library's first tables lie in its .bss, and the ledger has a line for tables. */
Test(smaps, the_librarys_bss_is_no_file) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /opt/memctx/libmemctx.so (deleted)\nRss: 8 kB\n"
              "12000-42000 rw-p 00000000 00:00 0\nRss: 96 kB\n"
              "50000-51000 rw-p 00002000 fe:00 78 /lib/other-libmemctx.so\nRss: 4 kB\n"
              "51000-53000 rw-p 00000000 00:00 0\nRss: 8 kB\n");
    cr_assert_eq(mappings.file_bytes, 20 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 96 * KI);
    const struct model model = {.mappings = mappings,
                                .ledger = {.segments_resident = 0, .metadata_resident = 80 * KI}};
    cr_assert_eq(memory_own_mappings(&model), 16 * KI, "the tables are not counted twice");
}

/* The kernel may put memory of the library directly behind the data of a file. */
Test(smaps, the_librarys_memory_behind_data_is_no_bss) {
    read_text("10000-12000 rw-p 00002000 fe:00 77 /lib/libz.so\nRss: 8 kB\nVmFlags: rd wr mr ac\n"
              "12000-42000 rw-p 00000000 00:00 0\nRss: 96 kB\nVmFlags: rd wr mr nr\n"
              "50000-51000 rw-p 00002000 fe:00 78 /lib/other.so\nRss: 4 kB\nVmFlags: rd wr ac\n"
              "51000-53000 rw-p 00000000 00:00 0\nRss: 8 kB\nVmFlags: rd wr mr ac\n"
              "60000-61000 rw-p 00002000 fe:00 79 /lib/large\nRss: 4 kB\nVmFlags: rd wr nr\n");
    cr_assert_eq(mappings.file_bytes, 24 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 96 * KI);
    check_place(1, 0x12000, 0x42000, 96, MODEL_PLACE_ANONYMOUS);
}

/* If a mapping grows while smaps is read in pieces, the kernel shows it a second time. */
Test(smaps, a_mapping_shown_twice_counts_once) {
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

Test(smaps, mappings_that_merged_count_once) {
    read_text("10000-20000 rw-p 00000000 00:00 0\nRss: 64 kB\n"
              "20000-30000 rw-p 00000000 00:00 0\nRss: 8 kB\n"
              "10000-38000 rw-p 00000000 00:00 0\nRss: 80 kB\n");
    cr_assert_eq(mappings.anonymous_bytes, 80 * KI);
    cr_assert_eq(places.count, 1);
    check_place(0, 0x10000, 0x38000, 80, MODEL_PLACE_ANONYMOUS);
}

/* The mapping before a .bss tells that it is a .bss. When the .bss is shown a second time, the
 * mapping before it is not. */
Test(smaps, a_mapping_shown_twice_keeps_its_kind) {
    read_text("10000-11000 rw-p 00002000 fe:00 77 /bin/program\nRss: 4 kB\n"
              "11000-12000 rw-p 00000000 00:00 0\nRss: 4 kB\n"
              "11000-13000 rw-p 00000000 00:00 0\nRss: 8 kB\n");
    cr_assert_eq(mappings.file_bytes, 12 * KI);
    cr_assert_eq(mappings.anonymous_bytes, 0);
}

/* glibc 2.42 makes the guard page of a stack inside the stack's mapping. */
Test(smaps, a_guard_page_inside_the_mapping_marks_a_stack) {
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
    cr_assert(memory_read_mappings(getpid(), &mappings, &places));
    size_t at = 0;
    while (at < places.count && places.list[at].end <= (uintptr_t)stack)
        at++;
    check_place(at, (uintptr_t)stack, (uintptr_t)stack + bytes, 4, MODEL_PLACE_STACK);
}

Test(smaps, text_without_mappings_is_told) {
    read_text("\n");
    cr_assert_eq(places.count, 0);
}

Test(smaps, a_path_cannot_steer_the_terminal) {
    read_text("10000-11000 r--p 00000000 fe:00 78 /tmp/\033[2Jname\nRss: 4 kB\n");
    cr_assert_str_eq(places.list[0].path, "/tmp/?[2Jname");
}

/* The kernel shows one mapping in two entries if their flags differ. A large chunk there has no
 * memory of the program, and no entry has fewer than 0 bytes. */
Test(smaps, a_chunk_in_two_entries_is_taken_from_both) {
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
