/* SPDX-License-Identifier: MIT */
/* The process-wide table of unwind rules, and the modules; see unwind_rules.h. */
#include "path/unwind_rules.h"
#include "os/meta.h"
#include "path/loaded.h"
#include "path/v8.h"
#include "region/blocks.h"
#include "region/tables.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

/* The size of the table, as the base-2 logarithm of its number of places. Rules fill at most half
 * of the places, or up to three quarters if the table cannot grow. */
#define FIRST_BITS 7U
#define BITS_MAX 22U
#define BITS_ALWAYS 9U    /* up to this size the table grows even if the budget is used up */
#define BITS_EARLY 11U    /* up to this size the table may take the room that sites may take */
#define EARLY_SHARE 16    /* so may a table that takes at most 1/EARLY_SHARE of the budget */
#define MODULES_AT_HAND 8 /* modules that are found without asking the loader */

struct lock unwind_rules_lock FORK_PAGE = LOCK_INIT(RANK_UNWIND);
uint32_t unwind_rules_generation FORK_PAGE = 1;
uint32_t unwind_rules_version START_PAGE = 1;

static uint64_t rule_count FORK_PAGE; /* rules in the table; under unwind_rules_lock */
/* In a forked child: number of rules that it still learns without keeping them. Under
 * unwind_rules_lock. */
static uint32_t quiet_left FORK_PAGE;

uint32_t (*unwind_rules_folded)(uintptr_t function);
void (*unwind_rules_replaced)(uintptr_t start, uintptr_t end);

/* A table that grows is replaced. The old table is emptied, never unmapped. */
uintptr_t unwind_rules_table FORK_PAGE;

static struct {
    uint32_t module_count; /* atomic */
    const char *exe;       /* path of the program's file; "": not known; NULL: not asked yet */
    char exe_room[248];    /* holds the path if it fits */
    struct cfi_object at_hand[MODULES_AT_HAND]; /* the loader's descriptions of the first modules */
} global START_PAGE;
static struct module modules[MODULES_MAX]; /* written under unwind_rules_lock */
const struct module *const unwind_rules_shown = modules;
const uint32_t *const unwind_rules_count_shown = &global.module_count;

#define CFA_MAX (1 << 26) /* bytes; a packed rule has no room for a larger offset */

/* Returns the packed form of a rule (unwind_rules.h). A rule whose CFA offset does not fit becomes
 * CFI_NONE. */
static uint64_t pack(struct cfi_rule rule, uint32_t module) {
    uint64_t folded = unwind_rules_folded && rule.function ? unwind_rules_folded(rule.function) : 0;
    if (rule.cfa_offset >= CFA_MAX || rule.cfa_offset < -CFA_MAX || rule.cfa_offset & 7)
        rule = (struct cfi_rule){.kind = CFI_NONE};
    return (uint64_t)rule.kind | (uint64_t)rule.rbp << 3 |
           ((uint64_t)(uint32_t)(rule.rbp_offset / 8) & 0x7ff) << 5 |
           ((uint64_t)(uint32_t)(rule.cfa_offset / 8) & 0xffffff) << RULE_CFA_SHIFT |
           folded << RULE_FOLDED_SHIFT |
           (uint64_t)(module < MODULES_MAX ? module : MODULES_MAX) << RULE_MODULE_SHIFT;
}

static uint64_t capacity_of(uintptr_t table) {
    return table ? 1UL << (table & RULE_TABLE_BITS) : 0;
}

/* A library that dlopen loaded may be closed by another thread at this moment, so its unwind
 * information is not read here: its rules are forgotten. They are learnt again, with the numbers of
 * their functions, by threads that have the library's code on their stack. */
void unwind_rules_number_functions(uint32_t (*folded)(uintptr_t key)) {
    for (uint64_t i = 0; i < capacity_of(unwind_rules_table); i++) {
        struct rule *rule = rule_at(unwind_rules_table, i);
        uint32_t module = rule_module(rule->packed), number;
        if (!rule->packed)
            continue;
        if (module != MODULE_NONE && !modules[module].permanent)
            store_release(&rule->packed, 0);
        else if ((number = folded(rule->key)))
            store_release(&rule->packed,
                          (rule->packed & ~((uint64_t)RULE_FOLDED_MAX << RULE_FOLDED_SHIFT)) |
                              (uint64_t)number << RULE_FOLDED_SHIFT);
    }
    store_release(&unwind_rules_version, unwind_rules_version + 1);
}

