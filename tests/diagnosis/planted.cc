// SPDX-License-Identifier: MIT
// planted - ordinary programs, each with one thing wrong, or nothing. `planted CASE [WRAPPER]`
// works, and at each point where somebody is to look it prints "look" and waits for a line; at the
// end of its input it ends. What is wrong, and where, the tests know; nothing in here says so to
// memctx.
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
    // A string of that size with its end, which stands behind this one.
    return strdup(pattern + sizeof pattern - size);
}

// Inlined, so that with malloc alone the caller is the site.
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

// --- what the cases have in common: work that leaves nothing behind ---------------------------

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

static void columns() { // raw columns become small ones; what they took is not needed any more
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

static void phases() { // many of one size, then many of another one
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

static void slow_leak() { // one of 10 000 is forgotten
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

static void leak() { // nothing of it is ever freed
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

static void doubling() { // arrays that grow by copying
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
    int count = id % 4 == 0 ? 30000 : 300; // uneven
    for (int i = 0; i < count; i++)
        task_blocks[id][i] = task_alloc();
    for (int i = 0; i < count; i++)
        if (i % 40)
            put(task_blocks[id][i]);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&checked);
    return nullptr;
}

static void pool() { // four of sixteen threads had nearly all of the work
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

static void above() { // a size just above a block's
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

static void temporary() { // made and dropped at once, again and again
    std::vector<char *> cache;
    for (int i = 0; i < 20000; i++)
        cache.push_back(cache_store(300));
    for (int i = 0; i < 4000000; i++)
        put(format_key());
    look();
}

static void drip() { // leaks while it works, until it is told to stop
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

static void mapped() { // most of it is not from malloc
    size_t bytes = 200U << 20;
    char *arena = static_cast<char *>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(arena, 1, bytes);
    serve(2000);
    look();
}

APART static char *plugin_state(int id) { // from 400 places: a call path for each
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

static void plugins() { // 400 call paths through one function, none of which stands out
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

static void thrashing() { // a large working set that is made and freed again and again
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

static void prune(Node *node) { // the labels of nineteen nodes of twenty
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

APART static void visit(Node *node) { // leaves something behind somewhere
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

// --- cases in which something is done about it ---------------------------------------------------

static void work_until_told() { // as a server does: some work, then a moment of nothing
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

static void sparse() { // survivors, in a program that goes on working
    std::vector<char *> open;
    for (int i = 0; i < 300000; i++)
        open.push_back(session_open());
    shuffle(open);
    for (size_t i = 0; i < open.size(); i++)
        if (i % 50)
            put(std::exchange(open[i], nullptr));
    work_until_told();
    char *late = late_buffer();
    for (size_t i = 0; i < open.size(); i++) // and all of it comes into use again
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

// A thousand call paths that never have much each: all of them share the thread's mixed pages.
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
among() { // small long-lived chunks among small short-lived ones; the same again and again
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

static void padded() { // many rows of one size, just above a size of blocks; replaced in any order
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

static void queued() { // messages of all sizes, freed in the order they came
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

static void handed() { // two threads allocate, the first one frees half of the second one's
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
    usleep(10000);
    for (auto &job : mine)
        job = handler_scratch(64);
    for (size_t i = 0; i < theirs.size(); i += 2)
        put(theirs[i]);
    for (auto &job : mine)
        put(job);
    work_until_told();
}

// --- growth that is not one more chunk at each interval ---------------------------------------

APART static void log_append(char *&log, size_t &size, size_t bytes) {
    log = static_cast<char *>(std::realloc(log, size + bytes));
    memset(log + size, 'l', bytes);
    size += bytes;
}

static void one_buffer() { // one chunk, which realloc makes larger and larger
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

static void few_large() { // one large chunk more each time
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

static void wider() { // always as many records, each ever larger
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

// Opens or closes orders until there are so many; every tenth that is closed is forgotten.
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

static void waves() { // a load that comes and goes, and orders that are forgotten
    std::vector<char *> orders;
    static const size_t load[] = {2000, 9000, 20000, 9000};
    for (int round = 0; round < 15; round++) {
        trade(orders, load[round % 4], true);
        look();
    }
}

static void one_dip() { // it falls once, a little
    std::vector<char *> orders;
    static const size_t load[] = {4000, 9000, 15000, 13500, 20000, 26000, 31000};
    for (size_t count : load) {
        trade(orders, count, false);
        look();
    }
}

// --- healthy ones -------------------------------------------------------------------------------

static void full_cache() { // large, all of it used; entries are replaced
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

static void steady() { // a server with work and nothing to keep
    for (int round = 0; round < 4; round++) {
        serve(50000);
        look();
    }
}

static void table() { // one large array, used
    char *all = get(512 << 10);
    std::vector<char *> rows;
    for (int i = 0; i < 200; i++)
        rows.push_back(get(512 << 10));
    all[0] = 1;
    look();
}

static void grows_and_stays() { // grows while it starts, and not afterwards
    std::vector<char *> cache;
    for (int round = 0; round < 4; round++) {
        if (round == 0)
            for (int i = 0; i < 100000; i++)
                cache.push_back(cache_store(500));
        serve(10000);
        look();
    }
}

static void filling_cache() { // random keys: it grows ever more slowly
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

static void sawtooth() { // the load of each day, and one day with more of it long ago
    std::vector<char *> orders;
    static const size_t load[] = {3000, 30000, 2000, 12000, 2500, 14000, 3000, 16000, 3500, 18000};
    for (size_t count : load) {
        trade(orders, count, false);
        look();
    }
}

static void days() { // the same load each day
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
        usleep(600000); // the time of a round is more than that of a look, on a busy machine, too
        look();
    }
}

// The same, looked at late: 200 000 words were read before.
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

static void reloaded() { // loaded by one path, replaced bit by bit by another one
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
