/* SPDX-License-Identifier: MIT */
/*
 * record.c - the black box; see record.h.
 *
 * Watched are the contexts that hold at least 0.1 % of the live bytes, those that the program
 * named, and those that were watched before, as long as there is room. All others are summed, so
 * that the sums of a moment equal its totals. A watched context is marked in the tree
 * (TREE_MARKED), so that its id keeps its meaning.
 *
 * A moment is built in memory and written with one pwrite. A directory is longer, and is written
 * piece by piece; its block, which makes it valid, comes last. The page cache has what was written
 * when a process is killed. Nothing is flushed to the disk: a recording does not outlive a power
 * failure.
 */
#include "control/record.h"
#include "base/options.h"
#include "context/tree.h"
#include "control/control.h"
#include "control/descriptors.h"
#include "control/dump.h"
#include "control/marks.h"
#include "control/numbers.h"
#include "control/ring.h"
#include "control/server.h"
#include "figures/buffers.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "os/syscall.h"
#include "path/unwind_rules.h"
#include "region/heap.h"
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <memctx/record.h>
#include <sys/resource.h>
#include <time.h>

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

#define EVERY_NS 10000000000ULL
#define FIRST_NS 100000000ULL   /* life before the first moment, with `at_once` */
#define OTHERS_NS 2000000000ULL /* life before the first moment of other processes */
#define LOOK_NS 250000000ULL    /* time between two looks at the growth */
#define SHARE 500U              /* moments take at most one part in SHARE of the time */
#define GREW_LEAST (1L << 20)   /* less growth is no reason for a moment */
#define AGAIN_NS 60000000000ULL /* a directory is written at least so often */
#define LEAST_PART 1000 /* a context with one part in so many of the live bytes is watched */
#define WATCHED_MAX 2048U
#define NAMED_MAX 512U   /* of these: contexts that the program named */
#define EARLIER_MAX 384U /* of these: contexts that hold little now */
#define ENTRY_MAX 60U    /* bytes of an entry: six numbers */
#define MOMENT_BYTES (64UL << 10)
#define PIECE_BYTES 16384U
#define STEP_BYTES (256UL << 10) /* the ring's part of the file is reserved in such steps */

struct watched {
    uint32_t id;
    uint32_t large; /* sequence of the last moment at which it was large or named */
    struct sum sum;
};

/* NULL in a process that does not record. */
static struct recorder {
    char directory[512];
    char path[640]; /* of the file */
    bool at_once;
    bool complained;        /* a message told that the directory is of no use */
    uint32_t owner;         /* pid of the process whose file `path` is; 0: no file yet. Atomic */
    struct held file;       /* fd -1: not open now */
    uint64_t device, inode; /* of the file */
    uint64_t next_ns;       /* time of the next moment; 0: nothing was planned yet */
    uint64_t quiet_ns;      /* no moment for growth before this time */
    uint64_t look_ns;       /* time of the next look */
    uint64_t directory_ns;  /* when the directory was last written */
    int64_t high_bytes;     /* growth is measured from here */
    struct ring ring;
    uint32_t sequence, directories;
    uint32_t modules, closed; /* as in the last directory */
    bool changed;             /* the last directory does not list all watched contexts */
    bool unpin;               /* some contexts are no longer watched */
    int64_t moments, lost, bytes, error;
    char cgroup[512];
    bool cgroup_v1;
    struct tables *tables; /* NULL: not mapped */
    uint32_t count, named, earlier;
} * recorder;

/* memctx set takes them in turns, because an exit handler may still read the one before. */
static struct recorder *recorders[2];
static unsigned recorder_slot; /* of the last one */

/* What a moment is made in. */
struct tables {
    struct watched watched[WATCHED_MAX], before[WATCHED_MAX]; /* by rising id */
    char piece[PIECE_BYTES + sizeof(struct record_piece)];
    char moment[MOMENT_BYTES];
};