/* Returns the place of the key's rule, or the free place where it belongs. */
static struct rule *find_place(uintptr_t table, uintptr_t key) {
    uint64_t at = rule_place(key);
    while (rule_at(table, at)->key && rule_at(table, at)->key != key)
        at++;
    return rule_at(table, at);
}

/* Makes a bigger table with the old one's rules. The old table stays mapped, because a reader may
 * be in it. The old table is emptied, and, if it is an OS page or more, its memory goes back to the
 * kernel. False: out of memory, nothing changed. */
static bool replace_table(unsigned bits) {
    uintptr_t old = unwind_rules_table, table;
    uint64_t old_bytes = capacity_of(old) * sizeof(struct rule);
    void *room = meta_alloc(sizeof(struct rule) << bits);
    if (!room)
        return false;
    table = (uintptr_t)room | bits;
    for (uint64_t i = 0; i < capacity_of(old); i++) {
        const struct rule *rule = rule_at(old, i);
        if (rule->key)
            *find_place(table, rule->key) = *rule;
    }
    store_release(&unwind_rules_table, table);
    if (old_bytes >= OS_PAGE_BYTES)
        os_discard(rule_at(old, 0), old_bytes);
    else
        for (uint64_t i = 0; i < capacity_of(old); i++) {
            store_owner(&rule_at(old, i)->packed, 0);
            store_owner(&rule_at(old, i)->key, 0);
        }
    return true;
}

/* Returns the program headers of a loaded object; NULL: not found. */
static const ElfW(Phdr) * program_headers(const struct link_map *map, unsigned *count) {
    struct cfi_object object;
    /* the program itself: the kernel passed the place of its headers */
    if (!map->l_name || !*map->l_name) {
        *count = (unsigned)getauxval(AT_PHNUM);
        return (const void *)getauxval(AT_PHDR);
    }
    const ElfW(Ehdr) *header = (const void *)map->l_addr;
    if (!cfi_find_object(map->l_addr, &object) || object.link_map != map ||
        object.end - map->l_addr < OS_PAGE_BYTES || header->e_ident[0] != ELFMAG0 ||
        header->e_ident[1] != ELFMAG1 ||
        header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > OS_PAGE_BYTES)
        return NULL;
    *count = header->e_phnum;
    return (const void *)(map->l_addr + header->e_phoff);
}

/* Reads the build id from a segment of notes. A note is a header, a name and a body, each padded to
 * 4 bytes. */
static void read_build_id(struct module *module, const ElfW(Phdr) * segment) {
    uintptr_t at = module->bias + segment->p_vaddr;
    for (uintptr_t end = at + segment->p_memsz; at + sizeof(ElfW(Nhdr)) < end;) {
        const ElfW(Nhdr) *note = (const void *)at;
        uintptr_t body = at + sizeof *note + align_up(note->n_namesz, 4);
        at = body + align_up(note->n_descsz, 4);
        if (at > end || note->n_type != NT_GNU_BUILD_ID || note->n_descsz > sizeof module->build_id)
            continue;
        __builtin_memcpy(module->build_id, (const void *)body, note->n_descsz);
        module->build_id_bytes = note->n_descsz;
        return;
    }
}

/* Widens the module's bounds to all of its segments, and reads its build id. cfi_find_object may
 * have given only the segment around one address. */
static void read_headers(struct module *module) {
    unsigned count = 0;
    const ElfW(Phdr) *segment = program_headers(module->link_map, &count);
    for (; segment && count; segment++, count--) {
        uintptr_t start = module->bias + segment->p_vaddr, end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD) {
            module->start = start < module->start ? start & ~(OS_PAGE_BYTES - 1) : module->start;
            module->end = end > module->end ? end : module->end;
        }
    }
    segment = program_headers(module->link_map, &count);
    for (; segment && count; segment++, count--)
        if (segment->p_type == PT_NOTE && !module->build_id_bytes)
            read_build_id(module, segment);
}

