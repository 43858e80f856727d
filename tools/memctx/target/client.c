/* SPDX-License-Identifier: MIT */
/* client.c - finds, checks and talks to control sockets. */
#include "target/client.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "outside/tasks.h"

#define HELLO_DEADLINE_MS 5000 /* longest wait for the hello: all connections may be in use */
#define WAIT_MS 5000           /* longest wait for a free connection, over all attempts */
#define WAIT_STEP_MS 50
#define TELL_MS 700 /* the user is told of a longer wait for the hello */
/* longest wait for the first byte of an answer: marks of large heaps take long */
#define ANSWER_DEADLINE_MS 60000
#define PAUSE_DEADLINE_MS 5000 /* the longest pause between two bytes */
#define STOP_LOOK_MS                                                                               \
    500 /* after each silence of this length, looks whether the process is stopped */
#define FRAME_DEADLINE_MS 60000 /* the longest time from the first byte of a frame to the last */
/* a client in a hurry waits at most this long for a hello, an answer or the next byte, and as long
 * again for the rest of an answer */
#define HURRY_DEADLINE_MS 1500

/* --- where sockets are ------------------------------------------------------------------- */

static void add_directory(struct client_directories *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->paths[i], path) == 0)
            return;
    if (list->count < CLIENT_DIRECTORIES_MAX && strlen(path) < sizeof list->paths[0])
        strcpy(list->paths[list->count++], path);
}

static void add_user_directories(struct client_directories *list, const char *root, uid_t uid) {
    char path[600];
    snprintf(path, sizeof path, "%s/run/user/%u/memctx", root, uid);
    add_directory(list, path);
    snprintf(path, sizeof path, "%s/tmp/memctx-%u", root, uid);
    add_directory(list, path);
}

static void add_runtime_directory(struct client_directories *list, const char *root,
                                  const char *runtime) {
    char path[600];
    if (runtime && runtime[0] == '/') {
        snprintf(path, sizeof path, "%s%s/memctx", root, runtime);
        add_directory(list, path);
    }
}

/* Also lists the directories of root and of this user. A daemon that changed its uid or its root
 * directory after the start still has its socket in a directory of its first uid and root. */
void client_list_directories(const struct process_facts *facts, struct client_directories *list) {
    char root[64];
    list->count = list->own_count = 0;
    snprintf(root, sizeof root, "/proc/%d/root", (int)facts->thread);
    const char *prefixes[] = {"", root};
    for (size_t i = 0; i < 2; i++) {
        add_runtime_directory(list, prefixes[i], process_find_variable(facts, "XDG_RUNTIME_DIR"));
        add_user_directories(list, prefixes[i], facts->uid);
        add_user_directories(list, prefixes[i], facts->effective_uid);
    }
    list->own_count = list->count;
    for (size_t i = 0; i < 2; i++) {
        add_runtime_directory(list, prefixes[i], getenv("XDG_RUNTIME_DIR"));
        add_user_directories(list, prefixes[i], 0);
        add_user_directories(list, prefixes[i], getuid());
    }
}

void client_list_all_directories(struct client_directories *list) {
    list->count = list->own_count = 0;
    add_runtime_directory(list, "", getenv("XDG_RUNTIME_DIR"));
    add_user_directories(list, "", getuid());
    if (geteuid() != 0)
        return;
    glob_t found = {0};
    glob("/run/user/*/memctx", GLOB_NOSORT, NULL, &found);
    glob("/tmp/memctx-*", GLOB_NOSORT | GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *digits = strrchr(found.gl_pathv[i], '-');
        int64_t uid;
        if (strncmp(found.gl_pathv[i], "/run/", 5) == 0 || cli_is_number(digits + 1, &uid))
            add_directory(list, found.gl_pathv[i]);
    }
    globfree(&found);
}

/* --- connecting -------------------------------------------------------------------------- */

/* Opens a socket directory. It must belong to root, to this user or to the target's user, and no
 * other user may write to it. Returns -1 if there is no such directory. */
