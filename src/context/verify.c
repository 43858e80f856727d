/* SPDX-License-Identifier: MIT */
/* Compares a context's path with libunwind's; see verify.h. */
#include "context/verify.h"
#include "context/tree.h"
#include "path/functions.h"
#include "path/oracle.h"
#include "path/stack.h"

#define FRAMES_MAX STACK_DEPTH_MAX

struct path { /* innermost first */
    uintptr_t addresses[FRAMES_MAX];
    unsigned count;
};

static uint32_t folded_number(uintptr_t address) {
    return rule_folded(unwind_rules_find(address, false));
}

/* Makes the path of a stack and erases its loops, as prefix.c does: goes from the outermost frame
 * inwards, and skips from the first frame of a folded function to the function's innermost frame.
 */
static void fold(const struct path *raw, unsigned count, struct path *folded) {
    uintptr_t outermost_first[FRAMES_MAX];
    unsigned put = 0;
    for (unsigned i = count; i-- > 0;) {
        uint32_t number = folded_number(raw->addresses[i]);
        for (unsigned inner = 0; number && inner < i; inner++)
            if (folded_number(raw->addresses[inner]) == number)
                i = inner;
        outermost_first[put++] = raw->addresses[i];
    }
    folded->count = put;
    for (unsigned i = 0; i < put; i++)
        folded->addresses[i] = outermost_first[put - 1 - i];
}

/* Returns the index of the first frame that differs; `count`: no frame does. */
static unsigned compare(const uintptr_t *ours, const uintptr_t *theirs, unsigned count) {
    unsigned at = 0;
    while (at < count && ours[at] == theirs[at])
        at++;
    return at;
}

/* Reads the path's nodes, innermost first. *sites is the number of nodes below [other callers]; 0:
 * the path has no such label. Returns the fixed node where the path begins. */
static uint32_t read_path(uint32_t context, struct path *path, unsigned *sites) {
    uint32_t id = context;
    *sites = 0;
    path->count = 0;
    for (; id >= TREE_FIXED_COUNT && path->count < FRAMES_MAX; id = tree_node(id)->parent)
        if (tree_node(id)->module == MODULE_OTHERS)
            *sites = path->count;
        else
            path->addresses[path->count++] = tree_node(id)->address;
    if (id == TREE_OTHERS) {
        *sites = path->count;
        id = TREE_ROOT;
    }
    return id;
}

/* Cuts off the frames beyond `outermost`, which has no unwind information. libunwind guesses them,
 * and guessed frames must not decide which loops are erased. */
static void cut_guesses(struct path *raw, uintptr_t outermost) {
    for (unsigned i = 0; i < raw->count; i++)
        if (raw->addresses[i] == outermost)
            raw->count = i + 1;
}

/* Makes the path of a stack whose outer frames are not known, from the innermost `depth` frames. */
static void cut(const struct path *raw, unsigned depth, bool folding, struct path *path) {
    unsigned count = raw->count < depth ? raw->count : depth;
    unsigned whole = count;
    while (folding && count && folded_number(raw->addresses[count - 1]))
        count--;
    if (folding) {
        fold(raw, count ? count : whole, path);
        return;
    }
    __builtin_memcpy(path->addresses, raw->addresses, count * sizeof raw->addresses[0]);
    path->count = count;
}

static NOINLINE void judge_path(uint32_t context, unsigned depth, uint32_t fold_epoch) {
    bool folding = fold_epoch;
    struct path ours, raw, folded;
    unsigned sites;
    bool complete;
    uint32_t root = read_path(context, &ours, &sites);
    if (!ours.count)
        return;
    raw.count = oracle_walk(ours.addresses[0], raw.addresses, FRAMES_MAX, &complete);
    if (!raw.count)
        return;
    if (root == TREE_NO_CFI)
        cut_guesses(&raw, ours.addresses[ours.count - 1]);
    /* between the site and the ancestor the tree lacks frames, so only the site is compared */
    if (sites) {
        unsigned at = compare(ours.addresses, raw.addresses, sites < raw.count ? sites : raw.count);
        oracle_judge(ours.addresses, raw.addresses, at, sites, raw.count < sites);
        return;
    }
    if (folding && complete)
        fold(&raw, raw.count, &folded);
    else
        folded = raw;
    unsigned count = folded.count < ours.count ? folded.count : ours.count;
    unsigned at = compare(ours.addresses, folded.addresses, count);
    /* A path that is complete in the tree must be complete for libunwind, too. */
    bool longer = root == TREE_ROOT && complete && folded.count > ours.count;
    if (at < count && root == TREE_TRUNCATED) {
        cut(&raw, depth, folding, &folded);
        count = folded.count < ours.count ? folded.count : ours.count;
        at = compare(ours.addresses, folded.addresses, count);
    }
    if (folding && !complete && at < count)
        return; /* which loops are erased depends on outer frames that libunwind did not reach */
    if (folding && (longer || at < ours.count) && function_epoch_settled() != fold_epoch)
        return; /* other functions are folded now than when the path was found */
    oracle_judge(ours.addresses, folded.addresses, longer ? ours.count - 1 : at,
                 longer ? ours.count : count, folded.count < ours.count);
}

/* Where gcc's -fsplit-stack keeps the end of the present piece of the thread's stack: an offset in
 * the thread control block. 0 in a program that was not built with it. */
#define SPLIT_STACK_END 0x70
#define VERIFY_STACK_BYTES (14U << 10) /* judge_path and libunwind use 11 KiB */

/* The pieces of a stack that grows by -fsplit-stack are small, because only code that was built
 * with this option asks for another piece. */
static bool stack_is_short(void) {
    uintptr_t end, here = (uintptr_t)__builtin_frame_address(0);
    __asm__ volatile("movq %%fs:%c1, %0" : "=r"(end) : "i"(SPLIT_STACK_END));
    return end && here - end < VERIFY_STACK_BYTES;
}

void verify_path(uint32_t context, unsigned depth, uint32_t fold_epoch) {
    if (LIKELY(!stack_is_short()))
        judge_path(context, depth, fold_epoch);
}
