/* SPDX-License-Identifier: MIT */
/* Tests of src/rules: placement rules, the readers of ELF symbols and of mangled names that find
 * the functions that the rules name, and the ranges that the command resolved for the library. */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context/tree.h"
#include "control/act.h"
#include "control/commands.h"
#include "control/rules_request.h"
#include "region/heap.h"
#include "rules/elf_symbols.h"
#include "rules/mangled.h"
#include "rules/objects.h"
#include "rules/resolved.h"
#include "rules/rules.h"

#ifdef __clang__ /* a request stands before its contexts or ranges */
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"
#endif

/* What `see` has noted: how many functions there are, and where the wanted one is. */
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

/* A function of this program that the rules name. */
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
    module.build_id_bytes = 20; /* as if another file had replaced this one */
    cr_assert_not(elf_each_function(&module, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "[vdso]"}, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "/dev/zero"}, see, &seen));
    cr_assert_not(elf_each_function(&(struct module){.path = "/no/such/file"}, see, &seen));
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

/* Returns the bytes of a section in the file. */
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

/* In a damaged file the reader must not read outside of the bytes that it has read from the file.
 * Nothing is asserted about what it finds: the test fails by a crash or a sanitizer's report. */
Test(elf_symbols, damaged_files_do_no_harm) {
    static const char *const sections[] = {".symtab", ".dynsym", ".strtab"};
    char from[4096], path[] = "/tmp/memctx-elf-XXXXXX";
    struct module module = this_program(from, sizeof from);
    struct bytes whole = read_whole(from);
    unsigned char *kept = malloc(whole.size);
    int fd = mkstemp(path);
    cr_assert(kept && fd >= 0);
    memcpy(kept, whole.start, whole.size);
    module.path = path;
    uint64_t headers; /* offset of the section headers, which end the file */
    memcpy(&headers, kept + offsetof(Elf64_Ehdr, e_shoff), sizeof headers);
    for (int round = 0; round < 120; round++) {
        memcpy(whole.start, kept, whole.size);
        struct bytes part = section_of(&whole, sections[round % 3]);
        /* Odd rounds damage the first 200 bytes of a section. Even rounds damage the ELF header
         * behind its magic bytes, and the section headers. */
        for (int i = 0; i < 12; i++) {
            uint64_t number = next_number();
            size_t at = i % 3 ? headers + number % (whole.size - headers)
                              : EI_NIDENT + number % (sizeof(Elf64_Ehdr) - EI_NIDENT);
            if (round % 2)
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
    }
    unlink(path);
    close(fd);
    free(whole.start);
    free(kept);
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
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char request[40];
        snprintf(request, sizeof request, "check\n%s", bad[i]);
        answer(request, &status);
        cr_assert_eq(status, WIRE_REFUSED, "%s", request);
    }
    cr_assert_str_eq(answer("check\noperator==slab", &status), "checked");
    cr_assert_not(policy_rules_exist());
    answer("operator==slab", &status);
    cr_assert_eq(status, WIRE_OK, "the policy stands behind the last '='");
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
    policy_rules_init(";a=slab;;\n  b=bump\n;\n", false, &warnings);
    cr_assert_eq(warnings.length, 0);
    cr_assert_str_eq(answer("list", &status),
                     "a=slab\t0\t0\t0\t0\t0\t0\t0\nb=bump\t0\t0\t0\t0\t0\t0\t0\n");
}

static const char *read_mangled(const char *symbol) {
    static char room[64];
    struct text name = {.bytes = room, .capacity = sizeof room - 1};
    bool whole = mangled_read(symbol, &name);
    room[name.length] = '\0';
    return whole ? room : NULL;
}

