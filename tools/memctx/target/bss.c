/* SPDX-License-Identifier: MIT */
/* bss.c - reads the program headers of an ELF file. */
#include "target/bss.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "names/plain_file.h"

#define OS_PAGE 4096ULL
#define HEADERS_MAX 64 /* an ELF file has some ten program headers */

static uint64_t round_down(uint64_t address) {
    return address & ~(OS_PAGE - 1);
}

static uint64_t round_up(uint64_t address) {
    return round_down(address + OS_PAGE - 1);
}

/* Reads the program headers. Returns their number; 0: it is no ELF file of 64 bits. */
static size_t read_headers(int fd, Elf64_Phdr *headers) {
    Elf64_Ehdr file;
    if (pread(fd, &file, sizeof file, 0) != sizeof file ||
        memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
        file.e_phentsize != sizeof *headers || file.e_phnum > HEADERS_MAX)
        return 0;
    size_t bytes = file.e_phnum * sizeof *headers;
    return pread(fd, headers, bytes, (off_t)file.e_phoff) == (ssize_t)bytes ? file.e_phnum : 0;
}

enum bss bss_find(pid_t root_of, const char *path, uint64_t offset, uint64_t start, uint64_t *first,
                  uint64_t *end) {
    Elf64_Phdr headers[HEADERS_MAX];
    int fd = plain_file_open(root_of, path);
    if (fd < 0)
        return BSS_UNKNOWN;
    size_t count = read_headers(fd, headers);
    close(fd);
    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *load = &headers[i];
        if (load->p_type != PT_LOAD || offset < round_down(load->p_offset) ||
            offset >= load->p_offset + load->p_filesz)
            continue;
        /* address in the process, less the address in the file */
        uint64_t bias = start - round_down(load->p_vaddr) - (offset - round_down(load->p_offset));
        *first = bias + round_up(load->p_vaddr + load->p_filesz);
        *end = bias + round_up(load->p_vaddr + load->p_memsz);
        if (*first < *end)
            return BSS_KNOWN;
    }
    return count ? BSS_NONE : BSS_UNKNOWN;
}
