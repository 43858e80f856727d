/* SPDX-License-Identifier: MIT */
/*
 * server.c - the control thread: starts late, serves up to WIRE_CLIENTS_MAX clients from one poll
 * loop, and gives empty memory back while the program is idle.
 *
 * All sockets are non-blocking. A client that breaks the rules of wire.h, or makes the server wait,
 * loses its connection; other clients do not notice.
 */
#include "base/options.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "control/automatic.h"
#include "control/place.h"
#include "control/sandbox.h"
#include "os/fault.h"
#include "rules/rules.h"
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define START_AFTER_NS 20000000U
/* A process that forks again and again starts the thread in a pause between its forks, or at the
 * latest after FORKING_NS: in a program with two threads glibc's fork costs ten page faults
 * more. */
#define FORKING_NS 1000000000U
#define CHILD_LOOKS 8 /* slow allocations of a forked child before it reads the clock */
#define STACK_BYTES (240UL << 10)
#define STATUS_BYTES 16384
#define IDLE_POLL_MS 1000
#define ALONE_POLL_MS 100
#define SWEEP_POLL_MS 50    /* while a sweep of the tables is due */
#define RULES_POLL_MS 100   /* maximum wait before the rules are applied to new contexts */
#define DEAF_NS 1000000000U /* pause when the process has no descriptor left */
#define CLOSED_MAX 65536U   /* where descriptors have to be closed one by one */
#define EXIT_WAIT_NS 100000 /* pause between two checks, at exit, for a socket in the making */
#define EXIT_WAITS_MAX 1000
#define LIVE_LOOK_NS 500000000U
#define HIGH_FD 500 /* above the descriptor numbers that programs expect to get */
#define IDLE_CLIENT_NS (60ULL * 1000000000)
/* When all places are taken and another client waits, a client loses its place after one of these
 * times: SILENT_CLIENT_NS if it never sent a request, DEADLINE_NS if it has not sent another
 * request, SLOW_READER_NS if it is still reading an answer. The client that waited longest goes
 * first. */
#define SILENT_CLIENT_NS (100ULL * 1000000)
#define SLOW_READER_NS (10ULL * 1000000000)
/* When no client could be dropped, nobody is accepted for this time. */
#define FULL_NS (20ULL * 1000000)
#define DUMP_QUIET_NS ((uint64_t)WIRE_DUMP_QUIET_MS * 1000000)
#define DEADLINE_NS ((uint64_t)WIRE_DEADLINE_MS * 1000000)

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

/* A descriptor of ours. In a descriptor table shared with the program, the program may close it and
 * reuse its number, so it is ours only as long as the number refers to the file that we opened. */
