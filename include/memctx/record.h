/* SPDX-License-Identifier: MIT */
/*
 * record.h - the file of the black box (MEMCTX_RECORD), which the library writes and the command
 * reads.
 *
 * The file has four kinds of parts, and a fifth one if the command added names. The head names the
 * process, and is written once. The end is written when the program ends by itself, or when the
 * recording ends before the program (enum record_ending). Two directories take turns: each lists
 * the watched contexts with all of their callers, and the modules. The ring holds moments: the
 * totals, and the figures of the watched contexts. A moment refers to contexts by their ids, which
 * the newest directory explains. Each part is a struct record_block and its body, with a checksum
 * over both. If the writer is killed while it writes a block, the checksum of that block is wrong;
 * all other blocks stay valid.
 *
 * Integers are little-endian in their natural alignment, and structs are stored as they are in
 * memory. docs/record.md has the sizes and the reasons.
 */
#ifndef MEMCTX_RECORD_H
#define MEMCTX_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <memctx/wire.h>

#define RECORD_MAGIC "MCTXREC1" /* the first bytes of the file */
#define RECORD_MAGIC_BYTES 8
#define RECORD_VERSION 3
/* The oldest version that the command reads. Its moments have no struct record_held. */
#define RECORD_VERSION_READ 2
#define RECORD_FILE_BYTES (16UL << 20) /* upper bound of the file's size */
#define RECORD_FOLDER_MAX 511U         /* greatest number of bytes of the path of MEMCTX_RECORD */
#define RECORD_HEAD_AT 0UL
#define RECORD_END_AT 3072UL
#define RECORD_DIRECTORY_AT 4096UL
#define RECORD_DIRECTORY_BYTES (1536UL << 10) /* bytes of each directory */
#define RECORD_RING_AT (RECORD_DIRECTORY_AT + 2 * RECORD_DIRECTORY_BYTES)
/* Two places for names of functions, which the command writes in turns (memctx run --names). */
#define RECORD_NAMES_BYTES (512UL << 10) /* bytes of each place */
#define RECORD_NAMES_AT (RECORD_FILE_BYTES - 2 * RECORD_NAMES_BYTES)
#define RECORD_RING_BYTES (RECORD_NAMES_AT - RECORD_RING_AT)
/* While a process writes into the file, it holds an exclusive lock (F_OFD_SETLK) on the byte at
 * this offset. The file ends before it, because some network file systems let nobody else read
 * locked bytes. */
#define RECORD_LOCK_AT RECORD_FILE_BYTES
/* A moment begins at a multiple of RECORD_ALIGN, counted from the start of the ring. */
#define RECORD_ALIGN 64UL
/* The id of the context that stands for all contexts that are not watched. */
#define RECORD_REST (WIRE_NONE - 1)
/* The id of the context to which the reader adds the entries whose contexts the newest directory
 * does not explain any more. An entry with this id is the sum of contexts whose paths no directory
 * in the file has. */
#define RECORD_FORGOTTEN (WIRE_NONE - 2)

enum record_kind {
    RECORD_HEAD = 0x44484352,      /* struct record_head */
    RECORD_END = 0x44454352,       /* struct record_end */
    RECORD_DIRECTORY = 0x52444352, /* pieces, each behind a struct record_piece */
    RECORD_MOMENT = 0x4d4d4352,    /* struct record_moment and its entries */
    RECORD_NAMES = 0x4d4e4352,     /* a snapshot of a moment in the packed form, with names */
};

struct record_block {
    uint32_t kind;     /* enum record_kind */
    uint32_t bytes;    /* bytes of the body that follows */
    uint64_t sequence; /* rises with each directory, and with each moment */
    uint64_t body_sum; /* record_sum of the body */
    uint64_t sum;      /* record_sum of the members above */
};

struct record_head {
    char magic[RECORD_MAGIC_BYTES];
    uint32_t version;
    uint32_t pid;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat */
    char boot_id[40];     /* tells the boots of a machine apart */
    char library_version[32];
    char program[64]; /* argv[0]; folders that precede its first space are cut off */
    char cgroup[512]; /* the folder with the files of the control group; empty: none was found */
    uint64_t cgroup_inode; /* inode number of that folder; 0: not known */
    uint32_t v1;           /* 1: a control group of version 1 */
    uint32_t wire_version; /* WIRE_VERSION: directories and moments have structs of wire.h */
    char exe[1024];
};

enum record_ending {
    RECORD_ENDED_NORMALLY = 1, /* the library's exit handler ran */
    RECORD_ENDED_RESTRICTED,   /* the program forbade itself system calls, so the recording ended */
    RECORD_ENDED_SWITCHED_OFF, /* memctx set ended the recording or began another one */
};

