/* SPDX-License-Identifier: MIT */
/*
 * Decides when the black box writes a moment; begins, switches and ends the recording, also in
 * forked children; see record.h. recorder.h says which file does what.
 */
#include "control/record.h"
#include "base/options.h"
#include "context/tree.h"
#include "control/control.h"
#include "control/marks.h"
#include "control/recorder.h"
#include "figures/buffers.h"
#include "os/libc.h"
#include "os/meta.h"
#include "os/syscall.h"
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define EVERY_NS 10000000000ULL   /* shortest pause after a moment, unless memory grows */
#define FIRST_NS 100000000ULL     /* age of the process at the first moment, with `at_once` */
#define OTHERS_NS 2000000000ULL   /* age of the process at the first moment, without `at_once` */
#define LOOK_NS 250000000ULL      /* time between two looks at the growth */
#define AWAIT_NS 200000           /* time between two looks of record_await_file */
#define AWAIT_MAX_NS 100000000ULL /* longest time for record_await_file */
#define GREW_LEAST (1L << 20)     /* growth by fewer bytes causes no moment */

struct recorder *recorder;
/* Two recorders are used in turns: `memctx set TARGET record=DIR` takes the one that is not in use,
 * because an exit handler may still read the other one. */
static struct recorder *recorders[2];
static unsigned recorder_slot; /* index of the recorder that was used last */

void record_init(const char *directory, bool at_once) {
    if (!directory || !directory[0] || text_equal(directory, "off"))
        return;
    recorder = recorders[0] = meta_alloc(sizeof *recorder);
    if (!recorder)
        return;
    struct text text = {.bytes = recorder->directory, .capacity = sizeof recorder->directory - 1};
    if (directory[0] != '/') { /* the program may change its directory later */
        int64_t length = os_read_link("/proc/self/cwd", text.bytes, text.capacity);
        text.length = length > 0 ? (size_t)length : 0;
        text_add(&text, "/");
    }
    text_add(&text, directory);
    recorder->directory[text.length] = 0;
    recorder->file.fd = -1;
    recorder->at_once = at_once;
    recorder->error = text.full ? ENAMETOOLONG : 0;
    if (text.full)
        recorder->directory[0] = 0;
}

/* Says why the directory cannot be used. */
static void add_reason(struct text *text, int64_t error) {
    static const struct {
        int error;
        const char *text;
    } texts[] = {{ENOENT, "its folder does not exist"}, {EACCES, "permission denied"},
                 {EPERM, "no files can be made there"}, {EROFS, "the file system is read-only"},
                 {ENOTDIR, "it is not a directory"},    {ENAMETOOLONG, "the path is too long"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].error == error) {
            text_add(text, texts[i].text);
            return;
        }
    }
    text_add(text, "error ");
    text_add_number(text, error);
}

static void complain(int64_t error) {
    char room[800];
    struct text text = {.bytes = room, .capacity = sizeof room};
    if (!options.verbose || recorder->complained)
        return;
    recorder->complained = true;
    text_add(&text, "memctx: nothing is recorded; ");
    if (!recorder->directory[0]) { /* record_init had no room for it */
        text_add(&text, "the path of the directory in MEMCTX_RECORD has more than ");
        text_add_number(&text, RECORD_FOLDER_MAX);
        text_add(&text, " bytes; choose a shorter one");
    } else {
        text_add(&text, "MEMCTX_RECORD names the directory ");
        text_add(&text, recorder->directory);
        text_add(&text, ": ");
        add_reason(&text, error);
    }
    text_add(&text, "\n");
    os_print(&text);
}

/* Makes the directory. Returns 0, or the error. */
static int64_t make_directory(const char *directory) {
    long error = OS_CALL(SYS_mkdir, directory, 0700, 0, 0, 0, 0);
    if (!error || error == -EEXIST)
        error = OS_CALL(SYS_faccessat, AT_FDCWD, directory, 3, 0, 0, 0); /* W_OK | X_OK */
    return -error;
}

/* Makes a file in the directory and removes it. Returns 0, or the error. faccessat (make_directory)
 * is not enough: it says that root may write to /proc and /sys, where nobody can make files. */
static int64_t try_directory(const char *directory) {
    char room[sizeof recorder->directory + 32];
    struct text path = {.bytes = room, .capacity = sizeof room - 1};
    text_add(&path, directory);
    text_add(&path, "/.memctx-");
    text_add_number(&path, os_process_id());
    room[path.length] = 0;
    long fd =
        OS_CALL(SYS_openat, AT_FDCWD, room, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600, 0, 0);
    if (fd == -ENOENT) /* /proc refuses a new file with ENOENT */
        return EPERM;
    if (OS_FAILED(fd))
        return fd == -EEXIST ? 0 : -fd;
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    OS_CALL(SYS_unlink, room, 0, 0, 0, 0, 0);
    return 0;
}