/* --- the directory and the path ----------------------------------------------------------------
 */

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
    } texts[] = {{ENOENT, "its folder does not exist"},
                 {EACCES, "permission denied"},
                 {EROFS, "the file system is read-only"},
                 {ENOTDIR, "it is not a directory"},
                 {ENAMETOOLONG, "the path is too long"}};
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
    text_add(&text, "memctx: nothing is recorded; MEMCTX_RECORD names the directory ");
    text_add(&text, recorder->directory);
    text_add(&text, ": ");
    add_reason(&text, error);
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

void record_begin(void) {
    if (!recorder)
        return;
    if (recorder->directory[0])
        recorder->error = make_directory(recorder->directory);
    if (recorder->error)
        complain(recorder->error);
}

/* Writes "DIR/memctx-PID-NAME" behind which ".rec" or ".1.rec" comes. */
static void make_path(struct text *text, const char *ending) {
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
    text_add(text, ending);
    text->bytes[text->length] = 0;
}

/* --- writing -----------------------------------------------------------------------------------
 */

static bool failed(long error) {
    recorder->error = -error;
    recorder->lost++;
    return false;
}

static bool write_at(const void *bytes, size_t length, uint64_t at) {
    for (size_t done = 0; done < length;) {
        long wrote = OS_CALL(SYS_pwrite64, recorder->file.fd, (const char *)bytes + done,
                             length - done, at + done, 0, 0);
        if (wrote == -EINTR)
            continue;
        if (OS_FAILED(wrote) || !wrote)
            return failed(wrote ? wrote : -ENOSPC);
        done += (size_t)wrote;
    }
    recorder->bytes += (int64_t)length;
    return true;
}

static struct record_block block_of(enum record_kind kind, uint64_t sequence, size_t bytes,
                                    uint64_t body_sum) {
    struct record_block block = {
        .kind = kind, .bytes = (uint32_t)bytes, .sequence = sequence, .body_sum = body_sum};
    block.sum = record_sum(&block, offsetof(struct record_block, sum), RECORD_SUM_SEED);
    return block;
}

/* Returns the value of a line of digits; WIRE_UNKNOWN if there is none, such as "max". */
static int64_t number_of(const char *text) {
    int64_t value = 0;
    if (*text < '0' || *text > '9')
        return WIRE_UNKNOWN;
    for (; *text >= '0' && *text <= '9' && value < INT64_MAX / 16; text++)
        value = value * 10 + (*text - '0');
    return value;
}

static int64_t read_cgroup(const char *file, const char *line_name) {
    char path[600], room[512];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    text_add(&text, recorder->cgroup);
    text_add(&text, file);
    path[text.length] = 0;
    if (!recorder->cgroup[0] || text.full || os_read_file(path, room, sizeof room) <= 0)
        return WIRE_UNKNOWN;
    const char *at = room;
    size_t length = line_name ? text_length(line_name) : 0;
    while (line_name && *at && __builtin_strncmp(at, line_name, length) != 0) {
        while (*at && *at != '\n')
            at++;
        at += *at == '\n';
    }
    int64_t value = number_of(at + (*at ? length : 0));
    return value >= INT64_MAX / 32 ? WIRE_UNKNOWN : value; /* version 1 has a number for "none" */
}

