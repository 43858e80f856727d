/* SPDX-License-Identifier: MIT */
/*
 * elf_names.c - names of the addresses of one ELF file, by elfutils; runs in a child process.
 *
 * libdwfl finds the separate debug file and the compressed symbol table. Addresses are looked up in
 * sorted tables that are made here once. The look-up of libdw would walk every symbol for each
 * address, and needs .debug_aranges, which clang and rustc do not write.
 */
#include "names/elf_names.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/who_tables.h"
#include "names/answer.h"
#include "names/demangle.h"
#include "names/elf_code.h"
#include "names/tail_calls.h"

#define INLINE_LEVELS_MAX 48
#define SCOPE_LEVELS_MAX 64

static void add_range(struct ranges *ranges, const struct range *range) {
    if (range->end <= range->start)
        return;
    if (ranges->count == ranges->capacity) {
        ranges->capacity = 2 * ranges->capacity + 64;
        ranges->items = cli_grow(ranges->items, ranges->capacity, sizeof *ranges->items);
    }
    ranges->items[ranges->count++] = *range;
}

/* Sorts by start. Of several ranges with one start, code_find_range takes the last one, so the best
 * one comes last. */
static int compare_ranges(const void *a, const void *b) {
    const struct range *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->name && right->name)
        return strcmp(right->name, left->name);
    return left->end > right->end ? -1 : left->end < right->end;
}

static void sort_ranges(struct ranges *ranges) {
    if (ranges->count > 0)
        qsort(ranges->items, ranges->count, sizeof *ranges->items, compare_ranges);
}

/* Goes back only a few steps from the last range before the address, because ranges hardly nest. */
const struct range *code_find_range(const struct ranges *ranges, uint64_t address) {
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (int steps = 0; low > 0 && steps < 16; steps++) {
        low--;
        if (address < ranges->items[low].end)
            return &ranges->items[low];
    }
    return NULL;
}

/* --- symbol tables ----------------------------------------------------------------------- */

static void read_symbols(struct names *names) {
    int count = dwfl_module_getsymtab(names->module);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        Elf *elf = NULL;
        Dwarf_Addr bias;
        const char *name =
            dwfl_module_getsym_info(names->module, i, &symbol, &address, &section, &elf, &bias);
        int type = GELF_ST_TYPE(symbol.st_info);
        if (!name || name[0] == '\0' || section == SHN_UNDEF || section == SHN_ABS ||
            (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
            continue;
        int binding = GELF_ST_BIND(symbol.st_info);
        struct range range = {
            .start = address,
            .end = address + symbol.st_size,
            .name = name,
            .rank = binding == STB_GLOBAL ? 2
                    : binding == STB_WEAK ? 1
                                          : 0,
        };
        if (symbol.st_size == 0) {
            /* Hand-written assembly has functions without a size. Their ranges reach to the next
             * symbol; the ends are set below. */
            if (type != STT_FUNC)
                continue;
            range.end = UINT64_MAX;
            range.rank = -1;
        }
        add_range(&names->symbols, &range);
    }
    struct ranges *symbols = &names->symbols;
    sort_ranges(symbols);
    for (size_t i = 0; i < symbols->count; i++) {
        if (symbols->items[i].end == UINT64_MAX) {
            symbols->items[i].end = i + 1 < symbols->count ? symbols->items[i + 1].start
                                                           : symbols->items[i].start + 4096;
        }
    }
}

static bool has_section(Elf *elf, GElf_Word type) {
    Elf_Scn *section = NULL;
    while (elf && (section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == type)
            return true;
    }
    return false;
}

/* --- DWARF ------------------------------------------------------------------------------- */

static void add_die_ranges(struct ranges *ranges, Dwarf_Die *die, uint32_t unit) {
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        /* Code that the linker removed starts at 0 or 1. */
        if (start > 1) {
            struct range range = {.start = start, .end = end, .die = *die, .unit = unit};
            add_range(ranges, &range);
        }
    }
}

static void read_units(struct names *names, Dwarf *dwarf) {
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, skeleton;
    uint8_t type;
    while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &skeleton) == 0) {
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        if (names->unit_count == names->unit_capacity) {
            names->unit_capacity = 2 * names->unit_capacity + 64;
            names->units = cli_grow(names->units, names->unit_capacity, sizeof *names->units);
        }
        uint32_t index = (uint32_t)names->unit_count++;
        /* The .dwo file of a split unit describes its code; the skeleton has its ranges. */
        names->units[index] =
            (struct unit){.die = type == DW_UT_skeleton && skeleton.addr ? skeleton : die};
        add_die_ranges(&names->unit_ranges, &die, index);
    }
    sort_ranges(&names->unit_ranges);
}

/* Reads the functions below a DIE. Functions stand in units, namespaces and types. Functions of
 * local classes and lambdas stand in functions and their blocks. */