static int open_directory(const char *path, const struct process_facts *facts) {
    struct stat status;
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bool good = fstat(fd, &status) == 0 && (status.st_mode & 022) == 0 &&
                (status.st_uid == 0 || status.st_uid == geteuid() ||
                 (facts && (status.st_uid == facts->uid || status.st_uid == facts->effective_uid)));
    if (!good) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}

bool client_has_socket(const struct process_facts *facts) {
    struct client_directories list;
    char name[32];
    bool found = false;
    snprintf(name, sizeof name, "%d.sock", (int)facts->inner_pid);
    client_list_directories(facts, &list);
    for (size_t i = 0; i < list.count && !found; i++) {
        struct stat status;
        int directory = open_directory(list.paths[i], facts);
        if (directory < 0)
            continue;
        found =
            fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode);
        close(directory);
    }
    return found;
}

/* Connects to the socket `name` in an open directory. The address goes through /proc/self/fd, so
 * that it fits into the 108 bytes of a socket address, however long the directory's path is.
 * Returns the descriptor or -errno. */
static int connect_in(int directory, const char *name, int patience_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int64_t deadline = clock_now_ms() + patience_ms;
    while (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        /* EAGAIN: the server's queue is full for the moment. */
        if ((errno != EAGAIN && errno != EINTR) || clock_now_ms() > deadline) {
            int error = errno;
            close(fd);
            return -error;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return fd;
}

bool client_is_stale(const char *path, const char *name) {
    int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return false;
    int fd = connect_in(directory, name, 0);
    close(directory);
    if (fd >= 0)
        close(fd);
    return fd == -ECONNREFUSED;
}

/* --- frames ------------------------------------------------------------------------------ */

enum io_result { IO_DONE, IO_CLOSED, IO_LATE, IO_STOPPED, IO_FAILED };

/* Waits until the descriptor is ready or the deadline is over. */
static enum io_result wait_ready(int fd, short events, int64_t deadline) {
    for (;;) {
        int64_t left = deadline - clock_now_ms();
        struct pollfd entry = {.fd = fd, .events = events};
        int ready = left <= 0 ? 0 : poll(&entry, 1, (int)left);
        if (ready > 0)
            return IO_DONE;
        if (ready == 0)
            return IO_LATE;
        if (errno != EINTR)
            return IO_FAILED;
    }
}

/* Waits for a byte of the process until the deadline. Gives up early if the process is found
 * stopped twice in a row, since it cannot answer then. */
static enum io_result wait_byte(const struct client *client, int64_t deadline) {
    bool was_stopped = false;
    uint64_t runs,
        before = 0; /* changes if a thread ran: cpulimit and strace stop it for instants */
    for (;;) {
        int64_t look_ms = clock_now_ms() + STOP_LOOK_MS;
        enum io_result ready =
            wait_ready(client->fd, POLLIN, look_ms < deadline ? look_ms : deadline);
        if (ready != IO_LATE || look_ms >= deadline)
            return ready;
        bool stopped = tasks_are_stopped(client->facts->pid, &runs);
        if (stopped && was_stopped && runs == before)
            return IO_STOPPED;
        was_stopped = stopped;
        before = runs;
    }
}

/* Waits at most `first_ms` for the first byte. The pause before each further byte may be as long,
 * but not longer than PAUSE_DEADLINE_MS. The last byte must come until `end_ms`. */
static enum io_result read_exactly(const struct client *client, char *buffer, size_t bytes,
                                   int64_t first_ms, int64_t end_ms) {
    int64_t pause_ms = first_ms < PAUSE_DEADLINE_MS ? first_ms : PAUSE_DEADLINE_MS;
    size_t used = 0;
    while (used < bytes) {
        int64_t until_ms = clock_now_ms() + (used == 0 ? first_ms : pause_ms);
        enum io_result ready = wait_byte(client, until_ms < end_ms ? until_ms : end_ms);
        if (ready != IO_DONE)
            return ready;
        ssize_t got = recv(client->fd, buffer + used, bytes - used, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return IO_CLOSED;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return IO_FAILED;
        used += got > 0 ? (size_t)got : 0;
    }
    return IO_DONE;
}

/* Returns when the last byte of an answer must have come, if its first byte may come after
 * `first_ms`. */
static int64_t end_of_answer(const struct client *client, int64_t first_ms) {
    return clock_now_ms() + first_ms + (client->hurry ? HURRY_DEADLINE_MS : FRAME_DEADLINE_MS);
}

static enum io_result write_exactly(int fd, const char *bytes, size_t length) {
    size_t used = 0;
    while (used < length) {
        enum io_result ready = wait_ready(fd, POLLOUT, clock_now_ms() + PAUSE_DEADLINE_MS);
        if (ready != IO_DONE)
            return ready;
        ssize_t put = send(fd, bytes + used, length - used, MSG_NOSIGNAL);
        if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
            return IO_CLOSED;
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return IO_FAILED;
        used += put > 0 ? (size_t)put : 0;
    }
    return IO_DONE;
}

static bool fail_io(const struct client *client, enum io_result result, const char *what,
                    struct cli_failure *failure) {
    switch (result) {
    case IO_CLOSED:
        return cli_fail(failure, CLI_REFUSED,
                        "%s closed the connection %s; it has ended, or it already serves %d "
                        "clients; try again",
                        client->source, what, WIRE_CLIENTS_MAX);
    case IO_LATE:
        return cli_fail(
            failure, CLI_REFUSED,
            "%s did not answer in time %s; it may be stopped, hang or be swapped out; try "
            "again; memctx dump --outside %d does not wait for it",
            client->source, what, (int)client->facts->pid);
    case IO_STOPPED:
        return cli_fail(failure, CLI_REFUSED,
                        "%s was stopped %s, so it cannot answer; kill -CONT %d resumes it, or the "
                        "debugger that stopped it; memctx dump --outside %d does not wait for it",
                        client->source, what, (int)client->facts->pid, (int)client->facts->pid);
    default:
        return cli_fail(failure, CLI_REFUSED, "%s: the connection failed %s; %s", client->source,
                        what, strerror(errno));
    }
}

static bool check_frame(const struct client *client, const struct wire_frame *frame,
                        enum wire_type type, struct cli_failure *failure) {
    if (frame->magic != WIRE_MAGIC) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s does not answer like libmemctx.so; another program listens on its "
                        "socket",
                        client->source);
    }
    if (frame->version != WIRE_VERSION) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s speaks wire version %u and this memctx (%s) speaks %d; use the memctx "
                        "that was built with its library",
                        client->source, frame->version, CLI_VERSION, WIRE_VERSION);
    }
    if (frame->type != type) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged answer; a frame of type %u where %d was expected",
                        client->source, frame->type, (int)type);
    }
    if (frame->length > WIRE_ANSWER_MAX) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged answer; it announces %llu bytes, more than any answer has",
                        client->source, (unsigned long long)frame->length);
    }
    return true;
}

