/* SPDX-License-Identifier: MIT */
/* Tests of src/path/cfi.h: the rules and functions that it finds in unwind information, also in
 * such as no compiler wrote. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "path/unwind_rules.h"

/* cfi_find_rule and cfi_find_function must tell the same start of a function, for exactly the
 * addresses of its bytes. */
Test(cfi, the_function_is_that_of_the_rule) {
    struct cfi_object object;
    struct cfi_function last = {0};
    uintptr_t code = (uintptr_t)&qsort;
    unsigned functions = 0, none = 0;
    cr_assert(cfi_find_object(code, &object));
    for (uintptr_t pc = code; pc < code + (1 << 16) && pc < object.end; pc++) {
        struct cfi_function function = cfi_find_function(&object, pc);
        cr_assert_eq(function.start, cfi_find_rule(&object, pc).function, "at %#lx", pc);
        cr_assert_eq(!function.start, !function.bytes, "at %#lx", pc);
        if (function.start)
            cr_assert_lt(pc - function.start, function.bytes, "at %#lx", pc);
        if (function.start != last.start)
            cr_assert_geq(pc - last.start, last.bytes, "at %#lx", pc);
        functions += function.start && function.start != last.start;
        none += !function.start;
        last = function;
    }
    cr_assert_gt(functions, 20);
    cr_assert_gt(none, 0, "no byte stands between functions");
    object.eh_frame_header = NULL;
    cr_assert_eq(cfi_find_function(&object, code).start, 0);
}

/* --- made-up entries -------------------------------------------------------------------------- */

/* An object with one entry (FDE) for CODE_BYTES bytes of code, which no compiler wrote. */
enum { CODE_AT = 2048, CODE_BYTES = 64, FRAMES_AT = 32 };

static uint8_t *put_word(uint8_t *at, uint32_t word) {
    memcpy(at, &word, sizeof word);
    return at + sizeof word;
}

/* Writes the length of the record before `start`, behind which `end` is. */
static uint8_t *end_record(uint8_t *start, uint8_t *end) {
    while ((uintptr_t)end % 4)
        *end++ = 0; /* nop */
    put_word(start - 4, (uint32_t)(end - start));
    return end;
}

static uint8_t made_object[4096] __attribute__((aligned(8)));

/* Makes an object with an entry that has this program. In the entry's CIE, the CFA is rsp + 8, and
 * the return address stands at CFA + data_align (LEB128, -8 mostly). */