/* Finds the folder of the control group, as the usual mounts have it. */
static void find_cgroup(void) {
    char room[1024];
    int64_t length = os_read_file("/proc/self/cgroup", room, sizeof room);
    for (int64_t i = 0, line = 0; i < length; i++) {
        if (room[i] != '\n')
            continue;
        room[i] = 0;
        const char *at = room + line;
        line = i + 1;
        bool v1 = text_has(at, ":memory:");
        if (!v1 && __builtin_strncmp(at, "0::", 3) != 0)
            continue;
        for (int colons = 0; *at && colons < 2; at++)
            colons += *at == ':';
        for (int top = 0; top < 2; top++) { /* in a container the mount's top is the group */
            struct text text = {.bytes = recorder->cgroup, .capacity = sizeof recorder->cgroup - 1};
            text_add(&text, v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
            text_add(&text, top || text_equal(at, "/") ? "" : at);
            recorder->cgroup[text.length] = 0;
            recorder->cgroup_v1 = v1;
            const char *current = v1 ? "/memory.usage_in_bytes" : "/memory.current";
            if (!text.full && read_cgroup(current, NULL) != WIRE_UNKNOWN)
                return;
        }
    }
    recorder->cgroup[0] = 0;
}

static void copy_text(char *to, size_t capacity, const char *from) {
    struct text text = {.bytes = to, .capacity = capacity - 1};
    text_add(&text, from);
    to[text.length] = 0;
}

/* Writes the first argument, without its folders. */
static void read_program(char *to, size_t capacity) {
    char room[1024];
    int64_t length = os_read_file("/proc/self/cmdline", room, sizeof room);
    const char *name = room;
    for (int64_t i = 0; i < length && room[i]; i++)
        name = room[i] == '/' ? room + i + 1 : name;
    copy_text(to, capacity, length > 0 ? name : "");
}

static bool write_head(void) {
    struct {
        struct record_block block;
        struct record_head head;
    } out = {.head = {.version = RECORD_VERSION, .pid = os_process_id()}};
    struct record_head *head = &out.head;
    char room[64];
    __builtin_memcpy(head->magic, RECORD_MAGIC, RECORD_MAGIC_BYTES);
    head->start_ticks = server_start_ticks();
    if (os_read_file("/proc/sys/kernel/random/boot_id", room, sizeof room) > 36) {
        room[36] = 0;
        copy_text(head->boot_id, sizeof head->boot_id, room);
    }
    copy_text(head->library_version, sizeof head->library_version, MEMCTX_VERSION);
    read_program(head->program, sizeof head->program);
    copy_text(head->cgroup, sizeof head->cgroup, recorder->cgroup);
    head->v1 = recorder->cgroup_v1;
    if (os_read_link("/proc/self/exe", head->exe, sizeof head->exe) <= 0)
        head->exe[0] = 0;
    out.block = block_of(RECORD_HEAD, 0, sizeof out.head,
                         record_sum(&out.head, sizeof out.head, RECORD_SUM_SEED));
    _Static_assert(sizeof out <= RECORD_END_AT, "the end stands behind the head");
    return write_at(&out, sizeof out, RECORD_HEAD_AT);
}

/* Makes the file. An older one of the same name is kept once: in a container the next program often
 * has the same pid. */
static bool make_file(void) {
    char old[640];
    struct text path = {.bytes = recorder->path, .capacity = sizeof recorder->path - 1};
    struct text kept = {.bytes = old, .capacity = sizeof old - 1};
    if (!recorder->directory[0])
        return failed(-ENAMETOOLONG);
    make_path(&path, ".rec");
    make_path(&kept, ".1.rec");
    OS_CALL(SYS_rename, path.bytes, old, 0, 0, 0, 0);
    long fd = OS_CALL(SYS_openat, AT_FDCWD, path.bytes,
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600, 0, 0);
    if (OS_FAILED(fd))
        return failed(fd);
    if (!descriptors_hold(&recorder->file, (int)fd))
        return failed(-EMFILE);
    recorder->device = recorder->file.device;
    recorder->inode = recorder->file.inode;
    recorder->ring =
        (struct ring){.most = RECORD_RING_BYTES, .step = STEP_BYTES, .unit = RECORD_ALIGN};
    recorder->changed = true;
    find_cgroup();
    if (!write_head()) {
        descriptors_let_go(&recorder->file);
        OS_CALL(SYS_unlink, path.bytes, 0, 0, 0, 0, 0);
        return false;
    }
    store_release(&recorder->owner, os_process_id());
    return true;
}

/* Opens the file again that this process made before. False: it is no longer there. */
static bool open_again(void) {
    long fd =
        OS_CALL(SYS_openat, AT_FDCWD, recorder->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd) || !descriptors_hold(&recorder->file, (int)fd))
        return false;
    if (recorder->file.device == recorder->device && recorder->file.inode == recorder->inode) {
        static const char none[sizeof(struct record_block)];
        write_at(none, sizeof none, RECORD_END_AT); /* the recording goes on after all */
        return true;
    }
    descriptors_let_go(&recorder->file);
    return false;
}

static bool file_is_open(void) {
    if (descriptors_is_held(&recorder->file))
        return true;
    recorder->file.fd = -1;
    return (recorder->owner && open_again()) || make_file();
}

