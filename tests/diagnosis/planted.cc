// SPDX-License-Identifier: MIT
// planted - ordinary programs, each with one fault or none. `planted CASE [WRAPPER]` prints "look"
// and waits for a line at each point where doctor is to look at it. It ends at the end of its
// input. WRAPPER is the function that it allocates with. The tests know the faults; this program
// tells memctx nothing about them. planted_growth.cc has further cases.
#include "planted.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

Wrapper wrapper = Wrapper::malloc;
char pattern[1 << 20];
uint64_t dice_state = 88172645463325252U;

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

static const Case planted_cases[] = {
    {"survivors", survivors}, {"columns", columns},     {"phases", phases},     {"behind", behind},
    {"slow-leak", slow_leak}, {"leak", leak},           {"doubling", doubling}, {"pool", pool},
    {"above", above},         {"temporary", temporary}, {"drip", drip},         {"mapped", mapped},
    {"plugins", plugins},     {"thrashing", thrashing}, {"sparse", sparse},     {"among", among},
    {"padded", padded},       {"queued", queued},       {"handed", handed},     {nullptr, nullptr},
};
int main(int argc, char **argv) {
    static const char *const wrappers[] = {"malloc", "xmalloc", "new", "strdup"};
    /* Otherwise the first read would allocate a buffer at any moment after "look", and two dumps of
     * a program that stands still would differ. */
    static char input[BUFSIZ];
    setvbuf(stdin, input, _IOFBF, sizeof input);
    memset(pattern, 'x', sizeof pattern - 1);
    for (int i = 0; argc > 2 && i < 4; i++)
        if (!strcmp(argv[2], wrappers[i]))
            wrapper = static_cast<Wrapper>(i);
    for (const Case *cases : {planted_cases, growth_cases})
        for (const Case *one = cases; argc > 1 && one->name; one++)
            if (!strcmp(argv[1], one->name)) {
                one->run();
                return 0;
            }
    fprintf(stderr, "planted: no such case\n");
    return 2;
}
