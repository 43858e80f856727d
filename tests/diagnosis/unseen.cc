// SPDX-License-Identifier: MIT
// unseen.cc - programs of other kinds than planted.cc: each case has one fault, or none.
//
//     registry     200 modules add handlers to one list
//     observers    closures of a local class are never removed
//     tenants      buffers of two kinds of requests grow by realloc
//     wrapped      one of three callers of an allocator with three layers leaks
//     jumped       one of two callers leaks; the allocator's one function ends in a tail call
//     namespaces   the functions are in namespaces that have names of Rust's library
//     lines        lines that getline allocates are not freed
//     queries      prepared queries are kept, each of which owns chunks of all sizes
//     badges       a function allocates an object, and its text by a tail call
//     inserts      one function allocates pages in two ways
//     compiled     plans are kept, at first through one entry of V8, later through another
//     aligned      1 of 20 buffers of whole OS pages is kept
//     churn        rows are replaced at random, from another line than they were made at
//   healthy:
//     rebuild      builds a new index and then drops the old one
//     reread       reads its configuration anew, from another line than at its start, and mostly
//                  with entries of slightly other sizes
//     arena        one large request among small ones
//     batch        phases that allocate, and two that free
//     late-pool    starts twelve threads in the third round
//     lru          a full cache
//     slots        a table whose slots are filled at random and replaced
//
// Each prints "look" and waits for a line: the healthy ones six times, `compiled` eight times, the
// others for ever.
#include "looks.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

static void work() {
    for (int i = 0; i < 200; i++) {
        void *parts[16];
        for (int k = 0; k < 16; k++)
            parts[k] = malloc(static_cast<size_t>(40 + 30 * k));
        for (void *part : parts)
            free(part);
    }
}

// --- registry ---

struct Registry {
    std::list<std::function<int(int)>> handlers;
    KEEP void add(int number, const std::string &name) {
        handlers.push_back(
            [number, name](int x) { return number + x + static_cast<int>(name.size()); });
    }
};
static Registry registry;

template <int id> KEEP static void module_init(int number) {
    registry.add(number, "a handler of module " + std::to_string(id) + ", with a long name");
    asm volatile("");
}

template <int... ids> KEEP static void init_all(int number, std::integer_sequence<int, ids...>) {
    (module_init<ids>(number), ...);
}

static void registry_grows() {
    for (;; look()) {
        for (int i = 0; i < 30; i++)
            init_all(i, std::make_integer_sequence<int, 200>());
        work();
    }
}

// --- observers ---

static std::vector<std::function<void()>> observers;

static void observers_grow() {
    struct Window {
        KEEP static void observe() {
            std::string title(260, 't');
            observers.push_back([title] {});
        }
    };
    observers.reserve(1000000);
    for (;; look()) {
        for (int i = 0; i < 5000; i++)
            Window::observe();
        work();
    }
}

// --- tenants ---

struct Buffer {
    char *bytes;
    size_t used, size;
};
static Buffer tenants[200];

KEEP static void buffer_add(Buffer *buffer, const char *text, size_t length) {
    if (buffer->used + length > buffer->size) {
        buffer->size = buffer->size + buffer->size / 8 + length + 512;
        buffer->bytes = static_cast<char *>(realloc(buffer->bytes, buffer->size));
    }
    memcpy(buffer->bytes + buffer->used, text, length);
    buffer->used += length;
}

KEEP static void tenant_log(int tenant, const char *text) {
    buffer_add(&tenants[tenant], text, strlen(text));
    asm volatile("");
}

KEEP static void page_get(int tenant) {
    tenant_log(tenant, "GET /index.html HTTP/1.1 200 12345\n");
    asm volatile("");
}

KEEP static void form_post(int tenant) {
    tenant_log(tenant, "POST /form HTTP/1.1 302 -\n");
    asm volatile("");
}

static void tenants_grow() {
    for (;; look()) {
        for (int i = 0; i < 100000; i++)
            (i % 3 ? page_get : form_post)(rand() % 200);
        work();
    }
}

// --- namespaces ---

namespace core {
struct Engine {
    std::list<std::string> textures;
    KEEP void texture_load(size_t size) {
        textures.emplace_back(300 + size % 100, 't');
    }
};
} // namespace core

namespace alloc {
KEEP static void frame_draw(core::Engine &engine, size_t size) {
    engine.texture_load(size);
    asm volatile("");
}
} // namespace alloc

static void namespaces() {
    for (core::Engine engine;; look()) {
        for (size_t i = 0; i < 3000; i++)
            alloc::frame_draw(engine, i);
        work();
    }
}

// --- churn ---

KEEP static void *row_new() {
    void *row = malloc(1040);
    memset(row, 1, 1040);
    return row;
}

static void churn() {
    std::vector<void *> rows;
    for (;; look()) {
        for (void *row : rows)
            free(row);
        rows.clear();
        for (int i = 0; i < 20000; i++)
            rows.push_back(row_new());
        for (int i = 0; i < 40000; i++) {
            size_t at = static_cast<size_t>(rand()) % rows.size();
            free(rows[at]);
            rows[at] = row_new();
        }
    }
}