/* Returns the place in the file for so many bytes of the ring; 0: there is none. */
static uint64_t place_in_ring(size_t bytes) {
    struct ring *ring = &recorder->ring;
    uint64_t wanted = ring_wanted(ring, bytes);
    long error = wanted ? OS_CALL(SYS_fallocate, recorder->file.fd, FALLOC_FL_KEEP_SIZE,
                                  RECORD_RING_AT + ring->end, wanted - ring->end, 0, 0)
                        : 0;
    if (error == -EOPNOTSUPP || error == -ENOSYS) /* the write will tell */
        error = 0;
    if (wanted && !error)
        ring->end = wanted;
    uint64_t at = ring_take(ring, bytes);
    return at == RING_NO_ROOM ? (uint64_t)failed(error ? error : -EFBIG) : RECORD_RING_AT + at;
}

/* --- the watched contexts ----------------------------------------------------------------------
 */

struct walk {
    int64_t least;   /* a context with so many live bytes is large */
    uint32_t cutoff; /* contexts that were large no later than this are no longer watched */
    uint32_t place, before_count; /* place in tables->before */
    uint64_t rest_contexts;
    struct sum all, rest;
};

static void add_sum(struct sum *sum, const struct sum *part) {
    sum->allocs += part->allocs;
    sum->frees += part->frees;
    sum->live_bytes += part->live_bytes;
    sum->requested_cum_bytes += part->requested_cum_bytes;
    sum->views += part->views;
}

/* Returns the context as it was watched before; NULL: it was not. Called with rising ids. */
static const struct watched *watched_before(struct walk *walk, uint32_t id) {
    const struct watched *before = recorder->tables->before;
    while (walk->place < walk->before_count && before[walk->place].id < id)
        walk->place++;
    return walk->place < walk->before_count && before[walk->place].id == id ? &before[walk->place]
                                                                            : NULL;
}

/* Decides whether a context is watched from now on. */
static bool watch(struct walk *walk, uint32_t id, const struct sum *sum) {
    const struct watched *before = watched_before(walk, id);
    bool named = tree_is_named(id) && recorder->named < NAMED_MAX;
    bool large = named || sum->live_bytes >= walk->least;
    bool earlier = !large && before && before->large > walk->cutoff;
    if (recorder->count == WATCHED_MAX || !(large || earlier)) {
        recorder->unpin |= before != NULL;
        return false;
    }
    recorder->tables->watched[recorder->count++] = (struct watched){
        .id = id, .large = large ? recorder->sequence : before->large, .sum = *sum};
    recorder->named += named;
    recorder->earlier += earlier;
    recorder->changed |= !before;
    tree_flag(id, TREE_MARKED);
    return true;
}

/* Where too many contexts are only watched because they were large once, the older half of the time
 * since then is the bound. */
static uint32_t find_cutoff(void) {
    uint32_t oldest = recorder->sequence;
    if (recorder->earlier <= EARLIER_MAX)
        return 0;
    for (uint32_t i = 0; i < recorder->count; i++)
        if (recorder->tables->watched[i].large < oldest)
            oldest = recorder->tables->watched[i].large;
    return oldest + (recorder->sequence - oldest) / 2;
}

/* Returns a bit for each context that has figures, and adds up the live bytes. In a large tree most
 * nodes are only steps to others, and looking for the views of each would take ten times as long as
 * this. NULL: no memory. */
static uint64_t *find_counted(uint32_t count, int64_t *live) {
    uint64_t *counted = buffers_map(count / 8 + sizeof *counted, false);
    *live = 0;
    if (!counted)
        return NULL;
    sums_begin();
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
            const struct view *view = heap_view_at(heap, i);
            uint32_t id = view->context;
            if (id < count)
                counted[id / 64] |= 1UL << id % 64;
            *live += view_live_bytes(view);
        }
    }
    sums_end();
    return counted;
}

/* Returns the first id from `id` on that has its bit; `count`: there is none. */
static uint32_t next_id(const uint64_t *bits, uint32_t id, uint32_t count) {
    while (id < count) {
        uint64_t rest = bits[id / 64] >> id % 64;
        if (rest) {
            id += (uint32_t)__builtin_ctzl(rest);
            break;
        }
        id = (id / 64 + 1) * 64;
    }
    return id < count ? id : count;
}