Test(mangled, names_are_read) {
    static const char *const names[][2] = {
        {"_Z3foov", "foo"},
        {"_ZL3fooIiEvT_", "foo"},
        {"_ZNK4shop4till4openEi", "shop::till::open"},
        {"_ZN4shop4tillC2ERKS0_", "shop::till::till"},
        {"_ZN4shop4tillD0Ev", "shop::till::~till"},
        {"_ZN4shop5cacheINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES6_E3putES6_S6_",
         "shop::cache::put"},
        {"_ZN4shop5crateILNS_4kindE3ELb1EE4packEv", "shop::crate::pack"},
        {"_ZN4shop5crateIXadL_Z3foovEEE4packEv", "shop::crate::pack"},
        {"_ZN4shop5crateIA5_cZ4mainEUlvE_Ut0_E4packEv", "shop::crate::pack"},
        {"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back"},
        {"_ZNSs6appendEPKc", "std::basic_string::append"},
        {"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<"},
        {"_ZN4shop4tillnwEm", "shop::till::operator new"},
        {"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"},
        {"_ZN4shop4nameB5cxx11Ev", "shop::name"},
        {"_ZZN4shop4till4openEvENKUliE0_clEi", "shop::till::open()::{lambda}::operator()"},
        {"_ZZ4mainEN5local3runEv", "main::local::run"},
        {"_ZN5names4shop4open17h4acc08d9aa7dc810E", "names::shop::open"},
        {"_ZN4shop17hand_over_the_boxEv", "shop::hand_over_the_box"},
    };
    static const char *const cut[] = {"_Z",        "_Z9foo", "_ZN",       "_ZN3foo",
                                      "_ZN3fooIE", "_Z0_",   "_ZNS_3fooE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *read = read_mangled(names[i][0]);
        cr_assert(read && strcmp(read, names[i][1]) == 0, "%s: %s", names[i][0], read);
    }
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        cr_assert_null(read_mangled(cut[i]), "%s", cut[i]);
    char deep[400] = "_Z3foo";
    memset(deep + 6, 'I', 300);
    cr_assert_null(read_mangled(deep));
}

/* --- what the command resolved ---------------------------------------------------------------- */

/* Returns this program's module and the address of policy_rules_landmark in its file. */
static uint32_t own_module(uint64_t *address) {
    uint32_t module = rule_module(unwind_rules_find((uintptr_t)&policy_rules_landmark, true));
    cr_assert_lt(module, unwind_rules_module_count());
    *address = (uintptr_t)&policy_rules_landmark - unwind_rules_module(module)->bias;
    return module;
}

static unsigned rule_at_address(uint32_t module, uint64_t address) {
    struct tree_node node = {.address = address + unwind_rules_module(module)->bias,
                             .module = (uint16_t)module,
                             .exact = true};
    return objects_rule_of(&node);
}

static uint32_t new_node(uintptr_t address, uint32_t module) {
    struct tree_frame frame = {.address = address, .module = (uint16_t)module, .exact = true};
    uint32_t id = tree_child(TREE_ROOT, frame, TABLES_MUST);
    cr_assert_gt(id, 0);
    return id;
}

static void remove_node(uint32_t id) {
    lock_take(&tree_lock);
    cr_assert(tree_unlink(id));
    tree_remove(id);
    lock_release(&tree_lock);
}

Test(policy_rules, ids_are_used_again) {
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    uintptr_t landmark = start + unwind_rules_module(module)->bias;
    answer("regex:^x=slab", &status);
    uint32_t first = new_node(1000, MODULE_NONE), behind = new_node(2000, MODULE_NONE);
    answer("policy_rules_landmark=bump", &status);
    remove_node(first);
    cr_assert_eq(new_node(landmark, module), first, "the id is not used again");
    cr_assert_eq(policy_rules_of(first), 0, "the object's names were not read yet");
    policy_rules_apply(true);
    cr_assert_eq(policy_rules_of(first), 2);
    cr_assert_eq(heap_placement(first), PLACE_BUMP);
    remove_node(first);
    cr_assert_eq(new_node(landmark + 1, module), first);
    cr_assert_eq(policy_rules_of(first), 2, "the object's names are known by now");
    remove_node(first);
    cr_assert_eq(new_node(3000, MODULE_NONE), first);
    cr_assert_eq(policy_rules_of(first), 0, "the removed node's rule holds for the new node");
    cr_assert_eq(heap_placement(first), PLACE_DEFAULT);
    char rule[40];
    snprintf(rule, sizeof rule, "context:%u=slab", behind);
    answer(rule, &status);
    cr_assert_eq(policy_rules_of(behind), 3);
    remove_node(behind);
    cr_assert_eq(new_node(4000, MODULE_NONE), behind);
    cr_assert_eq(policy_rules_of(behind), 0, "the rule holds for the next context with this id");
}

