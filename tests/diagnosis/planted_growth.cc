// SPDX-License-Identifier: MIT
// planted_growth.cc - cases of the program planted whose memory grows in other ways than by equally
// many new chunks at one call path in each interval, and healthy cases.
#include "planted.h"

#include <map>
#include <string>

// A tree that is built by recursion: each node has a call path of its own.
struct Node {
    Node *left, *right;
    char *label;
};

APART static char *node_label() {
    return get(900);
}

APART static Node *build(int levels) {
    Node *node = new Node{nullptr, nullptr, node_label()};
    if (levels > 0) {
        node->left = build(levels - 1);
        node->right = build(levels - 1);
    }
    return node;
}

static void prune(Node *node) { // frees the labels of 19 nodes of 20
    if (!node)
        return;
    if (dice(20)) {
        put(node->label);
        node->label = nullptr;
    }
    prune(node->left);
    prune(node->right);
}

static void recursion() {
    Node *tree = build(15);
    prune(tree);
    look();
}

APART static void visit(Node *node) { // leaks a label on a random path of the tree
    if (dice(4) == 0) {
        node_label();
        return;
    }
    if (node->left)
        visit(dice(2) ? node->left : node->right);
}

static void leaky_recursion() {
    Node *tree = build(12);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4000; k++)
            visit(tree);
        serve(500);
        look();
    }
}

// --- growth other than equally many new chunks in each interval -------------------------------

APART static void log_append(char *&log, size_t &size, size_t bytes) {
    log = static_cast<char *>(std::realloc(log, size + bytes));
    memset(log + size, 'l', bytes);
    size += bytes;
}

static void one_buffer() { // one chunk that grows by realloc
    char *log = nullptr;
    size_t size = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 400; i++) {
            log_append(log, size, 10000);
            serve(2);
        }
        look();
    }
}

APART static char *picture_keep() {
    char *picture = get(3 << 20);
    picture[0] = 'p';
    return picture;
}

static void few_large() { // one more large chunk in each round
    for (int round = 0; round < 5; round++) {
        picture_keep();
        serve(20000);
        look();
    }
}

APART static void record_widen(char *&record, size_t &size, size_t bytes) {
    record = static_cast<char *>(std::realloc(record, size + bytes));
    memset(record + size, 'r', bytes);
    size += bytes;
}

static void wider() { // a fixed number of records, each of which grows
    std::vector<char *> records(5000);
    std::vector<size_t> sizes(5000);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < records.size(); i++)
            record_widen(records[i], sizes[i], 300 + dice(200));
        serve(10000);
        look();
    }
}

APART static char *order_open() {
    char *order = get(1000);
    order[0] = 'o';
    return order;
}

// Opens or closes orders until there are `count`. With `forgets`, one of ten closed orders leaks.
static void trade(std::vector<char *> &orders, size_t count, bool forgets) {
    while (orders.size() < count)
        orders.push_back(order_open());
    while (orders.size() > count) {
        if (!forgets || dice(10))
            put(orders.back());
        orders.pop_back();
    }
    serve(3000);
}

static void waves() { // a load that rises and falls, and orders that leak
    std::vector<char *> orders;
    static const size_t load[] = {2000, 9000, 20000, 9000};
    for (int round = 0; round < 15; round++) {
        trade(orders, load[round % 4], true);
        look();
    }
}

static void one_dip() { // the number of orders falls once, by a tenth
    std::vector<char *> orders;
    static const size_t load[] = {4000, 9000, 15000, 13500, 20000, 26000, 31000};
    for (size_t count : load) {
        trade(orders, count, false);
        look();
    }
}

// --- healthy ones -------------------------------------------------------------------------------

static void full_cache() { // a large cache that is full; entries are replaced
    std::vector<char *> cache(300000);
    for (auto &entry : cache)
        entry = cache_store(300);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 300000; i++) {
            char *&entry = cache[dice(cache.size())];
            put(entry);
            entry = cache_store(300);
        }
        look();
    }
}