static void read_functions(struct ranges *functions, Dwarf_Die *parent, uint32_t unit, int level) {
    Dwarf_Die child;
    if (level > SCOPE_LEVELS_MAX || dwarf_child(parent, &child) != 0)
        return;
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
            add_die_ranges(functions, &child, unit);
            read_functions(functions, &child, unit, level + 1);
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type: read_functions(functions, &child, unit, level + 1); break;
        default: break;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
}

/* The linkage name comes first, because it has namespaces and parameters; the plain name is second
 * best. In DWARF, functions of an anonymous namespace have no linkage name, but the symbol table
 * has one (`symbol`). */
char *code_function_name(Dwarf_Die *die, const char *symbol) {
    Dwarf_Attribute attribute;
    const char *linkage = symbol;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        linkage = dwarf_formstring(&attribute);
    char *demangled = linkage ? demangle_name(linkage) : NULL;
    if (demangled)
        return demangled;
    const char *name = dwarf_diename(die);
    return name ? cli_copy(name) : linkage ? cli_copy(linkage) : NULL;
}

/* Fills chain[] with the functions inlined at an address, outermost first. */
static int find_inlined(Dwarf_Die *function, uint64_t address, Dwarf_Die *chain) {
    Dwarf_Die scope = *function;
    int count = 0;
    for (int level = 0; level < SCOPE_LEVELS_MAX; level++) {
        Dwarf_Die child;
        bool deeper = false;
        if (dwarf_child(&scope, &child) != 0)
            break;
        do {
            int tag = dwarf_tag(&child);
            if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
                 tag == DW_TAG_try_block || tag == DW_TAG_catch_block) &&
                dwarf_haspc(&child, address) > 0) {
                deeper = true;
                scope = child;
                if (tag == DW_TAG_inlined_subroutine && count < INLINE_LEVELS_MAX)
                    chain[count++] = child;
                break;
            }
        } while (dwarf_siblingof(&child, &child) == 0);
        if (!deeper)
            break;
    }
    return count;
}

static int64_t find_number(Dwarf_Die *die, unsigned int name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0 &&
                   value < INT_MAX
               ? (int64_t)value
               : 0;
}

static char *full_path(Dwarf_Die *unit, const char *file) {
    Dwarf_Attribute attribute;
    const char *directory =
        dwarf_attr(unit, DW_AT_comp_dir, &attribute) ? dwarf_formstring(&attribute) : NULL;
    if (!file)
        return NULL;
    return file[0] == '/' || !directory ? cli_copy(file) : cli_format("%s/%s", directory, file);
}

/* Returns the file in which an inlined function is called. */
static char *find_call_file(Dwarf_Die *unit, Dwarf_Die *inlined) {
    Dwarf_Files *files;
    size_t count;
    int64_t index = find_number(inlined, DW_AT_call_file);
    if (index < 0 || dwarf_getsrcfiles(unit, &files, &count) != 0 || (size_t)index >= count)
        return NULL;
    return full_path(unit, dwarf_filesrc(files, (size_t)index, NULL, NULL));
}

const struct ranges *code_unit_functions(struct names *names, uint32_t number) {
    struct unit *unit = &names->units[number];
    if (!unit->read) {
        unit->read = true;
        read_functions(&unit->functions, &unit->die, number, 0);
        sort_ranges(&unit->functions);
    }
    return &unit->functions;
}

const struct range *code_find_function(struct names *names, uint64_t address) {
    const struct range *range = code_find_range(&names->unit_ranges, address);
    return range ? code_find_range(code_unit_functions(names, range->unit), address) : NULL;
}

/* Writes the machine function, then the functions that were inlined into it, innermost first. The
 * innermost function has the line of the address; each other function has the line of the call in
 * it. */
static bool put_dwarf_names(struct names *names, uint64_t address, FILE *answer) {
    const struct range *range = code_find_range(&names->unit_ranges, address);
    if (!range)
        return false;
    struct unit *unit = &names->units[range->unit];
    const struct range *found = code_find_range(code_unit_functions(names, range->unit), address);
    const struct range *symbol = code_find_range(&names->symbols, address + names->dwarf_bias);
    Dwarf_Die chain[INLINE_LEVELS_MAX];
    Dwarf_Die function;
    int inlined = 0;
    char *name = NULL;
    if (found) {
        function = found->die;
        inlined = find_inlined(&function, address, chain);
        name = code_function_name(&function, symbol ? symbol->name : NULL);
    }
    if (!name) {
        if (!symbol)
            return false;
        name = demangle_name(symbol->name);
        name = name ? name : cli_copy(symbol->name);
    }
    const char *line_file = NULL;
    int line_number = 0;
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
    if (line) {
        line_file = dwarf_linesrc(line, NULL, NULL);
        dwarf_lineno(line, &line_number);
    }
    char *own_file = full_path(&unit->die, line_file);
    if (inlined == 0) {
        answer_put_function(answer, name, own_file, line_number);
    } else {
        answer_put_function(answer, name, find_call_file(&unit->die, &chain[0]),
                            find_number(&chain[0], DW_AT_call_line));
    }
    for (int i = inlined; i-- > 0;) {
        char *inner = code_function_name(&chain[i], NULL);
        bool innermost = i == inlined - 1;
        answer_put_function(answer, inner,
                            innermost ? own_file : find_call_file(&unit->die, &chain[i + 1]),
                            innermost ? line_number : find_number(&chain[i + 1], DW_AT_call_line));
    }
    return true;
}