/* Reads a body of an announced length. */
static bool read_body(struct client *client, uint64_t length, int64_t end_ms,
                      struct client_answer *answer, struct cli_failure *failure) {
    char *body = cli_alloc((size_t)length + 1, 1);
    enum io_result result =
        read_exactly(client, body, (size_t)length,
                     client->hurry ? HURRY_DEADLINE_MS : PAUSE_DEADLINE_MS, end_ms);
    if (result != IO_DONE) {
        free(body);
        return fail_io(client, result, "in the middle of its answer", failure);
    }
    body[length] = '\0';
    answer->body = body;
    answer->length = (size_t)length;
    return true;
}

/* Sends a request once and reads the answer. *closed: the connection ended before any answer came.
 */
static bool ask(struct client *client, enum wire_type type, const void *body, size_t length,
                struct client_answer *answer, struct cli_failure *failure, bool *closed) {
    struct {
        struct wire_frame frame;
        char body[WIRE_REQUEST_MAX];
    } request = {.frame = {.magic = WIRE_MAGIC,
                           .version = WIRE_VERSION,
                           .type = (uint16_t)type,
                           .length = length}};
    struct wire_frame frame;
    *answer = (struct client_answer){0};
    *closed = false;
    if (client->outside) {
        char *bytes = NULL;
        bool good = outside_answer(client->outside, type, body, length, &bytes, &answer->length,
                                   &answer->status, failure);
        answer->body = bytes;
        return good;
    }
    if (length > sizeof request.body)
        return cli_fail(failure, CLI_REFUSED, "a request of %zu bytes is too long", length);
    if (length > 0)
        memcpy(request.body, body, length);
    enum io_result result =
        write_exactly(client->fd, (const char *)&request, sizeof request.frame + length);
    int64_t end_ms = end_of_answer(client, client->answer_ms);
    if (result == IO_DONE)
        result = read_exactly(client, (char *)&frame, sizeof frame, client->answer_ms, end_ms);
    *closed = result == IO_CLOSED;
    if (result != IO_DONE)
        return fail_io(client, result, "when it was asked", failure);
    if (!check_frame(client, &frame, type, failure))
        return false;
    answer->status = frame.status;
    return read_body(client, frame.length, end_ms, answer, failure);
}

