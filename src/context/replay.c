/* SPDX-License-Identifier: MIT */
/* Notes changes of the walked stack and replays them; see replay.h. */
#include "context/replay.h"
#include "context/admit.h"
#include "os/meta.h"
#include "region/tables.h"

/* A change of the walked stack. An example, with the outermost frame first:
 *
 *     last path   main > read > list > item > text      the last walk ended at text
 *     new path    main > read > list > pair             noted: left = 2 (item, text), count = 1
 *                               stay   frames[0]        (pair), stay = the node of list
 *
 * A replay compares the words of the new frames (may_be) and the words that prove `stay` and the
 * frames further out (all_hold). If all are equal, it writes the new frames into struct stack as a
 * walk would (put). */
struct change {
    uint64_t key; /* the node of the last path, and how far the stack pointer moved */
    struct view *view;
    uint32_t stay;       /* the node of the innermost frame that stayed */
    uint32_t stay_above; /* distance of that frame's stack pointer above the new innermost one */
    uint16_t left;       /* number of frames that the program left */
    uint16_t count;      /* number of new frames */
    /* place of the word with the rbp of the frame that stays. This and all other places are counted
     * in words of 8 bytes, from the exported function's frame pointer upwards. */
    uint16_t stay_rbp_at;
    uint16_t stay_length; /* length of that frame's path */
    struct {              /* the new frames, the outermost first */
        uintptr_t address;
        uint64_t rule;
        uint32_t node, low_proof; /* low_proof: the lower half of stack_frame.proof */
        uint16_t sp;              /* place of the frame's stack pointer */
        uint16_t saved;  /* place of the word with the caller's rbp; 0: the frame keeps rbp */
        uint16_t rbp;    /* place that the frame's rbp points to; 0: the walk does not use it */
        uint16_t rbp_at; /* place of the word with the frame's rbp */
    } frames[REPLAY_FRAMES];
};
#define PLACE_MAX UINT16_MAX
#define BEFORE_SHIFT 17 /* position of the field `before` in stack_frame.proof */

struct replays {
    uint32_t bits; /* base-2 logarithm of the number of `changes` */
    /* number of notes that replaced another note, since the last look (LOOK_EVERY) */
    uint32_t replaced;
    /* State of the stack before the walk. sp: stack pointer of the innermost frame; 0: nothing can
     * be noted. node: node of the innermost frame. count: number of frames. */
    uintptr_t sp;
    uint32_t node, count;
    /* The view that the last replay or walk led to; NULL: none. It is the view of the walked stack
     * if its context is the innermost frame's node. */
    struct view *view;
    uint32_t pause; /* number of next walks during which no replay is tried */
    /* number of walks since replay_before last counted the replays that served */
    uint32_t walks;
    uint64_t replayed; /* value of paths.replayed when replay_before last counted */
    struct change changes[];
};
/* Replays pause when fewer than REPLAYED_LEAST replays served during LOOK_EVERY walks. */
#define LOOK_EVERY 1024U
#define REPLAYED_LEAST 16U
#define PAUSE_FOR (8U * LOOK_EVERY)
/* The notes move to a larger table when more than this many notes replaced another note during
 * LOOK_EVERY walks. */
#define REPLACED_MANY (LOOK_EVERY / 2)
/* A heap whose table was given back gets a new one after this many walks. Threads that adopt the
 * heap one after the other, and make few allocations each, need no table. */
#define WAIT_AFTER_END 256U
#define BITS_FIRST 8U /* values of `bits` for the first table and for the larger one */
#define BITS_GROWN 10U

/* Returns the key of a change from a path with the node `from`, when the stack pointer moved by
 * `moved` bytes. The key is not 0, because `from` is not the root. */
INLINE uint64_t key_of(uint32_t from, uint32_t moved) {
    return (uint64_t)from << 32 | moved;
}

/* Returns the first of the REPLAY_WAYS entries for changes with this key that lead to a stack with
 * this innermost return address. Such changes differ in the frames that stay, or in the new frames
 * between. */
INLINE struct change *changes_at(struct replays *replays, uint64_t key, uintptr_t address) {
    uint64_t place = (key ^ address << 24) * 0x9e3779b97f4a7c15ULL >> (64 - replays->bits);
    return &replays->changes[place & ~(uint64_t)(REPLAY_WAYS - 1)];
}
INLINE uint64_t word_at(uintptr_t address) {
    return *(const volatile uint64_t *)address;
}

INLINE uintptr_t at_place(uintptr_t frame, uint16_t place) {
    return frame + place * 8UL;
}

/* True if all words that prove frame `i` and the frames further out are on the stack. */
INLINE bool all_hold(const struct stack *stack, int i) {
    return stack_compare(stack->checks + stack->frames[i].checks, stack->checks) == stack->checks;
}

