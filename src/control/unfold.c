/* SPDX-License-Identifier: MIT */
/* unfold.c - leaves folded functions unfolded for a time, so that dumps show each turn of a
 * recursion. */
#include "control/unfold.h"
#include "base/options.h"
#include "context/tree.h"
#include "path/functions.h"

#define UNFOLDINGS_MAX 8 /* greatest number of unfoldings at one time */
/* The search for functions that recur together (add_others) ignores nodes from this number on. */
#define NODES_LOOKED_AT 65536U
#define PASSES_MAX 4   /* greatest number of passes of add_others */
#define LEVELS_MAX 512 /* longest path that is followed, in nodes */
#define NS_PER_S 1000000000ULL

/* A function is in at most one unfolding. The control thread writes this table, or a thread that
 * has ended the control thread. A forked child inherits its parent's unfoldings, and the child's
 * control thread ends them. */
static struct unfolding {
    uint64_t until_ns; /* 0: the place is free */
    struct function_set functions;
} unfoldings[UNFOLDINGS_MAX];

/* Returns the number of a node's function among the folded functions (path/functions.h); 0: the
 * function is not one of them, or its library was closed. */
static uint32_t number_of(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    const struct module *module = unwind_rules_module(node->module);
    return module && !load_acquire(&module->closed) ? function_number(node->address, node->exact)
                                                    : 0;
}

static void add(struct function_set *set, uint32_t id) {
    uint32_t number = number_of(id);
    if (number)
        function_set_add(set, number);
}

/* Returns the node or its nearest ancestor whose function was folded; TREE_ROOT: there is none. */
static uint32_t recursive_at(uint32_t id) {
    while (id != TREE_ROOT && !(load_relaxed(&tree_node(id)->flags) & TREE_FOLDED))
        id = tree_node(id)->parent;
    return id;
}

/* Adds the functions of a folded node's loop (tree_loop), as far as they are known. */
static void add_loop(struct function_set *set, uint32_t node) {
    uint32_t outer = tree_node(node)->parent, at = tree_loop(node);
    for (int level = 0; level < LEVELS_MAX && at != TREE_ROOT && at != outer; level++) {
        add(set, at);
        at = tree_node(at)->parent;
    }
}

/* True when one of the functions is folded at this node or at one of its ancestors. */
static bool stands_below(uint32_t id, const struct function_set *set) {
    for (int level = 0; level < LEVELS_MAX && id != TREE_ROOT; level++) {
        const struct tree_node *node = tree_node(id);
        if (load_relaxed(&node->flags) & TREE_FOLDED) {
            uint32_t number = number_of(id);
            if (number && function_set_has(set, number))
                return true;
        }
        id = node->parent;
    }
    return false;
}

/* Adds all functions that recur together with the functions of the set. If one of these functions
 * stayed folded, its loop would swallow most turns of the other functions. */
static void add_others(struct function_set *set) {
    uint32_t count = tree_count();
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        struct function_set before = *set;
        for (uint32_t id = TREE_FIXED_COUNT; id < count && id < NODES_LOOKED_AT; id++) {
            uint32_t number = tree_is_gone(id) ? 0 : number_of(id);
            if (number && !function_set_has(set, number) && stands_below(id, set))
                function_set_add(set, number);
        }
        if (!__builtin_memcmp(&before, set, sizeof before))
            break;
    }
}

static int count_of(const struct function_set *set) {
    int count = 0;
    for (unsigned i = 0; i < sizeof set->bits / sizeof set->bits[0]; i++)
        count += __builtin_popcountll(set->bits[i]);
    return count;
}

/* Tells the folding code which functions are unfolded; returns their number. */
static int apply(void) {
    struct function_set all = {0};
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++)
        for (unsigned k = 0; k < sizeof all.bits / sizeof all.bits[0]; k++)
            all.bits[k] |= unfoldings[i].functions.bits[k];
    functions_unfold(&all);
    return count_of(&all);
}