Test(policy_rules, contexts_that_are_gone_are_not_placed) {
    uint32_t gone = new_node(1000, MODULE_NONE), there = new_node(2000, MODULE_NONE);
    struct {
        struct wire_contexts_request head;
        uint32_t contexts[2];
    } request = {.head = {.verb = WIRE_PLACE_SLAB, .count = 2}, .contexts = {gone, there}};
    char said[200];
    struct text text = {.bytes = said, .capacity = sizeof said};
    remove_node(gone);
    cr_assert_eq(place_run(&request.head, &text), WIRE_OK);
    cr_assert_eq(heap_placement(there), PLACE_SLAB);
    cr_assert_eq(heap_placement(gone), PLACE_DEFAULT);
    request.contexts[0] = there + 1;
    cr_assert_eq(place_run(&request.head, &text), WIRE_REFUSED, "no context ever had the id");
}

static atomic_bool is_told;

static void *ask_wanted(void *unused) {
    bool wanted = tree_wanted((struct tree_frame){.address = 1000, .module = MODULE_NONE});
    atomic_store(&is_told, true);
    return wanted ? unused : NULL;
}

/* Another thread asks whether a rule names a frame, while this one holds tree_lock. True: the
 * answer came within `most_ms`, so it needs no lock. */
static bool is_told_without_the_lock(unsigned most_ms) {
    pthread_t thread;
    atomic_store(&is_told, false);
    lock_take(&tree_lock);
    cr_assert_eq(pthread_create(&thread, NULL, ask_wanted, NULL), 0);
    for (unsigned ms = 0; ms < most_ms && !atomic_load(&is_told); ms++)
        usleep(1000);
    bool told = atomic_load(&is_told);
    lock_release(&tree_lock);
    pthread_join(thread, NULL);
    return told;
}

Test(policy_rules, paths_that_wait_take_no_lock_when_all_rules_are_cleared) {
    uint32_t status;
    answer("f=slab", &status);
    cr_assert_not(is_told_without_the_lock(50), "with rules, the answer needs the lock");
    policy_rules_clear(true);
    cr_assert(is_told_without_the_lock(20000));
    answer("f=slab", &status);
    cr_assert_not(is_told_without_the_lock(50), "a rule was added again");
}

Test(policy_rules, names_that_were_read_stay) {
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    answer("policy_rules_landmark=bump", &status);
    objects_read(module, true);
    cr_assert_eq(rule_at_address(module, start), 1);
    ((struct module *)(uintptr_t)unwind_rules_module(module))->path = "/no/such/file";
    answer("answer=slab", &status);
    objects_read(module, true);
    cr_assert(objects_is_read(module));
    cr_assert_eq(rule_at_address(module, start), 1, "the file is gone, and its names are known");
}

Test(policy_rules, the_first_rule_of_a_function_holds) {
    static const char *const rules[] = {"x=slab", "policy_rules_l*=bump",
                                        "policy_rules_landmark=aset", "see=slab", "*=slab"};
    static const uint8_t numbers[] = {2, 4};
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        answer(rules[i], &status);
        objects_read(module, true);
    }
    cr_assert_eq(rule_at_address(module, start), numbers[0]);
    uint64_t other = start + (uintptr_t)&see - (uintptr_t)&policy_rules_landmark;
    cr_assert_eq(rule_at_address(module, other), numbers[1]);
}

struct request {
    struct wire_rule_ranges head;
    struct wire_rule_range ranges[WIRE_RANGES_SENT_MAX];
};

static struct request request_for(uint32_t module) {
    const struct module *mapped = unwind_rules_module(module);
    struct request request = {.head = {.version = rule_list.version,
                                       .module = module,
                                       .last = 1,
                                       .build_id_bytes = mapped->build_id_bytes}};
    memcpy(request.head.build_id, mapped->build_id, sizeof request.head.build_id);
    return request;
}

/* Sends the request to the library. NULL: it was accepted; else the text of the refusal. */
static const char *send(const struct request *request) {
    static char room[400];
    struct answer answer = {.bytes = room, .capacity = sizeof room - 1};
    uint32_t status = command_run(
        WIRE_RULE_RANGES, (const char *)request,
        sizeof request->head + request->head.count * sizeof request->ranges[0], &answer);
    room[answer.length] = 0;
    return status == WIRE_OK ? NULL : room;
}