struct held {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

struct client {
    struct held socket; /* fd -1: this place is free */
    uint64_t since_ns;  /* time of the last progress */
    uint64_t begun_ns;  /* when the current answer began, or the last one was fully sent */
    /* Ids keep their meaning for this client until then; 0: it reads no dump. */
    uint64_t dump_until_ns;
    size_t got;
    struct wire_frame frame; /* read first, then body */
    char *body;              /* WIRE_REQUEST_MAX + 1 bytes */
    bool asked;              /* the client has sent at least one whole request */
    bool answering;          /* head and answer are being written */
    struct wire_frame *head; /* the answer follows it in memory */
    struct answer answer;
    size_t written; /* bytes of head and answer together */
};

/* Size of the memory for one client's answers: a frame and its body, in a mapping that exists while
 * clients are connected. Without the mapping NARROW_BYTES suffice for a hello and an error. */
#define ROOM_BYTES (sizeof(struct wire_frame) + WIRE_ANSWER_MAX)
#define NARROW_BYTES (sizeof(struct wire_frame) + 72)

uint32_t control_waiting FORK_PAGE;

static struct {
    struct lock lock; /* guards the start of the thread */
    bool own_descriptors, forking;
    uint32_t running;    /* pid of the process that has the thread; 0: none. Under the lock */
    uint32_t stopping;   /* atomic: the thread must end */
    uint32_t opening;    /* atomic: the thread is making the socket */
    uint32_t ending;     /* atomic: the process ends, and no socket may be made any more */
    bool had_thread;     /* in this process, or in one that it was forked from */
    bool first_ended;    /* the program's first thread ended; ours may become the last */
    uint32_t socket_pid; /* pid of the process that made the socket */
    uint64_t start_ns;   /* start of this process, or the time of its fork */
    uint64_t fork_ns;    /* when this process last began to fork; 0: never */
    uint32_t looks_left; /* of a forked child: calls left before it reads the clock */
    pthread_t thread;
    struct held listener;
    uint64_t deaf_until_ns; /* no client can be accepted until then */
} control FORK_PAGE = {.lock = LOCK_INIT(RANK_CONTROL), .listener = {.fd = -1}};
static struct place place START_PAGE;
static struct client clients[WIRE_CLIENTS_MAX] START_PAGE; /* control thread only */
static char bodies[WIRE_CLIENTS_MAX][WIRE_REQUEST_MAX + 1];
static char narrow_rooms[WIRE_CLIENTS_MAX][NARROW_BYTES] __attribute__((aligned(8)));
static char *rooms; /* ROOM_BYTES for each client; NULL: not mapped */
/* The thread's stack. A mapping of its own, with a guard, would cost every fork some 6 us. Only our
 * own code runs on the stack, and it uses a tenth of it. */
static char stack_room[STACK_BYTES + OS_PAGE_BYTES];

uint64_t control_uptime_ns(void) {
    return os_now_exact_ns() - control.start_ns;
}

static void complain(const char *what, const char *detail) {
    char line[512];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    if (!options.verbose)
        return;
    text_add(&text, "memctx: ");
    text_add(&text, what);
    text_add(&text, detail);
    text_add(&text, "; the program runs without a control socket\n");
    os_print(&text);
}

/* --- descriptors ------------------------------------------------------------------------------ */

/* False: no descriptor is held. Moves the descriptor out of the lowest numbers of a shared table,
 * which belong to the program. */
static bool hold(struct held *held, int fd) {
    struct stat status;
    held->fd = -1;
    if (fd >= 0 && !control.own_descriptors) {
        int high = OS_TRY(fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD));
        close(fd);
        fd = high;
    }
    if (fd < 0)
        return false;
    if (OS_TRY(fstat(fd, &status))) {
        close(fd);
        return false;
    }
    *held = (struct held){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
    return true;
}

static bool is_still_held(const struct held *held) {
    struct stat status;
    return held->fd >= 0 && (control.own_descriptors ||
                             (!OS_TRY(fstat(held->fd, &status)) && status.st_dev == held->device &&
                              status.st_ino == held->inode));
}

/* A descriptor that is no longer ours is forgotten, never closed. */
static void let_go(struct held *held) {
    if (is_still_held(held))
        close(held->fd);
    held->fd = -1;
}

/* --- clients ---------------------------------------------------------------------------------- */

/* Announces the time at which the last dump of any client ends. */
static void note_dumps(void) {
    uint64_t until = 0;
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        if (clients[i].dump_until_ns > until)
            until = clients[i].dump_until_ns;
    if (until != load_relaxed(&tree_read_until_ns))
        store_release(&tree_read_until_ns, until);
}

/* The client starts to read a dump, or continues. */
static void control_dump_begins(struct client *client) {
    client->dump_until_ns = os_now_exact_ns() + DUMP_QUIET_NS;
    note_dumps();
}

static void control_dump_ends(struct client *client) {
    if (!client->dump_until_ns)
        return;
    client->dump_until_ns = 0;
    note_dumps();
}

static void note_request(struct client *client, uint16_t type, const char *body) {
    struct wire_dump_request request;
    if (type == WIRE_PIECE && client->dump_until_ns)
        control_dump_begins(client);
    if (type != WIRE_DUMP)
        return;
    __builtin_memcpy(&request, body, sizeof request);
    if (request.flags & WIRE_DUMP_BEGIN)
        control_dump_begins(client);
    if (request.flags & WIRE_DUMP_END)
        control_dump_ends(client);
}

static void client_drop(struct client *client) {
    let_go(&client->socket);
    control_dump_ends(client);
    client->answering = client->asked = false;
    client->got = client->written = 0;
}

/* Gives the client memory for its answers. */
static void client_take_room(struct client *client) {
    size_t number = (size_t)(client - clients);
    if (!rooms)
        rooms = control_map(WIRE_CLIENTS_MAX * ROOM_BYTES, false);
    char *room = rooms ? rooms + number * ROOM_BYTES : narrow_rooms[number];
    client->head = (void *)room;
    client->answer =
        (struct answer){.bytes = room + sizeof *client->head,
                        .capacity = (rooms ? ROOM_BYTES : NARROW_BYTES) - sizeof *client->head};
}

static void say_no_memory(struct answer *answer) {
    static const char why[] = "it has no memory for an answer; free some, or raise its limit";
    answer->length = 0;
    char *room = answer_add(answer, sizeof why - 1);
    __builtin_memcpy(room, why, sizeof why - 1);
}

static void client_answer(struct client *client, uint16_t type, const char *body, size_t length) {
    client_take_room(client);
    *client->head = (struct wire_frame){.magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = type};
    if (type == WIRE_HELLO) {
        __builtin_memcpy(answer_add(&client->answer, length), body, length);
    } else {
        client->asked = true;
        client->head->status =
            rooms ? command_run(type, body, length, &client->answer) : WIRE_NO_MEMORY;
        if (client->head->status == WIRE_NO_MEMORY)
            say_no_memory(&client->answer);
        note_request(client, type, body);
    }
    client->head->length = client->answer.length;
    client->answering = true;
    client->written = 0;
    client->got = 0;
    client->since_ns = client->begun_ns = os_now_exact_ns();
}

static uint64_t start_ticks(void) {
    char stat[1024];
    if (os_read_file("/proc/self/stat", stat, sizeof stat) <= 0)
        return 0;
    const char *at = stat;
    /* Start after the command name, which may contain anything. */
    for (const char *p = stat; *p; p++)
        if (*p == ')')
            at = p;
    unsigned field = 2;
    uint64_t ticks = 0;
    for (; *at && field < 22; at++)
        field += *at == ' ';
    for (; *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (uint64_t)(*at - '0');
    return ticks;
}

static void client_greet(struct client *client) {
    struct wire_hello hello = {.pid = os_process_id(),
                               .depth = (uint32_t)load_relaxed(&options.depth),
                               .start_ticks = start_ticks()};
    struct text version = {.bytes = hello.library_version,
                           .capacity = sizeof hello.library_version - 1};
    text_add(&version, MEMCTX_VERSION);
    client_answer(client, WIRE_HELLO, (const char *)&hello, sizeof hello);
}

static void client_write(struct client *client) {
    size_t whole = sizeof *client->head + client->answer.length;
    const char *from = (const char *)client->head + client->written;
    ssize_t sent =
        OS_TRY(send(client->socket.fd, from, whole - client->written, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sent <= 0) {
        client_drop(client);
        return;
    }
    client->written += (size_t)sent;
    client->since_ns = os_now_exact_ns();
    if (client->written == whole) {
        client->answering = false;
        client->begun_ns = client->since_ns;
    }
}

/* True while the bytes received so far can be the beginning of a request's frame. */
static bool may_be_frame(const struct client *client) {
    const struct wire_frame right = {.magic = WIRE_MAGIC, .version = WIRE_VERSION};
    const struct wire_frame *frame = &client->frame;
    size_t fixed = offsetof(struct wire_frame, type);
    if (__builtin_memcmp(frame, &right, client->got < fixed ? client->got : fixed) != 0)
        return false;
    return client->got < sizeof *frame ||
           (frame->length <= WIRE_REQUEST_MAX && command_is_known(frame->type, frame->length));
}

/* Reads the available bytes of one request; answers the request when it is complete. */
static void client_read(struct client *client) {
    size_t head = sizeof client->frame;
    for (;;) {
        bool in_head = client->got < head;
        size_t wanted = in_head ? head : head + client->frame.length;
        char *to =
            in_head ? (char *)&client->frame + client->got : client->body + (client->got - head);
        ssize_t got = OS_TRY(recv(client->socket.fd, to, wanted - client->got, MSG_DONTWAIT));
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            client_drop(client);
            return;
        }
        if (!client->got)
            client->since_ns = os_now_exact_ns(); /* the deadline is for the whole request */
        client->got += (size_t)got;
        if (in_head && !may_be_frame(client)) {
            client_drop(client);
            return;
        }
        if (client->got >= head && client->got == head + client->frame.length)
            break;
    }
    client->body[client->frame.length] = 0;
    client_answer(client, client->frame.type, client->body, client->frame.length);
    client_write(client);
}

static bool peer_may(int fd) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    return !OS_TRY(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) &&
           (peer.uid == geteuid() || peer.uid == 0);
}

/* How long a client may do nothing when others wait for its place. */
static uint64_t patience_with(const struct client *client) {
    return client->answering && client->asked ? SLOW_READER_NS
           : client->asked                    ? DEADLINE_NS
                                              : SILENT_CLIENT_NS;
}

/* Finds a place for another client: a free one, or the place of a client that did nothing for too
 * long; clients that never sent a request go first. NULL: none. */
static struct client *find_place(uint64_t now) {
    struct client *room = NULL;
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++) {
        struct client *client = &clients[i];
        if (client->socket.fd < 0)
            return client;
        bool may_go =
            !(client->got && client->asked) && now - client->begun_ns > patience_with(client);
        if (may_go && (!room || client->asked < room->asked ||
                       (client->asked == room->asked && client->begun_ns < room->begun_ns)))
            room = client;
    }
    return room;
}