bool unwind_rules_frames(uint32_t index, uintptr_t *start, uintptr_t *end) {
    const struct module *module = unwind_rules_module(index);
    unsigned count = 0, i;
    const ElfW(Phdr) *segments = program_headers(module->link_map, &count);
    for (i = 0; segments && i < count && segments[i].p_type != PT_GNU_EH_FRAME; i++) {
    }
    if (!segments || i == count)
        return false;
    uintptr_t header = segments[i].p_vaddr;
    for (i = 0; i < count; i++) {
        uintptr_t segment_end = segments[i].p_vaddr + segments[i].p_filesz;
        if (segments[i].p_type != PT_LOAD || segments[i].p_flags != PF_R ||
            header < segments[i].p_vaddr || header >= segment_end)
            continue;
        *start = align_up(module->bias + header, OS_PAGE_BYTES);
        *end = (module->bias + segment_end) & ~(OS_PAGE_BYTES - 1);
        return *start < *end;
    }
    return false;
}

/* Reads the path of the program's file. Returns false if there is no room for all of it. If the
 * loader was started as a program (ld.so PROGRAM), /proc/self/exe is the loader. The kernel then
 * passes AT_BASE 0, and the loader puts PROGRAM into AT_EXECFN. A relative PROGRAM is of no use to
 * the command, which runs in another directory. */
static bool read_program_path(char *room, size_t capacity) {
    struct text path = {.bytes = room, .capacity = capacity - 1};
    const char *name = (const char *)getauxval(AT_EXECFN);
    bool is_absolute = name && *name == '/';
    int64_t length =
        getauxval(AT_BASE) || !is_absolute ? os_read_link("/proc/self/exe", room, capacity) : -1;
    if (length >= 0)
        return (size_t)length < capacity - 1;
    /* the loader was started as a program, or there is no /proc */
    text_add(&path, is_absolute ? name : "");
    room[path.length] = 0;
    return !path.full;
}

#define PATH_BYTES 4096U /* the kernel knows no longer path */

/* Reads the path of the program's file, at the first call only. The constructor calls this
 * function, because a filter of system calls may be in place later. If code allocates before the
 * constructor runs, module_learn is the first caller. */
static void read_program_name(void) {
    if (global.exe)
        return;
    global.exe = global.exe_room;
    bool fits = read_program_path(global.exe_room, sizeof global.exe_room);
    char *room = fits ? NULL : meta_alloc(PATH_BYTES);
    if (room) {
        read_program_path(room, PATH_BYTES);
        global.exe = room;
    }
}

/* Adds the digits of an address without "0x", as names in /proc have them. */
static void add_digits(struct text *text, uintptr_t address) {
    char digits[24] = {0};
    struct text all = {.bytes = digits, .capacity = sizeof digits - 1};
    text_add_hex(&all, address);
    text_add(text, digits + 2);
}

/* Reads the path of the file that is mapped as an object's first segment. Returns false if the
 * kernel does not tell it. */
static bool read_mapped_path(const struct link_map *map, char *path, size_t capacity) {
    char link[64] = {0};
    struct text text = {.bytes = link, .capacity = sizeof link - 1};
    unsigned count = 0;
    const ElfW(Phdr) *segment = program_headers(map, &count);
    for (; segment && count && segment->p_type != PT_LOAD; segment++)
        count--;
    if (!segment || !count || load_relaxed(&os_restricted))
        return false;
    uintptr_t start = map->l_addr + segment->p_vaddr;
    text_add(&text, "/proc/self/map_files/");
    add_digits(&text, start & ~(OS_PAGE_BYTES - 1));
    text_add(&text, "-");
    add_digits(&text, align_up(start + segment->p_filesz, OS_PAGE_BYTES));
    int64_t length = os_read_link(link, path, capacity);
    return length > 0 && (size_t)length < capacity - 1 && *path == '/'; /* not cut off */
}

/* Returns a copy of an object's path, and sets *bytes to its size. glibc keeps a library's path as
 * the program or LD_LIBRARY_PATH gave it. The command runs in another directory, where a relative
 * path is of no use. */
NOINLINE static char *copy_path(const struct link_map *map, const char *name, size_t *bytes) {
    char mapped[512];
    if (*name != '/' && read_mapped_path(map, mapped, sizeof mapped))
        name = mapped;
    *bytes = text_length(name) + 1;
    char *copy = meta_alloc(*bytes);
    if (copy)
        __builtin_memcpy(copy, name, *bytes);
    return copy;
}

