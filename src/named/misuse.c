/* SPDX-License-Identifier: MIT */
/* misuse.c - prints the call path that allocated a misused chunk and the call path that misused it,
 * in a form that addr2line takes. The region layer has printed a line that names the chunk, and
 * ends the process afterwards. Also prints the call path that passed the limit of a rule. */
#include "named/misuse.h"
#include "context/evict.h"
#include "context/tree.h"
#include "named/named.h"
#include "path/stack.h"
#include "region/guard.h"
#include "region/region.h"
#include "region/terms.h"

#define FRAMES_SHOWN 40U

static void print_line(const char *line) {
    os_print(&(struct text){.bytes = (char *)(uintptr_t)line, .length = text_length(line)});
}

#define OFFSET_BYTES 24U /* of "+0x", 16 digits and a line feed */

/* Prints one line of a path: the object's file, and the offset of the call in that file. */
static void print_frame(uintptr_t address, bool exact, uint32_t module_index) {
    char line[512];
    struct text text = {.bytes = line, .capacity = sizeof line - OFFSET_BYTES};
    const struct module *module =
        module_index < unwind_rules_module_count() ? unwind_rules_module(module_index) : NULL;
    address -= !exact; /* a return address may belong to the next line, or to the next function */
    text_add(&text, "memctx:     ");
    if (module && module->path) {
        text_add(&text, module->path);
        if (text.full) { /* addr2line needs the whole path */
            print_line("memctx:     ");
            print_line(module->path);
            text.length = 0;
        }
        text.capacity = sizeof line;
        text_add(&text, "+");
        address -= module->bias;
    }
    text_add_hex(&text, address);
    text_add(&text, "\n");
    os_print(&text);
}

static const char names_hint[] = "memctx:   names: addr2line -Cfipe FILE OFFSET\n";

static void print_named(uint32_t context) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    text_add(&text, "memctx:     the named context ");
    text_add_word(&text, named_name(context), NAMED_SHOWN);
    text_add(&text, "\n");
    os_print(&text);
}

static void print_context(uint32_t context) {
    if (!tree_is_id(context)) /* the context was removed after it allocated */
        context = TREE_UNKNOWN;
    if (context < TREE_FIXED_COUNT)
        print_line("memctx:     an unknown call path\n");
    for (unsigned i = 0; i < FRAMES_SHOWN && context >= TREE_FIXED_COUNT; i++) {
        const struct tree_node *node = tree_node(context);
        if (tree_is_named(context)) {
            print_named(context);
            return;
        }
        print_frame(node->address, node->exact, node->module);
        context = node->parent;
    }
}

/* Calls `each` for the frames from `frame` outwards. Leaves out frames in the code of this library,
 * and the code to which a signal handler returns: the frame directly inside a frame that a signal
 * interrupted (`exact`). */
static void each_caller(struct stack *stack, uintptr_t frame, unsigned max,
                        void (*each)(const struct stack_frame *at, void *context), void *context) {
    struct cfi_object self;
    if (!stack_make_room(stack, max) || !cfi_find_object((uintptr_t)&each_caller, &self))
        return;
    /* The frames and bounds in `stack` may be of another thread, or of code that dlclose unmapped
     * since: forget them. */
    stack->count = 0;
    stack->low = stack->high = 0;
    stack_walk(stack, frame, max);
    for (uint32_t i = stack->count; i-- > 0;) {
        const struct stack_frame *at = &stack->frames[i];
        bool returns_from_signal = i > 0 && stack->frames[i - 1].exact;
        if ((at->address < self.start || at->address >= self.end) && !returns_from_signal)
            each(at, context);
    }
}

static void print_caller(const struct stack_frame *at, void *context) {
    (void)context;
    print_frame(at->address, at->exact, rule_module(at->rule));
}

struct callers {
    uintptr_t *addresses;
    unsigned count, max;
};

static void note_caller(const struct stack_frame *at, void *context) {
    struct callers *callers = context;
    if (callers->count < callers->max)
        /* print_frame, which gets these addresses later, subtracts 1 */
        callers->addresses[callers->count++] = at->address + at->exact;
}

unsigned misuse_callers(uintptr_t frame, uintptr_t *addresses, unsigned max) {
    static struct stack stack; /* under region_lock */
    struct callers callers = {.addresses = addresses, .max = max};
    each_caller(&stack, frame, FRAMES_SHOWN, note_caller, &callers);
    return callers.count;
}

static void print_callers(const char *line) {
    static struct stack stack; /* misuse_explain and misuse_explain_guarded each come here once */
    /* If a signal handler interrupted this thread while the thread held a lock, nothing is printed,
     * because finding unwind rules may take that lock. */
    if (lock_any_is_mine())
        return;
    print_line(line);
    each_caller(&stack, (uintptr_t)__builtin_frame_address(0), FRAMES_SHOWN, print_caller, NULL);
}

/* `found`: the chunk is alive. If call paths were evicted, the account of a freed chunk may belong
 * to another call path by now. */
static void tell_allocated(bool found) {
    print_line(found || !load_relaxed(&evict_views_all)
                   ? "memctx:   allocated by\n"
                   : "memctx:   probably allocated by (call paths were removed meanwhile)\n");
}

COLD void misuse_explain(uint32_t context, bool found) {
    static bool once; /* the program's handler of SIGABRT may misuse a chunk, too */
    if (exchange_relaxed(&once, true))
        return;
    if (context != REGION_NO_CONTEXT) {
        tell_allocated(found);
        print_context(context);
    }
    print_callers(found ? "memctx:   found by\n" : "memctx:   misused by\n");
    print_line(names_hint);
}

COLD void misuse_explain_guarded(uint32_t context, const uintptr_t *freed_by, unsigned count) {
    static bool once;
    if (exchange_relaxed(&once, true))
        return;
    tell_allocated(false);
    print_context(context);
    if (count)
        print_line("memctx:   freed by\n");
    for (unsigned i = 0; i < count; i++)
        print_frame(freed_by[i], false, rule_module(unwind_rules_find(freed_by[i], false)));
    print_callers("memctx:   misused by\n");
    print_line(names_hint);
}

COLD void misuse_tell_limit(const struct terms *terms, uint32_t context) {
    char line[512];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    const char *rule = load_relaxed(&terms->rule);
    if (!rule) /* the rules were cleared just now */
        return;
    text_add(&text, "memctx: the limit of the rule ");
    text_add_word(&text, rule, 300);
    text_add(&text, " is exceeded; its latest allocation\n");
    os_print(&text);
    print_context(context);
    print_line(names_hint);
}