Test(resolved, ranges_hold) {
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    answer("regex:^x=slab", &status);
    answer("policy_rules_landmark=bump", &status);
    struct request request = request_for(module);
    objects_read(module, true);
    cr_assert_eq(rule_at_address(module, start), 2, "rule 2 names the function without a regex");
    cr_assert_not(objects_is_resolved(module));
    request.head.last = 0;
    request.head.count = 2;
    request.ranges[0] = (struct wire_rule_range){.start = start, .bytes = 1, .rule = 1};
    request.ranges[1] = (struct wire_rule_range){.start = start + 1, .bytes = 1, .rule = 2};
    cr_assert_null(send(&request));
    cr_assert_not(objects_is_resolved(module), "more ranges are to come");
    request.head.at = 2;
    request.head.last = request.head.count = 1;
    request.ranges[0] = (struct wire_rule_range){.start = start + 2, .bytes = 1, .rule = 1};
    cr_assert_null(send(&request));
    cr_assert(objects_is_resolved(module));
    cr_assert_eq(objects_resolved_count(module), 3);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(rule_at_address(module, start + i), i % 2 ? 2 : 1, "%u", i);
    answer("file:x.c=slab", &status);
    cr_assert_not(objects_is_resolved(module), "the new rule was not resolved");
    cr_assert_eq(rule_at_address(module, start), 1, "earlier rules keep their numbers");
    answer("clear", &status);
    answer("f=slab", &status);
    cr_assert_eq(rule_at_address(module, start), 0, "a cleared rule holds");
    cr_assert_eq(objects_resolved_count(module), 0);
}

