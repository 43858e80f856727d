/* SPDX-License-Identifier: MIT */
/*
 * causes.cc - C++ programs in which one cause makes several call paths hold memory.
 *
 *     causes-cc orders    orders with strings, a vector and a map are never dropped
 *     causes-cc strings   one function keeps strings, which libstdc++ allocates
 *     causes-cc threads   four threads open sessions of several parts, of which 1 in 40 stays
 *
 * It prints "look" and waits for a line.
 */
#include "looks.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Order {
    std::string customer;
    std::vector<double> prices;
    std::map<int, std::string> notes;
};

std::vector<Order *> orders;

[[gnu::noinline]] void order_accept(int number) {
    Order *order = new Order;
    order->customer = "customer number " + std::string(60, 'x');
    order->prices.resize(40, number);
    order->notes.emplace(number, std::string(100, 'n'));
    orders.push_back(order);
}

void take_orders() {
    orders.reserve(1000000);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 20000; i++)
            order_accept(i);
        look();
    }
}

std::vector<std::string> words;

[[gnu::noinline]] void word_remember(int number) {
    words.push_back(std::string(200, static_cast<char>('a' + number % 26)));
}

void keep_words() {
    words.reserve(1000000);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 30000; i++)
            word_remember(i);
        look();
    }
}

struct Session {
    std::unique_ptr<char[]> input, output;
    std::string user;
};

[[gnu::noinline]] std::unique_ptr<Session> session_open() {
    auto session = std::make_unique<Session>();
    session->input.reset(new char[600]());
    session->output.reset(new char[300]());
    session->user.assign(90, 'u');
    return session;
}

void serve() {
    std::vector<std::unique_ptr<Session>> all;
    all.reserve(30000);
    for (int i = 0; i < 30000; i++)
        all.push_back(session_open());
    for (int i = 0; i < 30000; i++)
        if (i % 40 != 0)
            all[i].reset();
    static std::vector<std::unique_ptr<Session>> kept[4];
    static int next;
    kept[__atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST)] = std::move(all);
}

void run_threads() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(serve);
    for (auto &one : threads)
        one.join();
    look();
}

} // namespace

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "orders"))
        take_orders();
    if (!strcmp(what, "strings"))
        keep_words();
    if (!strcmp(what, "threads"))
        run_threads();
    return 0;
}