void record_begin(void) {
    if (!recorder)
        return;
    if (recorder->directory[0])
        recorder->error = make_directory(recorder->directory);
    if (recorder->error)
        complain(recorder->error);
}

/* Lets contexts that the recording no longer watches be evicted again. */
static void unpin(void) {
    if (!recorder->unpin)
        return;
    recorder->unpin = false;
    marks_pin();
}

/* Writes a moment, and before it a directory if one is due (recorder_write_directory). Returns true
 * if it looked at the pages. */
static bool take_moment(uint64_t now) {
    struct walk walk;
    struct record_pages pages;
    bool paged = false;
    unpin(); /* in a forked child: the contexts that the parent watched */
    if (!recorder->tables)
        recorder->tables = buffers_map(sizeof *recorder->tables, false);
    if (!recorder->tables) {
        recorder_failed(-ENOMEM);
        return false;
    }
    if (!recorder_open_file(true))
        return false;
    /* While tree_read_until_ns is set, no context is evicted, so no chunk is counted twice and no
     * id changes its meaning. */
    uint64_t read_until_ns = load_relaxed(&tree_read_until_ns);
    store_release(&tree_read_until_ns, UINT64_MAX);
    recorder->sequence++;
    if (recorder_read_contexts(&walk)) {
        recorder_write_directory(now);
        paged = recorder_read_pages(&pages, now);
        recorder_write_moment(&walk, paged ? &pages : NULL);
    }
    store_release(&tree_read_until_ns, read_until_ns);
    unpin();
    return paged;
}

/* True if the program can change its user and its root directory, and then may be unable to make a
 * file in the directory. Servers do that within some ms. */
