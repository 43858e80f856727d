// SPDX-License-Identifier: MIT
// kinds.cc - programs of kinds that the other files do not have.
//
//   healthy:
//     wheel        timers that end after a random time
//     routes       copies a table and replaces some entries of the copy
//     simulation   has about as many events at all times
//     frames       makes about as many things as end
//   healthy, and one function holds most of the memory:
//     dictionary   texts in a vector
//     packets      packets that the program keeps in a free list of its own
//     workers      buffers of 48 threads
//     countries    texts of a function that ends in a tail call of strdup
//   healthy, but slow:
//     tokens       two threads copy 60 texts for each request, and free them at its end
//   faulty:
//     locales      are not freed
//     locals       of threads have no destructor
//     shapes       are cloned, and freed without their members
//     requests     that fail free nothing
//     expressions  are compiled for each request
//     audits       have a tree of parts, which another function makes
//     refusals     are kept by a function that the compiler divided in two
//     labels       of a program of Go, which calls C.CString and forgets C.free
//
// Each prints "look" and waits for a line: the healthy ones eight times, the others for ever.
#include "looks.h"

#include <atomic>
#include <clocale>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <queue>
#include <regex.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define LOOKS 8

static void work() {
    for (int i = 0; i < 2000; i++) {
        std::string text(30 + below(300), 'w');
        asm volatile("" : : "r"(text.data()) : "memory");
    }
}

// --- healthy ---

struct Timer {
    std::string text;
};

static void wheel() {
    std::vector<std::list<std::unique_ptr<Timer>>> slots(1024);
    size_t now = 0;
    for (int round = 0; round < LOOKS; round++, look())
        for (int tick = 0; tick < 3000; tick++, now++) {
            slots[now % 1024].clear();
            for (size_t count = below(17); count > 0; count--)
                slots[(now + 1 + below(1000)) % 1024].push_back(
                    std::make_unique<Timer>(Timer{std::string(30 + below(200), 't')}));
        }
}

struct Route {
    std::string prefix;
    std::vector<int> weights;
};
using Routes = std::vector<std::shared_ptr<Route>>;

KEEP static std::shared_ptr<Routes> routes_copy(const Routes &old) {
    auto copy = std::make_shared<Routes>(old);
    for (int i = 0; i < 700; i++)
        (*copy)[below(copy->size())] = std::make_shared<Route>(
            Route{std::string(40 + below(100), 'p'), std::vector<int>(20 + below(30))});
    return copy;
}

static void routes() {
    auto table = std::make_shared<Routes>();
    for (int i = 0; i < 20000; i++)
        table->push_back(
            std::make_shared<Route>(Route{std::string(60, 'p'), std::vector<int>(30)}));
    for (int round = 0; round < LOOKS; round++, look())
        for (int i = 0; i < 10; i++)
            table = routes_copy(*table);
}

static void simulation() {
    using Event = std::shared_ptr<std::pair<size_t, std::string>>;
    auto later = [](const Event &a, const Event &b) { return a->first > b->first; };
    std::priority_queue<Event, std::vector<Event>, decltype(later)> events(later);
    auto add = [&events](size_t time) {
        events.push(std::make_shared<std::pair<size_t, std::string>>(
            time + below(1000), std::string(60 + below(80), 'e')));
    };
    for (int i = 0; i < 5000; i++)
        add(0);
    for (int round = 0; round < LOOKS; round++, look())
        for (int i = 0; i < 30000; i++) {
            Event event = events.top();
            events.pop();
            size_t count = events.size() > 6000 ? 0 : events.size() < 4000 ? 2 : below(3);
            for (; count > 0; count--)
                add(event->first);
        }
}

static void frames() {
    std::vector<std::unique_ptr<std::string>> things;
    for (int round = 0; round < LOOKS; round++, look())
        for (int frame = 0; frame < 600; frame++) {
            for (size_t count = below(11); count > 0; count--)
                things.push_back(std::make_unique<std::string>(2000 + below(4000), 'f'));
            for (size_t i = 0; i < things.size();)
                if (below(100) == 0) {
                    things[i] = std::move(things.back());
                    things.pop_back();
                } else {
                    i++;
                }
        }
}

