/* SPDX-License-Identifier: MIT */
/* Tests of the rules for placement, and of the symbols that they are found by. */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "rules/dwarf_units.h"
#include "rules/elf_symbols.h"
#include "rules/regex.h"
#include "rules/rules.h"

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

/* The compiler was told of this file by this name. */
Test(dwarf_units, code_is_of_its_file) {
    char path[4096];
    struct module module = this_program(path, sizeof path);
    struct seen here = {.wanted = "policy_rules_landmark"}, files = {.wanted = __FILE__};
    cr_assert(elf_each_function(&module, see, &here));
    cr_assert(dwarf_each_unit(&module, see, &files));
    cr_assert_gt(files.count, 20, "pieces of code");
    cr_assert_leq(files.start, here.start);
    cr_assert_geq(files.end, here.end);
    module.build_id_bytes = 20; /* another file by now */
    cr_assert_not(dwarf_each_unit(&module, see, &files));
    cr_assert_not(dwarf_each_unit(&(struct module){.path = "/dev/zero"}, see, &files));
}

struct bytes {
    unsigned char *start;
    size_t size;
};

static struct bytes read_whole(const char *path) {
    struct bytes bytes;
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL);
    fseek(file, 0, SEEK_END);
    bytes.size = (size_t)ftell(file);
    bytes.start = malloc(bytes.size);
    cr_assert(bytes.start);
    rewind(file);
    cr_assert_eq(fread(bytes.start, 1, bytes.size, file), bytes.size);
    fclose(file);
    return bytes;
}

/* Where a section stands in the file. */
static struct bytes section_of(const struct bytes *file, const char *name) {
    const Elf64_Ehdr *head = (const void *)file->start;
    const Elf64_Shdr *sections = (const void *)(file->start + head->e_shoff);
    const char *names = (const char *)file->start + sections[head->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < head->e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, name) == 0)
            return (struct bytes){file->start + sections[i].sh_offset, sections[i].sh_size};
    cr_assert(false, "no section %s", name);
    return (struct bytes){0};
}

static uint64_t next_number(void) {
    static uint64_t dice = 88172645463325252U;
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return dice >> 20;
}

/* What is in the tables' places of a damaged file is read, but nothing outside of it. */
Test(elf_symbols, damaged_files_do_no_harm) {
    static const char *const sections[] = {".debug_info", ".debug_abbrev", ".debug_aranges"};
    char from[4096], path[] = "/tmp/memctx-elf-XXXXXX";
    struct module module = this_program(from, sizeof from);
    struct bytes whole = read_whole(from);
    unsigned char *kept = malloc(whole.size);
    int fd = mkstemp(path);
    cr_assert(kept && fd >= 0);
    memcpy(kept, whole.start, whole.size);
    module.path = path;
    uint64_t table;
    memcpy(&table, kept + 40, sizeof table);
    for (int round = 0; round < 120; round++) {
        memcpy(whole.start, kept, whole.size);
        struct bytes part = section_of(&whole, sections[round % 3]);
        for (int i = 0; i < 12; i++) {
            uint64_t number = next_number();
            size_t at = i % 3 ? table + number % (whole.size - table) : 16 + number % 48;
            if (round % 2) /* what the debug information begins with */
                part.start[number % (part.size < 200 ? part.size : 200)] =
                    (unsigned char)(number >> 9);
            else
                whole.start[at] = (unsigned char)(number >> 9);
        }
        size_t left = round % 4 ? whole.size : (size_t)next_number() % whole.size;
        cr_assert_eq(ftruncate(fd, 0), 0);
        cr_assert_eq(pwrite(fd, whole.start, left, 0), (ssize_t)left);
        struct seen seen = {.wanted = ""};
        elf_each_function(&module, see, &seen);
        dwarf_each_unit(&module, see, &seen);
    }
    unlink(path);
    close(fd);
    free(whole.start);
    free(kept);
}

