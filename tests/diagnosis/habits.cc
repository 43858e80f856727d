// SPDX-License-Identifier: MIT
// habits.cc - servers that handle requests through a pointer to a handler, each with one habit.
//
//     errors       are kept, by the path of errors alone
//     replies      are cached by a key that never comes twice
//     listeners    stay after their windows
//     trees        own themselves
//     polygons     are deleted without their members
//     filters      are compiled for each user
//     timeouts     are cancelled, but stay in their queue
//     actors       stay for those who watch them
//     metrics      have a label for each user
// tasks are kept by a function that the handler calls twice, the last time by a tail call
//     failures     likewise, by a function that the handler calls three times
//     buffers      are not all given back
//     orders       rise and fall, and forget some of their rows
//   healthy:
//     lines        are strings that keep their capacity
//     leases       end after a time
//     generations  are copied
//     rooms        keep their newest messages
//     undo         has a limit
//     bytes        is a cache with a limit
//     baskets      rise and fall; their rows are freed later than the baskets
//
// Each prints "look" and waits for a line.
#include "looks.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#define REQUESTS 3000 // between two looks
#define LOOKS 8       // of a healthy program

static std::string numbered(const char *text, unsigned number) {
    return std::string(text) + std::to_string(number) + " and a text that is not short";
}

// What each request allocates and frees.
KEEP static void work() {
    std::map<std::string, std::string> headers;
    for (int i = 0; i < 4; i++)
        headers[numbered("header", i)] = std::string(20 + below(200), 'v');
}

// --- faulty ---

struct ParseError {
    std::string reason;
    std::vector<char> text;
};

KEEP static ParseError *error_make(unsigned number) {
    return new ParseError{numbered("unexpected token", number), std::vector<char>(2000)};
}

static void errors(unsigned number) {
    if (number % 30 == 0 && error_make(number)->reason.empty())
        abort();
}

template <class Key, class Value> class Cache {
    std::unordered_map<Key, std::shared_ptr<Value>> values;

  public:
    template <class Make> KEEP std::shared_ptr<Value> get(const Key &key, Make make) {
        auto found = values.find(key);
        return found != values.end() ? found->second : values.emplace(key, make()).first->second;
    }
};

static void replies(unsigned number) {
    static Cache<std::string, std::string> cache;
    unsigned session = number % 3 == 0 ? number : number % 100;
    cache.get(numbered("session", session), [] { return std::make_shared<std::string>(300, 'r'); });
}

static std::vector<std::function<void(int)>> listeners_all;

KEEP static void listen(std::function<void(int)> listener) {
    listeners_all.push_back(std::move(listener));
}

static void listeners(unsigned number) {
    auto window = std::make_shared<std::string>(numbered("window", number));
    listen([window](int key) { window->push_back(static_cast<char>(key)); });
}

struct Node {
    std::shared_ptr<Node> parent;
    std::vector<std::shared_ptr<Node>> children;
    std::string name;
};

KEEP static std::shared_ptr<Node> tree_build(unsigned number) {
    auto root = std::make_shared<Node>();
    root->name = numbered("root", number);
    for (int i = 0; i < 2; i++) {
        root->children.push_back(std::make_shared<Node>());
        root->children.back()->parent = root;
    }
    return root;
}

static void trees(unsigned number) {
    if (tree_build(number)->name.empty())
        abort();
}

struct Shape {
    int kind;
};

template <int Points> struct Polygon : Shape {
    std::vector<double> points;
    std::string label;
    KEEP Polygon() : Shape{Points}, points(Points), label("a label that is not short") {}
};

static void polygons(unsigned number) {
    Shape *shape = number % 2 ? static_cast<Shape *>(new Polygon<30>) : new Polygon<7>;
    asm volatile("" : : "r"(shape) : "memory");
    ::operator delete(shape);
}

struct Filter {
    std::string text;
    std::vector<std::unique_ptr<int>> steps;
};