static void steady() { // a server that keeps no memory
    for (int round = 0; round < 4; round++) {
        serve(50000);
        look();
    }
}

static void table() { // 201 large chunks, all of them written
    char *all = get(512 << 10);
    std::vector<char *> rows;
    for (int i = 0; i < 200; i++)
        rows.push_back(get(512 << 10));
    all[0] = 1;
    look();
}

static void grows_and_stays() { // grows in the first round only
    std::vector<char *> cache;
    for (int round = 0; round < 4; round++) {
        if (round == 0)
            for (int i = 0; i < 100000; i++)
                cache.push_back(cache_store(500));
        serve(10000);
        look();
    }
}

static void filling_cache() { // random keys: the cache grows ever more slowly
    std::vector<char *> cache(100000);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 200000; i++) {
            char *&entry = cache[dice(cache.size())];
            if (entry)
                put(entry);
            entry = cache_store(100 + dice(200));
        }
        look();
    }
}

static void sawtooth() { // a load that rises and falls each day, with an early peak
    std::vector<char *> orders;
    static const size_t load[] = {3000, 30000, 2000, 12000, 2500, 14000, 3000, 16000, 3500, 18000};
    for (size_t count : load) {
        trade(orders, count, false);
        look();
    }
}

static void days() { // nearly the same load each day
    std::vector<char *> orders;
    static const size_t load[] = {3000, 9000, 20000, 9000};
    for (int round = 0; round < 14; round++) {
        trade(orders, load[round % 4] + dice(200), false);
        look();
    }
}

APART static char *word_learn(size_t size) {
    char *word = get(size);
    word[0] = 'w';
    return word;
}

// The chance that a word of a text is new falls with the number of words that were read. Words are
// never forgotten, so their number grows with the logarithm of the text.
static void vocabulary() {
    uint64_t read = 0;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 40000; i++, read++) {
            if (dice(20000 + read) < 20000)
                word_learn(200);
            serve(i % 20 == 0);
        }
        usleep(600000); // a round takes longer than a look, on a busy machine, too
        look();
    }
}

// Like vocabulary, but the first look comes after 240 000 words.
static void late_vocabulary() {
    uint64_t read = 0;
    for (int round = -5; round < 5; round++) {
        for (int i = 0; i < 40000; i++, read++) {
            if (dice(20000 + read) < 20000)
                word_learn(200);
            serve(i % 20 == 0);
        }
        if (round < 0)
            continue;
        usleep(600000);
        look();
    }
}

APART static char *table_load() {
    char *row = get(400);
    row[0] = 't';
    return row;
}
APART static char *row_refresh() {
    char *row = get(400);
    row[0] = 'f';
    return row;
}

static void reloaded() { // rows are loaded on one path and replaced on another
    std::vector<char *> rows(40000);
    for (auto &row : rows)
        row = table_load();
    size_t next = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 6000; i++, next++) {
            char *&row = rows[next % rows.size()];
            put(row);
            row = row_refresh();
        }
        serve(5000);
        look();
    }
}

static void map_of_strings() {
    std::map<std::string, std::string> map;
    for (int i = 0; i < 300000; i++)
        map["a key of some length " + std::to_string(i)] = std::string(60 + i % 100, 'v');
    look();
}

static void small() {
    look();
}

const Case growth_cases[] = {
    {"recursion", recursion},
    {"leaky-recursion", leaky_recursion},
    {"one-buffer", one_buffer},
    {"few-large", few_large},
    {"wider", wider},
    {"waves", waves},
    {"one-dip", one_dip},
    {"sawtooth", sawtooth},
    {"days", days},
    {"vocabulary", vocabulary},
    {"late-vocabulary", late_vocabulary},
    {"reloaded", reloaded},
    {"filling-cache", filling_cache},
    {"full-cache", full_cache},
    {"steady", steady},
    {"table", table},
    {"grows-and-stays", grows_and_stays},
    {"map-of-strings", map_of_strings},
    {"small", small},
    {nullptr, nullptr},
};
