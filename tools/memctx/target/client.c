/* SPDX-License-Identifier: MIT */
/* client.c - connects to a process, checks that it is the right one, and asks it. */
#include "target/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/sockets.h"
#include "target/transfer.h"

#define HELLO_DEADLINE_MS 5000 /* longest wait for the hello: all connections may be in use */
#define WAIT_MS 5000           /* longest wait for a free connection, over all attempts */
#define WAIT_STEP_MS 50
#define TELL_MS 700 /* the user is told of a longer wait for the hello */
/* longest wait for the first byte of an answer: marks of large heaps take long */
#define ANSWER_DEADLINE_MS 60000

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
        return cli_fail(failure, CLI_REFUSED,
                        "a request of %zu bytes is too long; give fewer or shorter arguments",
                        length);
    if (length > 0)
        memcpy(request.body, body, length);
    enum transfer_result result =
        transfer_write(client->fd, (const char *)&request, sizeof request.frame + length);
    int64_t end_ms = transfer_end_of_answer(client, client->answer_ms);
    if (result == IO_DONE)
        result = transfer_read(client, (char *)&frame, sizeof frame, client->answer_ms, end_ms);
    *closed = result == IO_CLOSED;
    if (result != IO_DONE)
        return transfer_fail(client, result, "when it was asked", failure);
    if (!transfer_check(client, &frame, type, failure))
        return false;
    answer->status = frame.status;
    answer->length = (size_t)frame.length;
    answer->body = transfer_read_body(client, frame.length, end_ms, failure);
    return answer->body;
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

/* True if the process has closed the connection. It does so if a client asks nothing for a minute,
 * and this command may look up names for longer. */
static bool is_closed(const struct client *client) {
    char byte;
    return !client->outside && recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Makes a new connection in the place of one that the process has closed. */
static bool reconnect(struct client *client) {
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
 * Call this function after reconnect: exec closes the old connection before exec is complete,
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
    if (is_closed(client) && still_runs(client) && reconnect(client) &&
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
        /* If there is no new connection, `failure` keeps the reason of the request that failed. */
        if (!reconnect(client) || !check_program(client, failure))
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
                    text[0] != '\0' ? text
                    : answer->status == WIRE_NO_MEMORY
                        ? "it has no memory for an answer; free some and ask again"
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
                        "%s: the kernel does not tell which process listens; %s; memctx dump "
                        "--outside does not use the socket",
                        client->source, strerror(errno));
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
        (client->hello.start_ticks != 0 && !process_started_at(facts, client->hello.start_ticks))) {
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
static enum transfer_result wait_hello(struct client *client, struct wire_frame *frame) {
    int64_t patience =
        client->answer_ms < HELLO_DEADLINE_MS ? client->answer_ms : HELLO_DEADLINE_MS;
    if (!client->hurry &&
        transfer_wait_ready(client->fd, POLLIN, clock_now_ms() + TELL_MS) == IO_LATE) {
        tell_wait(client);
        patience -= TELL_MS;
    }
    return transfer_read(client, (char *)frame, sizeof *frame, patience,
                         transfer_end_of_answer(client, patience));
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
    enum transfer_result result = wait_hello(client, &frame);
    if (result == IO_CLOSED && geteuid() != 0 && facts->effective_uid != geteuid()) {
        return cli_fail(
            failure, CLI_NOT_PERMITTED,
            "%s belongs to %s and answers only that user; run memctx as that user or as root",
            name_process((char[NAMED_BYTES]){0}, client, facts),
            process_user_name(facts->effective_uid));
    }
    if (result != IO_DONE) {
        *closed = result == IO_CLOSED;
        return transfer_fail(client, result, "before it said hello", failure);
    }
    if (!transfer_check(client, &frame, WIRE_HELLO, failure))
        return false;
    if (frame.status == WIRE_NO_MEMORY) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s has no memory for an answer; free some and ask again", client->source);
    }
    if (frame.status != WIRE_OK || frame.length != sizeof client->hello) {
        return cli_fail(
            failure, CLI_REFUSED,
            "%s: damaged answer; a hello of %llu bytes where %zu were expected" CLI_ASK_AGAIN,
            client->source, (unsigned long long)frame.length, sizeof client->hello);
    }
    int64_t patience = client->hurry ? HURRY_DEADLINE_MS : HELLO_DEADLINE_MS;
    result = transfer_read(client, (char *)&client->hello, sizeof client->hello, patience,
                           transfer_end_of_answer(client, patience));
    if (result != IO_DONE)
        return transfer_fail(client, result, "in the middle of its hello", failure);
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
    struct socket_directories list;
    char name[32];
    *closed = false;
    snprintf(name, sizeof name, "%d.sock", (int)facts->inner_pid);
    sockets_list_directories(facts, &list);
    int error = 0;
    bool reached = false;
    for (size_t i = 0; i < list.count; i++) {
        int directory = sockets_open_directory(list.paths[i], facts);
        if (directory < 0)
            continue;
        int fd = sockets_connect_as(facts, directory, name,
                                    hurry ? HURRY_DEADLINE_MS : HELLO_DEADLINE_MS);
        close(directory);
        if (fd == -EAGAIN) /* the other directories may be the same one under another name */
            return cli_fail(failure, CLI_REFUSED,
                            "%s accepts no connection; it may be frozen (a paused container), hang "
                            "or be swapped out; memctx dump --outside %d does not wait for it",
                            name_process((char[NAMED_BYTES]){0}, client, facts), (int)facts->pid);
        /* CLI_NO_TARGET, as for a process without a socket: verbs that only read then read the
         * process's memory. */
        if (fd == SOCKETS_NEED_SETUID)
            return cli_fail(failure, CLI_NO_TARGET,
                            "%s takes root for another user, because it is in a user namespace; "
                            "give memctx the capability SETUID",
                            name_process((char[NAMED_BYTES]){0}, client, facts));
        if (fd < 0) {
            error = fd == -ENOENT ? error : -fd;
            continue;
        }
        /* A process with this pid in another pid namespace may have left a socket, too, so the
         * search goes on after a failure. *failure keeps the reason of the first socket, because
         * the likeliest directory comes first. */
        struct cli_failure later, *why = reached ? &later : failure;
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
                                      .stopped = process_is_stopped(&now),
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
