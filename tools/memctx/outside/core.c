/* SPDX-License-Identifier: MIT */
/*
 * core.c - reads from a core file which memory it holds, and which files were mapped.
 *
 * libelf reads the headers. Damaged files are expected: a core file is cut off when the disk is
 * full or RLIMIT_CORE is reached. Cannot do: core files of processes that are not x86-64.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outside/reach.h"

/* Ends a message about a damaged core file. */
#define WRITE_ANEW "; write the core anew, for example with gcore PID, or use another one"
#define PIECES_MAX (1U << 20)
/* greatest number of bytes of all notes; the list of files of a huge process has some MiB */
#define NOTES_MAX (64UL << 20)

bool reach_is_core(const char *path) {
    Elf64_Ehdr head;
    struct stat file;
    /* Does not open a pipe: its bytes can be read only once, and its writer would lose a reader. */
    if (stat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
              memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_type == ET_CORE;
    if (fd >= 0)
        close(fd);
    return is;
}

/* Adds the part of a segment that the file really has. Returns false if the segments overlap in the
 * file: then they have more than the `room` bytes that the file has left. */
static bool add_segment(struct reach *reach, const GElf_Phdr *segment, uint64_t file_bytes,
                        uint64_t *room) {
    uint64_t there = segment->p_filesz;
    if (segment->p_offset >= file_bytes)
        there = 0;
    else if (there > file_bytes - segment->p_offset)
        there = file_bytes - segment->p_offset;
    uint64_t cut = segment->p_filesz - there;
    reach->cut_bytes = reach->cut_bytes + cut < cut ? UINT64_MAX : reach->cut_bytes + cut;
    if (there > *room)
        return false;
    *room -= there;
    if (there > segment->p_memsz)
        there = segment->p_memsz;
    if (segment->p_vaddr + there < segment->p_vaddr)
        there = 0;
    if (there > 0)
        reach_add_piece(reach, segment->p_vaddr, there, segment->p_offset);
    return true;
}

/* NT_FILE has two words (number of entries, unit), three words for each entry (start, end, offset),
 * and the names. */
static void take_files(struct reach *reach, const char *bytes, size_t length) {
    uint64_t head[2], entry[3];
    if (length < sizeof head || bytes[length - 1] != '\0')
        return;
    memcpy(head, bytes, sizeof head);
    if (head[0] > (length - sizeof head) / (sizeof entry + 1))
        return;
    const char *name = bytes + sizeof head + head[0] * sizeof entry, *end = bytes + length;
    for (uint64_t i = 0; i < head[0] && name < end; i++) {
        memcpy(entry, bytes + sizeof head + i * sizeof entry, sizeof entry);
        reach_add_mapping(reach, entry[0], entry[1], name);
        name += strlen(name) + 1;
    }
}

static void take_note(struct reach *reach, const GElf_Nhdr *head, const char *bytes) {
    struct elf_prpsinfo info;
    switch (head->n_type) {
    case NT_FILE: take_files(reach, bytes, head->n_descsz); break;
    case NT_PRPSINFO:
        if (head->n_descsz < sizeof info)
            break;
        memcpy(&info, bytes, sizeof info);
        reach->pid = info.pr_pid;
        memcpy(reach->name, info.pr_fname, sizeof info.pr_fname);
        cli_clean(reach->name);
        break;
    default: break;
    }
}

/* Takes the notes of a segment, if it has at most `room` bytes. */
static void take_notes(struct reach *reach, Elf *elf, const GElf_Phdr *segment, uint64_t file_bytes,
                       uint64_t *room) {
    if (segment->p_offset > file_bytes || segment->p_filesz > file_bytes - segment->p_offset ||
        segment->p_filesz > *room)
        return;
    *room -= segment->p_filesz;
    Elf_Data *data =
        elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_NHDR);
    GElf_Nhdr head;
    size_t at = 0, name_at, bytes_at;
    while (data && (at = gelf_getnote(data, at, &head, &name_at, &bytes_at)) > 0)
        take_note(reach, &head, (const char *)data->d_buf + bytes_at);
}

static int compare_pieces(const void *a, const void *b) {
    const struct reach_piece *one = a, *other = b;
    return one->start < other->start ? -1 : one->start > other->start;
}

/* Returns the path of a mapped file whose name is the program's short name, which the kernel cuts
 * at 15 characters; NULL: there is none. */