struct record_end {
    uint64_t wall_ns, uptime_ns;
    uint32_t ending; /* enum record_ending */
    uint32_t reserved;
};

/* In a directory, this struct precedes each piece. The piece has the form in which a process sends
 * it over the socket; `part` is its enum wire_part, `bytes` its length. Pieces of part RECORD_SINCE
 * have structs record_since instead, by rising id. There are such pieces only if the library has
 * given an id of a removed path to another path. The pieces list all watched contexts. The path
 * that the directory names for an id may be wrong for an entry in a moment before `since`, and for
 * an entry whose id is not listed. */
struct record_piece {
    uint32_t part, bytes;
};

#define RECORD_SINCE 0x53444352U

struct record_since {
    uint32_t id;
    /* In moments before this sequence number, the id may stand for another path; 0: in all moments.
     */
    uint32_t since;
};

struct record_moment {
    uint64_t wall_ns; /* CLOCK_REALTIME */
    uint64_t uptime_ns;
    uint32_t entries, entry_bytes;
    uint32_t lost; /* number of directories and moments that could not be written */
    uint32_t uid;  /* effective user now; another user may have made the file */
    /* 0: use and limit are the control group's own; N: those of the Nth group above it */
    uint32_t cgroup_above;
    /* 1: a struct record_pages follows this struct, and each entry has RECORD_HELD_NUMBERS further
     * numbers; 0: this moment says nothing about pages. Version 2: always 0. */
    uint32_t paged;
    /* Use and limit of the control group, or of a group above it if that group's limit leaves less
     * room. The use is without file contents and kernel memory that the kernel can take back
     * (inactive_file, active_file, slab_reclaimable). The kills are those in the control group
     * itself. WIRE_UNKNOWN: the group has no file with the figure, or no
     * limit. */
    int64_t cgroup_bytes, cgroup_limit, cgroup_oom_kills;
    struct wire_sums rest; /* the sum over the contexts that have figures, but no entry */
    /* The members of struct wire_dump before `exe`. Their sums cover all contexts.
     * ledger.pages_reserved has the bytes in all pages and large chunks, mixed pages included; 0 if
     * a library before 2026-11-28 wrote the moment. */
    char dump[offsetof(struct wire_dump, exe)];
};

/* The memory that a context holds. Its pages are those that belong to it alone; in a page that it
 * shares with other contexts it holds its blocks. */
struct record_held {
    int64_t block_bytes;       /* blocks of its live chunks; large chunks in whole OS pages */
    int64_t reserved_bytes;    /* its pages, its large chunks, and its blocks in shared pages */
    int64_t alone_bytes;       /* pages and large chunks that only its chunks keep in use */
    int64_t alone_free_bytes;  /* the part of alone_bytes that holds no chunk */
    int64_t shared_free_bytes; /* its part, by chunks, of the free memory in shared pages in use */
};
#define RECORD_HELD_NUMBERS 5U

/* Sums over all pages. OS pages from which no block was ever handed out, and those that went back
 * to the kernel, do not count. */
struct record_pages {
    int64_t own_bytes;         /* pages of one context, and large chunks */
    int64_t mixed_bytes;       /* pages that contexts share */
    int64_t mixed_block_bytes; /* live blocks in these */
    struct record_held rest;   /* sum over the contexts that have no entry */
};

/* Entries follow a moment, by rising id. An entry consists of numbers of variable length (LEB128):
 * each byte holds seven bits of the number, the lowest first, and its highest bit says that more
 * bytes follow. A signed number is first doubled, and inverted if it is negative, so that numbers
 * near 0 are short.
 *   the id less the id of the entry before, times 4; plus RECORD_FREED or RECORD_PEAK or both
 *   signed: live bytes; signed: live chunks
 *   with RECORD_FREED: allocations, bytes ever allocated; without it nothing was ever freed
 *   with RECORD_PEAK: the highest live bytes
 *   signed, if the moment is paged: the members of struct record_held in their order, the first
 *   less the live bytes, the second less the first */
#define RECORD_FREED 1U
#define RECORD_PEAK 2U

/* Returns the checksum of the bytes, continued from `sum`; the first part continues from
 * RECORD_SUM_SEED. If another part follows, `length` must be a multiple of 8. */
static inline uint64_t record_sum(const void *bytes, size_t length, uint64_t sum) {
    const unsigned char *at = (const unsigned char *)bytes;
    uint64_t word;
    for (; length > 0; at += sizeof word, length -= sizeof word) {
        word = 0;
        __builtin_memcpy(&word, at, length < sizeof word ? length : sizeof word);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 29;
        if (length < sizeof word)
            break;
    }
    return sum;
}

#define RECORD_SUM_SEED 0x6d656d637478ULL

#endif
