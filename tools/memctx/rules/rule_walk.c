/* SPDX-License-Identifier: MIT */
/*
 * rule_walk.c - finds the code of one ELF file that rules match; runs in a child process.
 *
 * Every function that matches a rule gives ranges of code. These ranges overlap, because an inlined
 * function lies in another function. At the end they are cut into ranges that do not overlap. Each
 * of these gets the first rule that matches it.
 */
#include "rules/rule_walk.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX 128
#define PADDING_MAX 64 /* greatest number of bytes between two functions that count as padding */

struct list {
    struct rule_range *items;
    size_t count, capacity;
};

/* The rule of a function, by the address of its DIE, for functions that were inlined. */
struct memo {
    const void *key; /* NULL: the slot is free */
    unsigned int rule;
};

struct walk {
    const struct rule_patterns *patterns;
    struct list found;
    uint64_t *starts; /* starts of all functions, matching or not */
    size_t start_count, start_capacity;
    struct memo *memos;
    size_t memo_count, memo_capacity; /* slots in use; slots in all, a power of two */
    uint64_t bias;         /* address in the file less address in the debug information */
    const char *directory; /* directory in which the unit was compiled */
};

static void add_range(struct walk *walk, uint64_t start, uint64_t end, unsigned int rule) {
    struct list *list = &walk->found;
    if (rule == 0 || end <= start)
        return;
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 64;
        list->items = cli_grow(list->items, list->capacity, sizeof *list->items);
    }
    list->items[list->count++] = (struct rule_range){.start = start, .end = end, .rule = rule};
}

static void add_start(struct walk *walk, uint64_t start) {
    if (walk->start_count == walk->start_capacity) {
        walk->start_capacity = 2 * walk->start_capacity + 256;
        walk->starts = cli_grow(walk->starts, walk->start_capacity, sizeof *walk->starts);
    }
    walk->starts[walk->start_count++] = start;
}

static unsigned int first_rule(unsigned int a, unsigned int b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* --- symbol tables ----------------------------------------------------------------------- */

static bool read_symbols(struct walk *walk, Dwfl_Module *module) {
    int count = dwfl_module_getsymtab(module);
    bool any = false;
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        Elf *elf = NULL;
        Dwarf_Addr bias;
        const char *name =
            dwfl_module_getsym_info(module, i, &symbol, &address, &section, &elf, &bias);
        int type = GELF_ST_TYPE(symbol.st_info);
        if (!name || section == SHN_UNDEF || section == SHN_ABS ||
            (type != STT_FUNC && type != STT_GNU_IFUNC))
            continue;
        any = true;
        add_start(walk, address);
        add_range(walk, address, address + symbol.st_size,
                  rule_patterns_of_function(walk->patterns, name));
    }
    return any;
}

/* --- debug information ------------------------------------------------------------------- */

static void add_die_ranges(struct walk *walk, Dwarf_Die *die, unsigned int rule, bool function) {
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        if (start <= 1)
            continue; /* the linker removed this code */
        if (function)
            add_start(walk, start + walk->bias);
        add_range(walk, start + walk->bias, end + walk->bias, rule);
    }
}

/* Returns the source file that declares a function. dwarf_decl_file is not used, because it aborts
 * if there is no table of files. */