KEEP static const Filter &filter_compile(unsigned user) {
    static std::map<unsigned, Filter> filters;
    Filter &filter = filters[user];
    while (filter.steps.size() < 4)
        filter.steps.push_back(std::make_unique<int>(4));
    filter.text = numbered("user", user);
    return filter;
}

static void filters(unsigned number) {
    if (filter_compile(number).text.empty())
        abort();
}

struct Timeout {
    uint64_t when;
    std::function<void()> action;
    bool operator<(const Timeout &other) const {
        return when > other.when;
    }
};

static std::priority_queue<Timeout> timeouts_all;

KEEP static void timeout_set(uint64_t when) {
    auto buffer = std::make_shared<std::string>(300, 'b');
    timeouts_all.push({when, [buffer] { buffer->clear(); }});
}

static void timeouts(unsigned number) {
    timeout_set(number + 10000000);
    while (timeouts_all.top().when < number)
        timeouts_all.pop();
}

struct Actor {
    char state[700];
};

static std::vector<std::weak_ptr<Actor>> watched;

KEEP static std::shared_ptr<Actor> actor_make() {
    auto actor = std::make_shared<Actor>();
    watched.push_back(actor);
    return actor;
}

static void actors(unsigned number) {
    actor_make()->state[0] = static_cast<char>(number);
}

struct Histogram {
    std::vector<unsigned> counts = std::vector<unsigned>(40);
};

KEEP static void metric_count(const std::string &route, const std::string &user) {
    static std::map<std::pair<std::string, std::string>, Histogram> metrics;
    metrics[{route, user}].counts[3]++;
}

static void metrics(unsigned number) {
    metric_count(numbered("route", number % 20), numbered("user", number / 3 * 3));
}

// The handlers of `tasks` and `failures` end in a tail call, so that a third or a half of the call
// paths lacks the handler.
static std::vector<std::future<std::string>> submitted;

KEEP static void task_submit() {
    std::promise<std::string> promise;
    submitted.push_back(promise.get_future());
    promise.set_value(std::string(200, 't'));
}

KEEP static void tasks(unsigned) {
    task_submit();
    task_submit();
}

static std::vector<std::exception_ptr> failed;

KEEP static void failure_note() {
    try {
        throw std::runtime_error(numbered("connection", 1));
    } catch (...) {
        if (failed.size() % 3 == 0 || below(2)) // chance: the paths keep no equal numbers of chunks
            failed.push_back(std::current_exception());
        else
            failed.emplace_back();
    }
}

KEEP static void failures(unsigned) {
    failure_note();
    failure_note();
    failure_note();
}

template <size_t Size> class Pool {
    std::vector<void *> idle;

  public:
    KEEP void *take() {
        if (idle.empty())
            return malloc(Size);
        void *buffer = idle.back();
        idle.pop_back();
        return buffer;
    }
    void give(void *buffer) {
        idle.push_back(buffer);
    }
};

static void buffers(unsigned number) {
    static Pool<4096> pool;
    void *buffer = memset(pool.take(), 1, 4096);
    if (number % 20 != 0)
        pool.give(buffer);
}

// --- healthy ---

KEEP static void line_read(std::string &line) {
    line.clear();
    for (size_t size = below(10) ? 100 : 20000; size > 0; size -= 50)
        line.append(50, 'l');
}

static void lines(unsigned) {
    static std::vector<std::string> connections(500);
    line_read(connections[below(connections.size())]);
}

static void leases(unsigned number) {
    static std::deque<std::pair<unsigned, std::shared_ptr<std::string>>> held;
    held.emplace_back(number, std::make_shared<std::string>(200 + below(300), 'l'));
    while (held.front().first + 2000 < number)
        held.pop_front();
}

static void generations(unsigned number) {
    static std::vector<std::unique_ptr<std::string>> young;
    young.push_back(std::make_unique<std::string>(100 + below(100), 'y'));
    if (number % 700 != 0)
        return;
    std::vector<std::unique_ptr<std::string>> copied;
    for (const auto &one : young)
        if (below(10) == 0)
            copied.push_back(std::make_unique<std::string>(*one));
    young = std::move(copied);
}

