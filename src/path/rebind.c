/* SPDX-License-Identifier: MIT */
/*
 * Redirects libc's own malloc family to this library.
 *
 * A library that is loaded with RTLD_DEEPBIND, or code that asks dlsym for libc's malloc, gets
 * libc's functions although this library stands before libc. If such code frees a chunk of this
 * library, the chunk comes to libc's free, which aborts. So the addresses in libc's symbol table
 * are changed to those of this library's functions, once, at the start. Symbols that were bound
 * before keep their addresses, and no code is changed. dlopen itself is not interposed, because its
 * caller's address decides where it looks for libraries. Sources: the ELF specification, and the
 * GNU hash table as binutils writes it.
 */
#include "path/rebind.h"
#include "os/libc.h"
#include "os/os.h"
#include "path/cfi.h"

#include <elf.h>
#include <link.h>

uint32_t rebind_count;

struct symbols { /* the dynamic symbols of one loaded object */
    uintptr_t bias;
    const char *names;
    ElfW(Sym) * table;
    /* GNU hash table: counts, a Bloom filter, buckets, and the hashes of the chains */
    const uint32_t *hash;
};

/* Finds an object's tables of dynamic symbols. False: the object lacks one of the tables. */
static bool read_dynamic(const struct link_map *map, struct symbols *symbols) {
    *symbols = (struct symbols){.bias = map->l_addr};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        uintptr_t at = entry->d_un.d_ptr;
        if (at < map->l_addr) /* glibc relocates most of these addresses when it loads the object */
            at += map->l_addr;
        if (entry->d_tag == DT_STRTAB)
            symbols->names = (const char *)at;
        else if (entry->d_tag == DT_SYMTAB)
            symbols->table = (ElfW(Sym) *)at;
        else if (entry->d_tag == DT_GNU_HASH)
            symbols->hash = (const uint32_t *)at;
    }
    return symbols->names && symbols->table && symbols->hash;
}

static uint32_t gnu_hash(const char *name) {
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

/* Returns the object's definition of a symbol, found by the GNU hash table; NULL: the object does
 * not define the symbol. */
static ElfW(Sym) * find(const struct symbols *symbols, const char *name) {
    uint32_t buckets = symbols->hash[0], first = symbols->hash[1], filter_words = symbols->hash[2];
    const uint32_t *bucket = symbols->hash + 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = gnu_hash(name), index = buckets ? bucket[hash % buckets] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        ElfW(Sym) *symbol = &symbols->table[index];
        if ((chain[index - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            text_equal(symbols->names + symbol->st_name, name))
            return symbol;
        if (chain[index - first] & 1)
            return NULL;
    }
}

extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));
extern const char image_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char image_end[] __asm__("_end") __attribute__((visibility("hidden")));

/* In a program at a fixed address that takes the address of malloc (Debian's python3 does),
 * `malloc_in_use` is the address of a jump in the program (PLT). The jump leads to the malloc of
 * the first object that defines one. */
bool rebind_malloc_is_ours(uintptr_t malloc_in_use) {
    const struct link_map *program = _r_debug.r_map, *map = program;
    struct symbols symbols;
    if (malloc_in_use >= (uintptr_t)image_start && malloc_in_use < (uintptr_t)image_end)
        return true;
    for (; map; map = map->l_next)
        if (read_dynamic(map, &symbols) ? find(&symbols, "malloc") != NULL : map == program)
            break;
    return map && map->l_ld == own_dynamic;
}

uintptr_t rebind_in_object(const struct link_map *map, const char *name) {
    struct symbols symbols;
    const ElfW(Sym) *symbol = read_dynamic(map, &symbols) ? find(&symbols, name) : NULL;
    return symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? symbols.bias + symbol->st_value
                                                                : 0;
}

uintptr_t rebind_next(const char *name) {
    const struct link_map *map = _r_debug.r_map;
    uintptr_t found = 0;
    while (map && map->l_ld != own_dynamic)
        map = map->l_next;
    while (map && (map = map->l_next) && !found) {
        found = rebind_in_object(map, name);
        if (text_has(map->l_name, "/ld-linux"))
            break; /* objects behind the loader may have been opened later, and may be closed */
    }
    /* A program that is linked with this library may name it behind libc, so the objects before
     * this library are searched, too. */
    for (map = _r_debug.r_map; map && map->l_ld != own_dynamic && !found; map = map->l_next)
        found = rebind_in_object(map, name);
    return found;
}

