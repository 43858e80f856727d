/* SPDX-License-Identifier: MIT */
/*
 * The file of the black box: makes and opens it, writes its head and its end, finds places in its
 * ring.
 *
 * When a process is killed, the kernel's page cache keeps the bytes that the process wrote. Nothing
 * is flushed to the disk, so a recording does not outlive a power failure.
 */
#include "control/control.h"
#include "control/recorder.h"
#include "control/server.h"
#include "os/os.h"
#include "os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

#define STEP_BYTES (256UL << 10) /* the file grows in steps of this size, up to the ring's size */

/* Replicas in containers may share a directory, and have the same pid and name. Up to this number
 * of them get a file each. */
#define SAME_NAME_MAX 1000

/* Writes "DIR/memctx-PID-NAME"; from number 2 on, "-NUMBER"; and the ending, ".rec" or ".1.rec". */
static void make_path(struct text *text, int number, const char *ending) {
    char name[32] = {0};
    text_add(text, recorder->directory);
    text_add(text, "/memctx-");
    text_add_number(text, os_process_id());
    text_add(text, "-");
    int64_t length = os_read_file("/proc/self/comm", name, sizeof name);
    for (int64_t i = 0; i < length && name[i] && name[i] != '\n'; i++) {
        char c = name[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || (c == '.' && i);
        text_add_bytes(text, plain ? &c : "_", 1);
    }
    if (number > 1) {
        text_add(text, "-");
        text_add_number(text, number);
    }
    text_add(text, ending);
    text->bytes[text->length] = 0;
}

bool recorder_failed(long error) {
    recorder->error = -error;
    recorder->lost++;
    return false;
}

/* True when recorder->file is still this process's recording. In a descriptor table that the
 * control thread shares, the program may have closed the file and opened another file under its
 * number. False: recorder_failed has counted the loss. */
static bool is_still_open(void) {
    return descriptors_is_held(&recorder->file) || recorder_failed(-EBADF);
}

bool recorder_write(const void *bytes, size_t length, uint64_t at) {
    if (!is_still_open())
        return false;
    for (size_t done = 0; done < length;) {
        long wrote = OS_CALL(SYS_pwrite64, recorder->file.fd, (const char *)bytes + done,
                             length - done, at + done, 0, 0);
        if (wrote == -EINTR)
            continue;
        if (OS_FAILED(wrote) || !wrote)
            return recorder_failed(wrote ? wrote : -ENOSPC);
        done += (size_t)wrote;
    }
    recorder->bytes += (int64_t)length;
    return true;
}

uint64_t recorder_sum(const void *bytes, size_t length, uint64_t sum) {
    return record_sum(bytes, length, sum);
}

struct record_block recorder_block(enum record_kind kind, uint64_t sequence, size_t bytes,
                                   uint64_t body_sum) {
    struct record_block block = {
        .kind = kind, .bytes = (uint32_t)bytes, .sequence = sequence, .body_sum = body_sum};
    block.sum = recorder_sum(&block, offsetof(struct record_block, sum), RECORD_SUM_SEED);
    return block;
}

static void copy_text(char *to, size_t capacity, const char *from) {
    struct text text = {.bytes = to, .capacity = capacity - 1};
    text_add(&text, from);
    to[text.length] = 0;
}

/* Writes argv[0] without its folders. Behind the first space slashes are no folders, because the
 * program may have put a title there ("nginx: worker process"). When the process's first thread has
 * ended, /proc/self has no arguments; /proc/thread-self still has them. */
static void read_program(char *to, size_t capacity) {
    char room[1024];
    int64_t length = os_read_file("/proc/thread-self/cmdline", room, sizeof room);
    const char *name = room;
    for (int64_t i = 0; i < length && room[i] && room[i] != ' '; i++)
        name = room[i] == '/' ? room + i + 1 : name;
    copy_text(to, capacity, length > 0 ? name : "");
}

static bool write_head(void) {
    struct {
        struct record_block block;
        struct record_head head;
    } out = {.head = {.version = RECORD_VERSION,
                      .wire_version = WIRE_VERSION,
                      .pid = os_process_id(),
                      .cgroup_inode = recorder_cgroup_inode()}};
    struct record_head *head = &out.head;
    char room[64];
    __builtin_memcpy(head->magic, RECORD_MAGIC, RECORD_MAGIC_BYTES);
    head->start_ticks = server_start_ticks();
    /* A boot id has 36 characters. */
    if (os_read_file("/proc/sys/kernel/random/boot_id", room, sizeof room) > 36) {
        room[36] = 0;
        copy_text(head->boot_id, sizeof head->boot_id, room);
    }
    copy_text(head->library_version, sizeof head->library_version, MEMCTX_VERSION);
    read_program(head->program, sizeof head->program);
    copy_text(head->cgroup, sizeof head->cgroup, recorder->cgroup);
    head->v1 = recorder->cgroup_v1;
    if (os_read_link("/proc/thread-self/exe", head->exe, sizeof head->exe) <= 0)
        head->exe[0] = 0;
    out.block = recorder_block(RECORD_HEAD, 0, sizeof out.head,
                               recorder_sum(&out.head, sizeof out.head, RECORD_SUM_SEED));
    _Static_assert(sizeof out <= RECORD_END_AT, "the end stands behind the head");
    return recorder_write(&out, sizeof out, RECORD_HEAD_AT);
}

/* Takes a lock on the file, which says that a process still writes into it. The kernel drops the
 * lock when the process ends, executes another program or closes the file. False: another process
 * has the lock. Some file systems have no locks; there the result is true. */
static bool lock(int fd) {
    struct flock byte = {.l_type = F_WRLCK, .l_start = RECORD_LOCK_AT, .l_len = 1};
    return OS_CALL(SYS_fcntl, fd, F_OFD_SETLK, &byte, 0, 0, 0) != -EAGAIN;
}

static bool exists(const char *path) {
    struct stat status;
    return !OS_CALL(SYS_newfstatat, AT_FDCWD, path, &status, 0, 0, 0);
}

/* Makes a file whose name has this number. First renames an older file of that name to .1.rec: in a
 * container the next program often has the same pid. Returns its descriptor; -EEXIST: the name
 * belongs to the file of a process that still writes, or to one that this user may not open. */
static long make_numbered(int number) {
    char old[640];
    struct text path = {.bytes = recorder->path, .capacity = sizeof recorder->path - 1};
    struct text kept = {.bytes = old, .capacity = sizeof old - 1};
    make_path(&path, number, ".rec");
    make_path(&kept, number, ".1.rec");
    /* O_NONBLOCK: somebody may have put a FIFO there */
    long older = OS_CALL(SYS_openat, AT_FDCWD, path.bytes,
                         O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (older == -EACCES && exists(path.bytes))
        return -EEXIST;
    if (!OS_FAILED(older) && !lock((int)older)) {
        OS_CALL(SYS_close, older, 0, 0, 0, 0, 0);
        return -EEXIST;
    }
    if (older != -ENOENT)
        OS_CALL(SYS_rename, path.bytes, old, 0, 0, 0, 0);
    long fd = OS_CALL(SYS_openat, AT_FDCWD, path.bytes,
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600, 0, 0);
    /* The older file stays locked until the new file is locked, so that no other process makes a
     * file of this name meanwhile. */
    bool mine = OS_FAILED(fd) || lock((int)fd);
    if (!OS_FAILED(older))
        OS_CALL(SYS_close, older, 0, 0, 0, 0, 0);
    if (mine)
        return fd;
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0); /* another process is about to rename it to .1.rec */
    return -EEXIST;
}

/* Writes the head into an empty file. */
static bool begin_file(void) {
    recorder->ring =
        (struct ring){.most = RECORD_RING_BYTES, .step = STEP_BYTES, .unit = RECORD_ALIGN};
    recorder->changed = true;
    recorder_find_cgroup();
    return write_head();
}

static bool make_file(void) {
    long fd = -EEXIST;
    if (!recorder->directory[0])
        return recorder_failed(-ENAMETOOLONG);
    for (int number = 1; fd == -EEXIST && number <= SAME_NAME_MAX; number++)
        fd = make_numbered(number);
    if (OS_FAILED(fd))
        return recorder_failed(fd);
    if (!descriptors_hold(&recorder->file, (int)fd)) {
        /* Removes the empty file. Otherwise the next try would rename it to .1.rec, over an older
         * recording. */
        OS_CALL(SYS_unlink, recorder->path, 0, 0, 0, 0, 0);
        return recorder_failed(-EMFILE);
    }
    recorder->device = recorder->file.device;
    recorder->inode = recorder->file.inode;
    if (!begin_file()) {
        descriptors_let_go(&recorder->file);
        OS_CALL(SYS_unlink, recorder->path, 0, 0, 0, 0, 0);
        return false;
    }
    store_release(&recorder->owner, os_process_id());
    return true;
}

/* Opens again the file that this process made before. Sets *gone if the file is no longer there, or
 * if the process may not open it any more. False without *gone: the file may still be there, but
 * cannot be opened now. */
static bool reopen(bool *gone) {
    /* O_NONBLOCK: somebody may have put a FIFO there */
    long fd = OS_CALL(SYS_openat, AT_FDCWD, recorder->path,
                      O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    /* EACCES, EPERM: the process may have changed its user since */
    *gone = fd == -ENOENT || fd == -ELOOP || fd == -ENXIO || fd == -EISDIR || fd == -EACCES ||
            fd == -EPERM;
    if (OS_FAILED(fd))
        return !*gone && recorder_failed(fd);
    if (!descriptors_hold(&recorder->file, (int)fd))
        return recorder_failed(-EMFILE);
    if (recorder->file.device == recorder->device && recorder->file.inode == recorder->inode) {
        lock(recorder->file.fd);
        static const char none[sizeof(struct record_block)];
        recorder_write(none, sizeof none, RECORD_END_AT); /* erases the end that the file has */
        return true;
    }
    descriptors_let_go(&recorder->file);
    *gone = true;
    return false;
}

/* True if the open file has no name any more. Some file systems report 0 links for every file, so
 * the path is looked at, too. */
static bool was_removed(const struct stat *file) {
    struct stat named = {0};
    return !file->st_nlink && (OS_CALL(SYS_newfstatat, AT_FDCWD, recorder->path, &named, 0, 0, 0) ||
                               named.st_dev != file->st_dev || named.st_ino != file->st_ino);
}

/* True if the open file is shorter than the library wrote it, as logrotate's copytruncate makes it.
 * Without its head the file could never be read. */
static bool was_truncated(const struct stat *file) {
    uint64_t written = recorder->ring.written;
    return (uint64_t)file->st_size <
           (written ? RECORD_RING_AT + written
                    : sizeof(struct record_block) + sizeof(struct record_head));
}

bool recorder_open_file(bool make) {
    bool gone = true;
    struct stat file = {0};
    if (descriptors_is_held(&recorder->file)) {
        bool known = !OS_CALL(SYS_fstat, recorder->file.fd, &file, 0, 0, 0, 0);
        if (!known || !was_removed(&file))
            return !known || !was_truncated(&file) || (make && begin_file());
        descriptors_let_go(&recorder->file);
    }
    recorder->file.fd = -1;
    return (recorder->owner && reopen(&gone)) || (make && gone && make_file());
}

/* Takes room for `bytes` bytes in the ring. Returns its offset in the file; 0: no room. */
static uint64_t find_place(size_t bytes) {
    struct ring *ring = &recorder->ring;
    if (!is_still_open())
        return 0;
    uint64_t wanted = ring_wanted(ring, bytes);
    long error = wanted ? OS_CALL(SYS_fallocate, recorder->file.fd, FALLOC_FL_KEEP_SIZE,
                                  RECORD_RING_AT + ring->end, wanted - ring->end, 0, 0)
                        : 0;
    if (error == -EOPNOTSUPP ||
        error == -ENOSYS) /* no fallocate here: the write finds out whether there is room */
        error = 0;
    if (wanted && !error)
        ring->end = wanted;
    uint64_t at = ring_take(ring, bytes);
    return at == RING_NO_ROOM ? (uint64_t)recorder_failed(error ? error : -EFBIG)
                              : RECORD_RING_AT + at;
}

/* A file system that cannot reserve room (NFS, FUSE) refuses the write itself when the disk is
 * full. Then the block overwrites the oldest blocks. */
bool recorder_write_in_ring(const void *block, size_t bytes) {
    int64_t lost = recorder->lost;
    uint64_t place = find_place(bytes);
    if (!place)
        return false;
    bool good = recorder_write(block, bytes, place);
    int64_t error = recorder->error;
    if (!good && (error == ENOSPC || error == EDQUOT || error == EFBIG) &&
        ring_refuse(&recorder->ring, place - RECORD_RING_AT, bytes)) {
        recorder->lost = lost;
        place = RECORD_RING_AT + ring_take(&recorder->ring, bytes);
        good = recorder_write(block, bytes, place);
    }
    if (good)
        ring_wrote(&recorder->ring, place - RECORD_RING_AT, bytes);
    return good;
}

uint64_t recorder_wall_ns(void) {
    struct timespec time = {0};
    OS_CALL(SYS_clock_gettime, CLOCK_REALTIME, &time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

void recorder_write_end(int fd, enum record_ending ending) {
    struct {
        struct record_block block;
        struct record_end end;
    } out = {
        .end = {.wall_ns = recorder_wall_ns(), .uptime_ns = control_uptime_ns(), .ending = ending}};
    out.block = recorder_block(RECORD_END, 0, sizeof out.end,
                               recorder_sum(&out.end, sizeof out.end, RECORD_SUM_SEED));
    OS_CALL(SYS_pwrite64, fd, &out, sizeof out, RECORD_END_AT, 0, 0);
}
