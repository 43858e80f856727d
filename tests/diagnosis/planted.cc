// SPDX-License-Identifier: MIT
// planted - ordinary programs, each with one fault or none. `planted CASE [WRAPPER]` prints "look"
// and waits for a line at each point where doctor is to look at it. It ends at the end of its
// input. WRAPPER is the function that it allocates with. The tests know the faults; this program
// tells memctx nothing about them.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#define APART __attribute__((noinline, noipa))

// --- how the program asks for memory ------------------------------------------------------

enum class Wrapper { malloc, xmalloc, op_new, strdup };
static Wrapper wrapper = Wrapper::malloc;
static char pattern[1 << 20];

APART static void *xmalloc(size_t size) {
    void *block = std::malloc(size);
    if (!block)
        std::abort();
    return block;
}

APART static char *get_by(Wrapper by, size_t size) {
    if (by == Wrapper::xmalloc)
        return static_cast<char *>(xmalloc(size));
    if (by == Wrapper::op_new)
        return static_cast<char *>(::operator new(size));
    // The end of `pattern` is a string that has `size` bytes with its NUL.
    return strdup(pattern + sizeof pattern - size);
}

// Inlined, so that with Wrapper::malloc the calling function is the site.
__attribute__((always_inline)) static inline char *get(size_t size) {
    char *block =
        wrapper == Wrapper::malloc ? static_cast<char *>(std::malloc(size)) : get_by(wrapper, size);
    memset(block, 1, size);
    return block;
}

static void put(char *block) {
    if (wrapper == Wrapper::op_new)
        ::operator delete(block);
    else
        std::free(block);
}

static uint64_t state = 88172645463325252U;
static uint64_t dice(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void look() {
    char line[100];
    puts("look");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        _exit(0);
}

template <typename T> static void shuffle(std::vector<T> &items) {
    for (size_t i = items.size(); i > 1; i--)
        std::swap(items[i - 1], items[dice(i)]);
}

// --- work that the cases share, which leaves no memory behind ---------------------------

APART static char *parse_header(size_t size) {
    char *header = get(size);
    header[0] = 'h';
    return header;
}

APART static char *render_page(size_t size) {
    char *page = get(size);
    page[0] = 'p';
    return page;
}

static void serve(int requests) {
    for (int i = 0; i < requests; i++) {
        char *parts[20];
        for (auto &part : parts)
            part = dice(3) ? parse_header(20 + dice(200)) : render_page(500 + dice(3000));
        for (auto &part : parts)
            put(part);
    }
}

APART static char *cache_store(size_t size) {
    char *entry = get(size);
    entry[0] = 'c';
    return entry;
}

// --- the cases --------------------------------------------------------------------------------

APART static char *session_open() {
    char *session = get(200 + dice(100));
    session[0] = 's';
    return session;
}

static void survivors() { // 2 of 100 sessions stay
    std::vector<char *> open;
    std::vector<char *> cache;
    for (int i = 0; i < 50000; i++)
        cache.push_back(cache_store(300));
    for (int i = 0; i < 400000; i++) {
        open.push_back(session_open());
        if (i % 100 == 0)
            serve(2);
    }
    shuffle(open);
    for (size_t i = 0; i < open.size(); i++)
        if (i % 50)
            put(open[i]);
    serve(2000);
    look();
}

APART static char *column_load(size_t size) {
    char *raw = get(size);
    raw[1] = 'r';
    return raw;
}

APART static char *column_compress(const char *raw, size_t size) {
    char *packed = get(size / 50);
    memcpy(packed, raw, size / 50);
    return packed;
}

APART static char *column_stats() {
    char *stats = get(48);
    stats[0] = '#';
    return stats;
}

static void columns() { // columns shrink to 1/50; the memory of the raw ones is not needed
    std::vector<char *> raws, packed, stats;
    std::vector<size_t> sizes;
    look(); // before
    for (int i = 0; i < 1000; i++) {
        sizes.push_back(100000 + dice(100000));
        raws.push_back(column_load(sizes.back()));
        stats.push_back(column_stats());
    }
    look(); // loaded
    for (size_t i = 0; i < raws.size(); i++) {
        packed.push_back(column_compress(raws[i], sizes[i]));
        put(raws[i]);
    }
    sleep(2); // longer than empty memory is kept
    look();   // compressed
}

APART static char *index_build() {
    char *node = get(48);
    node[0] = 'i';
    return node;
}

APART static char *result_new() {
    char *result = get(64);
    result[0] = 'r';
    return result;
}

static void phases() { // many chunks of one size are freed, then many of another are made
    std::vector<char *> nodes, results;
    for (int i = 0; i < 1500000; i++)
        nodes.push_back(index_build());
    shuffle(nodes);
    for (size_t i = 0; i < nodes.size(); i++)
        if (i % 10)
            put(nodes[i]);
    for (int i = 0; i < 500000; i++)
        results.push_back(result_new());
    look();
}

struct Queue {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    std::vector<char *> jobs;
    bool ended = false;
};
static Queue queue;

APART static char *job_submit() {
    char *job = get(400);
    pthread_mutex_lock(&queue.lock);
    queue.jobs.push_back(job);
    pthread_mutex_unlock(&queue.lock);
    return job;
}

static void *consume(void *) {
    for (;;) {
        pthread_mutex_lock(&queue.lock);
        std::vector<char *> mine;
        for (int i = 0; i < 20 && !queue.jobs.empty(); i++) {
            mine.push_back(queue.jobs.back());
            queue.jobs.pop_back();
        }
        bool ended = queue.ended;
        pthread_mutex_unlock(&queue.lock);
        for (char *job : mine)
            put(job);
        if (ended)
            return nullptr;
        usleep(1000);
    }
}

static void behind() { // a consumer that is slower than the producer
    pthread_t thread;
    pthread_create(&thread, nullptr, consume, nullptr);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 300; i++) {
            for (int k = 0; k < 100; k++)
                job_submit();
            serve(3);
            usleep(1000);
        }
        look();
    }
    pthread_mutex_lock(&queue.lock);
    queue.ended = true;
    pthread_mutex_unlock(&queue.lock);
    pthread_join(thread, nullptr);
}

