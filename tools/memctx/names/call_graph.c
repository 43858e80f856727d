/* SPDX-License-Identifier: MIT */
/*
 * call_graph.c - reads the call sites of functions from DWARF.
 *
 * The target of a call through a register is unknown. A function of another module gets a node with
 * only its name; graph_resolve finds the function when a search needs it.
 */
#include "names/call_graph.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

#define SITES_MAX 4096 /* greatest number of call sites of one function */
#define LEVELS_MAX 64  /* greatest depth of nested blocks and inlined functions */
#define ORIGINS_MAX 8  /* greatest number of steps from a function to its declaration */

/* A function, and the DIE of the declaration or abstract function that it is an instance of. */
struct instance {
    const void *origin;
    const struct range *function;
};

struct instances {
    struct instance *items;
    size_t count;
    bool read;
};

/* --- names ------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *name, size_t length) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3U;
    return hash ^ hash >> 32;
}

static size_t slots_for(size_t count) {
    size_t slots = 64;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

/* Returns the length of a symbol's name without its version: "fopen@@GLIBC_2.2.5". */
static size_t name_length(const char *name) {
    return strcspn(name, "@");
}

static const struct range **find_symbol_slot(const struct graph_module *module, const char *name,
                                             size_t length) {
    size_t at = hash_name(name, length) & module->symbol_mask;
    while (module->symbols[at] && (name_length(module->symbols[at]->name) != length ||
                                   strncmp(module->symbols[at]->name, name, length) != 0))
        at = (at + 1) & module->symbol_mask;
    return &module->symbols[at];
}

static void hash_symbols(struct graph_module *module) {
    const struct ranges *symbols = &module->names->symbols;
    size_t slots = slots_for(symbols->count);
    module->symbols = cli_alloc(slots, sizeof *module->symbols);
    module->symbol_mask = slots - 1;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct range *symbol = &symbols->items[i];
        size_t length = name_length(symbol->name);
        bool is_old = symbol->name[length] == '@' && symbol->name[length + 1] != '@';
        /* Local symbols (rank 0) may share a name. Old versions of a symbol are only for programs
         * that were linked long ago. */
        if (symbol->rank >= 1 && !is_old)
            *find_symbol_slot(module, symbol->name, length) = symbol;
    }
}

static const struct range *find_symbol(struct graph_module *module, const char *name) {
    if (!module->symbols)
        hash_symbols(module);
    return *find_symbol_slot(module, name, strlen(name));
}

/* Finds the slot of a name in the table of names such as "puts@GLIBC_2.2.5". */
static const char **find_libc_slot(const struct graph_module *module, const char *name,
                                   size_t length) {
    size_t at = hash_name(name, length) & module->libc_mask;
    while (module->libc[at] &&
           (strncmp(module->libc[at], name, length) != 0 || module->libc[at][length] != '@'))
        at = (at + 1) & module->libc_mask;
    return &module->libc[at];
}

/* Makes the table of the names that the module takes from the C library: undefined symbols with a
 * version of glibc. The linker writes this version into the symbol table. */
static void hash_libc(struct graph_module *module) {
    int count = dwfl_module_getsymtab(module->names->module);
    size_t slots = slots_for(count > 0 ? (size_t)count : 0);
    module->libc = cli_alloc(slots, sizeof *module->libc);
    module->libc_mask = slots - 1;
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name = dwfl_module_getsym_info(module->names->module, i, &symbol, &address,
                                                   &section, NULL, NULL);
        const char *version = name && section == SHN_UNDEF ? strstr(name, "@GLIBC_") : NULL;
        if (version)
            *find_libc_slot(module, name, (size_t)(version - name)) = name;
    }
}

static bool is_of_libc(struct graph_module *module, const char *name) {
    if (!module->libc)
        hash_libc(module);
    return *find_libc_slot(module, name, strlen(name)) != NULL;
}