static void tell_wait(struct client *client) {
    if (!client->told && !client->hurry)
        cli_warn("%s is busy or serves other clients; waiting for a free connection",
                 client->source);
    client->told = true;
}

static bool still_runs(const struct client *client) {
    struct process_facts now;
    return process_read_facts(client->facts->pid, &now) && now.state != 'Z' &&
           now.start_ticks == client->facts->start_ticks;
}

/* True when the process has closed the connection, as it does with a client that asks nothing for a
 * minute: the command may look up names for longer. */
static bool is_closed(const struct client *client) {
    char byte;
    return !client->outside && recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Makes a new connection in the place of one that the process has closed. */
static bool connect_again(struct client *client) {
    struct client again;
    struct cli_failure why;
    if (!client_connect(&again, client->facts, client->hurry, &why))
        return false;
    again.told = client->told;
    again.paused = true;
    client_close(client);
    *client = again;
    return true;
}

/* Returns false, and sets the failure, if the process has executed another program since the caller
 * read its facts. Ids of contexts, and all else that was read before, belong to the old program.
 * Call this function after connect_again: exec closes the old connection before exec is complete,
 * so an earlier call might still see the old program. */
static bool check_program(const struct client *client, struct cli_failure *failure) {
    struct process_facts now;
    uint64_t before = client->facts->stack_start;
    return before == 0 || !process_read_facts(client->facts->pid, &now) || now.stack_start == 0 ||
           now.stack_start == before ||
           cli_fail(failure, CLI_NO_TARGET,
                    "%s executed another program while it was asked; see memctx ps",
                    client->source);
}

bool client_ask(struct client *client, enum wire_type type, const void *body, size_t length,
                struct client_answer *answer, struct cli_failure *failure) {
    bool closed;
    if (is_closed(client) && still_runs(client) && connect_again(client) &&
        !check_program(client, failure))
        return false;
    return ask(client, type, body, length, answer, failure, &closed);
}

/* Fills in the resident set of a dump, if the process does not know it: it sees no /proc, because
 * it has changed its root, or it has no descriptor left, or it is read from outside. This command
 * can read the figure. For a core file, the figure comes from the file. */
static void fill_resident_set(const struct client *client, struct client_answer *answer) {
    struct wire_dump head;
    struct process_facts now;
    if (!client->facts || answer->status != WIRE_OK || answer->length != sizeof head)
        return;
    memcpy(&head, answer->body, sizeof head);
    if (head.ledger.rss_bytes < 0 && process_read_facts(client->facts->pid, &now)) {
        head.ledger.rss_bytes = now.rss_bytes;
        memcpy(answer->body, &head, sizeof head);
    }
}

bool client_read(struct client *client, enum wire_type type, const void *body, size_t length,
                 struct client_answer *answer, struct cli_failure *failure) {
    int64_t deadline = clock_now_ms() + WAIT_MS;
    bool begins =
        type == WIRE_DUMP && ((const struct wire_dump_request *)body)->flags & WIRE_DUMP_BEGIN;
    client->paused =
        !begins && (client->paused || clock_now_ms() - client->answered_ms > WIRE_DUMP_QUIET_MS);
    while (!ask(client, type, body, length, answer, failure, &client->closed)) {
        if (!client->closed || client->hurry || clock_now_ms() > deadline || !still_runs(client))
            return false;
        tell_wait(client);
        nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_MS * 1000000L}, NULL);
        /* If that fails, `failure` keeps the first reason. */
        if (!connect_again(client) || !check_program(client, failure))
            return false;
        client->paused = !begins;
    }
    client->answered_ms = clock_now_ms();
    if (type == WIRE_DUMP)
        fill_resident_set(client, answer);
    return true;
}

