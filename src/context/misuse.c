/* SPDX-License-Identifier: MIT */
/* What is said of a chunk that a program misused, beside the line that names it: the call path that allocated it,
 * and the one that just misused it, in a form that addr2line takes. The process is about to end. */
#include "context/named.h"
#include "context/tree.h"
#include "path/stack.h"
#include "region/region.h"

#define FRAMES_SHOWN 40U

/* One line of a path: the object's file and the place of the call in it. */
static void print_frame(uintptr_t address, bool exact, uint32_t module_index) {
    char line[512];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    const struct module *module =
        module_index < rules_module_count() ? rules_module(module_index) : NULL;
    address -= !exact; /* a return address may be that of the next line, or function */
    text_add(&text, "memctx:     ");
    if (module && module->path) {
        text_add(&text, module->path);
        text_add(&text, "+");
        address -= module->bias;
    }
    text_add_hex(&text, address);
    text_add(&text, "\n");
    os_print(&text);
}

static void print_line(const char *line) {
    os_print(&(struct text){.bytes = (char *)(uintptr_t)line, .length = text_length(line)});
}

static void print_context(uint32_t context) {
    print_line("memctx:   allocated by\n");
    if (context >= tree_count())
        context = TREE_UNKNOWN;
    if (context < TREE_FIXED_COUNT)
        print_line("memctx:     a call path that is not known\n");
    for (unsigned i = 0; i < FRAMES_SHOWN && context >= TREE_FIXED_COUNT; i++) {
        const struct tree_node *node = tree_node(context);
        if (tree_is_named(context)) {
            print_line("memctx:     the named context ");
            print_line(named_name(context));
            print_line("\n");
            return;
        }
        print_frame(node->address, node->exact, node->module);
        context = node->parent;
    }
}

/* Frames of this library are left out. */
static void print_caller(uintptr_t frame, bool found) {
    static struct stack stack;
    struct cfi_object self;
    if (!stack_make_room(&stack, FRAMES_SHOWN) || !cfi_find_object((uintptr_t)&print_caller, &self))
        return;
    stack_walk(&stack, frame, FRAMES_SHOWN);
    print_line(found ? "memctx:   found by\n" : "memctx:   misused by\n");
    for (uint32_t i = stack.count; i-- > 0;) {
        const struct stack_frame *at = &stack.frames[i];
        if (at->address < self.start || at->address >= self.end)
            print_frame(at->address, at->exact, rule_module(at->rule));
    }
}

COLD void misuse_explain(uint32_t context, bool found) {
    static bool once; /* a handler of the SIGABRT that follows may come here again */
    if (exchange_relaxed(&once, true))
        return;
    if (context != REGION_NO_CONTEXT)
        print_context(context);
    if (!lock_any_is_mine()) /* a handler that interrupted us: finding rules might want that lock */
        print_caller((uintptr_t)__builtin_frame_address(0), found);
    print_line("memctx:   names: addr2line -Cfipe FILE OFFSET\n");
}