/* True if both describe the same file at the same addresses. Without a build id nothing proves
 * this, so the answer is false. */
static bool is_same(const struct module *a, const struct module *b) {
    return a->start == b->start && a->end == b->end && a->bias == b->bias && a->build_id_bytes &&
           a->build_id_bytes == b->build_id_bytes &&
           !__builtin_memcmp(a->build_id, b->build_id, a->build_id_bytes) &&
           text_equal(a->path, b->path);
}

/* Returns the number that a module had before it was closed, if it is loaded again unchanged.
 * Otherwise returns the next free number. */
static uint32_t find_closed(const struct module *learnt) {
    for (uint32_t i = 0; i < global.module_count; i++)
        if (modules[i].closed && is_same(&modules[i], learnt))
            return i;
    return global.module_count;
}

/* Notes in closed modules that `module` was loaded at some of their addresses. True if the last
 * module at the addresses of `module` may have been another one. `is_old`: `module` was closed and
 * is loaded again unchanged. */
static bool replace_closed(struct module *module, bool is_old) {
    bool replaces = module->replaced;
    module->replaced = false;
    for (uint32_t i = 0; i < global.module_count; i++) {
        struct module *other = &modules[i];
        if (other == module || !other->closed || other->start >= module->end ||
            module->start >= other->end)
            continue;
        other->replaced = true;
        replaces |= !is_old;
    }
    return replaces;
}

/* Returns the number of an object's module, and describes the module if it is new. MODULE_NONE:
 * there are too many, or memory is short. Under unwind_rules_lock. */
static uint32_t module_learn(const struct cfi_object *object) {
    uint32_t count = global.module_count;
    for (uint32_t i = count; i-- > 0;)
        if (modules[i].link_map == object->link_map && !modules[i].closed)
            return i;
    if (count == MODULES_MAX)
        return MODULE_NONE;
    const struct link_map *map = object->link_map;
    read_program_name();
    bool is_program = !map->l_name || !*map->l_name;
    const char *name = is_program ? global.exe : map->l_name;
    size_t length;
    char *copy = copy_path(map, name, &length);
    if (!copy)
        return MODULE_NONE;
    struct page *page = segment_page_of(map);
    struct module learnt = {.start = object->start,
                            .end = object->end,
                            .bias = map->l_addr,
                            .path = copy,
                            .link_map = map,
                            .permanent = !page,
                            .loader = !is_program &&
                                      (text_has(copy, "/ld-linux") || text_has(copy, "/libc.so"))};
    read_headers(&learnt);
    uint32_t again = find_closed(&learnt);
    struct module *module = &modules[again];
    /* the library was loaded again at its old address, so the old description holds */
    bool is_old = again < count;
    if (is_old) {
        meta_free(copy, length);
        module->link_map = map;
    } else {
        *module = learnt;
    }
    if (replace_closed(module, is_old) && unwind_rules_replaced)
        unwind_rules_replaced(module->start, module->end);
    if (again < MODULES_AT_HAND)
        global.at_hand[again] = *object;
    if (is_old)
        store_release(&module->closed, false); /* find_object may read at_hand from now on */
    /* the link map is a chunk of this library: dlopen got it from malloc, and dlclose will free
     * it */
    if (page)
        blocks_watch(page);
    else
        v8_look(module);
    if (again == count)
        store_release(&global.module_count, count + 1);
    return again;
}

static int64_t table_bytes(uintptr_t table) {
    return (int64_t)(capacity_of(table) * sizeof(struct rule));
}

/* Replaces the table by one of twice the size, or makes the first one. False: the budget is used
 * up, out of memory, or the table has its greatest size. */
static bool table_grow(void) {
    unsigned bits = unwind_rules_table ? (unwind_rules_table & RULE_TABLE_BITS) + 1 : FIRST_BITS;
    int64_t bytes = (int64_t)(sizeof(struct rule) << bits);
    int64_t more = bytes - table_bytes(unwind_rules_table);
    bool early = bits <= BITS_EARLY || bytes <= load_relaxed(&tables_limit_known) / EARLY_SHARE;
    enum tables_share share = bits <= BITS_ALWAYS ? TABLES_MUST
                              : early             ? TABLES_SITE
                                                  : TABLES_ADMITTED;
    if (bits > BITS_MAX || !tables_take(more, share))
        return false;
    if (replace_table(bits))
        return true;
    tables_add(-more);
    return false;
}

