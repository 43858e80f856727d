/* SPDX-License-Identifier: MIT */
/* reach.c - reads memory of a process or of a core file; see reach.h. */
#include "outside/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OS_PAGE_BYTES 4096U

void reach_add_mapping(struct reach *reach, uint64_t start, uint64_t end, const char *name) {
    if ((reach->mapping_count & (reach->mapping_count - 1)) == 0)
        reach->mappings =
            cli_grow(reach->mappings, 2 * reach->mapping_count + 1, sizeof *reach->mappings);
    reach->mappings[reach->mapping_count++] = (struct reach_mapping){start, end, cli_copy(name)};
}

void reach_add_piece(struct reach *reach, uint64_t start, uint64_t bytes, uint64_t offset) {
    if ((reach->piece_count & (reach->piece_count - 1)) == 0)
        reach->pieces = cli_grow(reach->pieces, 2 * reach->piece_count + 1, sizeof *reach->pieces);
    reach->pieces[reach->piece_count++] = (struct reach_piece){start, bytes, offset};
}

/* Adds a mapping without a file. Adjacent mappings become one range. */
static void add_anonymous(struct reach *reach, uint64_t start, uint64_t end) {
    size_t count = reach->anonymous_count;
    if (count > 0 && reach->anonymous[count - 1].end == start) {
        reach->anonymous[count - 1].end = end;
        return;
    }
    if ((count & (count - 1)) == 0)
        reach->anonymous = cli_grow(reach->anonymous, 2 * count + 1, sizeof *reach->anonymous);
    reach->anonymous[reach->anonymous_count++] = (struct reach_range){start, end};
}

static bool read_mappings(struct reach *reach, pid_t pid) {
    char path[64], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (getline(&line, &room, file) > 0) {
        uint64_t start, end;
        int name_at = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &start, &end, &name_at) !=
                2 ||
            name_at == 0)
            continue;
        if (line[name_at] == '/')
            reach_add_mapping(reach, start, end, line + name_at);
        else if (line[name_at] == '\0' || line[name_at] == '[')
            add_anonymous(reach, start, end);
    }
    free(line);
    fclose(file);
    return true;
}

static bool fail_to_open(pid_t pid, const char *what, struct cli_failure *failure) {
    int error = errno;
    bool forbidden = error == EACCES || error == EPERM;
    return cli_fail(failure, forbidden ? CLI_NOT_PERMITTED : CLI_NO_TARGET,
                    "/proc/%d/%s cannot be read; %s; %s", (int)pid, what, strerror(error),
                    forbidden ? "run memctx as root, or as the process's user where "
                                "kernel.yama.ptrace_scope is 0"
                              : "see memctx ps");
}

bool reach_open_process(struct reach *reach, pid_t pid, struct cli_failure *failure) {
    char path[64], exe[PATH_MAX];
    *reach = (struct reach){.fd = -1, .pagemap = -1, .pid = pid};
    if (!read_mappings(reach, pid))
        return fail_to_open(pid, "maps", failure);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    reach->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reach->fd < 0) {
        fail_to_open(pid, "mem", failure);
        reach_close(reach);
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    reach->pagemap = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, exe, sizeof exe - 1);
    if (length > 0) {
        exe[length] = '\0';
        reach->exe = cli_copy(exe);
    }
    return true;
}

void reach_close(struct reach *reach) {
    for (size_t i = 0; i < reach->mapping_count; i++)
        free(reach->mappings[i].name);
    free(reach->mappings);
    free(reach->anonymous);
    free(reach->pieces);
    free(reach->exe);
    if (reach->fd >= 0)
        close(reach->fd);
    if (reach->pagemap >= 0)
        close(reach->pagemap);
    *reach = (struct reach){.fd = -1, .pagemap = -1};
}

bool reach_has_ended(const struct reach *reach) {
    char byte;
    /* If the memory is gone, the kernel reads no byte. An address that is not mapped is an error.
     */
    return !reach->is_core && pread(reach->fd, &byte, 1, OS_PAGE_BYTES) == 0;
}