/* What libc says of the same, for expressions made at random. */
Test(regex, as_libc) {
    static const char *const pieces[] = {"a",   "b",     "ab",    "(a|b)",  "[ab]",        "[^a]",
                                         ".",   "a*",    "b+",    "c?",     "(",           ")",
                                         "|",   "a{2}",  "{1,2}", "*",      "^",           "$",
                                         "\\.", "[b-c]", "(ab)*", "b{0,2}", "[[:alpha:]]", "c{1,}"};
    unsigned compiled = 0, matched = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        char expression[64] = "", text[16] = "";
        for (unsigned i = 0, count = 1 + (unsigned)(next_number() % 5); i < count; i++)
            strcat(expression, pieces[next_number() % (sizeof pieces / sizeof *pieces)]);
        /* Of the same part repeated twice over, and of what stands alone, POSIX leaves the meaning open. */
        static const char *const open[] = {"**", "*{", "+*", "?*", "}*", "+{", "?{", "}{",
                                           "^*", "$*", "^{", "$",  "(*", "|*", "()", "(|",
                                           "||", "|)", "({", "|{", "*+", "*?", "?+"};
        bool skip = *expression == '{' || *expression == '|' || *expression == '*' ||
                    strchr("|(", expression[strlen(expression) - 1]) || strchr(expression + 1, '^');
        for (size_t i = 0; i < sizeof open / sizeof *open; i++)
            skip |= strstr(expression, open[i]) != NULL;
        for (int i = 0, depth = 0; expression[i];
             i++) { /* a ) without a ( stands for itself there */
            depth += (expression[i] == '(') - (expression[i] == ')');
            skip |= depth < 0;
        }
        regex_t theirs;
        static struct regex ours;
        if (skip)
            continue;
        bool good = regcomp(&theirs, expression, REG_EXTENDED | REG_NOSUB) == 0;
        const char *wrong = regex_compile(&ours, expression);
        cr_assert_eq(good, wrong == NULL, "\"%s\": %s", expression,
                     wrong ? wrong : "libc refuses it");
        refused += !good;
        if (!good)
            continue;
        compiled++;
        for (int i = 0; i < 20; i++) {
            size_t length = next_number() % 8;
            for (size_t k = 0; k < length; k++)
                text[k] = "abcd."[next_number() % 5];
            text[length] = 0;
            bool found = regexec(&theirs, text, 0, NULL, 0) == 0;
            cr_assert_eq(regex_matches(&ours, text, length), found, "\"%s\" in \"%s\"", expression,
                         text);
            matched += found;
        }
        regfree(&theirs);
    }
    cr_assert_gt(compiled, 1000);
    cr_assert_gt(refused, 100);
    cr_assert_gt(matched, 1000);
}

Test(regex, ends_and_bounds) {
    static struct regex regex;
    cr_assert_null(regex_compile(&regex, "^a(b|c)?$"));
    cr_assert(regex_matches(&regex, "ab", 2));
    cr_assert(regex_matches(&regex, "abx", 2), "the length is what counts");
    cr_assert_not(regex_matches(&regex, "abc", 3));
    cr_assert_not(regex_matches(&regex, "xab", 3));
    cr_assert_null(regex_compile(&regex, "a$|^$"));
    cr_assert(regex_matches(&regex, "", 0));
    cr_assert(regex_matches(&regex, "ba", 2));
    cr_assert_not(regex_matches(&regex, "ab", 2));
    cr_assert_str_eq(regex_compile(&regex, "(a{60}){60}"), "the expression is too long");
    char many[200] = "";
    for (int i = 0; i < 20; i++)
        strcat(many, "[ab]");
    cr_assert_str_eq(regex_compile(&regex, many), "it has too many [sets]");
    cr_assert_null(regex_compile(&regex, "(a*)*b")); /* as long as the text, not exponential */
    char text[2001];
    memset(text, 'a', sizeof text);
    cr_assert_not(regex_matches(&regex, text, sizeof text));
}

static const char *answer(const char *request, uint32_t *status) {
    static char room[8192];
    struct text text = {.bytes = room, .capacity = sizeof room - 1};
    *status = rules_run(request, &text);
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
    cr_assert_str_eq(answer("list", &status), "operator==slab\t0\t0\t0\t0\t0\t0\t0\n"
                                              "module:lib*.so=mixed\t0\t0\t0\t0\t0\t0\t0\n");
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
    cr_assert_str_eq(answer("list", &status),
                     "a=slab\t0\t0\t0\t0\t0\t0\t0\nb=bump\t0\t0\t0\t0\t0\t0\t0\n");
}