/* Puts the new frames of the change behind frame `stay`. `base`: the exported function's frame
 * pointer.
 *
 * Each new frame is proven by the word below the stack pointer of the frame before it, which is the
 * return address into that frame; if the walk finds the new frame's caller by rbp, also by the word
 * with this rbp. `use` becomes rbp_use of the new frame: the check of its rbp, or -1 if no frame
 * further out uses this rbp. A frame that saved its caller's rbp may have changed rbp, so frames
 * further out then use the saved word (stay_rbp_at). */
INLINE void put(struct stack *stack, const struct change *change, unsigned stay, uintptr_t base) {
    struct stack_frame *frame = &stack->frames[stay];
    struct stack_check *check = &stack->checks[frame->checks];
    uintptr_t outer_sp = frame->sp, address = frame->address;
    uint64_t proof = STACK_PROOF_NO_USE(STACK_PROOF_FRESH(frame->proof));
    int16_t use = frame->rbp_use;
    for (unsigned i = 0; i < change->count; i++) {
        uint16_t saved = change->frames[i].saved, rbp = change->frames[i].rbp;
        proof += STACK_PROOF_CHECK;
        *check++ = (struct stack_check){outer_sp - 8, address};
        frame++;
        frame->address = address = change->frames[i].address;
        frame->sp = outer_sp = at_place(base, change->frames[i].sp);
        frame->rule = change->frames[i].rule;
        frame->caller_rbp = saved ? at_place(base, saved) : RBP_KEPT;
        frame->node = change->frames[i].node;
        frame->hash = UINT32_MAX; /* all folded functions may be on the path */
        use = saved ? -1 : use;
        if (UNLIKELY(rbp)) {
            use = (int16_t)(check - stack->checks);
            proof += STACK_PROOF_CHECK;
            *check++ =
                (struct stack_check){at_place(base, change->frames[i].rbp_at), at_place(base, rbp)};
        }
        frame->proof = proof | change->frames[i].low_proof;
        if (UNLIKELY(use >= 0))
            frame->rbp_use = use;
    }
    stack->count = stay + 1 + change->count;
    stack->check_count = (uint32_t)(check - stack->checks);
}

/* True if there is room for the new frames and their checks. A recursion whose functions are folded
 * has one change at each level, so replays alone may come to a stack of any depth. */
INLINE bool has_room(const struct stack *stack, int stay, const struct change *change) {
    return (unsigned)stay + 1 + change->count <= stack->room &&
           stack->frames[stay].checks + 2U * change->count <= stack->room * 2;
}

/* Compares the stack at `sp` with the change: the frame that stays, and the words of the new
 * frames. Returns the frame that stays; -1: the change does not lead to this stack. The words that
 * prove the frames further out are still to be compared (all_hold). */
INLINE int may_be(const struct stack *stack, const struct change *change, uintptr_t sp) {
    int stay = (int)stack->count - 1 - change->left;
    const struct stack_frame *kept = &stack->frames[stay];
    uintptr_t base = sp - 16;
    if (stay < 0 || kept->node != change->stay || kept->length != change->stay_length ||
        kept->sp != sp + change->stay_above || kept->sp > stack->high ||
        (kept->rbp_use >= 0 &&
         word_at(at_place(base, change->stay_rbp_at)) != stack->checks[kept->rbp_use].value))
        return -1;
    /* From the innermost new frame on: each word proves that the next one may be read. */
    for (unsigned i = change->count; i-- > 0;) {
        uint16_t rbp = change->frames[i].rbp;
        if (word_at(at_place(base, change->frames[i].sp) - 8) != change->frames[i].address ||
            (rbp && word_at(at_place(base, change->frames[i].rbp_at)) != at_place(base, rbp)))
            return -1;
    }
    return stay;
}

/* Like all_hold, for a frame whose rbp a frame further out uses (rbp_use >= 0). This rbp stands in
 * the word at `rbp_at` now. If all words hold, the check of rbp is moved to that word. */
__attribute__((no_sanitize("address"))) static NOINLINE bool
all_hold_with_rbp(struct stack *stack, int i, uintptr_t rbp_at) {
    struct stack_check *check = &stack->checks[stack->frames[i].rbp_use];
    uintptr_t before = check->at;
    check->at = rbp_at;
    if (LIKELY(all_hold(stack, i)))
        return true;
    check->at = before;
    return false;
}

/* The words that proved the frames of an earlier walk may have any use now. Some may lie in the
 * gaps between variables, where AddressSanitizer would report the reads. */