static struct cfi_object object_of_program(const char *program, size_t bytes, uint8_t version,
                                           const char *data_align) {
    static const uint8_t initial[] = {0x0c, 7, 8, 0x90, 1};
    uint8_t *cie = made_object + FRAMES_AT + 4, *to = put_word(cie, 0);
    memset(made_object, 0, sizeof made_object);
    *to++ = version;
    to = (uint8_t *)mempcpy(to, "zR", 3);
    if (version == 4)
        to = (uint8_t *)mempcpy(to, (uint8_t[]){8, 0}, 2); /* bytes of an address, of a segment */
    *to++ = 1;                                             /* the alignment factor of code */
    to = (uint8_t *)mempcpy(to, data_align, strlen(data_align));
    /* the return address in register 16, pointers of 8 bytes */
    to = (uint8_t *)mempcpy(to, (uint8_t[]){16, 1, 0x00}, 3);
    to = end_record(cie, mempcpy(to, initial, sizeof initial));
    uint8_t *entry = to, *fde = entry + 4;
    uintptr_t range[] = {(uintptr_t)made_object + CODE_AT, CODE_BYTES};
    to = mempcpy(put_word(fde, (uint32_t)(fde - (cie - 4))), range, sizeof range);
    *to++ = 0; /* no augmentation data */
    end_record(fde, mempcpy(to, program, bytes));
    /* the header: version 1, pointers relative to their place, and a sorted table of one entry */
    to = mempcpy(made_object, (uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
    to = put_word(put_word(to, FRAMES_AT - 4), 1);
    put_word(put_word(to, CODE_AT), (uint32_t)(entry - made_object));
    return (struct cfi_object){.start = (uintptr_t)made_object,
                               .end = (uintptr_t)made_object + sizeof made_object,
                               .frames_start = (uintptr_t)made_object,
                               .frames_end = (uintptr_t)made_object + sizeof made_object,
                               .eh_frame_header = made_object};
}

/* Returns the rule at offset `at` of the code of such an object, with this program. */
static struct cfi_rule rule_of_program(const char *program, size_t bytes, uint8_t version,
                                       const char *data_align, size_t at) {
    struct cfi_object object = object_of_program(program, bytes, version, data_align);
    return cfi_find_rule(&object, (uintptr_t)made_object + CODE_AT + at);
}

#define PROGRAM(text) text, sizeof text - 1

Test(cfi, rules_of_programs_that_no_compiler_wrote) {
    static const struct {
        const char *what, *program;
        size_t bytes, at;
        struct cfi_rule rule; /* without the function */
    } cases[] = {
        {"nothing", PROGRAM(""), 9, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"rbp at CFA - 16", PROGRAM("\x0e\x10\x86\x02"), 9, {CFI_SP, CFI_RBP_AT_CFA, 16, -16, 0}},
        {"before an advance", PROGRAM("\x44\x0e\x18"), 3, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"behind an advance", PROGRAM("\x44\x0e\x18"), 4, {CFI_SP, CFI_RBP_SAME, 24, 0, 0}},
        {"rbp at CFA - 4096",
         PROGRAM("\x05\x06\x80\x04"),
         9,
         {CFI_SP, CFI_RBP_AT_CFA, 8, -4096, 0}},
        {"rbp at CFA - 4104", PROGRAM("\x05\x06\x81\x04"), 9, {CFI_SP, CFI_RBP_LOST, 8, 0, 0}},
        {"no return address", PROGRAM("\x07\x10"), 9, {CFI_END, 0, 0, 0, 0}},
        {"a return address again", PROGRAM("\x07\x10\x90\x01"), 9, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"a return address elsewhere", PROGRAM("\x90\x02"), 9, {CFI_NONE, CFI_RBP_SAME, 0, 0, 0}},
        {"rsp saved", PROGRAM("\x87\x02"), 9, {CFI_NONE, CFI_RBP_SAME, 0, 0, 0}},
        {"rsp restored", PROGRAM("\x87\x02\xc7"), 9, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"rbp restored", PROGRAM("\x86\x02\xc6"), 9, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"a state remembered", PROGRAM("\x0a\x0e\x20\x0b"), 9, {CFI_SP, CFI_RBP_SAME, 8, 0, 0}},
        {"no state remembered", PROGRAM("\x0b"), 9, {CFI_NONE, CFI_RBP_SAME, 0, 0, 0}},
        {"an unknown operation", PROGRAM("\x3f"), 9, {CFI_NONE, CFI_RBP_SAME, 0, 0, 0}},
        {"behind the code", PROGRAM(""), CODE_BYTES, {CFI_NONE, CFI_RBP_SAME, 0, 0, 0}},
    };
    for (uint8_t version = 1; version <= 4; version += 3)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const struct cfi_rule *want = &cases[i].rule;
            struct cfi_rule rule =
                rule_of_program(cases[i].program, cases[i].bytes, version, "\x78", cases[i].at);
            const char *what = cases[i].what;
            cr_assert_eq(rule.kind, want->kind, "%s: kind %d", what, (int)rule.kind);
            cr_assert_eq(rule.rbp, want->rbp, "%s: rbp %d", what, (int)rule.rbp);
            cr_assert_eq(rule.cfa_offset, want->cfa_offset, "%s: %d", what, rule.cfa_offset);
            cr_assert_eq(rule.rbp_offset, want->rbp_offset, "%s: %d", what, rule.rbp_offset);
        }
}

/* A folded trace (docs/lookup.md) holds for any return address within a range of code. So all calls
 * in the range that cfi_find_alike returns must have one rule. */
Test(cfi, code_in_which_every_call_has_one_rule) {
    static const struct {
        const char *what, *program;
        size_t bytes, at; /* bytes of the program; offset of the address that is asked for */
        /* written at offset 24 of CODE_BYTES bytes of 0x90 (nop) */
        const char *code;
        size_t first, end; /* the code that is found begins and ends here; 0: none is found */
    } cases[] = {
        {"one row", PROGRAM(""), 9, "", 0, CODE_BYTES},
        {"behind a prologue", PROGRAM("\x44\x0e\x18"), 9, "", 4, CODE_BYTES},
        /* the row from 24 to 32 ends the function in the middle of its code */
        {"around an end", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "", 0, CODE_BYTES},
        {"before a call", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "\xe8", 0, 24},
        {"behind a call", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 40, "\xe8", 32, CODE_BYTES},
        {"a call by a register", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "\xff\xd0", 0, 24},
        {"a call at the row's end", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "\x90\x90\x90\xe8", 0,
         24},
        {"a jump", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "\xe9\x10\xff\xff\xff", 0, CODE_BYTES},
        {"too short for a call", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 9, "\x90\x90\x90\x90\xe8", 0,
         CODE_BYTES},
        {"inside of an end", PROGRAM("\x58\x0a\x0e\x10\x48\x0b"), 26, "\xe8", 24, 32},
        {"another place of rbp", PROGRAM("\x58\x86\x02"), 9, "\xe8", 0, 24},
        {"an advance by a byte", PROGRAM("\x02\x18\x0e\x18"), 9, "\xe8", 0, 24},
        {"beyond the code", PROGRAM("\x02\x80\x0e\x18"), 9, "\xe8", 0, CODE_BYTES},
        {"an unknown operation", PROGRAM("\x58\x3f"), 9, "", 0, 0},
        {"no state remembered", PROGRAM("\x58\x0b"), 9, "", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cfi_object object = object_of_program(cases[i].program, cases[i].bytes, 1, "\x78");
        uintptr_t code = (uintptr_t)made_object + CODE_AT;
        memset(made_object + CODE_AT, 0x90, CODE_BYTES);
        memcpy(made_object + CODE_AT + 24, cases[i].code, strlen(cases[i].code));
        struct cfi_function found = cfi_find_alike(&object, code + cases[i].at);
        cr_assert_eq(found.start, cases[i].end ? code + cases[i].first : 0, "%s: start %zd",
                     cases[i].what, (ssize_t)(found.start - code));
        cr_assert_eq(found.bytes, cases[i].end - cases[i].first, "%s: %u bytes", cases[i].what,
                     found.bytes);
    }
}

/* A damaged library may have the alignment factor -2^63, by which every offset but 1 overflows. */
Test(cfi, offsets_beyond_64_bits_wrap_around) {
    const char *lowest = "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f";
    static const struct {
        const char *program;
        size_t bytes;
    } cases[] = {{PROGRAM("\x86\x03")}, {PROGRAM("\x86\xff\x7f")}, {PROGRAM("\x05\x06\x03")}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(rule_of_program(cases[i].program, cases[i].bytes, 1, lowest, 9).kind, CFI_NONE,
                     "the return address is not at CFA - 8");
}

/* The unwind information of a damaged library is read in the user's process, so no memory outside
 * of it may be touched. */
Test(cfi, damaged_information_is_read_within_its_bounds) {
    enum { ROUNDS = 40000, SPOILT = 64 };
    struct cfi_object object;
    uintptr_t code = (uintptr_t)&qsort;
    uint64_t random = 1;
    cr_assert(cfi_find_object(code, &object));
    uintptr_t header = (uintptr_t)object.eh_frame_header;
    cr_assert_leq(object.frames_start, header);
    size_t bytes = object.frames_end - header;
    size_t mapped = align_up(bytes, OS_PAGE_BYTES) + OS_PAGE_BYTES;
    char *copy =
        mmap(NULL, mapped + 2 * OS_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(copy, MAP_FAILED);
    copy += OS_PAGE_BYTES;
    cr_assert_eq(mprotect(copy, mapped, PROT_READ | PROT_WRITE), 0);
    char *start = copy + mapped - bytes; /* the copy ends at memory that is not mapped */
    start -= (uintptr_t)start % 8;
    memcpy(start, (const void *)header, bytes);
    uintptr_t moved = (uintptr_t)start - header;
    struct cfi_object other = {.frames_start = (uintptr_t)start,
                               .frames_end = (uintptr_t)start + bytes,
                               .eh_frame_header = start};
    cr_assert_eq(cfi_find_rule(&other, code + 40 + moved).kind,
                 cfi_find_rule(&object, code + 40).kind, "the copy is as good");
    /* Each round damages the header or a random entry's description, then asks for an address of
     * that entry. */
    uint32_t count = *(uint32_t *)(void *)(start + 8);
    int32_t *table = (int32_t *)(void *)(start + 12);
    for (int round = 0; round < ROUNDS; round++) {
        char saved[SPOILT];
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        uint32_t place = (uint32_t)(random >> 33) % count;
        char *at = round % 4 ? start + table[2 * place + 1] : start;
        if (at < start || at + SPOILT > start + bytes)
            continue;
        memcpy(saved, at, SPOILT);
        uintptr_t pc = (uintptr_t)start + (uintptr_t)(intptr_t)table[2 * place] + random % 64;
        for (unsigned i = 0; i < 1 + random % 3; i++)
            at[(random >> (8 + 8 * i)) % (round % 4 ? SPOILT : 12)] =
                (char)(random >> (40 + 8 * i));
        cfi_find_rule(&other, pc);
        cfi_find_function(&other, pc);
        memcpy(at, saved, SPOILT);
    }
    munmap(copy - OS_PAGE_BYTES, mapped + 2 * OS_PAGE_BYTES);
}

/* A large function: LARGE_TURNS times the same code, whose unwind program changes the offset of the
 * CFA to 16, to 64 (between remember_state and restore_state), back to 16 and back to 8. */
#define LARGE_TURNS 700
#define LARGE_PART 21 /* bytes for which one offset holds; there are four such parts in a turn */
#define STRING(x) #x
#define NUMBER(x) STRING(x)
void large_function(void);
/* clang-format off */
__asm__(".text\n"
        ".type large_function, @function\n"
        "large_function:\n"
        ".cfi_startproc\n"
        ".rept " NUMBER(LARGE_TURNS) "\n"
        ".skip " NUMBER(LARGE_PART) ", 0x90\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbp, -16\n"
        ".skip " NUMBER(LARGE_PART) ", 0x90\n"
        ".cfi_remember_state\n"
        ".cfi_def_cfa_offset 64\n"
        ".cfi_restore rbp\n"
        ".skip " NUMBER(LARGE_PART) ", 0x90\n"
        ".cfi_restore_state\n"
        ".skip " NUMBER(LARGE_PART) ", 0x90\n"
        ".cfi_def_cfa_offset 8\n"
        ".cfi_restore rbp\n"
        ".endr\n"
        ".cfi_endproc\n"
        ".size large_function, . - large_function\n");
/* clang-format on */

static void check_large_function(const struct cfi_object *object, uintptr_t offset) {
    static const int32_t cfa_offsets[] = {8, 16, 64, 16};
    uintptr_t part = offset / LARGE_PART % 4;
    struct cfi_rule rule = cfi_find_rule(object, (uintptr_t)large_function + offset);
    cr_assert_eq(rule.function, (uintptr_t)large_function);
    cr_assert_eq(rule.kind, CFI_SP);
    cr_assert_eq(rule.cfa_offset, cfa_offsets[part], "%d at offset %zu", rule.cfa_offset, offset);
    cr_assert_eq(rule.rbp, part % 2 ? CFI_RBP_AT_CFA : CFI_RBP_SAME, "at offset %zu", offset);
    cr_assert_eq(rule.rbp_offset, part % 2 ? -16 : 0);
}

/* The program of a large function is run from places that earlier runs have reached. */
Test(cfi, rules_of_a_large_function_in_any_order) {
    const uintptr_t bytes = 4 * LARGE_PART * LARGE_TURNS;
    struct cfi_object object;
    cr_assert(cfi_find_object((uintptr_t)large_function, &object));
    for (uintptr_t offset = bytes; offset-- > 0;)
        if (offset % 97 == 0)
            check_large_function(&object, offset);
    cfi_forget_programs();
    for (uint64_t i = 0; i < 5000; i++)
        check_large_function(&object, (i * 7919 + i * i) % bytes);
    cfi_forget_programs();
    for (uintptr_t offset = 0; offset < bytes; offset += 5)
        check_large_function(&object, offset);
}

/* Unwind information as the linker lays it out, with one entry, whose program is long. */
#define MADE_OPERATIONS 400
#define MADE_CODE_STEP 0x3f /* bytes between two operations that set the CFA's offset */
struct made {
    uint8_t version, encodings[3];
    int32_t to_frames, count, start, entry;
    uint8_t common[24];
    uint32_t length, distance;
    int32_t code;
    uint32_t code_bytes;
    uint8_t augmentation;
    struct {
        uint8_t advance, set_offset, offset;
    } operations[MADE_OPERATIONS];
    uint8_t end[3];
};

/* Makes the entry for code that begins behind `made`, with one offset of the CFA everywhere. */
static void make_entry(struct made *made, uint8_t cfa_offset) {
    static const uint8_t common[] = {0x14, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                     1,    0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};
    *made = (struct made){.version = 1, .encodings = {0x1b, 0x03, 0x3b}, .count = 1};
    memcpy(made->common, common, sizeof common);
    made->start = sizeof *made;
    made->entry = offsetof(struct made, length);
    made->length = sizeof *made - offsetof(struct made, distance);
    made->distance = offsetof(struct made, distance) - offsetof(struct made, common);
    made->code = sizeof *made - offsetof(struct made, code);
    made->code_bytes = MADE_OPERATIONS * MADE_CODE_STEP + 1;
    for (unsigned i = 0; i < MADE_OPERATIONS; i++) {
        made->operations[i].advance = 0x40 | MADE_CODE_STEP;
        made->operations[i].set_offset = 0x0e;
        made->operations[i].offset = cfa_offset;
    }
}

/* Another library may be loaded where one was closed. Then the rules of the closed one must not be
 * found for its addresses. */
Test(cfi, a_program_that_took_the_place_of_another_one_is_read_anew) {
    struct made *made =
        mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(made, MAP_FAILED);
    uintptr_t start = (uintptr_t)made, end = start + (1 << 16), code = start + sizeof *made;
    struct cfi_object object = {.start = start,
                                .end = end,
                                .frames_start = start,
                                .frames_end = end,
                                .eh_frame_header = made};
    for (uint8_t cfa_offset = 16; cfa_offset < 64; cfa_offset += 8) {
        make_entry(made, cfa_offset);
        unwind_rules_new_generation();
        for (uintptr_t at = MADE_OPERATIONS; at > 1; at -= 3) {
            struct cfi_rule rule = cfi_find_rule(&object, code + at * MADE_CODE_STEP - 1);
            cr_assert_eq(rule.function, code);
            cr_assert_eq(rule.kind, CFI_SP);
            cr_assert_eq(rule.cfa_offset, cfa_offset);
        }
    }
    munmap(made, 1 << 16);
}