static bool is_allocator(const char *name) {
    static const char *const names[] = {
        "malloc",        "calloc",         "realloc",        "reallocarray", "memalign",
        "aligned_alloc", "posix_memalign", "valloc",         "pvalloc",      "__libc_malloc",
        "__libc_calloc", "__libc_realloc", "__libc_memalign"};
    if (strncmp(name, "_Znw", 4) == 0 || strncmp(name, "_Zna", 4) == 0 ||
        strncmp(name, "memctx_", 7) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Returns true for a program. A position-independent program has the type of a library, but also
 * the flag DF_1_PIE. */
static bool find_is_program(Dwfl_Module *module) {
    GElf_Addr bias;
    GElf_Ehdr header;
    Elf_Scn *section = NULL;
    Elf *elf = dwfl_module_getelf(module, &bias);
    bool program = elf && gelf_getehdr(elf, &header) && header.e_type == ET_EXEC;
    while (elf && (section = elf_nextscn(elf, section))) {
        GElf_Shdr head;
        GElf_Dyn entry;
        if (!gelf_getshdr(section, &head) || head.sh_type != SHT_DYNAMIC)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 0; data && gelf_getdyn(data, i, &entry); i++)
            program |= entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0;
    }
    return program;
}

/* --- nodes ------------------------------------------------------------------------------- */

static struct graph_module *module_of(struct graph *graph, uint32_t number) {
    struct graph_module *module = &graph->modules[number];
    if (!module->opened) {
        module->opened = true;
        module->names = graph->open(graph->data, number);
        if (module->names) {
            module->instances = cli_alloc(module->names->unit_count, sizeof *module->instances);
            module->is_program = find_is_program(module->names->module);
        }
    }
    return module;
}

struct names *graph_names(struct graph *graph, uint32_t module) {
    return module_of(graph, module)->names;
}

static bool is_node(const struct node *node, const struct node *wanted) {
    return node->key == wanted->key && node->module == wanted->module &&
           (!node->name) == (!wanted->name) &&
           (!node->name || strcmp(node->name, wanted->name) == 0);
}

static size_t find_slot(const struct graph *graph, const struct node *wanted) {
    size_t at =
        ((wanted->key ^ (uint64_t)wanted->module << 48) * 0x9e3779b97f4a7c15U >> 32) & graph->mask;
    while (graph->slots[at] != 0 && !is_node(&graph->nodes[graph->slots[at] - 1], wanted))
        at = (at + 1) & graph->mask;
    return at;
}

static void grow_slots(struct graph *graph) {
    size_t slots = slots_for(2 * graph->count);
    graph->slots = cli_alloc(slots, sizeof *graph->slots);
    graph->mask = slots - 1;
    for (uint32_t i = NODES_FIXED; i < graph->count; i++)
        graph->slots[find_slot(graph, &graph->nodes[i])] = i + 1;
}

static uint32_t add_node(struct graph *graph, const struct node *node) {
    if (graph->count == graph->capacity) {
        graph->capacity = 2 * graph->capacity + 64;
        graph->nodes = cli_grow(graph->nodes, graph->capacity, sizeof *graph->nodes);
    }
    graph->nodes[graph->count] = *node;
    return (uint32_t)graph->count++;
}

/* Returns the number of an equal node. If there is none, adds the node. */
static uint32_t node_index(struct graph *graph, const struct node *wanted) {
    if (2 * graph->count >= graph->mask)
        grow_slots(graph);
    size_t at = find_slot(graph, wanted);
    if (graph->slots[at] == 0)
        graph->slots[at] = add_node(graph, wanted) + 1;
    return graph->slots[at] - 1;
}

/* Returns the lowest address of a function, by which it is identified. The address may lie in a
 * part that the compiler moved away, but no other function has it. */
static uint64_t lowest_address(const struct range *function) {
    Dwarf_Die die = function->die;
    Dwarf_Addr base, start, end, lowest = function->start;
    ptrdiff_t at = 0;
    while (die.addr && (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0)
        lowest = start < lowest ? start : lowest;
    return lowest;
}

/* Returns the node of a function. Functions are told apart by their addresses, because the DWARF
 * may describe an inline function of C++ once for each file that has it. */
static uint32_t node_of(struct graph *graph, uint32_t module, const struct range *function) {
    uint64_t key = lowest_address(function) << 1 | (function->die.addr ? 0 : 1);
    return node_index(graph, &(struct node){.key = key, .module = module, .range = *function});
}

/* Looks for the function in DWARF, then in the symbol table. */
uint32_t graph_node_at(struct graph *graph, uint32_t module, uint64_t address) {
    struct names *names = graph_names(graph, module);
    if (!names)
        return NODE_UNKNOWN;
    const struct range *function = code_find_function(names, address);
    if (!function)
        function = code_find_range(&names->symbols, address + names->dwarf_bias);
    return function ? node_of(graph, module, function) : NODE_UNKNOWN;
}

/* Returns the function of this name in a module, or NODE_UNKNOWN. */
static uint32_t node_of_symbol(struct graph *graph, uint32_t number, const char *name) {
    struct graph_module *module = module_of(graph, number);
    const struct range *symbol = module->names ? find_symbol(module, name) : NULL;
    return symbol ? graph_node_at(graph, number, symbol->start - module->names->dwarf_bias)
                  : NODE_UNKNOWN;
}

uint32_t graph_resolve(struct graph *graph, uint32_t number, uint32_t hint) {
    const char *name = graph->nodes[number].name;
    bool of_libc = graph->nodes[number].of_libc;
    uint32_t module = graph->nodes[number].module, found = NODE_UNKNOWN;
    if (!name)
        return number;
    if (hint != GRAPH_NO_MODULE && hint != module)
        found = node_of_symbol(graph, hint, name);
    if (found != NODE_UNKNOWN || of_libc)
        return found != NODE_UNKNOWN ? found : NODE_LIBC;
    bool search = graph->has_all && hint == GRAPH_NO_MODULE;
    for (uint32_t i = 0; i < graph->module_count && search; i++) {
        uint32_t other = i != module ? node_of_symbol(graph, i, name) : NODE_UNKNOWN;
        if (other == NODE_UNKNOWN)
            continue;
        if (found != NODE_UNKNOWN)
            /* two modules have the name; the loader's order decides, which is not known here */
            return NODE_UNKNOWN;
        found = other;
    }
    return found;
}

/* --- the function that a call site calls -------------------------------------------------- */

/* Returns the declaration or abstract function that a function is an instance of; the function
 * itself if there is none. */
static Dwarf_Die origin_of(Dwarf_Die die) {
    for (int i = 0; i < ORIGINS_MAX; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if ((!dwarf_attr(&die, DW_AT_abstract_origin, &attribute) &&
             !dwarf_attr(&die, DW_AT_specification, &attribute)) ||
            !dwarf_formref_die(&attribute, &next))
            break;
        die = next;
    }
    return die;
}

static int compare_instances(const void *a, const void *b) {
    const struct instance *left = a, *right = b;
    return left->origin < right->origin ? -1 : left->origin > right->origin;
}

static const struct instances *instances_of(struct graph_module *module, uint32_t unit) {
    struct instances *instances = &module->instances[unit];
    if (instances->read)
        return instances;
    const struct ranges *functions = code_unit_functions(module->names, unit);
    instances->read = true;
    instances->items = cli_alloc(functions->count + 1, sizeof *instances->items);
    for (size_t i = 0; i < functions->count; i++) {
        const struct range *function = &functions->items[i];
        instances->items[instances->count++] =
            (struct instance){origin_of(function->die).addr, function};
    }
    if (instances->count > 0)
        qsort(instances->items, instances->count, sizeof *instances->items, compare_instances);
    return instances;
}

void graph_add_target(struct targets *targets, uint32_t node) {
    for (size_t i = 0; i < targets->count; i++)
        if (targets->nodes[i] == node)
            return;
    if (targets->count == GRAPH_TARGETS_MAX)
        targets->nodes[0] = NODE_UNKNOWN;
    else
        targets->nodes[targets->count++] = node;
}

static void add_instances(struct graph *graph, uint32_t module, uint32_t unit, const void *origin,
                          struct targets *targets) {
    const struct instances *instances = instances_of(module_of(graph, module), unit);
    size_t low = 0, high = instances->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (instances->items[middle].origin < origin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < instances->count && instances->items[low].origin == origin; low++)
        graph_add_target(targets, node_of(graph, module, instances->items[low].function));
}

static const char *linkage_name(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        return dwarf_formstring(&attribute);
    return dwarf_diename(die);
}

static bool is_external(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    bool external = false;
    return dwarf_attr_integrate(die, DW_AT_external, &attribute) &&
           dwarf_formflag(&attribute, &external) == 0 && external;
}

/* Returns the node of a function that a module knows by name only. */
static uint32_t find_named(struct graph *graph, uint32_t number, const char *name) {
    struct graph_module *module = module_of(graph, number);
    bool allocator = is_allocator(name);
    uint32_t own =
        module->is_program || !allocator ? node_of_symbol(graph, number, name) : NODE_UNKNOWN;
    if (own != NODE_UNKNOWN || allocator)
        return own != NODE_UNKNOWN ? own : NODE_ALLOCATOR;
    return node_index(graph, &(struct node){.key = hash_name(name, strlen(name)),
                                            .name = name,
                                            .of_libc = is_of_libc(module, name),
                                            .module = number,
                                            .read = true});
}

/* Adds the functions that a call site may call. There are several if the compiler made clones of
 * the function, which DWARF does not tell apart. */
static void find_targets(struct graph *graph, uint32_t module, uint32_t unit, Dwarf_Die *site,
                         struct targets *targets) {
    Dwarf_Attribute attribute;
    Dwarf_Die callee;
    unsigned origin =
        dwarf_tag(site) == DW_TAG_GNU_call_site ? DW_AT_abstract_origin : DW_AT_call_origin;
    if (!dwarf_attr(site, origin, &attribute) || !dwarf_formref_die(&attribute, &callee)) {
        graph_add_target(targets, NODE_UNKNOWN);
        return;
    }
    add_instances(graph, module, unit, origin_of(callee).addr, targets);
    if (targets->count > 0)
        return;
    const char *name = is_external(&callee) ? linkage_name(&callee) : NULL;
    graph_add_target(targets, name ? find_named(graph, module, name) : NODE_UNKNOWN);
}

/* --- the call sites of a function --------------------------------------------------------- */

static void add_site(struct sites *sites, const struct site *site) {
    if (sites->count == sites->capacity) {
        sites->capacity = 2 * sites->capacity + 8;
        sites->items = cli_grow(sites->items, sites->capacity, sizeof *sites->items);
    }
    sites->items[sites->count++] = *site;
}

static bool has_flag(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    bool flag = false;
    return dwarf_attr(die, name, &attribute) && dwarf_formflag(&attribute, &flag) == 0 && flag;
}

/* Returns the address behind a call; 0: not known. For a tail call, clang gives the address of the
 * call itself. One is added to it, because names are looked up one byte before the returned
 * address. */
static uint64_t address_behind(Dwarf_Die *site) {
    Dwarf_Attribute attribute;
    Dwarf_Addr address = 0;
    if (dwarf_attr(site, DW_AT_call_return_pc, &attribute) ||
        (dwarf_tag(site) == DW_TAG_GNU_call_site && dwarf_attr(site, DW_AT_low_pc, &attribute)))
        return dwarf_formaddr(&attribute, &address) == 0 ? address : 0;
    return dwarf_attr(site, DW_AT_call_pc, &attribute) && dwarf_formaddr(&attribute, &address) == 0
               ? address + 1
               : 0;
}

static void add_tail(struct sites *tails, uint64_t address, uint32_t target) {
    for (size_t i = 0; i < tails->count; i++) {
        if (tails->items[i].target == target) {
            tails->items[i].several = true;
            return;
        }
    }
    add_site(tails, &(struct site){.address = address, .target = target});
}

/* Adds a call site to a node. The node is given by its number, because nodes move when new ones are
 * added. */
static void read_site(struct graph *graph, uint32_t number, Dwarf_Die *site) {
    struct targets targets = {.count = 0};
    uint64_t address = address_behind(site);
    bool tail = has_flag(site, DW_AT_call_tail_call) || has_flag(site, DW_AT_GNU_tail_call);
    find_targets(graph, graph->nodes[number].module, graph->nodes[number].range.unit, site,
                 &targets);
    struct node *node = &graph->nodes[number];
    if (address == 0 || node->calls.count + node->tails.count > SITES_MAX) {
        node->complete = false;
        return;
    }
    for (size_t i = 0; i < targets.count; i++)
        if (tail)
            add_tail(&node->tails, address, targets.nodes[i]);
        else
            add_site(&node->calls, &(struct site){.address = address, .target = targets.nodes[i]});
}

/* Reads the call sites below a DIE, also those in blocks and inlined functions. */
static void read_sites(struct graph *graph, uint32_t number, Dwarf_Die *parent, int level) {
    Dwarf_Die child;
    if (dwarf_child(parent, &child) != 0)
        return;
    if (level > LEVELS_MAX) {
        graph->nodes[number].complete = false;
        return;
    }
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_call_site:
        case DW_TAG_GNU_call_site: read_site(graph, number, &child); break;
        case DW_TAG_inlined_subroutine:
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block: read_sites(graph, number, &child, level + 1); break;
        default: break;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
}

/* Returns true if the compiler of a unit describes calls of built-in functions, such as malloc.
 * clang leaves them out, although it says that it described all calls. */
static bool describes_builtins(const struct names *names, uint32_t unit) {
    Dwarf_Attribute attribute;
    const char *producer = dwarf_attr(&names->units[unit].die, DW_AT_producer, &attribute)
                               ? dwarf_formstring(&attribute)
                               : NULL;
    return producer && strncmp(producer, "GNU ", 4) == 0;
}

void graph_read_node(struct graph *graph, uint32_t number) {
    struct node *node = &graph->nodes[number];
    Dwarf_Die die = node->range.die;
    if (node->read || number < NODES_FIXED)
        return;
    node->read = true;
    if (!die.addr)
        return;
    /* Without one of these flags, the compiler does not say that it described all tail calls. */
    node->complete =
        has_flag(&die, DW_AT_call_all_calls) || has_flag(&die, DW_AT_call_all_tail_calls) ||
        has_flag(&die, DW_AT_GNU_all_call_sites) || has_flag(&die, DW_AT_GNU_all_tail_call_sites);
    read_sites(graph, number, &die, 0);
    node = &graph->nodes[number];
    node->complete_to_malloc =
        node->complete && describes_builtins(graph_names(graph, node->module), node->range.unit);
}

void graph_begin(struct graph *graph, uint32_t module_count, bool has_all,
                 struct names *(*open)(void *data, uint32_t module), void *data) {
    *graph = (struct graph){
        .module_count = module_count, .has_all = has_all, .open = open, .data = data};
    graph->modules = cli_alloc(module_count, sizeof *graph->modules);
    grow_slots(graph);
    for (int i = 0; i < NODES_FIXED; i++)
        add_node(graph, &(struct node){.read = true});
}
