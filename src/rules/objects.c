/* SPDX-License-Identifier: MIT */
/* The rules of code, object by object; see objects.h. */
#include "rules/objects.h"
#include "os/meta.h"
#include "rules/dwarf_units.h"
#include "rules/elf_symbols.h"
#include "rules/patterns.h"
#include "rules/ranges.h"

static struct object {
    struct rule_ranges functions, files;
    uint8_t module_rule; /* that holds for all of it */
    bool read;
} * objects; /* by number of the module; MODULES_MAX of them, made with the first rule; under tree_lock */

struct reading { /* the names of an object, while they are read */
    struct rule_ranges ranges;
    bool files;
};

bool objects_begin(void) {
    if (!objects)
        objects = meta_alloc(MODULES_MAX * sizeof *objects);
    return objects;
}

bool objects_exist(void) {
    return objects;
}

static void add_range(const char *name, uint64_t start, uint64_t end, void *context) {
    struct reading *reading = context;
    for (uint32_t i = 0; i < rule_list.count; i++) {
        const struct policy_rule *rule = &rule_list.rules[i];
        bool fits = reading->files ? rule->kind == OF_FILES && pattern_matches_file(rule, name)
                                   : (rule->kind == OF_FUNCTIONS || rule->kind == OF_EXPRESSIONS) &&
                                         pattern_matches_function(rule, name);
        if (!fits)
            continue;
        (void)ranges_add(&reading->ranges, (struct rule_range){start, end, (uint8_t)(i + 1)});
        return;
    }
}

void objects_read(uint32_t module, bool may_open) {
    struct object *object = objects && module < MODULES_MAX ? &objects[module] : NULL;
    if (!object || object->read)
        return;
    const struct module *mapped = rules_module(module);
    struct reading functions = {.files = false}, files = {.files = true};
    uint8_t module_rule = 0;
    for (uint32_t i = rule_list.count; i-- > 0;)
        if (rule_list.rules[i].kind == OF_MODULES &&
            pattern_matches_module(&rule_list.rules[i], mapped->path))
            module_rule = (uint8_t)(i + 1);
    if (may_open && (rule_list.kinds[OF_FUNCTIONS] || rule_list.kinds[OF_EXPRESSIONS]) &&
        elf_each_function(mapped, add_range, &functions))
        ranges_sort(&functions.ranges);
    if (may_open && rule_list.kinds[OF_FILES] && dwarf_each_unit(mapped, add_range, &files))
        ranges_sort(&files.ranges);
    lock_take(&tree_lock);
    *object = (struct object){.functions = functions.ranges,
                              .files = files.ranges,
                              .module_rule = module_rule,
                              .read = true};
    lock_release(&tree_lock);
}

uint8_t objects_rule_of(const struct tree_node *node) {
    if (node->module >= MODULE_NAMED || node->module >= MODULES_MAX || !node->address)
        return 0;
    const struct object *object = &objects[node->module];
    if (!object->read)
        return 0;
    /* A return address may already belong to the next function. */
    uint64_t address = node->address - (node->exact ? 0 : 1) - rules_module(node->module)->bias;
    uint8_t rule = rule_first(object->module_rule, ranges_rule_of(&object->functions, address));
    return rule_first(rule, ranges_rule_of(&object->files, address));
}

void objects_forget(void) {
    for (uint32_t i = 0; objects && i < rules_module_count() && i < MODULES_MAX; i++) {
        struct object *object = &objects[i];
        ranges_free(&object->functions);
        ranges_free(&object->files);
        *object = (struct object){0};
    }
}