static const char *find_file(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    Dwarf_Die unit;
    Dwarf_Files *files;
    Dwarf_Word index;
    size_t count;
    if (!dwarf_attr_integrate(die, DW_AT_decl_file, &attribute) ||
        dwarf_formudata(&attribute, &index) != 0 ||
        !dwarf_cu_die(attribute.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
        dwarf_getsrcfiles(&unit, &files, &count) != 0 || index >= count)
        return NULL;
    return dwarf_filesrc(files, index, NULL, NULL);
}

static unsigned int rule_of_names(const struct walk *walk, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    const char *linkage = NULL, *name = dwarf_diename(die), *file = find_file(die);
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        linkage = dwarf_formstring(&attribute);
    unsigned int rule = 0;
    if (linkage)
        rule = rule_patterns_of_function(walk->patterns, linkage);
    if (name)
        rule = first_rule(rule, rule_patterns_of_function(walk->patterns, name));
    if (file)
        rule = first_rule(rule, rule_patterns_of_file(walk->patterns, file, walk->directory));
    return rule;
}

static struct memo *find_memo(const struct walk *walk, const void *key) {
    size_t at = ((uintptr_t)key * 0x9e3779b97f4a7c15U) >> 20;
    while (walk->memos[at & (walk->memo_capacity - 1)].key &&
           walk->memos[at & (walk->memo_capacity - 1)].key != key)
        at++;
    return &walk->memos[at & (walk->memo_capacity - 1)];
}

static void grow_memos(struct walk *walk) {
    struct memo *before = walk->memos;
    size_t capacity = walk->memo_capacity;
    walk->memo_capacity = capacity > 0 ? 2 * capacity : 1024;
    walk->memos = cli_alloc(walk->memo_capacity, sizeof *walk->memos);
    for (size_t i = 0; i < capacity; i++)
        if (before[i].key)
            *find_memo(walk, before[i].key) = before[i];
    free(before);
}

/* Returns the rule of a function or of an inlined copy. A function may be inlined thousands of
 * times, so the rule of the inlined function is kept in memos. */
static unsigned int rule_of_die(struct walk *walk, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if (!dwarf_attr(die, DW_AT_abstract_origin, &attribute) ||
        !dwarf_formref_die(&attribute, &origin))
        return rule_of_names(walk, die);
    if (2 * walk->memo_count >= walk->memo_capacity)
        grow_memos(walk);
    struct memo *memo = find_memo(walk, origin.addr);
    if (!memo->key) {
        *memo = (struct memo){origin.addr, rule_of_names(walk, die)};
        walk->memo_count++;
    }
    return memo->rule;
}

static void walk_children(struct walk *walk, Dwarf_Die *parent, int level) {
    Dwarf_Die child;
    if (level > LEVELS_MAX || dwarf_child(parent, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        switch (tag) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
            if (dwarf_hasattr(&child, DW_AT_inline) == 0) /* an abstract function has no code */
                add_die_ranges(walk, &child, rule_of_die(walk, &child), tag == DW_TAG_subprogram);
            walk_children(walk, &child, level + 1);
            break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block: walk_children(walk, &child, level + 1); break;
        default: break;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
}

static bool read_units(struct walk *walk, Dwarf *dwarf) {
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    uint8_t type;
    bool any = false;
    while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
        Dwarf_Attribute attribute;
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        any = true;
        /* The skeleton of a split unit has the unit's ranges; the .dwo file has all else. */
        Dwarf_Die *body = type == DW_UT_skeleton && split.addr ? &split : &die;
        const char *file = dwarf_diename(body);
        walk->directory =
            dwarf_attr(&die, DW_AT_comp_dir, &attribute) ? dwarf_formstring(&attribute) : NULL;
        if (file) {
            add_die_ranges(walk, &die, rule_patterns_of_file(walk->patterns, file, walk->directory),
                           false);
        }
        walk_children(walk, body, 0);
    }
    return any;
}

/* --- ranges that do not overlap -------------------------------------------------------------- */

struct edge {
    uint64_t at;
    unsigned int rule;
    bool begins;
};

static int compare_edges(const void *a, const void *b) {
    const struct edge *left = a, *right = b;
    return left->at < right->at ? -1 : left->at > right->at;
}

static int compare_starts(const void *a, const void *b) {
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* Returns true if only padding lies between the two addresses: no function starts there, and they
 * are at most PADDING_MAX bytes apart. */
static bool is_padding(const struct walk *walk, uint64_t from, uint64_t to) {
    size_t low = 0, high = walk->start_count;
    if (to - from > PADDING_MAX)
        return from == to;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (walk->starts[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return from == to || low == walk->start_count || walk->starts[low] >= to;
}

/* Adds a range at the end, or extends the last range by it. */
static size_t put_range(const struct walk *walk, struct rule_range *ranges, size_t count,
                        struct rule_range range) {
    struct rule_range *last = count > 0 ? &ranges[count - 1] : NULL;
    if (last && last->rule == range.rule && is_padding(walk, last->end, range.start)) {
        last->end = range.end;
        return count;
    }
    ranges[count] = range;
    return count + 1;
}

/* Cuts the ranges so that none overlap: goes along the starts and ends of all ranges, and counts
 * the open ranges of each rule. */
static size_t flatten(struct walk *walk, struct rule_range **ranges) {
    const struct list *found = &walk->found;
    struct edge *edges = cli_alloc(2 * found->count, sizeof *edges);
    size_t open[RULE_PATTERNS_MAX + 1] = {0}, count = 0;
    *ranges = cli_alloc(2 * found->count, sizeof **ranges);
    if (walk->start_count > 0)
        qsort(walk->starts, walk->start_count, sizeof *walk->starts, compare_starts);
    for (size_t i = 0; i < found->count; i++) {
        edges[2 * i] = (struct edge){found->items[i].start, found->items[i].rule, true};
        edges[2 * i + 1] = (struct edge){found->items[i].end, found->items[i].rule, false};
    }
    qsort(edges, 2 * found->count, sizeof *edges, compare_edges);
    for (size_t i = 0; i < 2 * found->count;) {
        uint64_t at = edges[i].at;
        for (; i < 2 * found->count && edges[i].at == at; i++)
            open[edges[i].rule] += edges[i].begins ? 1 : (size_t)-1;
        uint32_t rule = 1;
        while (rule <= RULE_PATTERNS_MAX && open[rule] == 0)
            rule++;
        if (rule <= RULE_PATTERNS_MAX && i < 2 * found->count)
            count = put_range(walk, *ranges, count, (struct rule_range){at, edges[i].at, rule});
    }
    free(edges);
    return count;
}

void rule_walk_answer(const struct symbols_request *request, const struct rule_patterns *patterns,
                      FILE *answer) {
    struct walk walk = {.patterns = patterns};
    struct rule_range *ranges = NULL;
    Dwfl_Module *module = NULL;
    uint64_t count = 0;
    enum symbols_source source = elf_names_open(request, &module);
    if (source == SYMBOLS_DWARF) {
        Dwarf_Addr bias;
        Dwarf *dwarf = dwfl_module_getdwarf(module, &bias);
        bool has_symbols = read_symbols(&walk, module);
        walk.bias = bias;
        if (!dwarf || !read_units(&walk, dwarf))
            source = has_symbols ? SYMBOLS_SYMTAB : SYMBOLS_STRIPPED;
        count = flatten(&walk, &ranges);
    }
    putc((int)source, answer);
    fwrite(&count, sizeof count, 1, answer);
    if (count > 0)
        fwrite(ranges, sizeof *ranges, count, answer);
}