static void accept_client(void) {
    uint64_t now = os_now_exact_ns();
    struct client *room = find_place(now);
    struct held socket;
    if (!room) { /* new connections go on waiting, in the order in which they came */
        control.deaf_until_ns = now + FULL_NS;
        return;
    }
    int fd = OS_TRY(accept4(control.listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    bool full = fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    if (!hold(&socket, fd)) {
        if (full) /* the connection stays pending, so polling at once would spin */
            control.deaf_until_ns = now + DEAF_NS;
        return;
    }
    if (!peer_may(socket.fd)) {
        let_go(&socket);
        return;
    }
    client_drop(room);
    room->socket = socket;
    client_greet(room);
}

static void drop_late_clients(void) {
    uint64_t now = os_now_exact_ns();
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++) {
        struct client *client = &clients[i];
        uint64_t limit = client->answering || client->got ? DEADLINE_NS : IDLE_CLIENT_NS;
        if (client->socket.fd >= 0 && now - client->since_ns > limit)
            client_drop(client);
    }
}

/* --- the socket ------------------------------------------------------------------------------- */

static bool socket_open(void) {
    char reason[256] = "no directory for the socket";
    struct text why = {.bytes = reason, .capacity = sizeof reason - 1};
    struct held listener;
    if (!place_find(&place, os_process_id(), &why)) {
        reason[why.length ? why.length : text_length(reason)] = 0;
        complain(reason, "");
        return false;
    }
    if (!hold(&listener, OS_TRY(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)))) {
        complain("no socket could be had", "");
        return false;
    }
    unlink(place.temporary.sun_path);
    if (OS_TRY(
            bind(listener.fd, (const struct sockaddr *)&place.temporary, sizeof place.temporary)) ||
        OS_TRY(chmod(place.temporary.sun_path, 0600)) || OS_TRY(listen(listener.fd, 16)) ||
        OS_TRY(rename(place.temporary.sun_path, place.final.sun_path))) {
        complain("the socket could not be placed at ", place.final.sun_path);
        unlink(place.temporary.sun_path);
        let_go(&listener);
        return false;
    }
    control.listener = listener;
    store_release(&control.socket_pid, os_process_id());
    return true;
}