static void clean_lines(char *text) {
    for (char *at = text; *at != '\0'; at++)
        if (((unsigned char)*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7f)
            *at = '?';
}

char *client_ask_text(struct client *client, enum wire_type type, const void *body, size_t length,
                      struct cli_failure *failure) {
    struct client_answer answer;
    if (!client_ask(client, type, body, length, &answer, failure))
        return NULL;
    char *text = answer.body;
    clean_lines(text);
    if (answer.status != WIRE_OK) {
        client_fail_refused(client, &answer, failure);
        return NULL;
    }
    return text;
}

bool client_fail_refused(const struct client *client, struct client_answer *answer,
                         struct cli_failure *failure) {
    char *text = answer->body;
    text[strcspn(text, "\n")] = '\0';
    cli_clean(text);
    cli_set_failure(failure, CLI_REFUSED, "%s refused the request: %.500s", client->source,
                    text[0] != '\0'                    ? text
                    : answer->status == WIRE_NO_MEMORY ? "it has no memory for an answer"
                                                       : "it gave no reason");
    free(text);
    *answer = (struct client_answer){0};
    return false;
}

/* --- the hello --------------------------------------------------------------------------- */

static bool check_peer(struct client *client, const struct process_facts *facts,
                       struct cli_failure *failure) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: the kernel does not tell which process listens; %s", client->source,
                        strerror(errno));
    }
    /* pid 0: the process is outside of this pid namespace */
    if (peer.pid != 0 && peer.pid != facts->pid) {
        return cli_fail(failure, CLI_NO_TARGET,
                        "%s has no socket of its own: process %d listens under its name; in pid "
                        "namespaces (containers) that share a directory for sockets, several "
                        "processes have one name; give each an XDG_RUNTIME_DIR or /tmp of its own",
                        client->source, (int)peer.pid);
    }
    if (client->hello.pid != (uint32_t)facts->inner_pid ||
        (client->hello.start_ticks != 0 && client->hello.start_ticks != facts->start_ticks)) {
        return cli_fail(failure, CLI_NO_TARGET,
                        "%s is not the process that made its socket (pid %u, started at tick %llu "
                        "instead of %llu): the pid was used again; see memctx ps",
                        client->source, client->hello.pid,
                        (unsigned long long)client->hello.start_ticks,
                        (unsigned long long)facts->start_ticks);
    }
    return true;
}

/* Reads the frame of the hello. A client waits for it until the target has a free connection. */
static enum io_result wait_hello(struct client *client, struct wire_frame *frame) {
    int64_t patience =
        client->answer_ms < HELLO_DEADLINE_MS ? client->answer_ms : HELLO_DEADLINE_MS;
    if (!client->hurry && wait_ready(client->fd, POLLIN, clock_now_ms() + TELL_MS) == IO_LATE) {
        tell_wait(client);
        patience -= TELL_MS;
    }
    return read_exactly(client, (char *)frame, sizeof *frame, patience,
                        end_of_answer(client, patience));
}