__attribute__((no_sanitize("address"))) struct view *replay(struct paths *paths, uintptr_t frame) {
    struct stack *stack = &paths->stack;
    struct replays *replays = paths->replays;
    uintptr_t sp = frame + 16;
    if (UNLIKELY(!replays) || UNLIKELY(!stack->count) ||
        UNLIKELY(paths->nodes_valid != stack->count) || UNLIKELY(frame < stack->low) ||
        replays->pause)
        return NULL;
    const struct stack_frame *last = &stack->frames[stack->count - 1];
    int64_t moved = (int64_t)(sp - last->sp);
    struct view *same = replays->view;
    if (!moved && same && same->context == last->node && word_at(sp - 8) == last->address &&
        all_hold(stack, (int)stack->count - 1))
        return same;
    uint64_t key = key_of(last->node, (uint32_t)moved);
    const struct change *change = changes_at(replays, key, word_at(sp - 8)),
                        *end = change + REPLAY_WAYS;
    for (; change != end; change++) {
        if (change->key != key)
            continue;
        int stay = may_be(stack, change, sp);
        if (stay < 0)
            continue;
        bool uses_rbp = UNLIKELY(stack->frames[stay].rbp_use >= 0);
        if (UNLIKELY(!has_room(stack, stay, change)) ||
            word_at(stack->frames[stay].sp - 8) != stack->frames[stay].address ||
            !(uses_rbp ? all_hold_with_rbp(stack, stay, at_place(frame, change->stay_rbp_at))
                       : all_hold(stack, stay)))
            return NULL;
        put(stack, change, (unsigned)stay, frame);
        paths->nodes_valid = stack->count;
        replays->view = change->view;
        return change->view;
    }
    return NULL;
}

static size_t bytes_of(uint32_t bits) {
    return sizeof(struct replays) + (sizeof(struct change) << bits);
}

/* Returns an empty table. NULL: no memory, or the budget has no room for it. */
static struct replays *make_replays(uint32_t bits) {
    if (!tables_take((int64_t)bytes_of(bits), TABLES_TRACE))
        return NULL;
    struct replays *replays = meta_alloc(bytes_of(bits));
    if (replays)
        replays->bits = bits;
    else
        tables_add_traces(-(int64_t)bytes_of(bits));
    return replays;
}

static struct replays *make_first(struct paths *paths) {
    if (paths->replay_wait) {
        paths->replay_wait--;
        return NULL;
    }
    paths->replays = make_replays(BITS_FIRST);
    /* The thread's traces, which are passed over now, may have used up the share. */
    if (!paths->replays && paths->trace_room > CACHE_TRACES_FIRST)
        cache_shrink(paths);
    return paths->replays;
}

/* Replaces the table by a larger one, which has no notes yet. False: there is no room for it. */
static NOINLINE bool grow(struct paths *paths) {
    bool crowded = tables_are_crowded((int64_t)bytes_of(BITS_GROWN));
    struct replays *larger = crowded ? NULL : make_replays(BITS_GROWN);
    if (!larger)
        return false;
    replay_end(paths);
    larger->replayed = paths->replayed;
    paths->replays = larger;
    return true;
}

void replay_before(struct paths *paths) {
    const struct stack *stack = &paths->stack;
    struct replays *replays = paths->replays;
    if (UNLIKELY(!replays) && !(replays = make_first(paths)))
        return;
    replays->sp = 0;
    if (replays->pause) {
        replays->pause--;
        return;
    }
    if (UNLIKELY(++replays->walks == LOOK_EVERY)) {
        if (replays->replaced > REPLACED_MANY && replays->bits < BITS_GROWN && grow(paths))
            return;
        replays->pause = paths->replayed - replays->replayed < REPLAYED_LEAST ? PAUSE_FOR : 0;
        replays->replayed = paths->replayed;
        replays->walks = replays->replaced = 0;
    }
    bool known = stack->count && paths->nodes_valid == stack->count &&
                 paths->first_cold == UINT32_MAX && stack->frames[stack->count - 1].length;
    if (!known)
        return;
    replays->sp = stack->frames[stack->count - 1].sp;
    replays->node = stack->frames[stack->count - 1].node;
    replays->count = stack->count;
}

/* True if the frame finds its caller by the stack pointer or by rbp, and the caller's rbp by the
 * CFA. */
static bool is_plain(const struct stack_frame *frame) {
    enum cfi_kind kind = rule_kind(frame->rule);
    return frame->length && !frame->exact && (kind == CFI_SP || kind == CFI_RBP) &&
           rule_rbp(frame->rule) <= CFI_RBP_AT_CFA;
}

/* Returns the place of an address; a number greater than PLACE_MAX: the change cannot be noted. */
static uintptr_t place_of(uintptr_t frame, uintptr_t address) {
    uintptr_t bytes = address - frame;
    return bytes % 8 ? UINTPTR_MAX : bytes / 8;
}

