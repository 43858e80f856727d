/* SPDX-License-Identifier: MIT */
/* Tests of src/path without libunwind: unwind rules against frame pointers, walks that reuse the
 * last walk and cached traces against fresh walks, the table of rules. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "api/fast.h"
#include "path/cache.h"
#include "region/heap.h"
#include "shapes.h"

#define FRAME ((uintptr_t)__builtin_frame_address(0))

/* Returns an address in the caller. This file is built with frame pointers, so the unwind rule for
 * that address is known. */
static NOINLINE uintptr_t return_address(void) {
    return (uintptr_t)__builtin_return_address(0);
}

Test(cfi, rules_agree_with_frame_pointers) {
    uintptr_t pc = return_address();
    struct cfi_object object;
    cr_assert(cfi_find_object(pc, &object));
    cr_assert(object.start <= pc && pc < object.end);
    struct cfi_rule rule = cfi_find_rule(&object, pc - 1);
    cr_assert_eq(rule.kind, CFI_RBP);
    cr_assert_eq(rule.cfa_offset, 16);
    cr_assert_eq(rule.rbp, CFI_RBP_AT_CFA);
    cr_assert_eq(rule.rbp_offset, -16);
    /* Before the first instruction of a function nothing was pushed but the return address. */
    rule = cfi_find_rule(&object, (uintptr_t)return_address);
    cr_assert_eq(rule.kind, CFI_SP);
    cr_assert_eq(rule.cfa_offset, 8);
    cr_assert_eq(rule.rbp, CFI_RBP_SAME);
}

Test(cfi, data_and_unmapped_memory_have_no_rules) {
    static char data[64];
    struct cfi_object object;
    cr_assert_not(cfi_find_object(16, &object));
    cr_assert_not(cfi_find_object((uintptr_t)&object, &object), "the stack is no object");
    if (cfi_find_object((uintptr_t)data, &object))
        cr_assert_eq(cfi_find_rule(&object, (uintptr_t)object.end - 1).kind, CFI_NONE);
}

/* Code that a program makes at run time may stand in a gap between the segments of an object. */
Test(rules, an_object_has_code_in_its_executable_segments_alone) {
    static char data[3 * OS_PAGE_BYTES];
    unwind_rules_init();
    uint64_t packed = unwind_rules_find((uintptr_t)data + OS_PAGE_BYTES, false);
    cr_assert_eq(rule_kind(packed), CFI_NONE);
    cr_assert_eq(rule_module(packed), MODULE_NONE);
    /* the loader's first page has its headers */
    packed = unwind_rules_find(getauxval(AT_BASE) + 100, false);
    cr_assert_eq(rule_kind(packed), CFI_NONE);
    cr_assert_eq(rule_module(packed), MODULE_NONE);
}

Test(rules, packed_rules_hold_what_was_found_and_generations_forget) {
    unwind_rules_init();
    uintptr_t pc = return_address();
    uint64_t packed = unwind_rules_find(pc, false);
    cr_assert_eq(rule_kind(packed), CFI_RBP);
    cr_assert_eq(rule_cfa_offset(packed), 16);
    cr_assert_eq(rule_rbp(packed), CFI_RBP_AT_CFA);
    cr_assert_eq(rule_rbp_offset(packed), -16);
    cr_assert_lt(rule_module(packed), unwind_rules_module_count());
    const struct module *module = unwind_rules_module(rule_module(packed));
    cr_assert(module->start <= pc && pc < module->end);
    uint64_t count = unwind_rules_count();
    cr_assert_eq(unwind_rules_find(pc, false), packed);
    cr_assert_eq(unwind_rules_count(), count, "learnt once");
    for (uintptr_t i = 1; i <= 20000; i++) /* addresses outside of all objects take entries, too */
        cr_assert_eq(rule_kind(unwind_rules_find(i * 16, false)), CFI_NONE);
    cr_assert_eq(unwind_rules_find(pc, false), packed, "lost when the table grew");
    struct rule *rule = rule_at(unwind_rules_table, 0);
    while (rule->key != pc)
        rule++;
    rule->packed = 0; /* as a reader sees an entry of an old table that is being emptied */
    cr_assert_eq(unwind_rules_find(pc, false), packed);
    rule->packed = packed;
    uint32_t generation = unwind_rules_generation;
    unwind_rules_new_generation();
    cr_assert_neq(unwind_rules_generation, generation);
    cr_assert_lt(unwind_rules_count(), count + 20000);
    cr_assert_eq(rule_cfa_offset(unwind_rules_find(pc, false)), 16);
}