static bool read_contexts(struct walk *walk) {
    struct tables *tables = recorder->tables;
    uint32_t count = tree_count(), steps = 0;
    int64_t live;
    uint64_t *counted = find_counted(count, &live);
    if (!counted)
        return failed(-ENOMEM);
    int64_t least = live / LEAST_PART;
    *walk = (struct walk){
        .least = least > 0 ? least : 1, .cutoff = find_cutoff(), .before_count = recorder->count};
    __builtin_memcpy(tables->before, tables->watched, recorder->count * sizeof tables->watched[0]);
    recorder->count = recorder->named = recorder->earlier = 0;
    sums_begin();
    for (uint32_t id = next_id(counted, 0, count); id < count;
         id = next_id(counted, id + 1, count)) {
        struct sum sum;
        sums_pause(++steps);
        sums_read(id, &sum, NULL);
        if (!sum.allocs && !sum.frees)
            continue;
        add_sum(&walk->all, &sum);
        if (watch(walk, id, &sum))
            continue;
        add_sum(&walk->rest, &sum);
        walk->rest_contexts++;
    }
    sums_end();
    buffers_unmap(counted);
    return true;
}

void record_pin(void) {
    for (uint32_t i = 0; recorder && recorder->tables && i < recorder->count; i++)
        tree_flag(recorder->tables->watched[i].id, TREE_MARKED);
}

/* --- a directory -------------------------------------------------------------------------------
 */

struct listing {
    uint64_t at, end; /* next place in the file; end of the directory's part */
    uint64_t sum;
    size_t bytes;
    struct answer answer;
};

/* Writes a piece that is complete, and begins anew. */
static bool flush(struct listing *listing, enum wire_part part) {
    struct record_piece *head = (void *)recorder->tables->piece;
    size_t bytes = sizeof *head + listing->answer.length;
    *head = (struct record_piece){.part = part, .bytes = (uint32_t)listing->answer.length};
    listing->answer.length = 0;
    if (listing->at + bytes > listing->end)
        return failed(-EFBIG);
    listing->sum = record_sum(head, bytes, listing->sum);
    if (!write_at(head, bytes, listing->at))
        return false;
    listing->at += bytes;
    listing->bytes += bytes;
    return true;
}

static void begin_piece(struct listing *listing, struct piece *piece,
                        const struct wire_piece_request *request) {
    listing->answer = (struct answer){
        .bytes = recorder->tables->piece + sizeof(struct record_piece), .capacity = PIECE_BYTES};
    *piece = (struct piece){.request = request, .answer = &listing->answer};
    answer_add(piece->answer, sizeof(struct wire_piece));
}

static bool end_piece(struct listing *listing, const struct piece *piece, enum wire_part part) {
    *(struct wire_piece *)(void *)listing->answer.bytes =
        (struct wire_piece){.count = piece->count};
    return flush(listing, part);
}

/* Sets the bits of the watched contexts and of all their callers. */
static uint64_t *find_callers(uint32_t count) {
    uint64_t *wanted = buffers_map(count / 8 + sizeof *wanted, false);
    for (uint32_t i = 0; wanted && i < recorder->count; i++)
        for (uint32_t id = recorder->tables->watched[i].id;
             id < count && !(wanted[id / 64] >> id % 64 & 1); id = tree_node(id)->parent) {
            wanted[id / 64] |= 1UL << id % 64;
            if (id == TREE_ROOT)
                break;
        }
    if (wanted)
        wanted[0] |= (1UL << TREE_FIXED_COUNT) - 1;
    return wanted;
}

static void add_rest(struct piece *piece) {
    static const char label[] = "[smaller contexts]";
    struct wire_context *rest = piece_record(piece, align_up(sizeof *rest + sizeof label, 8));
    if (!rest)
        return;
    *rest = (struct wire_context){.id = RECORD_REST,
                                  .parent = TREE_ROOT,
                                  .module = WIRE_NONE,
                                  .recursive_from = WIRE_NONE,
                                  .bytes = (uint16_t)align_up(sizeof *rest + sizeof label, 8),
                                  .kind = WIRE_KIND_UNKNOWN,
                                  .label_bytes = sizeof label};
    __builtin_memcpy(rest + 1, label, sizeof label);
}

