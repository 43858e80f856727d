/* SPDX-License-Identifier: MIT */
/*
 * elf_symbols.c - lists the functions of a mapped object; see elf_symbols.h.
 *
 * Files are read, not mapped: access to a mapped file that became shorter would end the process
 * with SIGBUS.
 */
#include "rules/elf_symbols.h"
#include "os/libc.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#define PART_MAX (1UL << 28) /* the largest part of a file that is read into memory */

struct elf_part { /* a part of a file, read into memory */
    char *bytes;
    size_t size;
};
struct elf_file {
    int fd;
    struct elf_part sections; /* array of Elf64_Shdr */
};

static void part_free(struct elf_part *part) {
    if (part->bytes)
        os_unmap(part->bytes, part->size);
    *part = (struct elf_part){NULL, 0};
}

static bool part_read(struct elf_part *part, int fd, uint64_t offset, uint64_t size) {
    *part = (struct elf_part){NULL, 0};
    if (!size || size > PART_MAX || offset > INT64_MAX - size)
        return false;
    char *bytes = os_map(size);
    uint64_t done = 0;
    if (bytes)
        os_wipe_on_fork(bytes, size); /* a child that is forked at this moment gets no copy */
    while (bytes && done < size) {
        ssize_t got = OS_TRY(os_pread(fd, bytes + done, size - done, offset + done));
        if (got <= 0)
            break;
        done += (uint64_t)got;
    }
    *part = (struct elf_part){bytes, size};
    if (done < size && bytes)
        part_free(part);
    return done == size;
}

static unsigned section_count(const struct elf_file *file) {
    return (unsigned)(file->sections.size / sizeof(Elf64_Shdr));
}
static const Elf64_Shdr *section_at(const struct elf_file *file, unsigned i) {
    return (const Elf64_Shdr *)(void *)file->sections.bytes + i;
}

static void elf_close(struct elf_file *file) {
    part_free(&file->sections);
    os_close(file->fd);
}

/* True when the file has the build-id of the mapped object: no other file has taken its place since
 * the object was mapped. Also true when the object has no build-id. */
static bool is_same(const struct elf_file *file, const struct module *module) {
    for (unsigned i = 0; i < section_count(file) && module->build_id_bytes; i++) {
        const Elf64_Shdr *section = section_at(file, i);
        struct elf_part note;
        size_t wanted = sizeof(Elf64_Nhdr) + 4 + module->build_id_bytes;
        if (section->sh_type != SHT_NOTE || section->sh_size < wanted ||
            !part_read(&note, file->fd, section->sh_offset, wanted))
            continue;
        const Elf64_Nhdr *head = (const void *)note.bytes;
        bool is_id = head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4;
        bool same = !__builtin_memcmp(note.bytes + sizeof *head + 4, module->build_id,
                                      module->build_id_bytes);
        part_free(&note);
        if (is_id)
            return same;
    }
    return !module->build_id_bytes;
}

static bool file_open(struct elf_file *file, const char *path, const struct module *module) {
    struct stat status;
    struct elf_part head;
    bool good = false;
    /* O_NONBLOCK: the path may name a FIFO by now. */
    *file = (struct elf_file){.fd = OS_TRY(os_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
    if (file->fd < 0)
        return false;
    if (!OS_TRY(os_fstat(file->fd, &status)) && S_ISREG(status.st_mode) &&
        part_read(&head, file->fd, 0, sizeof(Elf64_Ehdr))) {
        const Elf64_Ehdr *elf = (const void *)head.bytes;
        good = !__builtin_memcmp(elf->e_ident, ELFMAG, SELFMAG) &&
               elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_shentsize == sizeof(Elf64_Shdr) &&
               part_read(&file->sections, file->fd, elf->e_shoff,
                         (uint64_t)elf->e_shnum * sizeof(Elf64_Shdr));
        part_free(&head);
    }
    if (good && is_same(file, module))
        return true;
    elf_close(file);
    return false;
}

static void visit_all(const struct elf_part *symbols, const struct elf_part *names,
                      elf_function_visit *visit, void *context) {
    const Elf64_Sym *symbol = (const void *)symbols->bytes;
    for (size_t i = 0; i < symbols->size / sizeof *symbol; i++, symbol++)
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            symbol->st_name < names->size)
            visit(names->bytes + symbol->st_name, symbol->st_value,
                  symbol->st_value + symbol->st_size, context);
}

static bool each_of_table(const struct elf_file *file, uint32_t type, elf_function_visit *visit,
                          void *context) {
    for (unsigned i = 0; i < section_count(file); i++) {
        const Elf64_Shdr *table = section_at(file, i);
        struct elf_part symbols, names;
        if (table->sh_type != type || table->sh_link >= section_count(file))
            continue;
        const Elf64_Shdr *strings = section_at(file, table->sh_link);
        if (strings->sh_type != SHT_STRTAB ||
            !part_read(&symbols, file->fd, table->sh_offset, table->sh_size))
            return false;
        bool good = part_read(&names, file->fd, strings->sh_offset, strings->sh_size);
        if (good) {
            names.bytes[names.size - 1] = 0; /* in a damaged file the last name may have no 0 */
            visit_all(&symbols, &names, visit, context);
            part_free(&names);
        }
        part_free(&symbols);
        return good;
    }
    return false;
}

/* Opens the separate debug file of an object: /usr/lib/debug/.build-id/XX/YY.debug, where XX is the
 * first byte of the build-id in hexadecimal, and YY the rest. */
static bool debug_file_open(struct elf_file *file, const struct module *module) {
    static const char digits[] = "0123456789abcdef";
    char path[128];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    if (module->build_id_bytes < 2)
        return false;
    text_add(&text, "/usr/lib/debug/.build-id/");
    for (unsigned i = 0; i < module->build_id_bytes; i++) {
        char pair[2] = {digits[module->build_id[i] >> 4], digits[module->build_id[i] & 15]};
        text_add_bytes(&text, pair, 2);
        text_add(&text, i ? "" : "/");
    }
    text_add(&text, ".debug");
    path[text.length] = 0;
    return file_open(file, path, module);
}

bool elf_each_function(const struct module *module, elf_function_visit *visit, void *context) {
    struct elf_file file, debug;
    if (module->path[0] != '/' || !file_open(&file, module->path, module))
        return false;
    bool done = each_of_table(&file, SHT_SYMTAB, visit, context);
    if (!done && debug_file_open(&debug, module)) {
        done = each_of_table(&debug, SHT_SYMTAB, visit, context);
        elf_close(&debug);
    }
    done = done || each_of_table(&file, SHT_DYNSYM, visit, context);
    elf_close(&file);
    return done;
}
