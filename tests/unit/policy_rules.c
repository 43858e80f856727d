/* SPDX-License-Identifier: MIT */
/* Tests of the rules for placement, and of the symbols that they are found by. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/elf_symbols.h"
#include "control/policy_rules.h"

struct seen {
    const char *wanted;
    uint64_t start, end;
    unsigned count;
};

static void see(const char *name, uint64_t start, uint64_t end, void *context) {
    struct seen *seen = context;
    seen->count++;
    if (strcmp(name, seen->wanted) == 0) {
        seen->start = start;
        seen->end = end;
    }
}

__attribute__((noinline)) int policy_rules_landmark(int x);
int policy_rules_landmark(int x) {
    __asm__ volatile("");
    return x * 3;
}

static struct module this_program(char *room, size_t bytes) {
    ssize_t length = readlink("/proc/self/exe", room, bytes - 1);
    cr_assert_gt(length, 0);
    room[length] = '\0';
    return (struct module){.path = room};
}

Test(elf_symbols, functions_are_where_they_are) {
    char path[4096];
    struct module module = this_program(path, sizeof path);
    struct seen seen = {.wanted = "policy_rules_landmark"}, other = {.wanted = "see"};
    cr_assert(elf_each_function(&module, see, &seen));
    cr_assert(elf_each_function(&module, see, &other));
    cr_assert_gt(seen.count, 100);
    cr_assert_gt(seen.end, seen.start);
    cr_assert_gt(other.end, other.start);
    cr_assert_eq((intptr_t)seen.start - (intptr_t)other.start,
                 (intptr_t)&policy_rules_landmark - (intptr_t)&see, "as they are in memory");
    module.build_id_bytes = 20; /* another file by now */
    cr_assert_not(elf_each_function(&module, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "[vdso]"}, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "/dev/zero"}, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "/no/such/file"}, see, &seen));
}

/* What is in the tables' places of a damaged file is read, but nothing outside of it. */
Test(elf_symbols, damaged_files_do_no_harm) {
    char from[4096], path[] = "/tmp/memctx-elf-XXXXXX";
    struct module module = this_program(from, sizeof from);
    FILE *file = fopen(from, "rb");
    cr_assert(file != NULL);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    unsigned char *bytes = malloc(size), *damaged = malloc(size);
    cr_assert(bytes && damaged);
    rewind(file);
    cr_assert_eq(fread(bytes, 1, size, file), size);
    fclose(file);
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    module.path = path;
    uint64_t dice = 88172645463325252U, sections;
    memcpy(&sections, bytes + 40, sizeof sections);
    for (int round = 0; round < 60; round++) {
        memcpy(damaged, bytes, size);
        for (int i = 0; i < 12; i++) {
            dice = dice * 6364136223846793005U + 1442695040888963407U;
            size_t at = i % 3 ? sections + (dice >> 33) % (size - sections) : (dice >> 33) % 64;
            damaged[i ? at : 16 + at % 48] = (unsigned char)(dice >> 20);
        }
        size_t left = round % 4 ? size : (size_t)(dice >> 11) % size;
        cr_assert_eq(ftruncate(fd, 0), 0);
        cr_assert_eq(pwrite(fd, damaged, left, 0), (ssize_t)left);
        struct seen seen = {.wanted = ""};
        elf_each_function(&module, see, &seen);
    }
    unlink(path);
    close(fd);
    free(bytes);
    free(damaged);
}

static const char *answer(const char *request, uint32_t *status) {
    static char room[8192];
    struct text text = {.bytes = room, .capacity = sizeof room - 1};
    *status = policy_rules_run(request, &text);
    room[text.length] = '\0';
    return room;
}

Test(policy_rules, text_is_understood_or_refused) {
    static const char *const bad[] = {
        "", "x", "=slab", "f=", "f=fast", "module:=aset", "f=slab ", "f=slab,aset", "a\tb=slab"};
    uint32_t status;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said = answer(bad[i], &status);
        cr_assert_eq(status, WIRE_REFUSED, "%s", bad[i]);
        cr_assert(strstr(said, "is not understood: "), "%s: %s", bad[i], said);
    }
    cr_assert_not(policy_rules_exist());
    answer("operator==slab", &status);
    cr_assert_eq(status, WIRE_OK, "the last = is ours");
    answer("module:lib*.so=mixed", &status);
    cr_assert_eq(status, WIRE_OK);
    cr_assert_str_eq(answer("list", &status),
                     "operator==slab\t0\t0\t0\nmodule:lib*.so=mixed\t0\t0\t0\n");
    for (unsigned i = 2; i < POLICY_RULES_MAX; i++) {
        answer("f=aset", &status);
        cr_assert_eq(status, WIRE_OK);
    }
    cr_assert(strstr(answer("f=aset", &status), "too many"));
    cr_assert_eq(status, WIRE_REFUSED);
    answer("clear", &status);
    cr_assert_not(policy_rules_exist());
    char longer[5000];
    memset(longer, 'a', sizeof longer);
    strcpy(longer + 4900, "=slab");
    cr_assert(strstr(answer(longer, &status), "too many"), "of bytes");
    char lines[200];
    struct text warnings = {.bytes = lines, .capacity = sizeof lines - 1};
    policy_rules_init(";a=slab;;\n  b=bump\n;\n", &warnings);
    cr_assert_eq(warnings.length, 0);
    cr_assert_str_eq(answer("list", &status), "a=slab\t0\t0\t0\nb=bump\t0\t0\t0\n");
}