static bool may_lose_rights(void) {
    return recorder->at_once && !OS_CALL(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

COLD void record_await_file(void) {
    struct recorder *mine = load_acquire(&recorder);
    if (!mine || !may_lose_rights())
        return;
    uint64_t until = os_now_exact_ns() + AWAIT_MAX_NS;
    while (load_acquire(&recorder) == mine && !load_acquire(&mine->owner) &&
           !load_relaxed(&mine->error) && !load_relaxed(&os_restricted) &&
           os_now_exact_ns() < until)
        os_sleep(&(struct timespec){.tv_nsec = AWAIT_NS});
}

void record_look(void) {
    uint64_t now = os_now_exact_ns();
    if (!recorder || now < recorder->look_ns || load_relaxed(&os_restricted))
        return;
    recorder->look_ns = now + LOOK_NS;
    if (!recorder->next_ns) {
        uint64_t first = recorder->at_once ? FIRST_NS : OTHERS_NS, lived = control_uptime_ns();
        recorder->next_ns = now + (lived < first ? first - lived : 0);
        if (lived < first && first - lived < LOOK_NS)
            recorder->look_ns = recorder->next_ns;
        recorder->quiet_ns = recorder->next_ns;
        if (lived < first && may_lose_rights())
            take_moment(now);
    }
    int64_t used = (int64_t)segment_used_bytes(), high = recorder->high_bytes;
    bool grew = used > high + high / 20 && used - high >= GREW_LEAST && now >= recorder->quiet_ns;
    bool due = now >= recorder->next_ns;
    if (!grew && !due)
        return;
    /* Growth is measured from the highest use so far, which is lowered by 2 % when a moment is due
     * by time. So a program whose use goes up and down does not cause a moment with each rise. */
    high = due ? high - high / 50 : high;
    recorder->high_bytes = used > high ? used : high;
    uint64_t cpu_ns = os_thread_cpu_ns();
    bool paged = take_moment(now);
    uint64_t after = os_now_exact_ns();
    uint64_t pause = recorder_pay(os_thread_cpu_ns() - cpu_ns, paged) * RECORD_SHARE;
    recorder->quiet_ns = after + pause;
    recorder->next_ns = after + (pause > EVERY_NS ? pause : EVERY_NS);
}

int record_wait_ms(int wait) {
    int most = (int)(LOOK_NS / 1000000);
    if (recorder && !recorder->owner && recorder->at_once)
        most = (int)(FIRST_NS / 1000000);
    return recorder && wait > most ? most : wait;
}

void record_pause(void) {
    if (!recorder)
        return;
    if (load_relaxed(&os_restricted) && descriptors_is_held(&recorder->file))
        recorder_write_end(recorder->file.fd, RECORD_ENDED_RESTRICTED);
    descriptors_let_go(&recorder->file);
    struct record_tables *tables = recorder->tables;
    recorder->tables = NULL;
    order_stores(); /* a child that is forked after the unmapping must not find the address */
    buffers_unmap(tables);
    recorder->unpin |= recorder->count > 0;
    recorder->count = 0;
    recorder->changed = true;
}

/* Ends the recording while the program goes on. The watched contexts may be evicted again. */
static void switch_off(void) {
    if (!recorder)
        return;
    if (recorder->owner == os_process_id() && recorder_open_file(false))
        recorder_write_end(recorder->file.fd, RECORD_ENDED_SWITCHED_OFF);
    record_pause();
    store_release(&recorder, (struct recorder *)NULL);
    marks_pin();
}

bool record_switch(const char *directory, struct text *answer) {
    unsigned slot = recorder_slot ^ 1;
    text_add(answer, "record");
    if (text_equal(directory, "off")) {
        switch_off();
        text_add(answer, " is now off");
        return true;
    }
    if (directory[0] != '/' || text_length(directory) >= sizeof recorder->directory) {
        text_add(answer, " takes off, or the absolute path of a directory, of at most ");
        text_add_number(answer, RECORD_FOLDER_MAX);
        text_add(answer, " bytes");
        return false;
    }
    if (!recorders[slot])
        recorders[slot] = meta_alloc(sizeof *recorder);
    struct recorder *fresh = recorders[slot];
    int64_t error = fresh ? make_directory(directory) : ENOMEM;
    if (!error)
        error = try_directory(directory);
    if (error) {
        text_add(answer, ": nothing can be recorded in ");
        text_add(answer, directory);
        text_add(answer, ": ");
        add_reason(answer, error);
        return false;
    }
    switch_off();
    recorder_slot = slot;
    *fresh = (struct recorder){.file.fd = -1, .at_once = true};
    __builtin_memcpy(fresh->directory, directory, text_length(directory) + 1);
    store_release(&recorder, fresh);
    text_add(answer, " is now ");
    text_add(answer, directory);
    return true;
}

/* Opens the recording's file once more: the control thread may have a descriptor table of its own,
 * and this thread cannot use descriptors of that table. */
void record_end(void) {
    struct rlimit limit = {0};
    struct recorder *mine = load_acquire(&recorder);
    if (!mine || load_acquire(&mine->owner) != os_process_id() || !os_memory_is_own() ||
        load_relaxed(&os_restricted))
        return;
    /* A write beyond RLIMIT_FSIZE would send a signal to the program. */
    if (OS_CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit, 0, 0) ||
        limit.rlim_cur < RECORD_DIRECTORY_AT)
        return;
    /* O_NONBLOCK: if somebody has put a FIFO there, the exit does not wait for its reader. */
    long fd = OS_CALL(SYS_openat, AT_FDCWD, mine->path,
                      O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (OS_FAILED(fd))
        return;
    /* In another pid namespace, a process of the same pid and name may have made a file of this
     * name meanwhile. */
    struct stat status = {0};
    if (!OS_CALL(SYS_fstat, fd, &status, 0, 0, 0, 0) && status.st_dev == mine->device &&
        status.st_ino == mine->inode)
        recorder_write_end((int)fd, RECORD_ENDED_NORMALLY);
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
}

void record_forget(void) {
    if (!recorder)
        return;
    if (!descriptors_are_own)
        descriptors_let_go(&recorder->file);
    recorder->file.fd = -1;
    recorder->at_once = false;
    recorder->owner = 0;
    recorder->next_ns = recorder->quiet_ns = recorder->look_ns = recorder->directory_ns = 0;
    recorder->credit_at_ns = recorder->paged_at_ns = recorder->paged_cpu_ns = 0;
    recorder->credit_ns = 0;
    recorder->high_bytes = 0;
    /* If the parent was making a moment at the fork, `count` had started at 0 again, although
     * contexts are pinned. */
    recorder->unpin |= recorder->count > 0 || recorder->sequence > 0;
    recorder->sequence = recorder->directories = recorder->listed = recorder->count = 0;
    recorder->named = recorder->earlier = 0;
    recorder->moments = recorder->lost = recorder->bytes = 0;
}

const char *record_last_file(void) {
    const struct recorder *last = recorders[recorder_slot];
    return last && load_acquire(&last->owner) == os_process_id() ? last->path : NULL;
}

struct record_counts record_counts(void) {
    struct record_counts counts = {0};
    if (recorder)
        counts = (struct record_counts){recorder->moments, recorder->lost, recorder->bytes,
                                        recorder->error};
    return counts;
}