static bool list_contexts(struct listing *listing) {
    static const struct wire_piece_request request = {.part = WIRE_PART_CONTEXTS};
    uint32_t count = tree_count();
    uint64_t *wanted = find_callers(count);
    struct piece piece;
    bool good = wanted;
    begin_piece(listing, &piece, &request);
    for (uint32_t id = 0; good && (id = next_id(wanted, id, count)) < count; id++) {
        if (dump_node(&piece, id))
            continue;
        good = end_piece(listing, &piece, WIRE_PART_CONTEXTS);
        begin_piece(listing, &piece, &request);
        good &= dump_node(&piece, id);
    }
    if (good && piece.answer->capacity - piece.answer->length < 128) {
        good = end_piece(listing, &piece, WIRE_PART_CONTEXTS);
        begin_piece(listing, &piece, &request);
    }
    add_rest(&piece);
    buffers_unmap(wanted);
    return good ? end_piece(listing, &piece, WIRE_PART_CONTEXTS) : wanted ? false : failed(-ENOMEM);
}

static bool list_modules(struct listing *listing) {
    struct wire_piece_request request = {.part = WIRE_PART_MODULES};
    do {
        struct wire_piece head;
        struct answer *answer = &listing->answer;
        *answer = (struct answer){.bytes = recorder->tables->piece + sizeof(struct record_piece),
                                  .capacity = PIECE_BYTES};
        if (piece_run(&request, answer) != WIRE_OK)
            return failed(-ENOMEM);
        __builtin_memcpy(&head, answer->bytes, sizeof head);
        request.from = head.next;
        if (!flush(listing, WIRE_PART_MODULES))
            return false;
    } while (request.from);
    return true;
}

static uint32_t closed_modules(void) {
    uint32_t count = unwind_rules_module_count(), closed = 0;
    for (uint32_t i = 0; i < count; i++)
        closed += load_relaxed(&unwind_rules_module(i)->closed) != 0;
    return closed;
}

/* Writes a directory over the older one of the two. */
static bool write_directory(uint64_t now) {
    uint64_t start = RECORD_DIRECTORY_AT + recorder->directories % 2 * RECORD_DIRECTORY_BYTES;
    struct record_block block = {0};
    struct listing listing = {
        .at = start + sizeof block, .end = start + RECORD_DIRECTORY_BYTES, .sum = RECORD_SUM_SEED};
    uint32_t modules = unwind_rules_module_count(), closed = closed_modules();
    if (!recorder->changed && modules == recorder->modules && closed == recorder->closed &&
        now < recorder->directory_ns + AGAIN_NS)
        return true;
    if (!write_at(&block, sizeof block, start) || !list_contexts(&listing) ||
        !list_modules(&listing))
        return false;
    block = block_of(RECORD_DIRECTORY, recorder->directories + 1, listing.bytes, listing.sum);
    if (!write_at(&block, sizeof block, start))
        return false;
    recorder->directories++;
    recorder->directory_ns = now;
    recorder->modules = modules;
    recorder->closed = closed;
    recorder->changed = false;
    return true;
}

/* --- a moment ----------------------------------------------------------------------------------
 */

static uint32_t make_entry(uint8_t *to, uint32_t step, const struct sum *sum) {
    bool freed = sum->frees || sum->requested_cum_bytes != sum->live_bytes;
    bool peak = sum->views == 1 && sum->peak_bytes != WIRE_UNKNOWN;
    uint32_t length =
        number_put(to, (uint64_t)step << 2 | (freed ? RECORD_FREED : 0) | (peak ? RECORD_PEAK : 0));
    length += number_put(to + length, number_folded(sum->live_bytes));
    length += number_put(to + length, number_folded(sum->allocs - sum->frees));
    if (freed) {
        length += number_put(to + length, (uint64_t)sum->allocs);
        length += number_put(to + length, (uint64_t)sum->requested_cum_bytes);
    }
    if (peak)
        length += number_put(to + length, (uint64_t)sum->peak_bytes);
    return length;
}