static void rooms(unsigned) {
    static std::map<size_t, std::vector<std::string>> all;
    auto &room = all[below(20)];
    room.emplace_back(80 + below(100), 'm');
    if (room.size() > 100)
        room.erase(room.begin(), room.begin() + 50);
}

static void undo(unsigned number) {
    static std::list<std::function<size_t()>> steps;
    std::string text(100 + below(300), 'u');
    steps.push_back([text, number] { return text.size() + number; });
    while (steps.size() > 1500)
        steps.pop_front();
}

static void bytes(unsigned) {
    static std::list<std::pair<size_t, std::string>> order;
    static std::unordered_map<size_t, decltype(order)::iterator> places;
    static size_t held;
    size_t key = below(20000);
    auto found = places.find(key);
    if (found != places.end()) {
        order.splice(order.begin(), order, found->second);
        return;
    }
    order.emplace_front(key, std::string(200 + below(3000), 'c'));
    places[key] = order.begin();
    held += order.front().second.size();
    for (; held > 2000000; order.pop_back()) {
        held -= order.back().second.size();
        places.erase(order.back().first);
    }
}

// An order has a row and a note, allocated together.
struct Order {
    char *row, *note;
};

KEEP static char *row_new() {
    char *row = new char[300];
    memset(row, 1, 300);
    return row;
}

KEEP static char *note_new() {
    char *note = new char[90];
    memset(note, 2, 90);
    return note;
}

// Opens and closes orders: their number rises from 1000 to 6000 and falls again, in 5000 requests.
// Each request also replaces some orders.
static void swing(unsigned number, void (*close)(char *row)) {
    static std::deque<Order> open;
    unsigned turn = number % 5000, wanted = 1000 + 2 * (turn < 2500 ? turn : 5000 - turn);
    for (int i = 0; i < 2; i++)
        open.push_back({row_new(), note_new()});
    while (open.size() < wanted)
        open.push_back({row_new(), note_new()});
    for (; open.size() > wanted; open.pop_front()) {
        delete[] open.front().note;
        close(open.front().row);
    }
}

static void orders(unsigned number) {
    swing(number, [](char *row) {
        static unsigned closed;
        if (++closed % 40 != 0)
            delete[] row;
    });
}

static void baskets(unsigned number) {
    swing(number, [](char *row) {
        static std::deque<char *> closed;
        static unsigned count, most;
        if (count++ % 2500 == 0)
            most = (unsigned)below(1500);
        closed.push_back(row);
        for (; closed.size() > most; closed.pop_front())
            delete[] closed.front();
    });
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*handle)(unsigned);
        unsigned looks; // 0: without end
    } cases[] = {
        {"errors", errors, 0},     {"replies", replies, 0},    {"listeners", listeners, 0},
        {"trees", trees, 0},       {"polygons", polygons, 0},  {"filters", filters, 0},
        {"timeouts", timeouts, 0}, {"actors", actors, 0},      {"metrics", metrics, 0},
        {"tasks", tasks, 0},       {"failures", failures, 0},  {"buffers", buffers, 0},
        {"lines", lines, LOOKS},   {"leases", leases, LOOKS},  {"generations", generations, LOOKS},
        {"rooms", rooms, LOOKS},   {"undo", undo, LOOKS},      {"bytes", bytes, LOOKS},
        {"orders", orders, 0},     {"baskets", baskets, LOOKS}};
    unsigned number = 0;
    for (const auto &one : cases) {
        if (argc != 2 || strcmp(argv[1], one.name) != 0)
            continue;
        for (unsigned seen = 0; one.looks == 0 || seen < one.looks; seen++, look())
            for (int i = 0; i < REQUESTS; i++, number++) {
                one.handle(number);
                work();
            }
        return 0;
    }
    fprintf(stderr, "usage: habits CASE\n");
    return 2;
}
