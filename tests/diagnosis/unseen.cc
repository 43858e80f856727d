// SPDX-License-Identifier: MIT
// unseen.cc - programs of other kinds. `registry`: 200 modules add handlers to one list. `observers`:
// closures that are never removed, made in a local class. `tenants`: buffers that grow by realloc, for
// two kinds of requests. `churn`: rows that are replaced in any order, from another line than the one
// that made them; made anew each time. Each says "look" and waits for a line, again and again.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#define KEEP __attribute__((noinline))

static void look() {
    char byte;
    if (write(1, "look\n", 5) != 5)
        exit(1);
    do {
        if (read(0, &byte, 1) != 1)
            exit(0);
    } while (byte != '\n');
}

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
        handlers.push_back([number, name](int x) { return number + x + static_cast<int>(name.size()); });
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

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"registry", registry_grows}, {"observers", observers_grow}, {"tenants", tenants_grow}, {"churn", churn}};
    for (const auto &one : cases)
        if (argc > 1 && strcmp(one.name, argv[1]) == 0)
            one.run();
    return 1;
}