/* Does not ask for the process id needlessly: a filter of system calls may forbid getpid. */
static bool has_socket(void) {
    uint32_t pid = load_acquire(&control.socket_pid);
    return pid && pid == os_process_id();
}

static COLD void socket_remove(void) {
    if (!has_socket())
        return;
    unlink(place.final.sun_path);
    store_release(&control.socket_pid, 0);
}

/* True when the program's only other thread is its first one, and that has ended. The control
 * thread is then the last thread, and glibc ends the process when it returns. */
static bool is_alone(void) {
    struct stat tasks;
    char line[128];
    if (OS_TRY(stat("/proc/self/task", &tasks)) || tasks.st_nlink > 2 + 2)
        return false;
    int64_t length = os_read_file("/proc/self/stat", line, sizeof line);
    for (int64_t i = length - 1; i > 0;
         i--) /* "pid (name) state ..."; the name may contain anything */
        if (line[i] == ')')
            return line[i + 1] == ' ' && line[i + 2] == 'Z';
    return false;
}

bool control_has_own_descriptors(void) {
    return control.own_descriptors;
}

/* Updates the live bytes for the tables' limit, which may be a share of them. */
static void look_at_live_bytes(void) {
    static uint64_t next_ns;
    uint64_t now = os_now_exact_ns();
    if (now < next_ns || !tables_ask_live())
        return;
    store_owner(&tables_live_bytes, heap_live_bytes());
    next_ns = now + LIVE_LOOK_NS;
}