static struct stack kept, fresh;
static unsigned depth_now = 32;
static uint64_t reused;

static void walk_fresh(uintptr_t frame) {
    fresh.count = fresh.check_count = 0;
    fresh.low = fresh.high = 0;
    stack_walk(&fresh, frame, depth_now);
}

static void compare_walks(uintptr_t frame) {
    stack_walk(&kept, frame, depth_now);
    reused += kept.kept > 0;
    walk_fresh(frame);
    unsigned count = fresh.count < depth_now ? fresh.count : depth_now;
    cr_assert_geq(kept.count, count);
    cr_assert_gt(count, 0);
    for (unsigned i = 1; i <= count; i++) {
        const struct stack_frame *a = &kept.frames[kept.count - i];
        const struct stack_frame *b = &fresh.frames[fresh.count - i];
        cr_assert_eq(a->address, b->address, "frame %u of %u, leaf %lu", i, count, leaves);
        cr_assert_eq(a->sp, b->sp, "frame %u of %u", i, count);
        cr_assert_eq(a->rule, b->rule);
    }
}

Test(stack, walks_that_reuse_the_last_one_equal_fresh_ones) {
    static const unsigned depths[] = {1, 2, 32, 128};
    unwind_rules_init();
    srand(41);
    at_leaf = compare_walks;
    for (int i = 0; i < 4; i++) {
        depth_now = depths[i];
        kept = (struct stack){0};
        cr_assert(stack_make_room(&kept, 1) && stack_make_room(&fresh, 1));
        for (int round = 0; round < 4000; round++)
            (round % 2 ? linked_shapes_run : shapes_run)(rand() % 7);
    }
    cr_assert_gt(leaves, 2000);
    cr_assert_gt(reused, 500, "nothing was reused, so nothing was tested");
}

static struct paths room, *paths = &room;
static struct view views[1 << 16]; /* stand for paths: requested_cum_bytes is the path's hash */
static unsigned view_count;
static uint64_t hits;

static uint64_t hash_fresh(uintptr_t frame) {
    uint64_t hash = 1;
    walk_fresh(frame);
    for (unsigned i = 1; i <= fresh.count && i <= depth_now; i++)
        hash = hash_mix(hash + i, fresh.frames[fresh.count - i].address);
    return hash;
}

static void use_cache(uintptr_t frame) {
    unsigned i = 0;
    uint64_t hash = hash_fresh(frame), place;
    struct view *view = view_guessed(paths, frame);
    if (view == NULL)
        view = cache_search(paths, frame, &place);
    if (view != NULL) {
        cr_assert_eq(view->requested_cum_bytes, hash, "leaf %lu has another's trace", leaves);
        hits++;
        return;
    }
    stack_walk(&paths->stack, frame, depth_now);
    while (i < view_count && views[i].requested_cum_bytes != hash)
        i++;
    if (i == sizeof views / sizeof *views)
        return;
    view_count += i == view_count;
    views[i].requested_cum_bytes = hash;
    views[i].index = i + 1;
    paths->missed++;
    cache_learn_hints(paths);
    cache_keep(paths, place, &views[i], depth_now, TRACE_EXACT);
}

Test(cache, invariant_2_a_trace_is_only_found_for_its_path) {
    unwind_rules_init();
    srand(43);
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    at_leaf = use_cache;
    for (int round = 0; round < 3000; round++)
        shapes_run(rand() % 8);
    cr_assert_gt(hits, 2000, "%lu hits of %lu", hits, leaves);
    cr_assert_gt(view_count, 50);
    cache_flush(paths);
    cr_assert_eq(paths->trace_count, 0);
    cr_assert_eq(paths->trace_bytes, 0);
}

/* Writes a stack whose outermost frame is the first one, or the first one's caller. */
static void write_stack(uintptr_t words[12], bool has_caller) {
    uintptr_t pc = return_address();
    words[0] = (uintptr_t)&words[4];
    words[1] = pc;
    words[4] = (uintptr_t)&words[8];
    words[5] = has_caller ? pc : 0;
    words[9] = 0;
}

/* A greenlet library copies stacks into and out of one piece of memory, so another frame may stand
 * where the outermost frame of a thread stood. */
