/* SPDX-License-Identifier: MIT */
/*
 * fake_server.c - speaks wire.h to the command, well or badly.
 *
 *   fake_server FAULT
 *
 * Listens at $XDG_RUNTIME_DIR/memctx/PID.sock, prints "ready", and serves one client after the
 * other until it is killed. FAULT "none" answers as the library would; the others are in faults().
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "memctx/wire.h"

#define CONTEXTS_MAX 4096

static const char strings[] = "\0/nowhere/fake\0[unknown]\0\033[31mred\nlabel\0[vdso]";
enum { STRING_EXE = 1, STRING_UNKNOWN = 15, STRING_RED = 25, STRING_VDSO = 40 };

static const char *fault;

static struct {
    struct wire_dump head;
    struct wire_context contexts[CONTEXTS_MAX];
    struct wire_module modules[1];
    struct wire_thread threads[2];
    struct wire_view views[2];
    struct wire_mark marks[1];
    struct wire_mark_entry entries[2];
    char strings[sizeof(strings)];
} dump;

static bool is(const char *name) {
    return strcmp(fault, name) == 0;
}

static void put(int fd, const void *bytes, size_t length) {
    for (size_t used = 0; used < length;) {
        ssize_t done = send(fd, (const char *)bytes + used, length - used, MSG_NOSIGNAL);
        if (done <= 0) {
            return;
        }
        used += (size_t)done;
    }
}

static struct wire_section section(const void *array, uint64_t count) {
    return (struct wire_section){(uint64_t)((const char *)array - (const char *)&dump), count};
}

static struct wire_context context(uint32_t id, uint32_t parent, uint8_t kind, int64_t bytes) {
    return (struct wire_context){
        .id = id,
        .parent = parent,
        .kind = kind,
        .policy = WIRE_POLICY_ASET,
        .module = WIRE_NONE,
        .label = WIRE_NONE,
        .self = {.requested_bytes = bytes,
                 .block_bytes = bytes,
                 .reserved_bytes = bytes,
                 .resident_bytes = bytes,
                 .live_chunks = bytes != 0,
                 .allocs = bytes != 0,
                 .requested_cum_bytes = bytes,
                 .peak_requested_bytes = bytes,
                 .pages = bytes != 0},
    };
}

/* Four contexts: the root, a label that would color a terminal, a frame of code made at run time
 * (0x5000001) and one in the vDSO. */
static void make_dump(void) {
    memset(&dump, 0, sizeof(dump));
    memcpy(dump.strings, strings, sizeof(strings));
    dump.head.uptime_ns = 1500000000;
    dump.head.pid = (uint32_t)getpid();
    dump.head.depth = 32;
    dump.head.exact = 1;
    dump.head.exe = STRING_EXE;
    dump.head.mark_found = 1;
    dump.head.flags = WIRE_DUMP_THREADS;
    dump.head.ledger.rss_bytes = 1 << 20;
    dump.contexts[0] = context(0, WIRE_NONE, WIRE_KIND_ROOT, 0);
    dump.contexts[1] = context(1, 0, WIRE_KIND_UNKNOWN, 100);
    dump.contexts[1].label = STRING_RED;
    dump.contexts[2] = context(2, 0, WIRE_KIND_PATH, 200);
    dump.contexts[2].address = 0x5000001;
    dump.contexts[3] = context(3, 2, WIRE_KIND_PATH, 300);
    dump.contexts[3].address = 0x7ff00123;
    dump.contexts[3].module = 0;
    dump.modules[0] = (struct wire_module){
        .start = 0x7ff00000, .end = 0x7ff01000, .bias = 0x7ff00000, .path = STRING_VDSO};
    strcpy(dump.threads[1].name, "worker");
    dump.threads[1].tid = 77;
    dump.views[0] = (struct wire_view){.context = 3, .thread = 1, .totals = {.allocs = 5}};
    dump.views[1] = (struct wire_view){.context = 1, .thread = 0, .totals = {.frees = 2}};
    strcpy(dump.marks[0].name, "first");
    dump.marks[0].uptime_ns = 1000000000;
    dump.entries[0] = (struct wire_mark_entry){.context = 3, .requested_bytes = 50, .allocs = 1};
    dump.head.contexts = section(dump.contexts, 4);
    dump.head.modules = section(dump.modules, 1);
    dump.head.threads = section(dump.threads, 2);
    dump.head.views = section(dump.views, 2);
    dump.head.marks = section(dump.marks, 1);
    dump.head.mark_entries = section(dump.entries, 1);
    dump.head.strings = section(dump.strings, sizeof(strings));
}

