/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - declarations for the files of the black box; record.h is for the rest of the
 * library.
 *
 * record.c decides when a moment is due, record_file.c has the file, record_watched.c chooses the
 * contexts, record_directory.c and record_moment.c write them, record_pages.c adds up their pages,
 * record_cgroup.c reads the control group.
 *
 * Threads: the control thread, except recorder_write_end.
 */
#ifndef MEMCTX_CONTROL_RECORDER_H
#define MEMCTX_CONTROL_RECORDER_H

#include "control/descriptors.h"
#include "control/record.h"
#include "control/ring.h"
#include "figures/sums.h"

#include <memctx/record.h>

#define WATCHED_MAX 2048U         /* greatest number of contexts that are watched */
#define MOMENT_BYTES (64UL << 10) /* bytes of a moment, at most */
#define PIECE_BYTES 16384U        /* bytes of a piece of a directory, at most */
/* The pause after a moment is at least RECORD_SHARE times the CPU time that the moment took.
 * Elapsed time would also count other programs on a busy machine, and the pauses would become
 * minutes. */
#define RECORD_SHARE 500U

struct watched {
    uint32_t id;
    /* number of the last moment at which the context had a name or walk.least bytes */
    uint32_t large;
    /* The context's id has had its present meaning since the moment with this number, or longer. 0:
     * no id had changed its meaning when the context began to be watched. */
    uint32_t since;
    struct sum sum;
};

/* Memory for one moment, about 510 KiB; mapped while the process records. */
struct record_tables {
    /* The contexts watched now, and those watched at the last moment; by rising id. */
    struct watched watched[WATCHED_MAX], before[WATCHED_MAX];
    struct record_held held[WATCHED_MAX]; /* of the watched contexts; valid in a paged moment */
    char piece[PIECE_BYTES + sizeof(struct record_piece)];
    char moment[MOMENT_BYTES];
};

struct recorder {
    char directory[RECORD_FOLDER_MAX + 1];
    char path[640];         /* path of the recording's file */
    bool at_once;           /* the first moment is due 100 ms after the start, else 2 s */
    bool complained;        /* the message that the directory cannot be used was printed */
    uint32_t owner;         /* atomic: pid of the process that made the file; 0: no file yet */
    struct held file;       /* fd -1: not open now */
    uint64_t device, inode; /* device and inode of that file */
    uint64_t next_ns;       /* time of the next moment; 0: not chosen yet */
    uint64_t quiet_ns;      /* growth causes no moment before this time */
    uint64_t look_ns;       /* record_look does nothing before this time */
    uint64_t directory_ns;  /* when the directory was last written */
    int64_t high_bytes;     /* bytes in use from which growth is measured */
    struct ring ring;
    uint32_t sequence, directories;      /* number of the last moment; directories written */
    uint32_t listed;                     /* number of the moment that the last directory precedes */
    uint32_t modules, closed;            /* in the last directory: modules; closed modules */
    uint64_t identifiers;                /* checksum over the identifiers in the last directory */
    bool changed;                        /* the last directory does not list all watched contexts */
    bool unpin;                          /* some contexts are TREE_MARKED, but no longer watched */
    int64_t moments, lost, bytes, error; /* figures of struct record_counts */
    char cgroup[512];                    /* folder of the control group; "": none was found */
    size_t cgroup_top;                   /* bytes of `cgroup` that are the mount point */
    bool cgroup_v1;
    struct record_tables *tables; /* NULL: not mapped */
    /* For looks at pages (record_pages.c): CPU time that they may take; the time up to which this
     * credit was counted; when the last look was made; CPU time that the last look took. */
    int64_t credit_ns;
    uint64_t credit_at_ns, paged_at_ns, paged_cpu_ns;
    /* Numbers of watched contexts: of all; of those watched for their name; of those without a name
     * that were large only earlier. */
    uint32_t count, named, earlier;
};
INTERNAL struct recorder *recorder; /* NULL: this process is not to be recorded */

/* --- record_file.c ---------------------------------------------------------------------------- */

/* Counts a part of the recording that is lost. `error` is a negative error number. Returns false.
 */
bool recorder_failed(long error);
/* Opens the file. `make`: makes it if there is none, and begins it anew if it was cut off. False:
 * it could not be opened; with `make`, recorder_failed has counted that. */
bool recorder_open_file(bool make);
/* Writes into the file that is open. False: recorder_failed has counted the loss. */
bool recorder_write(const void *bytes, size_t length, uint64_t at);
/* Writes a block into the ring. False: recorder_failed has counted the loss. */
bool recorder_write_in_ring(const void *block, size_t bytes);
/* Returns the head of a block, with its checksum. */
struct record_block recorder_block(enum record_kind kind, uint64_t sequence, size_t bytes,
                                   uint64_t body_sum);
/* Writes that the program ended, or that the recording ended. Any thread. */
void recorder_write_end(int fd, enum record_ending ending);
/* Returns record_sum. Only this function inlines record_sum, so the library has its code once. */
uint64_t recorder_sum(const void *bytes, size_t length, uint64_t sum);
uint64_t recorder_wall_ns(void); /* CLOCK_REALTIME */

/* --- record_cgroup.c -------------------------------------------------------------------------- */

/* Finds the folder of the control group below /sys/fs/cgroup. */
void recorder_find_cgroup(void);
/* Returns the inode number of the control group's folder; 0: it is not known. */
uint64_t recorder_cgroup_inode(void);
/* Writes use, limit and number of OOM kills of the process's control group into the moment. If a
 * group above it has a limit that leaves fewer bytes, use and limit are those of that group. */
void recorder_read_cgroup(struct record_moment *moment);

/* --- record_watched.c ------------------------------------------------------------------------- */

struct walk {
    int64_t least;   /* a context with at least this many live bytes is large */
    uint32_t cutoff; /* contexts last large at this moment or earlier are no longer watched */
    uint32_t place, before_count; /* index in tables->before, and its length */
    struct sum all, rest;         /* sum over all contexts; over those that are not watched */
};

/* Reads the figures of all contexts and chooses anew which contexts are watched. False: no memory;
 * recorder_failed has counted that. */
bool recorder_read_contexts(struct walk *walk);
/* Returns the first id from `id` on whose bit is set; `count` if no bit is set. */
uint32_t recorder_next_id(const uint64_t *bits, uint32_t id, uint32_t count);

/* --- record_directory.c, record_moment.c ------------------------------------------------------ */

/* Writes a directory over the older of the two, if the newer directory does not list all watched
 * contexts or modules, has other identifiers than the contexts have now, or is a minute old. False:
 * recorder_failed has counted the loss. */
bool recorder_write_directory(uint64_t now);
/* Writes a moment with the contexts that recorder_read_contexts has chosen. `pages`: NULL, or the
 * sums that recorder_read_pages has made. */
void recorder_write_moment(struct walk *walk, struct record_pages *pages);

/* --- record_pages.c --------------------------------------------------------------------------- */

/* Adds up the pages of all contexts, those of the watched ones in tables->held. False: the CPU
 * time for looks at pages is used up, or there is no memory. */
bool recorder_read_pages(struct record_pages *pages, uint64_t now);
/* Counts `cpu_ns` of work for the recording, looks at pages included. Returns the part of it that
 * the next pause has to make up for. */
uint64_t recorder_pay(uint64_t cpu_ns, bool paged);
void recorder_add_held(struct record_held *sum, const struct record_held *part);

#endif