static void serve(void) {
    /* Holds the listener, then only the connected clients: RLIMIT_NOFILE bounds the number poll
     * accepts. */
    struct pollfd polls[WIRE_CLIENTS_MAX + 1];
    struct client *polled[WIRE_CLIENTS_MAX + 1];
    segment_clock_set(os_now_exact_ns());
    pages_clock_start = load_relaxed(&segment_clock);
    store_release(&segment_purger, os_process_id());
    while (!load_acquire(&control.stopping) && !is_alone()) {
        segment_clock_set(os_now_exact_ns());
        if (policy_rules_exist())
            policy_rules_apply(control_has_own_descriptors());
        automatic_look();
        unfold_look();
        look_at_live_bytes();
        bool sweep_is_due = evict_sweep();
        if (!is_still_held(&control.listener))
            control.listener.fd = -1;
        bool deaf = os_now_exact_ns() < control.deaf_until_ns;
        polls[0] = (struct pollfd){.fd = deaf ? -1 : control.listener.fd, .events = POLLIN};
        nfds_t count = 1;
        for (int i = 0; i < WIRE_CLIENTS_MAX; i++) {
            struct client *client = &clients[i];
            short events = client->answering ? POLLOUT : POLLIN;
            if (!is_still_held(&client->socket)) {
                client_drop(client);
                continue;
            }
            polled[count] = client;
            polls[count++] = (struct pollfd){.fd = client->socket.fd, .events = events};
        }
        if (count == 1) { /* no client is connected */
            control_unmap(rooms);
            rooms = NULL;
            control_unmap_kept();
        }
        struct segment_usage usage = segment_usage();
        int64_t decay = load_relaxed(&options.decay_ms) / 2;
        int wait = usage.freelist_bytes && decay < IDLE_POLL_MS ? (int)(decay < 50 ? 50 : decay)
                                                                : IDLE_POLL_MS;
        if (count > 1 && wait > 200)
            wait = 200;
        if (deaf && count > 1 && wait > (int)(FULL_NS / 1000000))
            wait = (int)(FULL_NS / 1000000);
        if (policy_rules_exist() && wait > RULES_POLL_MS)
            wait = RULES_POLL_MS;
        if (control.first_ended && wait > ALONE_POLL_MS)
            wait = ALONE_POLL_MS;
        if (sweep_is_due && wait > SWEEP_POLL_MS)
            wait = SWEEP_POLL_MS;
        int ready = OS_TRY(poll(polls, count, wait));
        /* poll fails when RLIMIT_NOFILE is too low: sleep instead. */
        if (ready < 0 && errno != EINTR) {
            struct timespec time = {.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000L};
            if (nanosleep(&time, NULL) && errno != EINTR)
                return; /* end the thread rather than spin */
        }
        if (segment_usage().freelist_bytes) /* what came while it waited, too */
            segment_purge(false);
        if (ready > 0) {
            for (nfds_t i = 1; i < count; i++) {
                struct client *client = polled[i];
                if (!polls[i].revents || client->socket.fd != polls[i].fd)
                    continue;
                if (!is_still_held(&client->socket))
                    client_drop(client);
                else if (client->answering)
                    client_write(client);
                else
                    client_read(client);
            }
            if (polls[0].revents & POLLIN && is_still_held(&control.listener))
                accept_client();
        }
        drop_late_clients();
    }
}

/* Closes all descriptors from `first` on, in a table of our own. Kernels before 5.9 and some
 * filters do not know close_range. */
static void close_from(unsigned first) {
    struct rlimit limit;
    if (!OS_TRY(close_range(first, ~0U, 0)))
        return;
    if (OS_TRY(getrlimit(RLIMIT_NOFILE, &limit)) || limit.rlim_cur > CLOSED_MAX)
        limit.rlim_cur = CLOSED_MAX;
    for (unsigned fd = first; fd < limit.rlim_cur; fd++)
        close((int)fd);
}