/* Empties the table in place. A reader may meet an entry while it is emptied, so each reader
 * compares the key once more after it has read the rule. A free place has the key 0, which is also
 * the key of the return address 0. So a look-up of the address 0 may find a free place, and the
 * rule of a free place must be 0 (no rule), too. */
static void table_empty(void) {
    for (uint64_t i = 0; i < capacity_of(unwind_rules_table); i++) {
        store_release(&rule_at(unwind_rules_table, i)->packed, 0);
        store_release(&rule_at(unwind_rules_table, i)->key, 0);
    }
    rule_count = 0;
}

/* Adds a rule. A table that cannot grow is emptied when three quarters of it are full, and the
 * rules in use are learnt again. This costs time, but no rule is wrong. The caller holds the
 * lock. */
static void table_add(uintptr_t key, uint64_t packed) {
    if (rule_count * 2 >= capacity_of(unwind_rules_table) && !table_grow()) {
        if (!unwind_rules_table)
            return;
        if (rule_count * 4 >= capacity_of(unwind_rules_table) * 3)
            table_empty();
    }
    struct rule *rule = find_place(unwind_rules_table, key);
    if (rule->packed)
        return;
    rule_count += !rule->key;
    store_release(&rule->packed, packed);
    store_release(&rule->key, key);
}

/* Finds the object that holds an address. The first modules are the program and the libraries that
 * it was linked with, which hold most of its code. Asking the loader about them again would map two
 * more parts of the loader's code in a forked child. */
static bool find_object(uintptr_t pc, struct cfi_object *object) {
    uint32_t count = unwind_rules_module_count();
    for (uint32_t i = 0; i < count && i < MODULES_AT_HAND; i++) {
        const struct cfi_object *code = &global.at_hand[i];
        if (!load_acquire(&modules[i].closed) && pc >= code->start && pc < code->end) {
            *object = *code;
            return true;
        }
    }
    return cfi_find_object(pc, object);
}

struct cfi_function unwind_rules_function(uintptr_t key) {
    struct cfi_object object;
    uintptr_t pc = unwind_rules_pc(key);
    return cfi_find_object(pc, &object) ? cfi_find_function(&object, pc) : (struct cfi_function){0};
}

struct cfi_function unwind_rules_alike(uintptr_t key) {
    struct cfi_object object;
    uintptr_t pc = unwind_rules_pc(key);
    return cfi_find_object(pc, &object) ? cfi_find_alike(&object, pc) : (struct cfi_function){0};
}

/* True if a page of the object's code holds the address. An object may have a gap between its
 * segments (the loader of Ubuntu 22.04 has one), and the kernel may place there what the program
 * maps, such as code made at run time. */
static bool is_in_code(const struct cfi_object *object, uintptr_t pc) {
    const struct link_map *map = object->link_map;
    unsigned count = 0;
    const ElfW(Phdr) *segment = program_headers(map, &count);
    if (!segment)
        return true;
    for (; count; segment++, count--) {
        uintptr_t start = map->l_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
            pc >= (start & ~(OS_PAGE_BYTES - 1)) &&
            pc < align_up(start + segment->p_memsz, OS_PAGE_BYTES))
            return true;
    }
    return false;
}