/* Writes the process as messages name it: "pid 12 (prog)", with the program's name as the user
 * started it. The kernel's name is cut at 15 characters. Returns `text`. */
#define NAMED_BYTES 300
static const char *name_process(char text[NAMED_BYTES], const struct client *client,
                                const struct process_facts *facts) {
    char *program = process_program(facts);
    snprintf(text, NAMED_BYTES, "%s (%s)", client->source, program);
    free(program);
    return text;
}

/* Reads the hello. *closed: the target had no free connection. */
static bool read_hello(struct client *client, const struct process_facts *facts,
                       struct cli_failure *failure, bool *closed) {
    struct wire_frame frame;
    enum io_result result = wait_hello(client, &frame);
    if (result == IO_CLOSED && geteuid() != 0 && facts->effective_uid != geteuid()) {
        return cli_fail(
            failure, CLI_NOT_PERMITTED,
            "%s belongs to %s and answers only that user; run memctx as that user or as root",
            name_process((char[NAMED_BYTES]){0}, client, facts),
            process_user_name(facts->effective_uid));
    }
    if (result != IO_DONE) {
        *closed = result == IO_CLOSED;
        return fail_io(client, result, "before it said hello", failure);
    }
    if (!check_frame(client, &frame, WIRE_HELLO, failure))
        return false;
    if (frame.status == WIRE_NO_MEMORY) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s has no memory for an answer; free some and ask again", client->source);
    }
    if (frame.status != WIRE_OK || frame.length != sizeof client->hello) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged answer; a hello of %llu bytes where %zu were expected",
                        client->source, (unsigned long long)frame.length, sizeof client->hello);
    }
    int64_t patience = client->hurry ? HURRY_DEADLINE_MS : HELLO_DEADLINE_MS;
    result = read_exactly(client, (char *)&client->hello, sizeof client->hello, patience,
                          end_of_answer(client, patience));
    if (result != IO_DONE)
        return fail_io(client, result, "in the middle of its hello", failure);
    client->hello.library_version[sizeof client->hello.library_version - 1] = '\0';
    cli_clean(client->hello.library_version);
    return check_peer(client, facts, failure);
}

/* Makes the failure for a process without a socket. */
static bool fail_without_socket(const struct client *client, const struct process_facts *facts,
                                struct cli_failure *failure) {
    char named[NAMED_BYTES];
    name_process(named, client, facts);
    if (geteuid() != 0 && facts->uid != geteuid()) {
        return cli_fail(failure, CLI_NOT_PERMITTED,
                        "%s belongs to %s; run memctx as that user or as root", named,
                        process_user_name(facts->uid));
    }
    switch (process_find_library(facts)) {
    case PROCESS_UNREADABLE:
        return cli_fail(
            failure, CLI_NOT_PERMITTED,
            geteuid() == 0
                ? "%s cannot be examined; memctx may not read its memory map; root needs "
                  "CAP_SYS_PTRACE for that, and a security module may forbid it"
                : "%s cannot be examined; this user may not read its memory map (setuid, "
                  "or not dumpable); run memctx as root",
            named);
    case PROCESS_NO_MEMORY:
        return cli_fail(failure, CLI_NO_TARGET,
                        "%s has no memory: it is ending, or it is a thread of the kernel; see "
                        "memctx ps",
                        named);
    case PROCESS_WITHOUT: {
        char *program = process_program(facts);
        cli_set_failure(failure, CLI_NO_TARGET,
                        "%s runs without libmemctx.so; start it with memctx run -- %s", named,
                        program);
        free(program);
        return false;
    }
    default: break;
    }
    char reason[700];
    process_explain_no_socket(facts, reason, sizeof reason);
    return cli_fail(failure, CLI_NO_TARGET, "%s has the library but no socket: %s", named, reason);
}