static struct wire_sums sums_of_rest(const struct sum *sum) {
    return (struct wire_sums){.requested_bytes = sum->live_bytes,
                              .live_chunks = sum->allocs - sum->frees,
                              .allocs = sum->allocs,
                              .frees = sum->frees,
                              .requested_cum_bytes = sum->requested_cum_bytes,
                              .peak_requested_bytes = WIRE_UNKNOWN};
}

static uint64_t wall_ns(void) {
    struct timespec time = {0};
    OS_CALL(SYS_clock_gettime, CLOCK_REALTIME, &time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

static void fill_dump(struct record_moment *moment, const struct sum *all) {
    struct wire_dump_request request = {0};
    struct wire_dump dump = {0};
    dump_head(&request, &dump);
    dump.requested_bytes = all->live_bytes;
    dump.live_chunks = all->allocs - all->frees;
    dump.allocs = all->allocs;
    dump.frees = all->frees;
    __builtin_memcpy(moment->dump, &dump, sizeof moment->dump);
}

static void write_moment(struct walk *walk, enum record_reason reason) {
    char *room = recorder->tables->moment;
    struct record_block *block = (void *)room;
    struct record_moment *moment = (void *)(block + 1);
    uint8_t *entries = (void *)(moment + 1), *at = entries;
    uint8_t *end = (uint8_t *)room + MOMENT_BYTES - ENTRY_MAX;
    uint32_t previous = 0;
    *moment = (struct record_moment){.wall_ns = wall_ns(),
                                     .uptime_ns = control_uptime_ns(),
                                     .reason = reason,
                                     .lost = (uint32_t)recorder->lost,
                                     .uid = (uint32_t)OS_CALL(SYS_geteuid, 0, 0, 0, 0, 0, 0)};
    bool v1 = recorder->cgroup_v1;
    moment->cgroup_bytes = read_cgroup(v1 ? "/memory.usage_in_bytes" : "/memory.current", NULL);
    moment->cgroup_limit = read_cgroup(v1 ? "/memory.limit_in_bytes" : "/memory.max", NULL);
    moment->cgroup_oom_kills =
        read_cgroup(v1 ? "/memory.oom_control" : "/memory.events", "oom_kill ");
    for (uint32_t i = 0; i < recorder->count; i++) {
        const struct watched *watched = &recorder->tables->watched[i];
        if (at > end) {
            add_sum(&walk->rest, &watched->sum);
            walk->rest_contexts++;
            continue;
        }
        at += make_entry(at, watched->id - previous, &watched->sum);
        previous = watched->id;
        moment->entries++;
    }
    moment->entry_bytes = (uint32_t)(at - entries);
    moment->rest_contexts = walk->rest_contexts;
    moment->rest = sums_of_rest(&walk->rest);
    fill_dump(moment, &walk->all);
    size_t bytes = sizeof *moment + moment->entry_bytes;
    *block = block_of(RECORD_MOMENT, recorder->sequence, bytes,
                      record_sum(moment, bytes, RECORD_SUM_SEED));
    uint64_t place = place_in_ring(sizeof *block + bytes);
    if (place && write_at(block, sizeof *block + bytes, place)) {
        recorder->moments++;
        recorder->error = 0;
    }
}

/* Writes a moment, and before it a directory where the last one does not explain it. */
static void take_moment(uint64_t now, enum record_reason reason) {
    struct walk walk;
    if (!recorder->tables)
        recorder->tables = buffers_map(sizeof *recorder->tables, false);
    if (!recorder->tables) {
        failed(-ENOMEM);
        return;
    }
    if (!file_is_open())
        return;
    /* Meanwhile no context is evicted, so that no chunk is counted twice and no id changes its
     * meaning. */
    uint64_t read_until_ns = load_relaxed(&tree_read_until_ns);
    store_release(&tree_read_until_ns, UINT64_MAX);
    recorder->sequence++;
    recorder->unpin = false;
    if (read_contexts(&walk)) {
        write_directory(now);
        write_moment(&walk, reason);
    }
    store_release(&tree_read_until_ns, read_until_ns);
    if (recorder->unpin)
        marks_pin();
}

/* --- when --------------------------------------------------------------------------------------
 */

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
    }
    int64_t used = (int64_t)segment_used_bytes(), high = recorder->high_bytes;
    bool grew = used > high + high / 20 && used - high >= GREW_LEAST && now >= recorder->quiet_ns;
    bool due = now >= recorder->next_ns;
    if (!grew && !due)
        return;
    /* Growth counts from the highest state so far, which is forgotten slowly: a program that goes
     * up and down is no reason for ever more moments. */
    high = due ? high - high / 50 : high;
    recorder->high_bytes = used > high ? used : high;
    take_moment(now, due ? RECORD_TIMER : RECORD_GREW);
    uint64_t after = os_now_exact_ns(), pause = (after - now) * SHARE;
    recorder->quiet_ns = after + pause;
    recorder->next_ns = after + (pause > EVERY_NS ? pause : EVERY_NS);
}