Test(resolved, damaged_ranges_are_refused) {
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    answer("regex:^x=slab", &status);
    const struct module *mapped = unwind_rules_module(module);
    struct request good = request_for(module), bad;
    good.head.count = 2;
    good.ranges[0] = (struct wire_rule_range){.start = start, .bytes = 4, .rule = 1};
    good.ranges[1] = (struct wire_rule_range){.start = start + 8, .bytes = 4, .rule = 1};
    cr_assert_null(send(&good));
#define REFUSED(change, why)                                                                       \
    bad = good;                                                                                    \
    bad.change;                                                                                    \
    cr_assert_not_null(send(&bad), #change);                                                       \
    cr_assert(strstr(send(&bad), why), "%s: %s", #change, send(&bad))
    REFUSED(head.version++, "the rules have changed");
    REFUSED(head.module = 4000, "no object has that number");
    REFUSED(head.module = UINT32_MAX, "no object has that number");
    REFUSED(head.build_id[3]++, "another build-id");
    REFUSED(head.build_id_bytes--, "another build-id");
    REFUSED(head.build_id_bytes = 25, "does not have the length");
    REFUSED(head.count = WIRE_RANGES_SENT_MAX + 1, "does not have the length");
    REFUSED(head.at = 1, "another client");
    cr_assert_eq(objects_resolved_count(module), 2, "a refused request changed the ranges");
    REFUSED(ranges[1].start = start + 3, "overlap, do not rise, or leave");
    cr_assert_eq(objects_resolved_count(module), 0, "bad ranges did not drop the others");
    cr_assert_not(objects_is_resolved(module));
    REFUSED(ranges[1].start = 0, "overlap, do not rise, or leave");
    REFUSED(ranges[1].start = mapped->end - mapped->bias, "overlap, do not rise, or leave");
    REFUSED(ranges[1].bytes = UINT32_MAX, "overlap, do not rise, or leave");
    REFUSED(ranges[1].start = UINT64_MAX, "overlap, do not rise, or leave");
    REFUSED(ranges[0].bytes = 0, "overlap, do not rise, or leave");
    REFUSED(ranges[0].rule = 0, "no rule has that number");
    REFUSED(ranges[0].rule = 2, "no rule has that number");
    REFUSED(ranges[0].rule = 257, "overlap, do not rise, or leave");
    cr_assert_null(send(&good), "a good request is refused after bad ones");
#undef REFUSED
}

Test(resolved, as_many_as_are_kept) {
    uint32_t status;
    uint64_t start;
    uint32_t module = own_module(&start);
    const struct module *mapped = unwind_rules_module(module);
    cr_assert_gt(mapped->end - mapped->start, 2 * WIRE_RULE_RANGES_MAX + 200);
    answer("regex:^x=slab", &status);
    struct request request = request_for(module);
    const char *said = NULL;
    start = mapped->start - mapped->bias;
    request.head.last = 0;
    request.head.count = WIRE_RANGES_SENT_MAX;
    while (!said && request.head.at <= WIRE_RULE_RANGES_MAX) {
        for (unsigned i = 0; i < WIRE_RANGES_SENT_MAX; i++, start += 2)
            request.ranges[i] = (struct wire_rule_range){.start = start, .bytes = 1, .rule = 1};
        said = send(&request);
        request.head.at += WIRE_RANGES_SENT_MAX;
    }
    cr_assert(said && strstr(said, "the library keeps no further range"), "%s",
              said ? said : "taken");
    cr_assert_gt(request.head.at, WIRE_RULE_RANGES_MAX, "the library refused too early");
    cr_assert_eq(objects_resolved_count(module), 0);
    request = request_for(module);
    request.head.count = 1;
    request.ranges[0] = (struct wire_rule_range){.start = start, .bytes = 1, .rule = 1};
    cr_assert_null(send(&request), "there is room again");
}

/* Returns the content of MEMCTX_RULE_RANGES for this program: the rules, another module, this
 * module's build id and its ranges. */
static const char *environment(uint32_t module, const char *rules, const char *ranges) {
    static char text[2000];
    const struct module *mapped = unwind_rules_module(module);
    int used = snprintf(text, sizeof text, "1\n%s@b 0123456789\n1 1 1\n@b ", rules);
    for (uint32_t i = 0; i < mapped->build_id_bytes; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%02x", mapped->build_id[i]);
    snprintf(text + used, sizeof text - (size_t)used, "\n%s", ranges);
    return text;
}

Test(resolved, text_of_the_environment) {
    char ranges[200], warned[400];
    struct text warnings = {.bytes = warned, .capacity = sizeof warned - 1};
    uint64_t start;
    uint32_t module = own_module(&start);
    cr_assert_gt(unwind_rules_module(module)->build_id_bytes, 0);
    policy_rules_init("f=aset;regex:^x=slab;file:y=bump", true, &warnings);
    cr_assert_eq(warnings.length, 0);
    snprintf(ranges, sizeof ranges, "2 %lx 4 1 4 4\n", (unsigned long)start);
    resolved_read(environment(module, "=file:y=bump\n=regex:^x=slab\n=f=aset\n", ranges));
    cr_assert_eq(rule_at_address(module, start), 2);
    cr_assert_eq(rule_at_address(module, start + 4), 0);
    cr_assert_eq(rule_at_address(module, start + 8), 3, "rules are numbered as in MEMCTX_RULES");
    cr_assert(objects_is_resolved(module));
    objects_drop_resolved(module);
    resolved_read(environment(module, "=regex:^x=slab\n=f=aset\n", ranges));
    cr_assert_eq(rule_at_address(module, start), 1);
    cr_assert_not(objects_is_resolved(module), "one rule is missing");
    static const char *const bad[] = {"1 1\n",         "4 1 1\n",
                                      "1 x 1\n",       "0 1 1\n",
                                      "1 1 1 1",       "1  1\n",
                                      "-1 1 1\n",      "1 ffffffffffffffff 4\n",
                                      "1 1 0\n",       "1 0 fffffffffffffffff\n",
                                      "1 ffffffff 1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        objects_drop_resolved(module);
        resolved_read(environment(module, "=file:y=bump\n=regex:^x=slab\n=f=aset\n", bad[i]));
        cr_assert_eq(objects_resolved_count(module), 0, "%s", bad[i]);
        cr_assert_not(objects_is_resolved(module), "%s", bad[i]);
    }
    resolved_read(environment(module, "=file:y=bump\n=regex:^x=slab\n=f=aset\n", ""));
    cr_assert(objects_is_resolved(module), "the rules name no function of this object");
    const char *whole = environment(module, "=file:y=bump\n=regex:^x=slab\n=f=aset\n", ranges);
    for (size_t length = 0; length < strlen(whole); length++) { /* cuts the text at each byte */
        char *cut = strndup(whole, length);
        objects_drop_resolved(module);
        resolved_read(cut);
        free(cut);
    }
    resolved_read("2\n=f=aset\n");
    resolved_read("");
    resolved_read(NULL);
}

Test(resolved, what_waits_is_said_once) {
    char warned[800];
    struct text warnings = {.bytes = warned, .capacity = sizeof warned - 1};
    policy_rules_init("f=aset;module:x=slab", false, &warnings);
    cr_assert_eq(warnings.length, 0, "the library resolves these rules itself");
    policy_rules_init("regex:x=aset;file:x=slab", true, &warnings);
    cr_assert_eq(warnings.length, 0, "the command has resolved these rules");
    policy_rules_init("regex:x=aset;file:x=slab", false, &warnings);
    warned[warnings.length] = 0;
    cr_assert(strstr(warned, "have no effect"));
    cr_assert_eq(strchr(warned, '\n'), warned + warnings.length - 1, "one line");
}