// --- healthy ---

#define LOOKS 6

KEEP static char *entry_new(size_t bytes) {
    char *entry = static_cast<char *>(malloc(bytes));
    memset(entry, 1, bytes);
    return entry;
}

static void drop(std::vector<char *> &entries) {
    for (char *entry : entries)
        free(entry);
    entries.clear();
}

static void rebuild() {
    std::vector<char *> index;
    for (int round = 0; round < LOOKS; round++) {
        std::vector<char *> next;
        for (size_t i = 0; i < 20000; i++) {
            next.push_back(entry_new(300 + i % 100));
            if (i == 15000 && round % 2 == 1) /* half of the looks come while both indexes exist */
                look();
        }
        drop(index);
        index.swap(next);
        if (round % 2 == 0)
            look();
    }
}

KEEP static std::vector<char *> configuration_read(size_t more) {
    std::vector<char *> entries;
    for (size_t i = 0; i < 20000; i++)
        entries.push_back(entry_new(20 + i % 200 + more));
    return entries;
}

static void reread() {
    static const size_t more[LOOKS] = {0, 0, 1, 3, 2, 5};
    std::vector<char *> entries = configuration_read(more[0]);
    for (int round = 1; round <= LOOKS; round++) {
        look();
        std::vector<char *> next = configuration_read(more[round % LOOKS]);
        drop(entries);
        entries.swap(next);
    }
}

static void arena() {
    std::vector<char *> unused;
    for (int round = 0; round < LOOKS; round++, look()) {
        for (int request = 0; request < 50; request++) {
            std::vector<char *> blocks;
            for (int i = 0; i < (round == 2 && request == 9 ? 200 : 20 + request % 7); i++) {
                if (unused.empty())
                    unused.push_back(entry_new(65536));
                blocks.push_back(unused.back());
                unused.pop_back();
            }
            unused.insert(unused.end(), blocks.begin(), blocks.end());
            work();
        }
    }
}

static void batch() {
    std::vector<char *> rows, keys, lines;
    for (int phase = 0; phase < LOOKS; phase++, look()) {
        for (int i = 0; i < 30000; i++) {
            if (phase == 0 || phase == 1)
                rows.push_back(entry_new(250));
            if (phase == 2)
                keys.push_back(entry_new(64));
            if (phase == 3 || phase == 4)
                lines.push_back(entry_new(400));
        }
        if (phase == 4)
            drop(rows);
        if (phase == 5)
            drop(keys);
    }
}

static std::atomic<int> ready{0};

static void serve() {
    std::vector<char *> parts;
    char *buffer = entry_new(1 << 20);
    for (int round = 0; round < 20; round++, drop(parts))
        for (size_t i = 0; i < 300; i++)
            parts.push_back(entry_new(60 + i));
    ready++;
    pause();
    free(buffer);
}

static void late_pool() {
    for (int round = 0; round < LOOKS; round++, look()) {
        work();
        for (int i = 0; i < 12 && round == 2; i++)
            std::thread(serve).detach();
        while (round == 2 && ready < 12)
            usleep(1000);
    }
}

static void lru() {
    std::vector<char *> slots(30000);
    size_t next = 0;
    for (int round = 0; round < LOOKS; round++, look()) {
        for (int i = 0; i < 40000; i++, next++) {
            char *&slot = slots[next % slots.size()];
            free(slot);
            slot = entry_new(100 + static_cast<size_t>(rand()) % 900);
        }
    }
}

static void slots() {
    srand(9); /* with these numbers, the bytes grow a little after the slots are full */
    std::vector<char *> table(20000);
    for (int round = 0; round < LOOKS; round++, look())
        for (int i = 0; i < 50000; i++) {
            char *&slot = table[static_cast<size_t>(rand()) % table.size()];
            free(slot);
            slot = entry_new(50 + static_cast<size_t>(rand()) % 300);
        }
}

// --- wrapped ---

KEEP static void *memory_take(size_t size) {
    void *chunk = malloc(size);
    if (!chunk)
        _exit(3);
    return chunk;
}

KEEP static char *zone_take(size_t size) {
    return static_cast<char *>(memset(memory_take(size), 0, size));
}

KEEP static char *object_make(size_t size) {
    char *object = zone_take(size);
    object[0] = 1;
    return object;
}

KEEP static char *certificate_load() {
    char *object = object_make(900);
    object[1] = 2;
    return object;
}

KEEP static char *hello_read() {
    char *object = object_make(500);
    object[1] = 3;
    return object;
}

KEEP static char *ciphers_list() {
    char *object = object_make(300);
    object[1] = 4;
    return object;
}

static char *volatile last_certificate;

static void wrapped() {
    for (;; look())
        for (int i = 0; i < 2000; i++) {
            free(hello_read());
            free(ciphers_list());
            last_certificate = certificate_load();
        }
}

// --- jumped ---