static void *thread_main(void *argument) {
    prctl(PR_SET_NAME, "memctx");
    control_stack_top = (char *)align_up((uintptr_t)__builtin_frame_address(0), OS_PAGE_BYTES);
    /* When ours becomes the last thread it runs the exit handlers, with the program's
     * descriptors. */
    control.own_descriptors = !control.first_ended && !OS_TRY(unshare(CLONE_FILES));
    if (control.own_descriptors) { /* keep standard error only for the messages of socket_open */
        close(0);
        close(1);
        close_from(options.verbose ? 3 : 2);
    }
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        clients[i] = (struct client){.socket = {.fd = -1}, .body = bodies[i]};
    exchange_acq_rel(&control.opening, 1);
    if (!load_acquire(&control.ending))
        socket_open();
    store_release(&control.opening, 0);
    if (control.own_descriptors && options.verbose)
        close(2);
    serve();
    unfold_end();
    store_release(&segment_purger, 0);
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        client_drop(&clients[i]);
    control_unmap(rooms);
    rooms = NULL;
    control_unmap_kept();
    socket_remove();
    let_go(&control.listener);
    control_stack_top = NULL;
    return argument;
}

/* --- starting --------------------------------------------------------------------------------- */

/* False, for good, where a filter of system calls was installed before the program started. */
static bool may_start(void) {
    char reason[256];
    struct text why = {.bytes = reason, .capacity = sizeof reason - 1};
    if (load_relaxed(&os_restricted))
        return false;
    /* The stack is not in use yet; its upper end will be written in any case, so it serves as
     * scratch. */
    if (sandbox_lets_thread(stack_room + STACK_BYTES - STATUS_BYTES, STATUS_BYTES, &why))
        return true;
    store_release(&os_restricted, OS_RESTRICTED);
    reason[why.length] = 0;
    complain(reason, "");
    return false;
}

static void start(void) {
    pthread_attr_t attributes;
    sigset_t all;
    if (!may_start())
        return;
    int error = OS_TRY_ERROR(pthread_attr_init(&attributes));
    if (error)
        return;
    sigfillset(&all);
    pthread_attr_setsigmask_np(&attributes, &all);
    if (control.first_ended) /* the program's exit handlers may run on this thread's stack */
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
    else
        pthread_attr_setstack(&attributes, (void *)align_up((uintptr_t)stack_room, OS_PAGE_BYTES),
                              STACK_BYTES);
    error = OS_TRY_ERROR(pthread_create(&control.thread, &attributes, thread_main, NULL));
    if (error == EINVAL) { /* the program's TLS is larger than the stack */
        pthread_attr_destroy(&attributes);
        OS_TRY_ERROR(pthread_attr_init(&attributes));
        pthread_attr_setsigmask_np(&attributes, &all);
        pthread_attr_setstacksize(&attributes, STACK_BYTES * 32);
        error = OS_TRY_ERROR(pthread_create(&control.thread, &attributes, thread_main, NULL));
    }
    pthread_attr_destroy(&attributes);
    if (error) {
        complain("no thread could be started", "");
        return;
    }
    control.running = os_process_id();
    control.had_thread = true;
}

/* Connects to the socket, which wakes the thread from poll. If the connection fails, the thread
 * wakes by itself within a second. */