Test(stack, a_frame_without_a_caller_may_have_one_later) {
    uintptr_t words[12] = {0};
    unwind_rules_init();
    cr_assert(stack_make_room(&kept, 1) && stack_make_room(&fresh, 1));
    for (int i = 0; i < 6; i++) {
        write_stack(words, i % 3);
        compare_walks((uintptr_t)words);
        cr_assert_eq(kept.count, i % 3 ? 2 : 1);
        cr_assert_eq(kept.end, STACK_COMPLETE);
    }
    cr_assert_gt(reused, 1);
}

Test(cache, a_trace_compares_the_return_address_of_0) {
    uintptr_t words[12] = {0};
    unwind_rules_init();
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    for (int i = 0; i < 40; i++) {
        write_stack(words, i / 5 % 2);
        use_cache((uintptr_t)words);
    }
    cr_assert_eq(view_count, 2);
    cr_assert_gt(hits, 10);
}

/* The hints point behind the end of the stack, which has become smaller: no memory behind its end
 * may be read. */
Test(cache, hints_lead_no_further_than_to_mapped_memory) {
    uint64_t hash, *end = mmap(NULL, 4 * OS_PAGE_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(end != MAP_FAILED && cache_make(paths));
    paths->stack.low = (uintptr_t)end;
    paths->stack.high = (uintptr_t)end + 4 * OS_PAGE_BYTES;
    for (uint32_t i = 0; i <= paths->hint_mask; i++)
        paths->hints[i] = (struct hint){1000, 2000};
    cr_assert_eq(munmap((char *)end + OS_PAGE_BYTES, 3 * OS_PAGE_BYTES), 0);
    end += OS_PAGE_BYTES / sizeof *end;
    for (int words = 2; words <= 10; words++)
        cr_assert_null(cache_search(paths, (uintptr_t)(end - words), &hash));
}

/* Two paths with equal frames, whose return addresses differ from the sixth on. The hash of a
 * second guess (path/cache.h) includes the innermost four alone. */
#define CALLS(name, callee, instructions)                                                          \
    static NOINLINE void name(void) {                                                              \
        callee();                                                                                  \
        __asm__ volatile(instructions ::: "memory");                                               \
    }
CALLS(inner, shapes_leaf, "")
CALLS(middle, inner, "")
CALLS(further, middle, "")
CALLS(outer, further, "")
CALLS(even, outer, "nop")
CALLS(odd, outer, "nop; nop") /* differs from even, so that the compiler does not merge the two */
static NOINLINE void alternate(int turn) {
    if (turn % 2)
        odd();
    else
        even();
    __asm__ volatile("" ::: "memory");
}

#define PLACES 16U
static NOINLINE void alternate_at(unsigned place, int turn) {
    volatile char *space = __builtin_alloca(place * 64UL + 16);
    space[0] = 1;
    alternate(turn);
    space[0] = 2;
}

Test(cache, two_paths_that_miss_in_turns_are_both_kept) {
    unwind_rules_init();
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    at_leaf = use_cache;
    for (int turn = 0; turn < 200; turn++)
        alternate(turn);
    cr_assert_eq(view_count, 2);
    cr_assert_gt(hits, 150, "%lu hits of 200", hits);
    cr_assert_lt(paths->missed, 50);
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static NOINLINE void alternate_below(int frames, int turn) {
    if (frames)
        alternate_below(frames - 1, turn);
    else
        alternate(turn);
    __asm__ volatile("" ::: "memory");
}

static NOINLINE void alternate_from_here(int frames, int turn) {
    alternate_below(frames, turn);
    __asm__ volatile("" ::: "memory");
}

Test(cache, traces_share_the_words_of_equal_outer_frames) {
    unwind_rules_init();
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    at_leaf = use_cache;
    depth_now = 128;
    uint32_t one = 0, two = 0;
    for (int turn = 0; turn < 40; turn++) {
        alternate_below(80, turn >= 20);
        *(turn < 20 ? &one : &two) = paths->trace_bytes;
    }
    cr_assert_eq(paths->trace_count, 2);
    cr_assert_gt(one, sizeof(struct trace) + 8 * sizeof(struct trace_tail));
    cr_assert_leq(two - one, sizeof(struct trace) + 2 * sizeof(struct trace_tail));
    cr_assert_gt(hits, 30);
    /* equal frames below one more frame: every word of them stands at another address */
    for (int turn = 0; turn < 20; turn++)
        alternate_from_here(80, 0);
    cr_assert_gt(paths->trace_bytes - two, one - 2 * sizeof(struct trace_tail));
    cr_assert_eq(view_count, 3);
}

static NOINLINE void alternate_somewhere(void) {
    volatile char *space = __builtin_alloca((rand() % 4096) * 16UL + 16);
    space[0] = 1;
    alternate_below(20 + rand() % 60, rand() & 1);
    space[0] = 2;
}

static int compare_pointers(const void *a, const void *b) {
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    return (left > right) - (left < right);
}

/* Returns the number of tails that traces lead to. */
static uint32_t count_tails(void) {
    static struct trace_tail *found[1 << 20];
    uint32_t count = 0, different = 0;
    for (uint32_t i = 1; i < paths->trace_next; i++)
        for (struct trace_tail *tail = paths->traces[i].tail; tail; tail = tail->outer) {
            cr_assert_lt(count, sizeof found / sizeof *found);
            found[count++] = tail;
        }
    qsort(found, count, sizeof *found, compare_pointers);
    for (uint32_t i = 0; i < count; i++)
        different += !i || found[i] != found[i - 1];
    return different;
}

/* Each new trace takes the place of an older one; the memory of the older one's tails is used
 * again. */
Test(cache, tails_without_traces_are_used_again) {
    unwind_rules_init();
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    at_leaf = use_cache;
    depth_now = 128;
    srand(44);
    while (paths->oldest < 1000 && leaves < 3000000)
        alternate_somewhere();
    cr_assert_geq(paths->oldest, 1000);
    uint32_t made = 0, unused = 0, used = count_tails();
    for (struct tail_block *block = paths->tails; block; block = block->next)
        made += (block->used - TAIL_HEADER_BYTES) / (uint32_t)sizeof(struct trace_tail);
    for (struct trace_tail *tail = paths->tails->unused; tail; tail = tail->outer)
        unused++;
    cr_assert_eq(made - unused, used);
    cr_assert_lt(unused, used / 20, "of %u tails %u wait", made, unused);
    cr_assert_eq(paths->trace_bytes,
                 paths->trace_count * sizeof(struct trace) + used * sizeof(struct trace_tail));
}

Test(cache, when_all_traces_are_used_the_oldest_are_given_up) {
    unwind_rules_init();
    srand(43);
    cr_assert(cache_make(paths) && stack_make_room(&fresh, 1));
    paths->fast_generation = unwind_rules_generation;
    at_leaf = use_cache;
    while (!paths->oldest && leaves < 2000000)
        shapes_run(rand() % 8);
    cr_assert_eq(paths->trace_room, CACHE_TRACES_MAX);
    cr_assert_leq(paths->trace_count, CACHE_TRACES_MAX);
    /* At up to 4 of 16 places other paths may leave the two paths only one slot, in which they
     * replace each other. */
    uint32_t first = paths->oldest;
    unsigned kept_both = 0;
    for (unsigned place = 0; place < PLACES; place++) {
        uint64_t before = hits;
        for (int turn = 0; turn < 200; turn++)
            alternate_at(place, turn);
        kept_both += hits > before + 150;
    }
    cr_assert_geq(kept_both, PLACES - 4);
    cr_assert_neq(paths->oldest, first);
}

/* like_signal is marked as a signal frame but has an ordinary frame, as some code that switches
 * stacks has. saves_rsp says where it saved rsp. */
__asm__(".text\n"
        "like_signal: .cfi_startproc\n"
        ".cfi_signal_frame\n"
        "nop\n"
        "ret\n"
        ".cfi_endproc\n"
        "saves_rsp: .cfi_startproc\n"
        ".cfi_offset 7, -16\n"
        "nop\n"
        "ret\n"
        ".cfi_endproc\n");
extern const char like_signal[], saves_rsp[];

Test(unwind, only_the_kernels_frames_are_signal_frames) {
    struct cfi_object object;
    cr_assert(cfi_find_object((uintptr_t)like_signal, &object));
    struct cfi_rule rule = cfi_find_rule(&object, (uintptr_t)like_signal);
    cr_assert_eq(rule.kind, CFI_SP);
    cr_assert_eq(rule.cfa_offset, 8);
    cr_assert_eq(cfi_find_rule(&object, (uintptr_t)saves_rsp).kind, CFI_NONE);
}

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