KEEP static void *memory_get(size_t size) {
    return malloc(size);
}

KEEP static char *session_open() {
    char *session = static_cast<char *>(memory_get(900));
    session[0] = 5;
    return session;
}

KEEP static char *request_read() {
    char *request = static_cast<char *>(memory_get(500));
    request[0] = 6;
    return request;
}

static char *volatile last_session;

static void jumped() {
    for (;; look())
        for (int i = 0; i < 2000; i++) {
            free(request_read());
            free(request_read());
            last_session = session_open();
        }
}

// --- lines ---

static char *settings[10];

KEEP static void settings_read() {
    FILE *file = fopen("/etc/passwd", "r");
    for (size_t i = 0, size = 0; file && i < 10; i++, size = 0) {
        settings[i] = nullptr;
        if (getline(&settings[i], &size, file) < 0)
            break;
    }
    if (file)
        fclose(file);
}

static void lines() {
    for (;; look())
        for (int i = 0; i < 1500; i++)
            settings_read();
}

// --- queries ---

struct Query {
    char *text, *copy, *code, *names;
};

KEEP static char *bytes_new(size_t size) {
    char *bytes = static_cast<char *>(malloc(size));
    memset(bytes, 'b', size);
    return bytes;
}

KEEP static void code_make(Query *query) {
    query->code = bytes_new(900);
    query->names = bytes_new(120);
}

KEEP static void query_copy(Query *query, const char *text) {
    query->copy = strdup(text);
    query->copy[0] = 'c';
}

KEEP static void query_prepare(Query *query, const char *text) {
    code_make(query);
    query_copy(query, text);
    asm volatile("");
}

static Query *volatile last_query;

KEEP void query_get(const char *text) { // not static, as tree_insert
    Query *query = static_cast<Query *>(malloc(sizeof *query));
    query->text = strdup(text);
    query_prepare(query, text);
    last_query = query;
}

static void queries() {
    for (;; look())
        for (int i = 0; i < 1000; i++)
            query_get("select name from users where id = 1");
}

// --- badges ---

static char *volatile last_badge;

KEEP static char *badge_new(int number) {
    char *badge = static_cast<char *>(malloc(80));
    badge[0] = static_cast<char>(number);
    last_badge = badge;
    return bytes_new(100); // a tail call
}

static void badges() {
    for (;; look())
        for (int i = 0; i < 4000; i++)
            last_badge = badge_new(i);
}

// --- aligned ---

static char *volatile last_buffer;

KEEP static char *page_buffer() {
    void *buffer = nullptr;
    if (posix_memalign(&buffer, 4096, 5000) != 0)
        exit(1);
    memset(buffer, 'b', 5000);
    return static_cast<char *>(buffer);
}

static void aligned() {
    for (;; look())
        for (int i = 0; i < 20000; i++) {
            last_buffer = page_buffer();
            if (i % 20 != 0)
                free(last_buffer);
        }
}

// --- inserts ---

static char *volatile last_page;

KEEP static void page_take() {
    last_page = bytes_new(4000);
}

KEEP static void overflow_take() {
    last_page = bytes_new(4000);
    asm volatile("");
}

KEEP void tree_insert(int row) { // not static, so that it has a name in a program without symbols
    if (row % 2 == 0)
        page_take();
    if (row % 31 == 0)
        overflow_take();
    asm volatile("");
}

static void inserts() {
    for (;; look())
        for (int i = 0; i < 2000; i++)
            tree_insert(i);
}

// Two functions that have names of V8's entries, through which generated code calls native code.
__attribute__((noipa)) static void plan_keep() {
    static char *volatile plan;
    for (int i = 0; i < 1000; i++) {
        plan = new char[400];
        std::memset(plan, 'p', 400);
    }
    __asm__ volatile("");
}

extern "C" __attribute__((noipa)) void Builtins_Interpreted() {
    plan_keep();
    __asm__ volatile("");
}

extern "C" __attribute__((noipa)) void Builtins_Compiled() {
    plan_keep();
    __asm__ volatile("");
}

static void compiled() {
    for (int round = 0; round < 8; round++) {
        if (round < 4)
            Builtins_Interpreted();
        else
            Builtins_Compiled();
        look();
    }
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"registry", registry_grows},
                 {"observers", observers_grow},
                 {"tenants", tenants_grow},
                 {"wrapped", wrapped},
                 {"jumped", jumped},
                 {"lines", lines},
                 {"namespaces", namespaces},
                 {"queries", queries},
                 {"badges", badges},
                 {"aligned", aligned},
                 {"inserts", inserts},
                 {"churn", churn},
                 {"compiled", compiled},
                 {"rebuild", rebuild},
                 {"reread", reread},
                 {"arena", arena},
                 {"batch", batch},
                 {"late-pool", late_pool},
                 {"lru", lru},
                 {"slots", slots}};
    for (const auto &one : cases)
        if (argc > 1 && strcmp(one.name, argv[1]) == 0) {
            one.run();
            _exit(0); /* threads of late_pool wait without end */
        }
    return 1;
}