static bool read_at(int fd, uint64_t offset, char *to, size_t bytes) {
    while (bytes > 0) {
        ssize_t got = offset > INT64_MAX ? -1 : pread(fd, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

/* Returns the last piece that starts at or before the address. */
static const struct reach_piece *find_piece(const struct reach *reach, uint64_t address) {
    size_t low = 0, high = reach->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reach->pieces[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &reach->pieces[low - 1] : NULL;
}

bool reach_read(const struct reach *reach, uint64_t address, void *to, size_t bytes) {
    char *at = to;
    if (address == 0 || address + bytes < address)
        return false;
    if (!reach->is_core)
        return read_at(reach->fd, address, at, bytes);
    while (bytes > 0) { /* a table may lie in several adjacent pieces */
        const struct reach_piece *piece = find_piece(reach, address);
        if (!piece || address - piece->start >= piece->bytes)
            return false;
        uint64_t there = piece->bytes - (address - piece->start);
        size_t part = bytes < there ? bytes : (size_t)there;
        if (!read_at(reach->fd, piece->offset + (address - piece->start), at, part))
            return false;
        at += part;
        address += part;
        bytes -= part;
    }
    return true;
}

uint64_t reach_hole_bytes(const struct reach *reach, uint64_t address) {
    const struct reach_piece *piece = reach->is_core ? find_piece(reach, address) : NULL;
    if (!piece || address - piece->start >= piece->bytes)
        return 0;
    off_t at = (off_t)(piece->offset + (address - piece->start));
    off_t data = lseek(reach->fd, at, SEEK_DATA);
    return data < 0 ? (errno == ENXIO ? UINT64_MAX : 0) : (uint64_t)(data - at);
}

/* True if the range was anonymous memory when the process was opened. */
static bool is_anonymous(const struct reach *reach, uint64_t address, size_t bytes) {
    size_t low = 0, high = reach->anonymous_count; /* finds the first range that ends behind */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reach->anonymous[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reach->anonymous_count && reach->anonymous[low].start <= address &&
           address + bytes <= reach->anonymous[low].end;
}

bool reach_read_touched(const struct reach *reach, uint64_t address, void *to, size_t bytes) {
    uint64_t words[64];
    char *at = to;
    if (address == 0 || address + bytes < address)
        return false;
    /* An address that is not mapped, and a page of a file, are not zero. */
    bool looks = !reach->is_core && reach->pagemap >= 0 && is_anonymous(reach, address, bytes);
    while (looks && bytes > 0) {
        size_t before = address % OS_PAGE_BYTES, run = 0;
        size_t count = (before + bytes + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES;
        count = count < sizeof words / sizeof *words ? count : sizeof words / sizeof *words;
        if (!read_at(reach->pagemap, address / OS_PAGE_BYTES * sizeof *words, (char *)words,
                     count * sizeof *words))
            break;
        bool there = words[0] >> 62; /* "page present", "page swapped" */
        while (run < count && (words[run] >> 62 != 0) == there)
            run++;
        size_t part = run * OS_PAGE_BYTES - before;
        part = part < bytes ? part : bytes;
        if (!there)
            memset(at, 0, part);
        else if (!read_at(reach->fd, address, at, part))
            return false;
        at += part;
        address += part;
        bytes -= part;
    }
    return bytes == 0 || reach_read(reach, address, at, bytes);
}

/* Reads up to the end of an OS page at a time, because the next OS page may be missing. */
bool reach_read_text(const struct reach *reach, uint64_t address, char *to, size_t room) {
    while (room > 0) {
        size_t part = OS_PAGE_BYTES - address % OS_PAGE_BYTES;
        part = part < room ? part : room;
        if (!reach_read(reach, address, to, part))
            return false;
        if (memchr(to, 0, part))
            return true;
        to += part;
        address += part;
        room -= part;
    }
    return false;
}

/* Calls `take` for each OS page of the file that is not all zeros. */
static void each_not_zero(const struct reach *reach, const struct reach_piece *piece, uint64_t at,
                          uint64_t stop, void (*take)(uint64_t start, uint64_t end, void *argument),
                          void *argument) {
    char bytes[16 * OS_PAGE_BYTES];
    while (at < stop) {
        size_t wanted = stop - at < sizeof bytes ? (size_t)(stop - at) : sizeof bytes;
        ssize_t got = pread(reach->fd, bytes, wanted, (off_t)at);
        if (got <= 0)
            return;
        for (size_t i = 0; i < (size_t)got; i += OS_PAGE_BYTES) {
            size_t part = (size_t)got - i < OS_PAGE_BYTES ? (size_t)got - i : OS_PAGE_BYTES;
            uint64_t start = piece->start + (at + i - piece->offset);
            if (bytes[i] != 0 || memcmp(bytes + i, bytes + i + 1, part - 1) != 0)
                take(start, start + part, argument);
        }
        at += (uint64_t)got;
    }
}

/* Calls `take` for each run of bytes of a piece that the file holds. The kernel leaves a hole for
 * memory that was not resident. */
static void each_held(const struct reach *reach, const struct reach_piece *piece, uint64_t from,
                      uint64_t end, void (*take)(uint64_t start, uint64_t end, void *argument),
                      void *argument) {
    uint64_t stop = piece->offset + (end - piece->start);
    off_t at = (off_t)(piece->offset + (from - piece->start));
    if (reach->is_filled) {
        each_not_zero(reach, piece, (uint64_t)at, stop, take, argument);
        return;
    }
    while ((uint64_t)at < stop) {
        off_t data = lseek(reach->fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) /* nothing but a hole up to the end of the file */
            return;
        off_t hole = data < 0 ? -1 : lseek(reach->fd, data, SEEK_HOLE);
        if (data < 0 || hole <= data) { /* the file system does not tell holes */
            data = at;
            hole = (off_t)stop;
        }
        if ((uint64_t)data >= stop)
            return;
        take(piece->start + ((uint64_t)data - piece->offset),
             piece->start + ((uint64_t)hole < stop ? (uint64_t)hole : stop) - piece->offset,
             argument);
        at = hole;
    }
}

struct held {
    uint64_t address, bytes; /* bytes: sum over the runs */
    unsigned char *resident; /* NULL: only the sum is wanted */
};

static void take_held(uint64_t start, uint64_t end, void *argument) {
    struct held *held = argument;
    held->bytes += end - start;
    for (uint64_t at = start; held->resident && at < end; at += OS_PAGE_BYTES)
        held->resident[(at - held->address) / OS_PAGE_BYTES] = 1;
}

/* Marks the OS pages that a core file holds. */
static void read_held(const struct reach *reach, uint64_t address, unsigned char *resident,
                      size_t count) {
    struct held held = {.address = address, .resident = resident};
    uint64_t end = address + count * OS_PAGE_BYTES;
    memset(resident, 0, count);
    const struct reach_piece *piece = find_piece(reach, address);
    for (piece = piece ? piece : reach->pieces;
         piece < reach->pieces + reach->piece_count && piece->start < end; piece++) {
        uint64_t piece_end = piece->start + piece->bytes;
        uint64_t from = piece->start > address ? piece->start : address;
        if (piece_end > from)
            each_held(reach, piece, from, piece_end < end ? piece_end : end, take_held, &held);
    }
}

int64_t reach_held_bytes(const struct reach *reach) {
    struct held held = {0};
    for (size_t i = 0; i < reach->piece_count; i++)
        each_held(reach, &reach->pieces[i], reach->pieces[i].start,
                  reach->pieces[i].start + reach->pieces[i].bytes, take_held, &held);
    return (int64_t)held.bytes;
}

bool reach_read_resident(const struct reach *reach, uint64_t address, unsigned char *resident,
                         size_t count) {
    uint64_t words[1024] = {0};
    if (reach->is_core) {
        read_held(reach, address, resident, count);
        return true;
    }
    while (count > 0) {
        size_t part = count < sizeof words / sizeof *words ? count : sizeof words / sizeof *words;
        if (reach->pagemap < 0 || !read_at(reach->pagemap, address / OS_PAGE_BYTES * sizeof *words,
                                           (char *)words, part * sizeof *words))
            return false;
        for (size_t i = 0; i < part; i++)
            *resident++ = words[i] >> 63; /* "page present" */
        address += part * OS_PAGE_BYTES;
        count -= part;
    }
    return true;
}