// --- holders ---

KEEP static std::vector<std::string> dictionary_load() {
    std::vector<std::string> words;
    words.reserve(200000);
    for (int i = 0; i < 200000; i++)
        words.emplace_back(180, 'd');
    return words;
}

static void dictionary() {
    std::vector<std::string> words = dictionary_load();
    for (int round = 0; round < LOOKS; round++, look())
        work();
}

struct Packet {
    Packet *next;
    char bytes[1400];
};
static Packet *idle;

KEEP static Packet *packet_get() {
    Packet *packet = idle;
    if (packet)
        idle = packet->next;
    else
        packet = static_cast<Packet *>(malloc(sizeof *packet));
    memset(packet->bytes, 1, sizeof packet->bytes);
    return packet;
}

static void packets() {
    std::vector<Packet *> busy;
    for (int i = 0; i < 30000; i++)
        busy.push_back(packet_get());
    for (int round = 0; round < LOOKS; round++, look()) {
        for (Packet *packet : busy) {
            packet->next = idle;
            idle = packet;
        }
        busy.assign(10, nullptr);
        for (Packet *&packet : busy)
            packet = packet_get();
        work();
    }
}

KEEP static void worker_fill(std::vector<std::unique_ptr<char[]>> &buffers) {
    for (int i = 0; i < 4000; i++)
        buffers.push_back(std::make_unique<char[]>(250));
}

static void workers() {
    static std::mutex lock;
    static std::condition_variable all_full;
    static int full;
    std::vector<std::thread> threads;
    for (int i = 0; i < 48; i++)
        threads.emplace_back([] {
            std::vector<std::unique_ptr<char[]>> buffers;
            worker_fill(buffers);
            std::unique_lock<std::mutex> held(lock);
            full++;
            all_full.notify_all();
            held.unlock();
            for (;;)
                pause();
        });
    {
        std::unique_lock<std::mutex> held(lock);
        all_full.wait(held, [] { return full == 48; });
    }
    for (int round = 0; round < LOOKS; round++, look())
        work();
    _exit(0);
}

KEEP static char *country_name() {
    return strdup("United Kingdom of Great Britain and Northern Ireland");
}

static void countries() {
    std::vector<char *> names;
    for (int i = 0; i < 300000; i++)
        names.push_back(country_name());
    for (int round = 0; round < LOOKS; round++, look())
        work();
}

// --- faulty ---

KEEP static void price_format() {
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
    if (!duplocale(locale)) /* is never freed */
        exit(1);
}

static void locales() {
    for (;; look()) {
        for (int i = 0; i < 3000; i++)
            price_format();
        work();
    }
}

static pthread_key_t scratch_key;

KEEP static void scratch_make() {
    void *scratch = malloc(20000);
    memset(scratch, 1, 20000);
    pthread_setspecific(scratch_key, scratch);
}

static void locals() {
    pthread_key_create(&scratch_key, nullptr);
    for (;; look()) {
        for (int i = 0; i < 60; i++)
            std::thread(scratch_make).join();
        work();
    }
}

struct Shape {
    virtual ~Shape() = default;
    virtual Shape *clone() const = 0;
};
struct Circle : Shape {
    char style[200] = {1};
    KEEP Shape *clone() const override {
        return new Circle(*this);
    }
};
struct Group : Shape {
    std::vector<Shape *> members; /* are not freed with the group */
    KEEP Shape *clone() const override {
        auto *copy = new Group;
        for (Shape *member : members)
            copy->members.push_back(member->clone());
        return copy;
    }
};

static void shapes() {
    Group group;
    for (int i = 0; i < 10; i++)
        group.members.push_back(new Circle);
    for (;; look()) {
        for (int i = 0; i < 600; i++)
            delete group.clone();
        work();
    }
}

KEEP static bool request_handle(int number) {
    char *body = static_cast<char *>(malloc(600 + below(400)));
    memset(body, 1, 600);
    asm volatile("" : : "r"(body) : "memory");
    if (number % 97 == 0)
        return false;
    free(body);
    return true;
}