int record_wait_ms(int wait) {
    int most = (int)(LOOK_NS / 1000000);
    if (recorder && !recorder->owner && recorder->at_once)
        most = (int)(FIRST_NS / 1000000);
    return recorder && wait > most ? most : wait;
}

/* --- the end, forks ----------------------------------------------------------------------------
 */

static void write_end(int fd, enum record_ending ending) {
    struct {
        struct record_block block;
        struct record_end end;
    } out = {.end = {.wall_ns = wall_ns(), .uptime_ns = control_uptime_ns(), .ending = ending}};
    out.block = block_of(RECORD_END, 0, sizeof out.end,
                         record_sum(&out.end, sizeof out.end, RECORD_SUM_SEED));
    OS_CALL(SYS_pwrite64, fd, &out, sizeof out, RECORD_END_AT, 0, 0);
}

void record_pause(void) {
    if (!recorder)
        return;
    if (load_relaxed(&os_restricted) && descriptors_is_held(&recorder->file))
        write_end(recorder->file.fd, RECORD_ENDED_RESTRICTED);
    descriptors_let_go(&recorder->file);
    buffers_unmap(recorder->tables);
    recorder->tables = NULL;
    recorder->count = 0;
    recorder->changed = true;
}

/* Ends a recording while the program goes on. Its contexts may be evicted again. */
static void switch_off(void) {
    if (!recorder)
        return;
    if (recorder->owner == os_process_id() && file_is_open())
        write_end(recorder->file.fd, RECORD_ENDED_SWITCHED_OFF);
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
        text_add(answer, " takes off, or the absolute path of a directory");
        return false;
    }
    if (!recorders[slot])
        recorders[slot] = meta_alloc(sizeof *recorder);
    struct recorder *fresh = recorders[slot];
    int64_t error = fresh ? make_directory(directory) : ENOMEM;
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
    copy_text(fresh->directory, sizeof fresh->directory, directory);
    store_release(&recorder, fresh);
    text_add(answer, " is now ");
    text_add(answer, directory);
    return true;
}

/* The control thread has the file open in a table of its own, which this thread does not see. */
void record_end(void) {
    struct rlimit limit = {0};
    struct recorder *mine = load_acquire(&recorder);
    if (!mine || load_acquire(&mine->owner) != os_process_id() || !os_memory_is_own() ||
        load_relaxed(&os_restricted))
        return;
    /* A write beyond this limit would send a signal to the program. */
    if (OS_CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit, 0, 0) ||
        limit.rlim_cur < RECORD_DIRECTORY_AT)
        return;
    long fd = OS_CALL(SYS_openat, AT_FDCWD, mine->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd))
        return;
    write_end((int)fd, RECORD_ENDED_NORMALLY);
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
    recorder->high_bytes = 0;
    recorder->sequence = recorder->directories = recorder->count = 0;
    recorder->named = recorder->earlier = 0;
    recorder->moments = recorder->lost = recorder->bytes = 0;
}

struct record_counts record_counts(void) {
    struct record_counts counts = {0};
    if (recorder)
        counts = (struct record_counts){recorder->moments, recorder->lost, recorder->bytes,
                                        recorder->error};
    return counts;
}