static char *find_named(const struct reach *reach) {
    for (size_t i = 0; i < reach->mapping_count && reach->name[0] != '\0'; i++) {
        const char *slash = strrchr(reach->mappings[i].name, '/');
        if (strncmp(slash ? slash + 1 : reach->mappings[i].name, reach->name, 15) == 0)
            return cli_copy(reach->mappings[i].name);
    }
    return NULL;
}

/* gcore writes the beginning of argument 0 in the place of the program's short name. If the program
 * has made a title of it, as redis-server and nginx do ("nginx: worker process"), the name ends at
 * the first space. */
static void cut_title(char *name) {
    size_t length = strcspn(name, " ");
    if (name[length] != ' ' || length == 0)
        return;
    name[length > 1 && name[length - 1] == ':' ? length - 1 : length] = '\0';
}

/* Finds the program's file: the mapped file that has its name, else the file that is mapped lowest.
 * The kernel may sort the list of files by size (kernel.core_sort_vma). */
static void find_exe(struct reach *reach) {
    reach->exe = find_named(reach);
    if (!reach->exe) {
        cut_title(reach->name);
        reach->exe = find_named(reach);
    }
    const struct reach_mapping *lowest = NULL;
    for (size_t i = 0; i < reach->mapping_count; i++)
        if (!lowest || reach->mappings[i].start < lowest->start)
            lowest = &reach->mappings[i];
    if (!reach->exe && lowest)
        reach->exe = cli_copy(lowest->name);
    if (reach->name[0] == '\0') /* the notes are cut off */
        snprintf(reach->name, sizeof reach->name, "unknown program");
}

static bool take_headers(struct reach *reach, Elf *elf, const char *path,
                         struct cli_failure *failure) {
    GElf_Ehdr head;
    struct stat status;
    size_t count;
    if (fstat(reach->fd, &status) != 0 || !gelf_getehdr(elf, &head) ||
        elf_getphdrnum(elf, &count) != 0)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged core file; its headers cannot be read" WRITE_ANEW, path);
    if (head.e_type != ET_CORE || head.e_machine != EM_X86_64 || gelf_getclass(elf) != ELFCLASS64)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: not a core file of an x86-64 process; memctx reads no other", path);
    uint64_t file_bytes = (uint64_t)status.st_size, room = file_bytes, notes_room = NOTES_MAX;
    for (size_t i = 0; i < count && i < PIECES_MAX; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment))
            return cli_fail(
                failure, CLI_REFUSED,
                "%s: damaged core file; program header %zu of %zu cannot be read" WRITE_ANEW, path,
                i, count);
        if (segment.p_type == PT_LOAD && !add_segment(reach, &segment, file_bytes, &room))
            return cli_fail(failure, CLI_REFUSED,
                            "%s: damaged core file; program header %zu of %zu gives bytes of the "
                            "file to a second part of the memory" WRITE_ANEW,
                            path, i, count);
        if (segment.p_type == PT_NOTE)
            take_notes(reach, elf, &segment, file_bytes, &notes_room);
    }
    if (reach->piece_count > 0) /* qsort may not be given the NULL of an empty list */
        qsort(reach->pieces, reach->piece_count, sizeof *reach->pieces, compare_pieces);
    find_exe(reach);
    return true;
}

bool reach_open_core(struct reach *reach, const char *path, struct cli_failure *failure) {
    *reach = (struct reach){.pagemap = -1, .is_core = true};
    reach->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (reach->fd < 0)
        return cli_fail(failure, errno == EACCES ? CLI_NOT_PERMITTED : CLI_NO_TARGET,
                        "%s: cannot be opened; %s; name a core file that you may read", path,
                        strerror(errno));
    /* a file system that does not tell holes calls the end of the file the first hole, too */
    reach->is_filled = lseek(reach->fd, 0, SEEK_HOLE) == lseek(reach->fd, 0, SEEK_END);
    lseek(reach->fd, 0, SEEK_SET);
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(reach->fd, ELF_C_READ, NULL);
    bool good = elf && elf_kind(elf) == ELF_K_ELF
                    ? take_headers(reach, elf, path, failure)
                    : cli_fail(failure, CLI_REFUSED, "%s: damaged core file; %s" WRITE_ANEW, path,
                               elf_errmsg(-1));
    elf_end(elf);
    if (!good)
        reach_close(reach);
    return good;
}