static bool connect_once(struct client *client, const struct process_facts *facts, bool hurry,
                         struct cli_failure *failure, bool *closed) {
    struct client_directories list;
    char name[32];
    *closed = false;
    snprintf(name, sizeof name, "%d.sock", (int)facts->inner_pid);
    client_list_directories(facts, &list);
    int error = 0;
    bool reached = false;
    for (size_t i = 0; i < list.count; i++) {
        int directory = open_directory(list.paths[i], facts);
        if (directory < 0)
            continue;
        int fd = connect_in(directory, name, hurry ? HURRY_DEADLINE_MS : HELLO_DEADLINE_MS);
        close(directory);
        if (fd == -EAGAIN) /* the other directories may be the same one under another name */
            return cli_fail(failure, CLI_REFUSED,
                            "%s accepts no connection; it may be frozen (a paused container), hang "
                            "or be swapped out; memctx dump --outside %d does not wait for it",
                            name_process((char[NAMED_BYTES]){0}, client, facts), (int)facts->pid);
        if (fd < 0) {
            error = fd == -ENOENT ? error : -fd;
            continue;
        }
        /* A process with this pid in another pid namespace may have left a socket, too, so the
         * search goes on after a failure. The reason is that of the first socket, since the
         * likeliest directory comes first. */
        struct cli_failure further, *why = reached ? &further : failure;
        client->fd = fd;
        reached = true;
        if (read_hello(client, facts, why, closed))
            return true;
        client_close(client);
        if (why->code != CLI_NO_TARGET) {
            *failure = *why;
            return false;
        }
    }
    if (reached)
        return false;
    /* A directory that this user may not enter counts only for a process of another user. A process
     * of this user may have inherited the name of such a directory, but has no socket in it. */
    if ((error == EACCES || error == EPERM) && facts->uid != geteuid()) {
        return cli_fail(failure, CLI_NOT_PERMITTED,
                        "%s: its socket is closed to this user; it belongs to %s; run memctx as "
                        "that user or as root",
                        name_process((char[NAMED_BYTES]){0}, client, facts),
                        process_user_name(facts->uid));
    }
    return fail_without_socket(client, facts, failure);
}

bool client_connect(struct client *client, const struct process_facts *facts, bool hurry,
                    struct cli_failure *failure) {
    int64_t deadline = clock_now_ms() + WAIT_MS;
    bool closed;
    *client = (struct client){.fd = -1,
                              .facts = facts,
                              .hurry = hurry,
                              .answer_ms = hurry ? HURRY_DEADLINE_MS : ANSWER_DEADLINE_MS};
    snprintf(client->source, sizeof client->source, "pid %d", (int)facts->pid);
    while (!connect_once(client, facts, hurry, failure, &closed)) {
        if (!closed || hurry || clock_now_ms() > deadline || !still_runs(client))
            return false;
        tell_wait(client);
        nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_MS * 1000000L}, NULL);
    }
    return true;
}

bool client_open_outside(struct client *client, const struct process_facts *facts, const char *why,
                         struct cli_failure *failure) {
    struct process_facts now; /* the caller may have waited for an answer since it read `facts` */
    if (!process_read_facts(facts->pid, &now) || now.start_ticks != facts->start_ticks)
        now = *facts;
    struct outside_process process = {.pid = facts->pid,
                                      .thread = now.thread,
                                      .inner_pid = facts->inner_pid,
                                      .stopped = now.state == 'T' || now.state == 't',
                                      .age_s = now.age_s,
                                      .why = why};
    *client = (struct client){.fd = -1, .facts = facts};
    snprintf(client->source, sizeof client->source, "pid %d", (int)facts->pid);
    client->outside = outside_open_process(&process, failure);
    if (client->outside)
        snprintf(client->hello.library_version, sizeof client->hello.library_version, "%s",
                 outside_library_version(client->outside));
    return client->outside;
}

bool client_found_no_socket(const struct process_facts *facts, const struct cli_failure *failure) {
    return failure->code == CLI_NO_TARGET && process_find_library(facts) == PROCESS_WITH;
}

void client_close(struct client *client) {
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    outside_close(client->outside);
    client->outside = NULL;
}