void code_put_names(struct names *names, uint64_t address, FILE *answer) {
    if (names->unit_ranges.count == 0 || !put_dwarf_names(names, address, answer)) {
        const struct range *symbol = code_find_range(&names->symbols, address + names->dwarf_bias);
        if (symbol) {
            char *demangled = demangle_name(symbol->name);
            answer_put_function(answer, demangled ? demangled : symbol->name, NULL, 0);
        }
    }
    answer_put_end(answer);
}

/* --- answers ------------------------------------------------------------------------------ */

/* Reads no DWARF of the C library. It would tell lines and inlined functions of glibc, which say
 * nothing about the program, and libdw takes 40 ms to decompress what libc6-dbg installs. */
static enum symbols_source read_names(struct names *names, const struct model_module *module) {
    const char *slash = strrchr(module->path, '/');
    Dwarf *dwarf = slash && who_is_c_library(slash + 1)
                       ? NULL
                       : dwfl_module_getdwarf(names->module, &names->dwarf_bias);
    if (dwarf)
        read_units(names, dwarf);
    read_symbols(names);
    if (names->unit_ranges.count > 0)
        return SYMBOLS_DWARF;
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(names->module, &bias);
    return names->symbols.count == 0      ? SYMBOLS_STRIPPED
           : has_section(elf, SHT_SYMTAB) ? SYMBOLS_SYMTAB
                                          : SYMBOLS_DYNSYM;
}

/* The only module that this child reads: the module of the request. */
struct opened {
    struct names names;
    uint32_t number;
};

static struct names *open_only(void *data, uint32_t module) {
    struct opened *opened = data;
    return module == opened->number && opened->names.module ? &opened->names : NULL;
}

void elf_names_answer(const struct symbols_request *request, FILE *answer) {
    struct opened opened = {.number = request->number};
    struct names *names = &opened.names;
    enum symbols_source source = elf_names_open(request, &names->module);
    if (source == SYMBOLS_DWARF)
        source = read_names(names, request->module);
    else
        names->module = NULL;
    putc((int)source, answer);
    for (size_t i = 0; i < request->count; i++)
        code_put_names(names, request->addresses[i] - names->dwarf_bias, answer);
    const struct tail_modules modules = {.count = request->module_count,
                                         .named = request->module_count,
                                         .open = open_only,
                                         .data = &opened};
    tail_calls_answer(&modules, request->pairs, request->pair_count, answer);
}

/* Adds the files with code that the process maps and that are not among the modules, because no
 * call path leads through them. A tail call may still lead into one of them. Returns false if the
 * process's map cannot be read. */
static bool add_mapped_files(struct symbols_request *request) {
    char path[64];
    char *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)request->live_pid);
    FILE *maps = request->live_pid != 0 ? fopen(path, "re") : NULL;
    struct model_module *modules = NULL;
    uint32_t room = 0, count = request->module_count;
    while (maps && getline(&line, &capacity, maps) > 0) {
        unsigned long long start, end;
        int name_at = 0;
        char rights[5];
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%llx-%llx %4s %*x %*s %*u %n", &start, &end, rights, &name_at) < 3 ||
            name_at == 0 || line[name_at] != '/' || rights[2] != 'x')
            continue;
        bool known = false;
        const struct model_module *list = modules ? modules : request->modules;
        for (uint32_t i = 0; i < count && !known; i++)
            known = strcmp(list[i].path, line + name_at) == 0;
        if (known)
            continue;
        if (count >= room) {
            room = 2 * count + 16;
            struct model_module *grown = cli_alloc(room, sizeof *grown);
            memcpy(grown, list, count * sizeof *grown);
            modules = grown;
        }
        modules[count++] =
            (struct model_module){.start = start, .end = end, .path = cli_copy(line + name_at)};
    }
    free(line);
    if (!maps)
        return false;
    fclose(maps);
    if (modules)
        request->modules = modules;
    request->module_count = count;
    return true;
}

static struct names *open_any(void *data, uint32_t module) {
    const struct symbols_request *all = data;
    struct symbols_request request = *all;
    struct names *names = cli_alloc(1, sizeof *names);
    request.module = &all->modules[module];
    if (elf_names_open(&request, &names->module) != SYMBOLS_DWARF)
        return NULL;
    read_names(names, request.module);
    return names;
}

void elf_names_answer_across(const struct symbols_request *request, FILE *answer) {
    struct symbols_request all = *request;
    struct tail_modules modules = {.named = request->module_count, .open = open_any, .data = &all};
    modules.are_all = add_mapped_files(&all);
    modules.count = all.module_count;
    putc(SYMBOLS_DWARF, answer);
    tail_calls_answer(&modules, request->pairs, request->pair_count, answer);
}