APART static char *header_intern() {
    char *name = get(64);
    name[0] = 'n';
    return name;
}

static void slow_leak() { // one chunk of 10 000 is never freed
    std::vector<char *> cache(20000);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000000; i++) {
            char *name = header_intern();
            if (i % 10000)
                put(name);
            if (i % 20 == 0) {
                char *&entry = cache[dice(cache.size())];
                if (entry)
                    put(entry);
                entry = cache_store(100 + dice(400));
            }
            if (i % 1000 == 0)
                serve(1);
        }
        look();
    }
}

APART static char *listener_add() {
    char *listener = get(120);
    listener[0] = 'l';
    return listener;
}

static void leak() { // no listener is ever freed
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 100000; i++) {
            listener_add();
            if (i % 50 == 0)
                serve(1);
        }
        look();
    }
}

struct Samples {
    char *items = nullptr;
    size_t used = 0, room = 0;
};

APART static void samples_push(Samples &samples, size_t bytes) {
    if (samples.used + bytes > samples.room) {
        size_t room = samples.room ? samples.room * 2 : 64;
        char *items = get(room);
        if (samples.items)
            memcpy(items, samples.items, samples.used);
        if (samples.items)
            put(samples.items);
        samples.items = items;
        samples.room = room;
    }
    samples.used += bytes;
}

static void doubling() { // arrays that grow by malloc, memcpy and free
    std::vector<Samples> all(200);
    for (size_t used = 0; used < 300000; used += 100) {
        for (Samples &samples : all)
            samples_push(samples, 100);
    }
    look();
}

static char *task_blocks[16][30000];
APART static char *task_alloc() {
    char *task = get(300);
    task[0] = 't';
    return task;
}

static pthread_barrier_t worked, checked;
static void *worker(void *argument) {
    uintptr_t id = reinterpret_cast<uintptr_t>(argument);
    int count = id % 4 == 0 ? 30000 : 300; // every fourth thread makes 100 times as many
    for (int i = 0; i < count; i++)
        task_blocks[id][i] = task_alloc();
    for (int i = 0; i < count; i++)
        if (i % 40)
            put(task_blocks[id][i]);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&checked);
    return nullptr;
}