static void wake(void) {
    if (!has_socket())
        return;
    int fd = OS_TRY(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return;
    (void)connect(fd, (const struct sockaddr *)&place.final, sizeof place.final);
    close(fd);
}

/* Ends the thread and waits for its end; false: there is no thread. Keeps errno and the
 * cancellation state. */
static bool end_thread(void) {
    int saved = errno, cancel_state;
    if (lock_any_is_mine()) /* we run in a signal handler that interrupted a holder */
        return false;
    /* Pthread_join can be cancelled. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    lock_take(&control.lock);
    /* In a vfork child control.running names the parent, whose thread must go on. */
    bool runs = control.running && control.running == os_process_id();
    if (runs) {
        store_release(&control.stopping, 1);
        wake();
        pthread_join(control.thread, NULL);
        control.running = 0;
        store_release(&control.stopping, 0);
    }
    lock_release(&control.lock);
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved;
    return runs;
}

bool control_restrict(bool strictly, uint32_t *before) {
    uint32_t now = strictly ? OS_RESTRICTED_STRICTLY : OS_RESTRICTED;
    *before = load_relaxed(&os_restricted);
    if (*before >= now || (!*before && !os_memory_is_own()))
        return false;
    store_release(&os_restricted, now);
    if (*before)
        return true;
    store_release(&control_waiting, 0);
    bool ended = end_thread();
    unfold_end(); /* a child without a thread of its own still has its parent's unfoldings */
    if (ended)
        complain("the program restricts what the kernel does for it", "");
    return true;
}

void control_unrestrict(uint32_t before) {
    store_release(&os_restricted, before);
    store_release(&control_waiting, !before && options.control != CONTROL_OFF);
}

/* When a thread with asynchronous cancellation cancels itself, glibc leaves it half marked as
 * cancelled. If it is the last thread, and runs the exit handlers, the next cancellation point
 * waits for ever for the other half of the mark, which would come from another thread. This happens
 * only in a program that has had a second thread. In a thread that is already ending, another
 * cancellation does nothing but complete the mark. */
static void complete_cancellation(void) {
    if (control.had_thread && !load_relaxed(&os_restricted))
        pthread_cancel(pthread_self());
}

void control_first_thread_ended(void) {
    bool ran = end_thread();
    complete_cancellation();
    control.first_ended = true;
    if (ran && !load_relaxed(&os_restricted))
        store_release(&control_waiting, 1);
}

COLD bool control_is_due(void) {
    if (control.forking)
        return false;
    /* Most children end soon, and reading the clock would map its pages. */
    if (control.looks_left) {
        control.looks_left--;
        return false;
    }
    if (load_relaxed(&heap_global.threads_seen) > 1)
        return true;
    uint64_t now = os_now_ns(); /* coarse: it may lie before a time that the exact clock told */
    return now >= control.start_ns + START_AFTER_NS &&
           (now >= control.fork_ns + START_AFTER_NS || now >= control.start_ns + FORKING_NS);
}

COLD void control_start(void) {
    int saved = errno;
    if (!lock_try(&control.lock))
        return;
    if (load_relaxed(&control_waiting)) {
        store_owner(&control_waiting, 0);
        start();
    }
    lock_release(&control.lock);
    errno = saved;
}

void control_init(bool at_once) {
    control.start_ns = os_now_exact_ns();
    segment_clock_set(control.start_ns);
    pages_clock_begin = load_relaxed(&segment_clock);
    place_init();
    if (options.control == CONTROL_OFF)
        return;
    if (at_once || options.control >= CONTROL_EAGER)
        start();
    else
        store_owner(&control_waiting, 1);
}

static void print_statistics(void) {
    char room[4096];
    struct answer answer = {.bytes = room, .capacity = sizeof room};
    if (command_run(WIRE_SELF, "", 0, &answer) == WIRE_OK)
        os_print(&(struct text){.bytes = answer.bytes, .length = answer.length});
}

COLD void control_exit(void) {
    if (options.verbose > 1 && !load_relaxed(&os_restricted))
        print_statistics();
    /* A thread that is just making the socket would leave it behind. */
    exchange_acq_rel(&control.ending, 1);
    for (int i = 0; i < EXIT_WAITS_MAX && load_acquire(&control.opening); i++)
        nanosleep(&(struct timespec){.tv_nsec = EXIT_WAIT_NS}, NULL);
    socket_remove();
}

COLD void control_fork_prepare(void) {
    control.forking = true;
    control.fork_ns = os_now_exact_ns();
}

COLD void control_fork_done(bool child) {
    control.forking = false;
    if (!child)
        return;
    /* The child has no copy of the thread, nor of its descriptors, unless they were in a shared
     * table. */
    lock_reset(&control.lock);
    if (control.running && !control.own_descriptors) {
        let_go(&control.listener);
        for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
            let_go(&clients[i].socket);
    }
    control.running = control.stopping = 0;
    control.opening = control.ending = 0;
    control.first_ended = false;
    control.listener.fd = -1;
    store_owner(&control.socket_pid, 0);
    control.start_ns = control.fork_ns;
    control.looks_left = CHILD_LOOKS;
    if (tree_read_until_ns) /* a write costs the child a page of its own */
        tree_read_until_ns = 0;
    marks_forget();
    note_forget();
    store_owner(&control_waiting, options.control != CONTROL_OFF && !load_relaxed(&os_restricted));
}