/* Returns the place for a new note: an empty one, or else one with a change from and to the nodes
 * of the new note, or else any. */
static struct change *change_to_replace(struct replays *replays, const struct change *change,
                                        uintptr_t address) {
    struct change *places = changes_at(replays, change->key, address);
    unsigned way = 0;
    while (way < REPLAY_WAYS && places[way].key)
        way++;
    if (way < REPLAY_WAYS)
        return &places[way];
    for (way = 0; way < REPLAY_WAYS; way++)
        if (places[way].key == change->key && places[way].stay == change->stay)
            return &places[way];
    return &places[replays->walks % REPLAY_WAYS];
}

void replay_note(struct paths *paths, struct view *view) {
    const struct stack *stack = &paths->stack;
    struct replays *replays = paths->replays;
    if (replays)
        replays->view = view;
    if (!replays || !replays->sp || paths->nodes_valid != stack->count ||
        paths->first_cold != UINT32_MAX)
        return;
    /* If all frames are kept, the path has not changed: notes the innermost frame as if it were
     * new. */
    uint32_t kept = stack->kept < stack->count ? stack->kept : stack->count - 1;
    uint32_t count = stack->count - kept;
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    if (!kept || !count || count > REPLAY_FRAMES || replays->count < kept ||
        replays->count - kept > UINT16_MAX || view->context != leaf->node)
        return;
    const struct stack_frame *stay = &stack->frames[kept - 1];
    int64_t moved = (int64_t)(leaf->sp - replays->sp);
    if (!stay->length || stay->sp - leaf->sp > UINT32_MAX || moved != (int32_t)moved)
        return;
    struct change change = {.key = key_of(replays->node, (uint32_t)moved),
                            .view = view,
                            .stay = stay->node,
                            .stay_above = (uint32_t)(stay->sp - leaf->sp),
                            .left = (uint16_t)(replays->count - kept),
                            .count = (uint16_t)count,
                            .stay_length = stay->length};
    uintptr_t base = leaf->sp - 16, rbp_at = 0;
    for (uint32_t i = count; i-- > 0;) { /* from the innermost frame on, to know where rbp is */
        const struct stack_frame *frame = &stack->frames[kept + i];
        bool saves = frame->caller_rbp != RBP_KEPT, uses = rule_kind(frame->rule) == CFI_RBP;
        uintptr_t cfa = frame[-1].sp, sp = place_of(base, frame->sp);
        uintptr_t saved = saves ? place_of(base, frame->caller_rbp) : 0;
        uintptr_t offset = (uintptr_t)(intptr_t)rule_cfa_offset(frame->rule);
        uintptr_t rbp = uses ? place_of(base, cfa - offset) : 0;
        if (!is_plain(frame) || sp > PLACE_MAX || saved > PLACE_MAX || rbp > PLACE_MAX ||
            (uses && !rbp) || (saves && frame->caller_rbp >= cfa))
            return;
        change.frames[i].address = frame->address;
        change.frames[i].rule = frame->rule;
        change.frames[i].node = frame->node;
        change.frames[i].low_proof = frame->length | ADMIT_BEFORE_UNKNOWN << BEFORE_SHIFT;
        change.frames[i].sp = (uint16_t)sp;
        change.frames[i].saved = (uint16_t)saved;
        change.frames[i].rbp = (uint16_t)rbp;
        change.frames[i].rbp_at = (uint16_t)rbp_at;
        rbp_at = saves ? saved : rbp_at;
    }
    change.stay_rbp_at = (uint16_t)rbp_at;
    struct change *place = change_to_replace(replays, &change, leaf->address);
    replays->replaced += place->key && place->key != change.key;
    *place = change;
}

void replay_forget(struct paths *paths) {
    if (paths->replays)
        paths->replays->view = NULL;
    for (uint32_t i = 0; paths->replays && !(i >> paths->replays->bits); i++)
        paths->replays->changes[i].key = 0;
}

void replay_hope(struct paths *paths) {
    struct replays *replays = paths->replays;
    if (!replays)
        return;
    replays->pause = replays->walks = replays->replaced = 0;
    replays->replayed = paths->replayed;
}

bool replay_is_grown(const struct paths *paths) {
    return paths->replays && paths->replays->bits > BITS_FIRST;
}

void replay_end(struct paths *paths) {
    if (!paths->replays)
        return;
    size_t bytes = bytes_of(paths->replays->bits);
    tables_add_traces(-(int64_t)bytes);
    meta_free(paths->replays, bytes);
    paths->replays = NULL;
    paths->replay_wait = WAIT_AFTER_END;
}
