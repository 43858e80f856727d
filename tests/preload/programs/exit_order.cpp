// SPDX-License-Identifier: MIT
// exit_order - code that allocates before main and after it: static constructors and destructors,
// atexit and on_exit handlers, constructors by priority, thread_local objects, quick_exit.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static void say(const std::string &text) {
    std::unique_ptr<std::string> copy(new std::string(text + " (said with memory of its own)"));
    std::puts(copy->c_str());
}

struct speaker {
    std::string name;
    std::vector<int> numbers;
    explicit speaker(const char *text) : name(text), numbers(1000, 7) {
        say("made " + name);
    }
    ~speaker() {
        numbers.resize(5000);
        say("gone " + name);
    }
};

__attribute__((constructor(101))) static void first() {
    std::free(std::malloc(10000));
}

__attribute__((destructor(101))) static void last() {
    char *text = static_cast<char *>(std::malloc(1000));
    std::snprintf(text, 1000, "the last destructor");
    std::puts(text);
    std::free(text);
}

static speaker early("static");
static thread_local std::unique_ptr<speaker> local;

int main(int argc, char **) {
    static speaker lazy("in main");
    std::atexit([] { say("atexit"); });
    std::at_quick_exit([] {
        say("quick");
        std::fflush(stdout);
    });
    on_exit(
        [](int status, void *argument) {
            say("on_exit " + std::to_string(status));
            std::free(argument);
        },
        std::malloc(300));
    local = std::make_unique<speaker>("thread_local of main");
    std::thread([] { local = std::make_unique<speaker>("thread_local"); }).join();
    if (argc > 1) {
        std::quick_exit(4);
    }
    return 6;
}
