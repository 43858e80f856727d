/* SPDX-License-Identifier: MIT */
/* objects.c - finds the rules that hold for code, object by object; see objects.h. */
#include "rules/objects.h"
#include "os/meta.h"
#include "rules/elf_symbols.h"
#include "rules/patterns.h"

/* The rules that hold in each module, by the module's number. The table is made with the first
 * rule, and guarded by tree_lock. */
static struct object {
    struct rule_ranges functions; /* code of the functions that rules name, from the symbol table */
    struct rule_ranges resolved;  /* code that the command found for rules */
    uint32_t resolved_rules;      /* the command has resolved the rules up to this number */
    uint8_t module_rule;          /* number of the rule for the whole object; 0: none */
    uint8_t read_rules; /* `functions` and `module_rule` know the rules up to this number */
    bool unreadable;    /* the names could not be read for some of these rules */
} * objects;

static uint32_t resolved_count; /* number of resolved ranges in all objects */

bool objects_begin(void) {
    if (!objects)
        objects = meta_alloc(MODULES_MAX * sizeof *objects);
    return objects;
}

/* The functions that the rules name, without those of the first `known` rules. */
struct reading {
    uint32_t known;
    struct rule_ranges ranges;
};

static void add_range(const char *name, uint64_t start, uint64_t end, void *context) {
    struct reading *reading = context;
    for (uint32_t i = reading->known; i < rule_list.count; i++) {
        const struct policy_rule *rule = &rule_list.rules[i];
        if (rule->kind != OF_FUNCTIONS || !pattern_matches_function(rule, name))
            continue;
        (void)ranges_add(&reading->ranges, (struct rule_range){start, end, (uint8_t)(i + 1)});
        return;
    }
}

static bool has_unread_kind(uint32_t known, enum rule_kind kind) {
    for (uint32_t i = known; i < rule_list.count; i++)
        if (rule_list.rules[i].kind == kind)
            return true;
    return false;
}

/* Sets reading->ranges to the functions that the rules name. Reads the functions of the rules after
 * the first reading->known rules from the file, and copies the functions of these first rules from
 * `before`. False: the file cannot be read, or there is no memory for the copies. A function from
 * the file is left out if there is no memory for it. */
static bool read_functions(const struct module *mapped, const struct rule_ranges *before,
                           struct reading *reading) {
    bool good = elf_each_function(mapped, add_range, reading);
    for (uint32_t i = 0; good && i < before->count; i++)
        good = ranges_add(&reading->ranges, before->list[i]);
    if (good)
        ranges_sort(&reading->ranges);
    else
        ranges_free(&reading->ranges);
    return good;
}

/* Keeps the ranges of rules that were read before: the object's file may be gone, or another file
 * may have replaced it. */
void objects_read(uint32_t module, bool may_open) {
    struct object *object = objects && module < MODULES_MAX ? &objects[module] : NULL;
    if (!object || objects_is_read(module))
        return;
    const struct module *mapped = unwind_rules_module(module);
    struct reading reading = {.known = object->read_rules};
    uint8_t module_rule = object->module_rule;
    for (uint32_t i = reading.known; i < rule_list.count && !module_rule; i++)
        if (rule_list.rules[i].kind == OF_MODULES &&
            pattern_matches_module(&rule_list.rules[i], mapped->path))
            module_rule = (uint8_t)(i + 1);
    bool wanted = has_unread_kind(reading.known, OF_FUNCTIONS);
    bool more = wanted && may_open && read_functions(mapped, &object->functions, &reading);
    struct rule_ranges old = object->functions;
    lock_take(&tree_lock);
    if (more)
        object->functions = reading.ranges;
    object->module_rule = module_rule;
    object->unreadable |= wanted && !more;
    object->read_rules = (uint8_t)rule_list.count;
    lock_release(&tree_lock);
    if (more)
        ranges_free(&old);
}

bool objects_is_read(uint32_t module) {
    return !objects || module >= MODULES_MAX || objects[module].read_rules == rule_list.count;
}

uint8_t objects_rule_of(const struct tree_node *node) {
    if (node->module >= MODULE_NAMED || node->module >= MODULES_MAX || !node->address)
        return 0;
    const struct object *object = &objects[node->module];
    /* A return address may already be in the next function, so the address before it is looked up.
     * An exact address is not a return address. */
    uint64_t address =
        node->address - (node->exact ? 0 : 1) - unwind_rules_module(node->module)->bias;
    uint8_t rule = rule_first(object->module_rule, ranges_rule_of(&object->functions, address));
    return rule_first(rule, ranges_rule_of(&object->resolved, address));
}

static uint32_t object_count(void) {
    uint32_t count = objects ? unwind_rules_module_count() : 0;
    return count < MODULES_MAX ? count : MODULES_MAX;
}

static void drop_resolved(struct object *object) {
    resolved_count -= object->resolved.count;
    ranges_free(&object->resolved);
    object->resolved_rules = 0;
}

void objects_forget(void) {
    for (uint32_t i = 0; i < object_count(); i++) {
        struct object *object = &objects[i];
        ranges_free(&object->functions);
        object->module_rule = object->read_rules = 0;
        object->unreadable = false;
        drop_resolved(object);
    }
}

/* --- ranges that the command resolved --------------------------------------------------------- */

bool objects_is_resolved(uint32_t module) {
    return module < object_count() && objects[module].resolved_rules >= rule_list.needs_command;
}

bool objects_is_unreadable(uint32_t module) {
    return module < object_count() && objects[module].unreadable;
}

uint32_t objects_resolved_count(uint32_t module) {
    return module < object_count() ? objects[module].resolved.count : 0;
}

void objects_drop_resolved(uint32_t module) {
    if (module < object_count())
        drop_resolved(&objects[module]);
}

const char *objects_add_resolved(uint32_t module, struct rule_range range) {
    if (module >= object_count())
        return "no object has that number";
    struct object *object = &objects[module];
    const struct module *mapped = unwind_rules_module(module);
    const struct rule_ranges *before = &object->resolved;
    uint64_t first = before->count ? before->list[before->count - 1].end : 0;
    if (range.start < first || range.end <= range.start ||
        range.start < mapped->start - mapped->bias || range.end > mapped->end - mapped->bias)
        return "its ranges overlap, do not rise, or leave the object";
    if (!range.rule || range.rule > rule_list.count)
        return "no rule has that number";
    if (resolved_count == WIRE_RULE_RANGES_MAX)
        return "the library keeps no further range; use rules that match less code";
    if (!ranges_add(&object->resolved, range))
        return "no memory for ranges";
    resolved_count++;
    return NULL;
}

void objects_mark_resolved(uint32_t module) {
    if (module < object_count())
        objects[module].resolved_rules = rule_list.count;
}