static void damage_dump(void) {
    if (is("section-offset")) {
        dump.head.contexts.offset = (uint64_t)1 << 40;
    } else if (is("section-offset-wraps")) {
        dump.head.contexts.offset = UINT64_MAX - 8;
    } else if (is("section-count")) {
        dump.head.contexts.count = (uint64_t)1 << 61;
    } else if (is("section-views")) {
        dump.head.views.count = UINT64_MAX;
    } else if (is("no-contexts")) {
        dump.head.contexts.count = 0;
    } else if (is("no-strings")) {
        dump.head.strings.count = 0;
    } else if (is("open-strings")) {
        dump.head.strings.count -= 2;
    } else if (is("string-offset")) {
        dump.contexts[1].label = 1 << 20;
    } else if (is("exe-offset")) {
        dump.head.exe = WIRE_NONE;
    } else if (is("parent-missing")) {
        dump.contexts[3].parent = 999;
    } else if (is("parent-later")) {
        dump.contexts[2].parent = 3;
    } else if (is("parent-itself")) {
        dump.contexts[2].parent = 2;
    } else if (is("two-roots")) {
        dump.contexts[2].parent = WIRE_NONE;
    } else if (is("no-root")) {
        dump.contexts[0].parent = 1;
    } else if (is("id-twice")) {
        dump.contexts[3].id = 2;
    } else if (is("kind")) {
        dump.contexts[3].kind = 200;
    } else if (is("module")) {
        dump.contexts[3].module = 7;
    } else if (is("build-id")) {
        dump.modules[0].build_id_bytes = 1000;
    } else if (is("view-context")) {
        dump.views[0].context = 1234;
    } else if (is("view-thread")) {
        dump.views[0].thread = 1234;
    } else if (is("marks")) {
        dump.head.marks.count = WIRE_MARKS_MAX + 1;
    } else if (is("mark-missing")) {
        dump.head.mark_found = 0;
    } else if (is("deep")) {
        for (uint32_t i = 4; i < CONTEXTS_MAX; i++) {
            dump.contexts[i] = context(i, i - 1, WIRE_KIND_PATH, 1);
        }
        dump.head.contexts.count = CONTEXTS_MAX;
    } else if (is("extreme")) {
        memset(&dump.contexts[2].self, 0x7f, sizeof(dump.contexts[2].self));
        memset(&dump.contexts[3].self, 0x7f, sizeof(dump.contexts[3].self));
        dump.contexts[1].self.requested_bytes = WIRE_UNKNOWN;
        dump.contexts[1].self.peak_requested_bytes = INT64_MIN + 1;
        memset(&dump.head.ledger, 0x7f, sizeof(dump.head.ledger));
        memset(&dump.entries[0].requested_bytes, 0x80, sizeof(int64_t));
        dump.head.ledger.segments_resident = INT64_MIN + 1;
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

static bool say_hello(int fd) {
    struct wire_frame head = frame(WIRE_HELLO, sizeof(struct wire_hello));
    struct wire_hello hello = {
        .pid = (uint32_t)getpid(), .depth = 32, .start_ticks = start_ticks()};
    strcpy(hello.library_version, "fake");
    if (is("close")) {
        return false;
    }
    if (is("silent")) {
        pause();
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

static void answer_dump(int fd) {
    size_t length = sizeof(dump);
    struct wire_frame head = frame(WIRE_DUMP, length);
    make_dump();
    damage_dump();
    if (is("answer-version")) {
        head.version = 9;
    } else if (is("answer-type")) {
        head.type = WIRE_RESET;
    } else if (is("answer-huge")) {
        head.length = (uint64_t)1 << 60;
    } else if (is("answer-short")) {
        head.length = length = 8;
    } else if (is("answer-empty")) {
        head.length = length = 0;
    } else if (is("answer-large")) {
        head.length = (uint64_t)3 << 30; /* announced, never sent: must not be allocated either */
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
    if (is("answer-slow")) {
        for (size_t i = 0; i < length; i += 65536) {
            put(fd, (const char *)&dump + i, length - i < 65536 ? length - i : 65536);
            usleep(20000);
        }
        return;
    }
    put(fd, &dump, length);
}

/* One page of context 3, one that it shares with context 2, and one of a context that the dump has not. */
static void answer_pages(int fd) {
    struct {
        struct wire_pages head;
        struct wire_page pages[3];
        struct wire_share shares[2];
    } answer = {.head = {.count = 3, .share_count = 2}, .shares = {{2, 10}, {3, 5}}};
    for (uint32_t i = 0; i < 3; i++) {
        answer.pages[i] = (struct wire_page){.start = 0x700000000000 + i * 16384UL,
                                             .bytes = 16384,
                                             .touched_bytes = 16384,
                                             .resident_bytes = WIRE_UNKNOWN,
                                             .context = i == 0   ? 3
                                                        : i == 1 ? WIRE_NONE
                                                                 : 99,
                                             .block_bytes = 64,
                                             .live = 15,
                                             .live_bytes = 15 * 64,
                                             .capacity = 240,
                                             .share_count = i == 1 ? 2 : 0,
                                             .kind = i == 1 ? WIRE_PAGE_MIXED : WIRE_PAGE_OWN};
    }
    answer.head.next = is("pages-loop") ? 4096 : 0;
    answer.head.count = is("pages-count") ? UINT32_MAX : 3;
    answer.head.share_count = is("pages-shares") ? 1 : 2;
    answer.pages[1].first_share = is("pages-share") ? 1 : is("pages-share-wraps") ? UINT32_MAX : 0;
    struct wire_frame head = frame(WIRE_PAGES, is("pages-short") ? 8 : sizeof(answer));
    put(fd, &head, sizeof(head));
    put(fd, &answer, (size_t)head.length);
}

static void serve(int fd) {
    struct wire_frame request;
    char body[WIRE_REQUEST_MAX];
    if (!say_hello(fd)) {
        return;
    }
    while (recv(fd, &request, sizeof(request), MSG_WAITALL) == (ssize_t)sizeof(request) &&
           request.length <= sizeof(body) &&
           (request.length == 0 || /* recv of nothing waits for something */
            recv(fd, body, request.length, MSG_WAITALL) == (ssize_t)request.length)) {
        if (is("refuse")) {
            static const char text[] = "no: \033[31mnot today\nsecond line";
            struct wire_frame head = frame(request.type, sizeof(text));
            head.status = WIRE_REFUSED;
            put(fd, &head, sizeof(head));
            put(fd, text, sizeof(text));
        } else if (request.type == WIRE_DUMP) {
            answer_dump(fd);
            if (strncmp(fault, "answer-", 7) == 0) {
                return;
            }
        } else if (request.type == WIRE_PAGES) {
            answer_pages(fd);
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
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server, 4) != 0) {
        perror("fake_server");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int fd = accept(server, NULL, NULL);
        if (fd >= 0) {
            serve(fd);
            close(fd);
        }
    }
}
