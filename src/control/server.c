/* SPDX-License-Identifier: MIT */
/*
 * server.c - serves up to WIRE_CLIENTS_MAX clients from one poll loop, and between their requests
 * does the idle work of the control thread, such as giving empty memory back.
 *
 * All sockets are non-blocking. A client that breaks the rules of wire.h, or makes the server wait,
 * loses its connection; other clients do not notice.
 */
#include "control/server.h"
#include "base/options.h"
#include "context/evict.h"
#include "context/holes.h"
#include "context/retire.h"
#include "context/tree.h"
#include "control/automatic.h"
#include "control/commands.h"
#include "control/control.h"
#include "control/descriptors.h"
#include "control/frames.h"
#include "control/marks.h"
#include "control/record.h"
#include "control/socket.h"
#include "control/unfold.h"
#include "figures/pages.h"
#include "named/named.h"
#include "os/fault.h"
#include "os/libc.h"
#include "path/loaded.h"
#include "path/unwind_rules.h"
#include "rules/rules.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IDLE_POLL_MS 1000       /* maximum wait in poll */
#define SWEEP_POLL_MS 50        /* maximum wait while a sweep of the tables is due */
#define OBJECTS_POLL_MS 100     /* maximum wait before code that dlopen loaded is known */
#define RULES_POLL_MS 100       /* maximum wait before the rules are applied to new contexts */
#define DEAF_NS 1000000000U     /* if no descriptor is left, no client is accepted for this time */
#define LIVE_LOOK_NS 500000000U /* time between two sums of the live bytes */
#define IDLE_CLIENT_NS (60ULL * 1000000000) /* drops a client that asks nothing for this time */
/* When all places are taken and another client waits, a connected client loses its place after one
 * of these times: SILENT_CLIENT_NS if it never sent a request, DEADLINE_NS if it got its answer and
 * has not sent another request, SLOW_READER_NS if it is still reading an answer. Clients that never
 * sent a request go first. Among them, and among the others, the client that did nothing for the
 * longest time goes first. */
#define SILENT_CLIENT_NS (100ULL * 1000000)
#define SLOW_READER_NS (10ULL * 1000000000)
/* When no client could be dropped, no client is accepted for this time. */
#define FULL_NS (20ULL * 1000000)
#define DUMP_QUIET_NS ((uint64_t)WIRE_DUMP_QUIET_MS * 1000000)
#define DEADLINE_NS ((uint64_t)WIRE_DEADLINE_MS * 1000000)

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

struct client {
    struct held socket; /* fd -1: this place is free */
    uint64_t since_ns;  /* when the request began; of an answer, when bytes of it were last sent */
    uint64_t begun_ns;  /* when the current answer began, or the last one was fully sent */
    /* Until this time, ids of contexts keep their meaning for the client; 0: the client reads no
     * dump. */
    uint64_t dump_until_ns;
    size_t got;              /* received bytes of the request, frame and body together */
    struct wire_frame frame; /* the request's frame, which comes before the body */
    char *body;              /* room for WIRE_REQUEST_MAX + 1 bytes */
    bool asked;              /* the client has sent at least one whole request */
    bool answering;          /* `head` and `answer` are being sent */
    struct wire_frame *head; /* the answer's frame; the body `answer` follows in memory */
    struct answer answer;
    size_t written; /* sent bytes of `head` and `answer` together */
};

/* Size of the memory for one client's answers: a frame and its body. This memory is a mapping that
 * exists while clients are connected. If the kernel refuses the mapping, NARROW_BYTES suffice for a
 * hello and an error. */
#define ROOM_BYTES (sizeof(struct wire_frame) + WIRE_ANSWER_MAX)
#define NARROW_BYTES (sizeof(struct wire_frame) + 72)

static struct client clients[WIRE_CLIENTS_MAX] START_PAGE; /* control thread only */
static char bodies[WIRE_CLIENTS_MAX][WIRE_REQUEST_MAX + 1];
static char narrow_rooms[WIRE_CLIENTS_MAX][NARROW_BYTES] __attribute__((aligned(8)));
static char *rooms;            /* ROOM_BYTES for each client; NULL: not mapped */
static uint64_t deaf_until_ns; /* no client is accepted before this time */
static uint64_t dumps_asked;   /* see server_dumps_asked */

static void unmap_rooms(void) {
    char *gone = rooms;
    rooms = NULL;
    order_stores(); /* a child that is forked after the unmapping must not find the address */
    buffers_unmap(gone);
}

/* --- clients ---------------------------------------------------------------------------------- */

/* Sets tree_read_until_ns to the latest end of the clients' dumps. */
static void note_dumps(void) {
    uint64_t until = 0;
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        if (clients[i].dump_until_ns > until)
            until = clients[i].dump_until_ns;
    uint64_t before = load_relaxed(&tree_read_until_ns);
    if (until == before)
        return;
    store_release(&tree_read_until_ns, until);
    /* A thread that read the old value under tree_lock may still give ids of removed nodes to new
     * nodes. The dump begins when that thread has released the lock. If the old value lies in the
     * future, threads give no such ids anyway. */
    if (before < os_now_exact_ns()) {
        lock_take(&tree_lock);
        lock_release(&tree_lock);
    }
}

