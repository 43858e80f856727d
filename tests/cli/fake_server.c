/* SPDX-License-Identifier: MIT */
/*
 * fake_server.c - a server that speaks wire.h to the command, correctly or with one fault.
 *
 *   fake_server FAULT
 *
 * Listens at $XDG_RUNTIME_DIR/memctx/PID.sock, prints "ready", and serves one client after the
 * other until it is killed. FAULT "none" answers as the library does; each other FAULT is an
 * argument of is() in this file or in fake_dump.c.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_dump.h"

static void put(int fd, const void *bytes, size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t done = send(fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);
        if (done <= 0) {
            return;
        }
        sent += (size_t)done;
    }
}

static struct wire_frame frame(uint16_t type, uint64_t length) {
    return (struct wire_frame){
        .magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = type, .length = length};
}

static uint64_t start_ticks(void) {
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long ticks = 0;
    if (file != NULL && fgets(text, sizeof(text), file) != NULL) {
        sscanf(strrchr(text, ')'),
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu",
               &ticks);
    }
    fclose(file);
    return ticks;
}

/* Adds a line to the file $XDG_RUNTIME_DIR/notes, which several servers may share. */
static void note(const char *line) {
    char path[128];
    snprintf(path, sizeof(path), "%.100s/notes", getenv("XDG_RUNTIME_DIR"));
    FILE *file = fopen(path, "ae");
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* Returns true if the client has the environment of this test. Commands that other tests run may
 * ask all processes of the machine. */
static bool is_of_this_test(int fd) {
    struct ucred client = {0};
    socklen_t length = sizeof(client);
    char path[64], text[16384] = "", want[128];
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &length);
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)client.pid);
    snprintf(want, sizeof(want), "XDG_RUNTIME_DIR=%.100s", getenv("XDG_RUNTIME_DIR"));
    FILE *file = fopen(path, "re");
    size_t count = file != NULL ? fread(text, 1, sizeof(text), file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return memmem(text, count, want, strlen(want) + 1) != NULL;
}

/* Says nothing, and notes when the client comes and when it gives up. */
static void note_client(int fd) {
    char byte;
    note("came");
    recv(fd, &byte, 1, MSG_WAITALL);
    note("left");
}

static bool say_hello(int fd) {
    struct wire_frame head = frame(WIRE_HELLO, sizeof(struct wire_hello));
    struct wire_hello hello = {.start_ticks = start_ticks(), .pid = (uint32_t)getpid()};
    strcpy(hello.library_version, "fake");
    if (is("close")) {
        return false;
    }
    if (is("silent")) {
        pause();
    }
    if ((is("silent-noting") || is("noting")) && !is_of_this_test(fd)) {
        return false;
    }
    if (is("silent-noting")) {
        note_client(fd);
        return false;
    }
    if (is("noting")) {
        note("asked");
    }
    if (is("garbage")) {
        put(fd, "HTTP/1.1 400 Bad Request\r\n\r\nnot for you", 40);
        return false;
    }
    head.version = is("version") ? WIRE_VERSION + 41 : head.version;
    head.type = is("hello-type") ? WIRE_TRIM : head.type;
    head.length = is("hello-length") ? (uint64_t)1 << 33 : head.length;
    hello.pid = is("hello-pid") ? hello.pid + 1 : hello.pid;
    hello.start_ticks += is("hello-ticks");
    put(fd, &head, sizeof(head));
    put(fd, &hello, is("hello-half") ? sizeof(hello) / 2 : sizeof(hello));
    return !is("hello-half");
}

static void answer_head(int fd) {
    struct wire_dump dump;
    size_t length = sizeof(dump);
    struct wire_frame head = frame(WIRE_DUMP, length);
    make_head(&dump);
    if (is("answer-stopped"))
        raise(SIGSTOP);
    if (is("answer-version")) {
        head.version = WIRE_VERSION + 1;
    } else if (is("answer-type")) {
        head.type = WIRE_RESET;
    } else if (is("answer-huge")) {
        head.length = (uint64_t)1 << 60;
    } else if (is("answer-short")) {
        head.length = length = 8;
    } else if (is("answer-empty")) {
        head.length = length = 0;
    } else if (is("answer-large")) {
        head.length = WIRE_ANSWER_MAX; /* the head announces these bytes, but they are never sent */
    }
    put(fd, &head, sizeof(head));
    if (is("answer-truncated")) {
        put(fd, &dump, length / 2);
        return;
    }
    if (is("answer-stalled")) {
        put(fd, &dump, length / 2);
        pause();
    }
    for (size_t i = 0; is("slow") && i < length - 100; i += 100) {
        put(fd, (const char *)&dump + i, 100);
        usleep(20000);
    }
    put(fd, (const char *)&dump + (is("slow") ? length / 100 * 100 : 0),
        is("slow") ? length % 100 : length);
}