static void requests() {
    for (;; look())
        for (int i = 0; i < 97000; i++)
            request_handle(i);
}

KEEP static bool agent_matches(const char *agent) {
    regex_t expression;
    return regcomp(&expression, "^(Mozilla|curl)/[0-9.]+", REG_EXTENDED) == 0 &&
           regexec(&expression, agent, 0, nullptr, 0) == 0;
}

static void expressions() {
    for (;; look()) {
        for (int i = 0; i < 100; i++)
            agent_matches("curl/7");
        work();
    }
}

// An audit is a tree of 1 + 4 + 16 nodes and 21 texts.
struct Part {
    std::string text;
    std::vector<std::unique_ptr<Part>> parts;
};

KEEP static std::unique_ptr<Part> part_make(int depth) {
    auto part = std::make_unique<Part>();
    part->text = std::string(60 + below(30), 'p');
    part->parts.reserve(4);
    for (int i = 0; i < 4 && depth > 0; i++)
        part->parts.push_back(part_make(depth - 1));
    return part;
}

struct Audit {
    std::unique_ptr<Part> root;
    int number;
};

KEEP static void audit_note(std::vector<Audit *> &audits, int number) {
    audits.push_back(new Audit{part_make(2), number});
}

static void audits() {
    std::vector<Audit *> audits;
    audits.reserve(1 << 20);
    for (;; look()) {
        for (int i = 0; i < 200; i++)
            audit_note(audits, i);
        work();
    }
}

static int refused;
static volatile bool refusing = true;

__attribute__((cold, noinline)) static void refusal_count(int number) {
    refused += number;
}

// A call of a cold function makes the block around it cold, too: the compiler moves this block to a
// function of its own, "order_refuse [clone .cold]".
KEEP static void order_refuse(char **refusals, int number) {
    refusals[0] = static_cast<char *>(malloc(120));
    if (refusing) {
        refusal_count(number);
        refusals[1] = static_cast<char *>(malloc(90));
    }
}

static void refusals() {
    static char *kept[4000];
    for (;; look()) {
        for (int i = 0; i < 2000; i++)
            order_refuse(&kept[2 * i], i);
        work();
    }
}

// The function through which Go calls malloc has such a name.
extern "C" KEEP void *_cgo_63f294d63f7f_Cfunc__Cmalloc(size_t size) {
    void *chunk = malloc(size);
    asm volatile("" : "+r"(chunk));
    return chunk;
}

static void labels() {
    for (;; look())
        for (int i = 0; i < 2000; i++) {
            if (i % 100 == 0)
                work();
            memset(_cgo_63f294d63f7f_Cfunc__Cmalloc(200), 'l', 200);
        }
}

KEEP static char *token_copy(const char *token) {
    char *copy = strdup(token);
    asm volatile("" : "+r"(copy));
    return copy;
}

static void tokens() {
    std::atomic<int> served = 0;
    auto serve = [&served] {
        char *copies[60];
        for (int request = 0; request < 14000; request++) {
            for (char *&copy : copies)
                copy = token_copy("a token of a request");
            for (char *copy : copies)
                free(copy);
        }
        served++;
        while (true) // a thread that has ended has no peak
            pause();
    };
    std::thread one(serve), other(serve);
    while (served < 2)
        usleep(1000);
    while (true)
        look();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"wheel", wheel},
                 {"routes", routes},
                 {"simulation", simulation},
                 {"frames", frames},
                 {"dictionary", dictionary},
                 {"packets", packets},
                 {"workers", workers},
                 {"countries", countries},
                 {"locales", locales},
                 {"locals", locals},
                 {"shapes", shapes},
                 {"requests", requests},
                 {"expressions", expressions},
                 {"audits", audits},
                 {"refusals", refusals},
                 {"labels", labels},
                 {"tokens", tokens}};
    for (const auto &one : cases)
        if (argc == 2 && strcmp(argv[1], one.name) == 0) {
            one.run();
            return 0;
        }
    fprintf(stderr, "usage: kinds CASE\n");
    return 2;
}
