// SPDX-License-Identifier: MIT
// steps.cc - a buffer class that grows by just the appended bytes, used in four threads, and a
// buffer class that doubles its room. It prints "look" and waits for a line.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

template <bool Doubles> class Buffer {
  public:
    __attribute__((noinline)) void append(const char *bytes, size_t count) {
        if (used_ + count > room_) {
            room_ = Doubles ? 2 * (used_ + count) : used_ + count;
            bytes_ = static_cast<char *>(std::realloc(bytes_, room_));
        }
        std::memcpy(bytes_ + used_, bytes, count);
        used_ += count;
    }

  private:
    char *bytes_ = nullptr;
    size_t used_ = 0, room_ = 0;
};

template <bool Doubles> static void fill(Buffer<Doubles> *buffer) {
    for (int i = 0; i < 150000; i++)
        buffer->append("record;", 7);
}

template <bool Doubles> static void run(std::vector<Buffer<Doubles>> &buffers) {
    std::vector<std::thread> threads;
    for (auto &buffer : buffers)
        threads.emplace_back(fill<Doubles>, &buffer);
    for (auto &thread : threads)
        thread.join();
}

int main(int argc, char **argv) {
    std::vector<Buffer<false>> exact(4);
    std::vector<Buffer<true>> doubling(4);
    if (argc == 2 && std::string(argv[1]) == "exact")
        run(exact);
    else
        run(doubling);
    std::cout << "look" << std::endl;
    std::string line;
    std::getline(std::cin, line);
}