static void pool() { // four of sixteen threads do nearly all of the work
    pthread_t threads[16];
    pthread_barrier_init(&worked, nullptr, 17);
    pthread_barrier_init(&checked, nullptr, 17);
    for (uintptr_t i = 0; i < 16; i++)
        pthread_create(&threads[i], nullptr, worker, reinterpret_cast<void *>(i));
    pthread_barrier_wait(&worked);
    look();
    pthread_barrier_wait(&checked);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

APART static char *row_new() {
    char *row = get(1030);
    row[0] = 'r';
    return row;
}

static void above() { // rows of 1030 bytes, just above a block of 1024
    std::vector<char *> rows;
    for (int i = 0; i < 100000; i++)
        rows.push_back(row_new());
    serve(500);
    look();
}

APART static char *format_key() {
    char *key = get(40);
    key[0] = 'k';
    return key;
}

static void temporary() { // four million chunks that are freed at once
    std::vector<char *> cache;
    for (int i = 0; i < 20000; i++)
        cache.push_back(cache_store(300));
    for (int i = 0; i < 4000000; i++)
        put(format_key());
    look();
}

static void drip() { // leaks while it works, until a line comes
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    char line[100];
    puts("look");
    fflush(stdout);
    while (read(STDIN_FILENO, line, sizeof line) < 0) {
        for (int i = 0; i < 20; i++)
            listener_add();
        serve(2);
        usleep(1000);
    }
}

static void mapped() { // most of the memory is from mmap, not from malloc
    size_t bytes = 200U << 20;
    char *arena = static_cast<char *>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(arena, 1, bytes);
    serve(2000);
    look();
}

APART static char *plugin_state(int id) { // has 400 call paths, one for each plugin
    char *chunk = get(3000);
    chunk[0] = static_cast<char>(id);
    return chunk;
}

template <int id> APART static char *plugin_init() {
    char *chunk = plugin_state(id);
    chunk[1] = 1;
    return chunk;
}

using Init = char *(*)();
template <int... ids> static std::vector<Init> inits(std::integer_sequence<int, ids...>) {
    return {plugin_init<ids>...};
}

static void plugins() { // 400 call paths through one function, each with a small share
    std::vector<char *> states;
    std::vector<Init> all = inits(std::make_integer_sequence<int, 400>{});
    for (int round = 0; round < 120; round++)
        for (Init init : all)
            states.push_back(init());
    shuffle(states);
    for (size_t i = 0; i < states.size(); i++)
        if (i % 20)
            put(states[i]);
    look();
}

static void thrashing() { // 70 MB in 700 chunks, made and freed 60 times
    for (int round = 0; round < 60; round++) {
        std::vector<char *> buffers;
        for (int i = 0; i < 700; i++)
            buffers.push_back(get(100000));
        for (char *buffer : buffers)
            put(buffer);
    }
    look();
}

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

// --- cases in which the test applies a remedy ---------------------------------------------------

static void work_until_told() { // like a server: works and pauses, until a line comes
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char line[100];
    puts("look");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        serve(1);
    if (!fgets(line, sizeof line, stdin))
        _exit(0);
}

APART static char *late_buffer() {
    char *buffer = get(500000);
    buffer[0] = 'l';
    return buffer;
}

static void sparse() { // like survivors, but the program works on
    std::vector<char *> open;
    for (int i = 0; i < 300000; i++)
        open.push_back(session_open());
    shuffle(open);
    for (size_t i = 0; i < open.size(); i++)
        if (i % 50)
            put(std::exchange(open[i], nullptr));
    work_until_told();
    char *late = late_buffer();
    for (size_t i = 0; i < open.size(); i++) // the freed memory is used again
        if (!open[i])
            open[i] = session_open();
    for (char *session : open)
        if (session[0] != 's')
            _exit(1);
    work_until_told();
    for (char *session : open)
        put(session);
    put(late);
    work_until_told();
}

APART static char *handler_scratch(size_t size) {
    char *scratch = get(size);
    scratch[0] = 'x';
    return scratch;
}

APART static char *handler_state(size_t size) {
    char *kept = get(size);
    kept[0] = 'k';
    return kept;
}

// A thousand call paths with few live bytes each, so all of them share the thread's mixed pages.
template <int id>
APART static void handle(std::vector<char *> &scratch, std::vector<char *> &states) {
    for (int i = 0; i < 50; i++) {
        scratch.push_back(handler_scratch(100 + dice(28)));
        if (i % 25 == 0)
            states.push_back(handler_state(100 + dice(28)));
    }
    asm volatile("" : : "r"(id));
}

using Handler = void (*)(std::vector<char *> &, std::vector<char *> &);
template <int... ids> static std::vector<Handler> handlers(std::integer_sequence<int, ids...>) {
    return {handle<ids>...};
}

static void
among() { // small long-lived chunks among small short-lived ones; equal rounds without end
    std::vector<Handler> all = handlers(std::make_integer_sequence<int, 1000>{});
    std::vector<char *> scratch, states;
    scratch.reserve(100000);
    states.reserve(10000);
    for (;;) {
        for (char *kept : states)
            put(kept);
        states.clear();
        for (Handler handler : all)
            handler(scratch, states);
        for (char *chunk : scratch)
            put(chunk);
        scratch.clear();
        work_until_told();
    }
}

APART static char *row_store(size_t size) {
    char *row = get(size);
    memset(row, 'r', size);
    return row;
}

static void padded() { // rows of 1040 bytes, just above a block of 1024; replaced at random
    std::vector<char *> rows(20000);
    for (;;) {
        for (size_t i = 0; i < 20 * rows.size(); i++) {
            char *&row = rows[i < rows.size() ? i : dice(rows.size())];
            put(row);
            row = row_store(1040);
        }
        for (char *row : rows)
            if (row[0] != 'r' || row[1039] != 'r')
                _exit(1);
        work_until_told();
    }
}

APART static char *message_new(size_t size) {
    char *message = get(size);
    memset(message, 'm', size);
    return message;
}

static void queued() { // messages of 517 to 606 bytes, freed first in, first out
    std::vector<char *> waiting(40000);
    for (;;) {
        for (size_t i = 0; i < 3 * waiting.size(); i++) {
            char *&message = waiting[i % waiting.size()];
            if (message && message[0] != 'm')
                _exit(1);
            put(message);
            message = message_new(517 + i % 90);
        }
        work_until_told();
    }
}

static void handed() { // two threads allocate; the first frees half of the second's chunks
    std::vector<char *> theirs(20000), mine(1000);
    pthread_t other;
    pthread_create(
        &other, nullptr,
        [](void *list) -> void * {
            pthread_setname_np(pthread_self(), "maker");
            for (auto &job : *static_cast<std::vector<char *> *>(list))
                job = handler_scratch(64);
            pause();
            return nullptr;
        },
        &theirs);
    while (!__atomic_load_n(&theirs.back(), __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(10000); // the other thread is in pause now
    for (auto &job : mine)
        job = handler_scratch(64);
    for (size_t i = 0; i < theirs.size(); i += 2)
        put(theirs[i]);
    for (auto &job : mine)
        put(job);
    work_until_told();
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

struct Case {
    const char *name;
    void (*run)();
};

int main(int argc, char **argv) {
    static const Case cases[] = {
        {"survivors", survivors},
        {"columns", columns},
        {"phases", phases},
        {"behind", behind},
        {"slow-leak", slow_leak},
        {"leak", leak},
        {"doubling", doubling},
        {"pool", pool},
        {"above", above},
        {"temporary", temporary},
        {"drip", drip},
        {"mapped", mapped},
        {"plugins", plugins},
        {"thrashing", thrashing},
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
        {"sparse", sparse},
        {"among", among},
        {"padded", padded},
        {"queued", queued},
        {"handed", handed},
        {"full-cache", full_cache},
        {"steady", steady},
        {"table", table},
        {"grows-and-stays", grows_and_stays},
        {"map-of-strings", map_of_strings},
        {"small", small},
    };
    static const char *const wrappers[] = {"malloc", "xmalloc", "new", "strdup"};
    /* Otherwise the first read would allocate a buffer at any moment after "look", and two dumps of
     * a program that stands still would differ. */
    static char input[BUFSIZ];
    setvbuf(stdin, input, _IOFBF, sizeof input);
    memset(pattern, 'x', sizeof pattern - 1);
    for (int i = 0; argc > 2 && i < 4; i++)
        if (!strcmp(argv[2], wrappers[i]))
            wrapper = static_cast<Wrapper>(i);
    for (const Case &one : cases)
        if (argc > 1 && !strcmp(argv[1], one.name)) {
            one.run();
            return 0;
        }
    fprintf(stderr, "planted: no such case\n");
    return 2;
}
