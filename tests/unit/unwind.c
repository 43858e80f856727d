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
    for (int turn = 0; turn < 20; turn++) {
        __asm__ volatile("" : "+r"(turn)); /* clang must not make 20 calls of the loop: 20 paths */
        alternate_from_here(80, 0);
    }
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