/* Removes the functions from all unfoldings, and ends the unfoldings that become empty. */
static void take_out(const struct function_set *set) {
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++) {
        struct unfolding *unfolding = &unfoldings[i];
        for (unsigned k = 0; k < sizeof set->bits / sizeof set->bits[0]; k++)
            unfolding->functions.bits[k] &= ~set->bits[k];
        if (!count_of(&unfolding->functions))
            unfolding->until_ns = 0;
    }
}

/* Returns when the last unfolding ends; 0: nothing is unfolded. */
static uint64_t last_end_ns(void) {
    uint64_t last = 0;
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++)
        last = unfoldings[i].until_ns > last ? unfoldings[i].until_ns : last;
    return last;
}

/* Adds to the set the folded functions on the paths of the contexts that the request names. False:
 * a context does not exist, or no function on its path is folded; `text` has the reason. */
static bool find_functions(const struct wire_contexts_request *request, struct function_set *set,
                           struct text *text) {
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t id = request->contexts[i];
        bool exists = tree_is_id(id);
        uint32_t node = exists ? recursive_at(id) : TREE_ROOT;
        if (node != TREE_ROOT) {
            add(set, node);
            add_loop(set, node);
            continue;
        }
        text_add(text, exists ? "context " : "no context has the id ");
        text_add_number(text, id);
        if (exists)
            text_add(text, " is not recursive; nothing on its path is folded");
        text_add(text, "; choose one that memctx dump shows as (recursive: ...)");
        return false;
    }
    return true;
}

static bool begin(const struct function_set *set, uint64_t until_ns, struct text *text) {
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++)
        if (!unfoldings[i].until_ns) {
            unfoldings[i] = (struct unfolding){until_ns, *set};
            return true;
        }
    text_add(text, "too many recursions are unfolded already; fold one first: memctx set TARGET "
                   "CONTEXT fold");
    return false;
}

uint32_t unfold_run(const struct wire_contexts_request *request, struct text *text) {
    struct function_set set = {0};
    uint64_t seconds = request->verb;
    if (seconds > WIRE_UNFOLD_SECONDS_MAX) {
        text_add(text, "a recursion can be unfolded for a day at most; ask for less time");
        return WIRE_REFUSED;
    }
    if (seconds && load_relaxed(&options.fold) == FOLD_OFF) {
        text_add(text, "MEMCTX_FOLD is off; new call paths keep each turn of a recursion until "
                       "memctx set TARGET fold=auto");
        return WIRE_REFUSED;
    }
    if (!find_functions(request, &set, text))
        return WIRE_REFUSED;
    if (!count_of(&set)) {
        text_add(text, "the library with these functions was closed; choose another context");
        return WIRE_REFUSED;
    }
    struct unfolding before[UNFOLDINGS_MAX];
    __builtin_memcpy(before, unfoldings, sizeof before);
    add_others(&set);
    int64_t unfolded = unfold_count();
    take_out(&set);
    int64_t ended = unfolded - unfold_count();
    if (seconds && !begin(&set, os_now_exact_ns() + seconds * NS_PER_S, text)) {
        __builtin_memcpy(unfoldings, before, sizeof before);
        return WIRE_REFUSED;
    }
    int all = apply();
    text_add_number(text, seconds ? count_of(&set) : ended);
    text_add(text, "\t");
    text_add_number(text, all);
    text_add(text, "\t");
    text_add_number(text, unfold_seconds_left());
    return WIRE_OK;
}

int64_t unfold_seconds_left(void) {
    uint64_t now = os_now_exact_ns(), last = last_end_ns();
    return last > now ? (int64_t)((last - now + NS_PER_S - 1) / NS_PER_S) : 0;
}

int64_t unfold_count(void) {
    int64_t count = 0;
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++)
        count += count_of(&unfoldings[i].functions);
    return count;
}

static void end_before(uint64_t now_ns) {
    bool ends = false;
    for (unsigned i = 0; i < UNFOLDINGS_MAX; i++)
        if (unfoldings[i].until_ns && unfoldings[i].until_ns <= now_ns) {
            unfoldings[i] = (struct unfolding){0};
            ends = true;
        }
    if (ends)
        apply();
}

void unfold_look(void) {
    if (last_end_ns())
        end_before(os_now_exact_ns());
}

void unfold_end(void) {
    end_before(UINT64_MAX);
}