/* Returns the loader's description of this library; NULL: the loader has none. */
static const struct link_map *find_ours(void) {
    struct cfi_object object;
    return cfi_find_object((uintptr_t)&rebind_libc, &object) ? object.link_map : NULL;
}

/* Returns the loader's description of the libc that this library is bound to, which stands behind
 * this library in the loader's list; NULL: not found. */
static const struct link_map *find_libc(void) {
    const struct link_map *map = find_ours();
    while (map && !text_has(map->l_name, "/libc.so.6"))
        map = map->l_next;
    return map;
}

uintptr_t rebind_in_libc(const char *name) {
    const struct link_map *map = find_libc();
    return map ? rebind_in_object(map, name) : 0;
}

static bool find_both(struct symbols *ours, struct symbols *libc) {
    const struct link_map *own = find_ours(), *map = find_libc();
    return own && read_dynamic(own, ours) && map && read_dynamic(map, libc);
}

/* Returns the object whose malloc is called; NULL: none is known. `malloc_in_use` is mostly the
 * address of that malloc. But in a program at a fixed address that takes the address of malloc,
 * `malloc_in_use` is the address of a jump in the program (PLT), which leads to the first malloc of
 * the objects behind the program. */
static const struct link_map *find_malloc(uintptr_t malloc_in_use) {
    struct cfi_object object;
    struct symbols symbols;
    if (!cfi_find_object(malloc_in_use, &object))
        return NULL;
    const struct link_map *map = object.link_map;
    for (; map; map = map->l_next)
        if (read_dynamic(map, &symbols) ? find(&symbols, "malloc") != NULL : map == object.link_map)
            break;
    return map;
}

/* Either all names are changed or none. If only some were changed, libc's heap and this library
 * would get each other's chunks to free. */
static const char *const names[] = {"malloc",
                                    "free",
                                    "calloc",
                                    "realloc",
                                    "reallocarray",
                                    "aligned_alloc",
                                    "posix_memalign",
                                    "memalign",
                                    "valloc",
                                    "pvalloc",
                                    "malloc_usable_size",
                                    "__libc_malloc",
                                    "__libc_free",
                                    "__libc_calloc",
                                    "__libc_realloc",
                                    "__libc_memalign",
                                    "__libc_valloc",
                                    "__libc_pvalloc"};
#define NAMES (sizeof names / sizeof names[0])

const char *rebind_other_malloc(uintptr_t malloc_in_use) {
    const struct link_map *ours = find_ours(), *theirs = find_malloc(malloc_in_use);
    if (!ours || !theirs || ours == theirs)
        return NULL;
    return theirs->l_name && theirs->l_name[0] ? theirs->l_name : "the program itself";
}

bool rebind_other_has_constructors(uintptr_t malloc_in_use) {
    const struct link_map *theirs = find_malloc(malloc_in_use);
    size_t bytes = 0;
    for (const ElfW(Dyn) *entry = theirs ? theirs->l_ld : NULL; entry && entry->d_tag; entry++)
        if (entry->d_tag == DT_INIT_ARRAYSZ)
            bytes = entry->d_un.d_val;
    return bytes > sizeof(void *); /* gcc gives each object one function: frame_dummy */
}

void rebind_libc(uintptr_t malloc_in_use, bool passed_on) {
    ElfW(Sym) * from[NAMES], *to[NAMES];
    uintptr_t start = UINTPTR_MAX, end = 0;
    struct symbols ours, libc;
    if (!find_both(&ours, &libc) || (find_malloc(malloc_in_use) != find_ours() && !passed_on))
        /* find_malloc finds another object if the program has a malloc in front of this
         * library's */
        return;
    for (size_t i = 0; i < NAMES; i++) {
        from[i] = find(&libc, names[i]);
        to[i] = find(&ours, names[i]);
        if (!from[i] || !to[i])
            return;
        start = (uintptr_t)from[i] < start ? (uintptr_t)from[i] : start;
        end = (uintptr_t)(from[i] + 1) > end ? (uintptr_t)(from[i] + 1) : end;
    }
    start &= ~(OS_PAGE_BYTES - 1);
    size_t bytes = align_up(end - start, OS_PAGE_BYTES);
    if (!os_protect((void *)start, bytes, true))
        return;
    for (size_t i = 0; i < NAMES; i++)
        from[i]->st_value = ours.bias + to[i]->st_value - libc.bias;
    os_protect((void *)start, bytes, false);
    rebind_count = NAMES;
}