/* Finds the rule of a key in the object's .eh_frame, and adds it to the table. */
static uint64_t learn(uintptr_t key) {
    uint32_t generation = load_acquire(&unwind_rules_generation);
    struct cfi_object object;
    struct cfi_rule rule = {.kind = CFI_NONE};
    uintptr_t pc = unwind_rules_pc(key);
    bool found = find_object(pc, &object) || (loaded_missed() && cfi_find_object(pc, &object));
    if (found)
        rule = cfi_find_rule(&object, pc);
    bool unknown = rule.kind == CFI_NONE && !rule.function;
    if (found && unknown)
        found = is_in_code(&object, pc);
    const void *isolate = unknown && !(key & RULE_EXACT_BIT) ? v8_isolate_of(key) : NULL;
    /* Code that was made at run time, and that is in no list of V8 (v8.h), may change, so no rule
     * of it is kept. */
    if (!found && !isolate)
        return pack(rule, MODULE_NONE);
    /* The only code of the loader without unwind information is its entry, which calls the
     * constructors of libraries and then jumps to the program. Nothing called it. */
    if (found && unknown && object.start == getauxval(AT_BASE))
        rule.kind = CFI_END;
    lock_take(&unwind_rules_lock);
    uint32_t module = found ? module_learn(&object) : MODULE_NONE;
    /* A library has no number if there are too many modules, or if memory is short. Nobody would
     * notice when such a library is closed, so no rule is kept: the library's code ends the path,
     * like code made at run time. */
    bool usable = isolate ? v8_watch(isolate) : module != MODULE_NONE;
    if (found && module == MODULE_NONE)
        cfi_forget_programs(); /* dlclose of this library would not forget them */
    if (!usable)
        rule = (struct cfi_rule){.kind = CFI_NONE};
    uint64_t packed = usable && isolate ? v8_rule(module) : pack(rule, module);
    /* V8's builtins in the object have no rule while the thread is inside no isolate, or inside one
     * that is being made. */
    bool final = isolate || !unknown || rule.kind == CFI_END || !v8_is_loaded();
    if (quiet_left)
        quiet_left--;
    else if (usable && final && generation == load_relaxed(&unwind_rules_generation))
        table_add(key, packed);
    lock_release(&unwind_rules_lock);
    return packed;
}

NOINLINE uint64_t unwind_rules_find_or_learn(uintptr_t key) {
    uintptr_t table = load_acquire(&unwind_rules_table);
    if (LIKELY(table)) {
        for (uint64_t at = rule_place(key);; at++) {
            const struct rule *rule = rule_at(table, at);
            uintptr_t found = load_acquire(&rule->key);
            uint64_t packed = load_acquire(&rule->packed);
            if (found == key && packed && load_relaxed(&rule->key) == key)
                return packed;
            if (!found || found == key)
                break;
        }
    }
    return learn(key);
}

uint32_t unwind_rules_module_count(void) {
    return load_acquire(&global.module_count);
}

const struct module *unwind_rules_module(uint32_t index) {
    return index < unwind_rules_module_count() ? &modules[index] : NULL;
}

uint64_t unwind_rules_count(void) {
    return load_relaxed(&rule_count);
}

/* Empties the table first, so that a thread that sees the new generation finds no old rule. */
static void new_generation_locked(void) {
    table_empty();
    cfi_forget_programs();
    store_release(&unwind_rules_version, unwind_rules_version + 1);
    /* The counter may wrap around after months. It skips 0, because paths.fast_generation is 0 when
     * the traces must not be used: the generation 0 would let view_guessed use them. */
    uint32_t next = unwind_rules_generation + 1;
    store_release(&unwind_rules_generation, next ? next : 1);
}

void unwind_rules_new_generation(void) {
    lock_take(&unwind_rules_lock);
    new_generation_locked();
    lock_release(&unwind_rules_lock);
}

void unwind_rules_look_at_objects(void) {
    if (loaded_look())
        unwind_rules_new_generation();
}

void unwind_rules_fork_child(void) {
    loaded_fork_child();
    quiet_left = RULES_QUIET;
}

/* Called when a chunk in a watched page was freed. If the chunk was the link map of a module, the
 * module is closed. If the chunk was an isolate of V8, its code is gone. */
static void watched_free(const void *chunk) {
    loaded_closed(chunk);
    if (v8_disposed(chunk))
        unwind_rules_new_generation();
    for (uint32_t i = 0; i < unwind_rules_module_count(); i++) {
        struct module *module = &modules[i];
        if (module->link_map != chunk || load_relaxed(&module->closed))
            continue;
        lock_take(&unwind_rules_lock);
        store_owner(&module->closed, true);
        new_generation_locked();
        lock_release(&unwind_rules_lock);
    }
}

void unwind_rules_init(void) {
    segment_watch = watched_free;
    unwind_rules_look_at_objects();
    read_program_name();
}