static void answer_piece(int fd, const struct wire_piece_request *request) {
    static const char none[] = "no mark has this name";
    make_piece(request);
    size_t length = is("piece-short") ? 8 : sizeof(piece.head) + records_bytes;
    struct wire_frame head = frame(WIRE_PIECE, length);
    if (request->part == WIRE_PART_ENTRIES && is("mark-missing")) {
        head.status = WIRE_REFUSED;
        head.length = length = sizeof(none);
        memcpy(&piece, none, sizeof(none));
    }
    put(fd, &head, sizeof(head));
    put(fd, &piece, length);
}

/* Answers WIRE_DUMP. Returns false if the fault is to close the connection. */
static bool answer_dump(int fd, const struct wire_dump_request *body) {
    answer_head(fd);
    if (strncmp(fault, "answer-", 7) == 0) {
        return false;
    }
    if (is("idle") && ((body->flags & (WIRE_DUMP_END | WIRE_DUMP_SUMS)) != 0 ||
                       !(body->flags & WIRE_DUMP_BEGIN))) {
        return false; /* like a process that closes a connection which was idle for a minute */
    }
    if (is("executes")) {
        execl("/proc/self/exe", "fake_server", "none", (char *)NULL);
    }
    return true;
}

static void serve(int fd) {
    static unsigned served;
    bool dump_ended = false;
    struct wire_frame request;
    char body[WIRE_REQUEST_MAX] __attribute__((aligned(8)));
    if (!say_hello(fd)) {
        return;
    }
    while (recv(fd, &request, sizeof(request), MSG_WAITALL) == (ssize_t)sizeof(request) &&
           request.length <= sizeof(body) &&
           (request.length == 0 || /* a recv of 0 bytes would wait */
            recv(fd, body, request.length, MSG_WAITALL) == (ssize_t)request.length)) {
        if (is("no-memory") && request.type != WIRE_DUMP) {
            struct wire_frame head = frame(request.type, 0);
            head.status = WIRE_NO_MEMORY;
            put(fd, &head, sizeof(head));
        } else if (is("refuse")) {
            static const char text[] = "no: \033[31mnot today\nsecond line";
            struct wire_frame head = frame(request.type, sizeof(text));
            head.status = WIRE_REFUSED;
            put(fd, &head, sizeof(head));
            put(fd, text, sizeof(text));
        } else if (request.type == WIRE_DUMP) {
            const struct wire_dump_request *dump = (const void *)body;
            dump_ended = (dump->flags & WIRE_DUMP_END) != 0;
            if (!answer_dump(fd, dump)) {
                return;
            }
            if (is("dropped") && served++ % 3 == 0) {
                return; /* like a process that closes this connection to serve another client */
            }
        } else if (request.type == WIRE_PIECE) {
            answer_piece(fd, (const void *)body);
            if (is("dropped") && served++ % 3 == 0) {
                return;
            }
        } else if (is("ids-go") && dump_ended) { /* after a dump, ids get other meanings */
            struct wire_frame head = frame(request.type, 0);
            head.status = WIRE_REFUSED;
            put(fd, &head, sizeof(head));
        } else if (request.type == WIRE_TRIM) {
            struct wire_trim trim = {.released_bytes = 4096, .rss_before = 8192, .rss_after = 4096};
            struct wire_frame head = frame(WIRE_TRIM, is("trim-short") ? 8 : sizeof(trim));
            put(fd, &head, sizeof(head));
            put(fd, &trim, (size_t)head.length);
        } else {
            static const char text[] = "name\tvalue\tdefault\t1\thelp\nbroken line\n\tx\n";
            struct wire_frame head = frame(request.type, sizeof(text) - 1);
            put(fd, &head, sizeof(head));
            put(fd, text, sizeof(text) - 1);
        }
    }
}

int main(int argc, char **argv) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || runtime == NULL) {
        return 2;
    }
    fault = argv[1];
    signal(SIGPIPE, SIG_IGN);
    alarm(120);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/memctx", runtime);
    mkdir(address.sun_path, 0700);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/memctx/%d.sock", runtime,
             (int)getpid());
    unlink(address.sun_path); /* the socket of "executes" */
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server, 4) != 0) {
        perror("fake_server");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve(fd);
            close(fd);
        }
    }
}