/* Notes that the client begins to read a dump, or goes on: for the client, ids of contexts keep
 * their meaning for another DUMP_QUIET_NS. */
static void dump_begins(struct client *client) {
    client->dump_until_ns = os_now_exact_ns() + DUMP_QUIET_NS;
    note_dumps();
}

static void dump_ends(struct client *client) {
    if (!client->dump_until_ns)
        return;
    client->dump_until_ns = 0;
    note_dumps();
}

static void note_request(struct client *client, uint16_t type, const char *body) {
    struct wire_dump_request request;
    if (type == WIRE_PIECE && client->dump_until_ns)
        dump_begins(client);
    if (type != WIRE_DUMP)
        return;
    __builtin_memcpy(&request, body, sizeof request);
    if (request.flags & WIRE_DUMP_BEGIN)
        dump_begins(client);
    if (request.flags & WIRE_DUMP_END)
        dump_ends(client);
    else
        add_owner(&dumps_asked, 1);
}

uint64_t server_dumps_asked(void) {
    return load_relaxed(&dumps_asked);
}

static void client_drop(struct client *client) {
    descriptors_let_go(&client->socket);
    dump_ends(client);
    client->answering = client->asked = false;
    client->got = client->written = 0;
}

/* Gives the client memory for its answers. */
static void client_take_room(struct client *client) {
    size_t number = (size_t)(client - clients);
    if (!rooms)
        rooms = buffers_map(WIRE_CLIENTS_MAX * ROOM_BYTES, false);
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

uint64_t server_start_ticks(void) {
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
    struct wire_hello hello = {.start_ticks = server_start_ticks(), .pid = os_process_id()};
    struct text version = {.bytes = hello.library_version,
                           .capacity = sizeof hello.library_version - 1};
    text_add(&version, MEMCTX_VERSION);
    client_answer(client, WIRE_HELLO, (const char *)&hello, sizeof hello);
}

static void client_write(struct client *client) {
    size_t whole = sizeof *client->head + client->answer.length;
    const char *from = (const char *)client->head + client->written;
    ssize_t sent = OS_TRY(
        os_send(client->socket.fd, from, whole - client->written, MSG_NOSIGNAL | MSG_DONTWAIT));
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
        ssize_t got = OS_TRY(os_recv(client->socket.fd, to, wanted - client->got, MSG_DONTWAIT));
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

/* True when the client's user is this process's, or root. */
static bool peer_may(int fd) {
    struct ucred peer = {.uid = UINT32_MAX};
    socklen_t length = sizeof peer;
    return !OS_TRY(os_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) &&
           (peer.uid == os_user() || peer.uid == 0);
}

/* Returns how long a client may do nothing while other clients wait for a place. */
static uint64_t patience_with(const struct client *client) {
    return client->answering && client->asked ? SLOW_READER_NS
           : client->asked                    ? DEADLINE_NS
                                              : SILENT_CLIENT_NS;
}

/* Returns a place for another client: a free one, or the place of a client that did nothing for too
 * long. NULL: there is none. */
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

/* Gives a pending connection a place. False: no other connection can get a place now. */
static bool accept_client(void) {
    uint64_t now = os_now_exact_ns();
    struct client *room = find_place(now);
    struct held socket;
    if (!room) { /* new connections go on waiting, in the order in which they came */
        deaf_until_ns = now + FULL_NS;
        return false;
    }
    int fd = OS_TRY(os_accept(socket_listener.fd, SOCK_CLOEXEC | SOCK_NONBLOCK));
    bool full = fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    if (!descriptors_hold(&socket, fd)) {
        if (full) /* the connection stays pending, so polling at once would spin */
            deaf_until_ns = now + DEAF_NS;
        return false;
    }
    if (!peer_may(socket.fd)) {
        descriptors_let_go(&socket);
        return true;
    }
    client_drop(room);
    room->socket = socket;
    client_greet(room);
    /* The greeting is sent now: the next round may first compute the answers of seven other
     * clients. */
    client_write(room);
    return true;
}

/* Accepts all pending connections, up to the number of places, so that connections that come
 * without end do not keep the thread here. */
static void accept_clients(void) {
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        if (!accept_client())
            return;
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

/* Updates tables_live_bytes, because the tables' limit may be a share of the live bytes. */
static void look_at_live_bytes(void) {
    static uint64_t next_ns;
    uint64_t now = os_now_exact_ns();
    if (now < next_ns || !tables_ask_live())
        return;
    store_owner(&tables_live_bytes, heap_live_bytes());
    next_ns = now + LIVE_LOOK_NS;
}

/* Fills the list for poll with the listener and the connected clients. Returns the length of the
 * list. Free places are left out, because poll fails if the list is longer than RLIMIT_NOFILE. */
static nfds_t list_polls(struct pollfd *polls, struct client **polled, bool deaf) {
    nfds_t count = 1;
    if (!descriptors_is_held(&socket_listener))
        socket_listener.fd = -1;
    polls[0] = (struct pollfd){.fd = deaf ? -1 : socket_listener.fd, .events = POLLIN};
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++) {
        struct client *client = &clients[i];
        short events = client->answering ? POLLOUT : POLLIN;
        if (!descriptors_is_held(&client->socket)) {
            client_drop(client);
            continue;
        }
        polled[count] = client;
        polls[count++] = (struct pollfd){.fd = client->socket.fd, .events = events};
    }
    return count;
}

/* Returns the milliseconds that poll may wait before other work of the thread is due. */
static int find_wait_ms(bool connected, bool deaf, bool sweep_is_due, bool rules_grow) {
    struct segment_usage usage = segment_usage();
    int64_t decay = load_relaxed(&options.decay_ms) / 2;
    int wait = usage.freelist_bytes && decay < IDLE_POLL_MS ? (int)(decay < 50 ? 50 : decay)
                                                            : IDLE_POLL_MS;
    if (connected && wait > 200)
        wait = 200;
    if (deaf && connected && wait > (int)(FULL_NS / 1000000))
        wait = (int)(FULL_NS / 1000000);
    if (loaded_is_used() && wait > OBJECTS_POLL_MS)
        wait = OBJECTS_POLL_MS;
    if (policy_rules_exist() && wait > RULES_POLL_MS)
        wait = RULES_POLL_MS;
    if (rules_grow && wait > FRAMES_POLL_MS)
        wait = FRAMES_POLL_MS;
    if (sweep_is_due && wait > SWEEP_POLL_MS)
        wait = SWEEP_POLL_MS;
    return holes_wait_ms(record_wait_ms(marks_wait_ms(wait)));
}

/* Serves the descriptors that poll found ready. */
static void serve_ready(const struct pollfd *polls, struct client **polled, nfds_t count) {
    for (nfds_t i = 1; i < count; i++) {
        struct client *client = polled[i];
        if (!polls[i].revents || client->socket.fd != polls[i].fd)
            continue;
        if (!descriptors_is_held(&client->socket))
            client_drop(client);
        else if (client->answering)
            client_write(client);
        else
            client_read(client);
    }
    if (polls[0].revents & POLLIN && descriptors_is_held(&socket_listener))
        accept_clients();
}

void server_run(void) {
    struct pollfd polls[WIRE_CLIENTS_MAX + 1];
    struct client *polled[WIRE_CLIENTS_MAX + 1];
    segment_clock_set(os_now_exact_ns());
    pages_clock_start = load_relaxed(&segment_clock);
    store_release(&segment_purger, os_process_id());
    while (!control_must_end()) {
        control_obey();
        segment_clock_set(os_now_exact_ns());
        unwind_rules_look_at_objects();
        if (policy_rules_exist())
            policy_rules_apply(descriptors_are_own);
        automatic_look();
        marks_look();
        record_look();
        unfold_look();
        look_at_live_bytes();
        named_end_old_requests();
        holes_look();
        bool sweep_is_due = evict_sweep();
        retire_look();
        bool rules_grow = descriptors_are_own && frames_look();
        bool deaf = os_now_exact_ns() < deaf_until_ns;
        nfds_t count = list_polls(polls, polled, deaf);
        if (count == 1) { /* no client is connected */
            unmap_rooms();
            buffers_unmap_kept();
        }
        int wait = find_wait_ms(count > 1, deaf, sweep_is_due, rules_grow);
        int ready = OS_TRY(os_poll(polls, count, wait));
        /* poll fails when RLIMIT_NOFILE is too low: sleep instead. */
        if (ready < 0 && errno != EINTR) {
            struct timespec time = {.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000L};
            if (os_sleep(&time) && errno != EINTR)
                return; /* end the thread rather than spin */
        }
        /* Only when poll found nothing: a new socket closes the old one, and with it the
         * connections in its queue. */
        if (!ready && !deaf)
            control_look_at_socket();
        if (segment_usage().freelist_bytes) /* some freed slices wait, perhaps freed during poll */
            segment_purge(false);
        if (ready > 0)
            serve_ready(polls, polled, count);
        drop_late_clients();
    }
}

void server_begin(void) {
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        clients[i] = (struct client){.socket = {.fd = -1}, .body = bodies[i]};
}

void server_end(void) {
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        client_drop(&clients[i]);
    unmap_rooms();
    buffers_unmap_kept();
}

void server_let_go(void) {
    for (int i = 0; i < WIRE_CLIENTS_MAX; i++)
        descriptors_let_go(&clients[i].socket);
}
