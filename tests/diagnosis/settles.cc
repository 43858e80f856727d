// SPDX-License-Identifier: MIT
// settles.cc - programs whose memory grows until it has its full size, or ever more slowly, and one
// whose memory does not stop growing.
//
//     vocabulary  counts words, of which ever fewer are new, and reads faster and faster
//     undo        keeps the newest 100 edits, which have 0 to 59 texts each
//     load        reads rows into a vector for nine rounds
//     empties     adds rows to a vector for ever, which own memory in the first three rounds only
//
// Each prints "look" and waits for a line.
#include "looks.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

static void work() {
    for (int i = 0; i < 300; i++) {
        void *parts[12];
        for (void *&part : parts)
            part = malloc(24 + below(700));
        for (void *part : parts)
            free(part);
    }
}

static std::unordered_map<size_t, long> words;

// Reads 20 000 of 60 000 words, of which the k-th is read 1/k times as often as the first. Then,
// from the third round on, sleeps about as long as there were new words, so that they grow evenly
// in time.
static void vocabulary(int round) {
    size_t before = words.size();
    for (int i = 0; i < 20000; i++)
        words[static_cast<size_t>(std::pow(60000.0, static_cast<double>(below(1000000)) / 1e6))]++;
    usleep(static_cast<useconds_t>((words.size() - before) * (round < 3        ? 20
                                                              : round % 2 == 0 ? 120
                                                                               : 80)));
}

static std::deque<std::vector<std::string>> edits;

static void undo(int) {
    for (int i = 0; i < 30; i++) {
        edits.push_back(std::vector<std::string>(below(60), std::string(100, 'u')));
        if (edits.size() > 100)
            edits.pop_front();
    }
    usleep(20000);
}

static std::vector<std::string> rows;

static void load(int round) {
    for (int i = 0; i < 4000 && round < 9; i++)
        rows.emplace_back(60 + below(200), 'r');
    usleep(20000);
}

static void empties(int round) {
    for (int i = 0; i < 4000; i++)
        rows.emplace_back(round < 3 ? 60 + below(200) : 0, 'r');
    usleep(20000);
}

int main(int, char **arguments) {
    void (*run)(int) = strcmp(arguments[1], "vocabulary") == 0 ? vocabulary
                       : strcmp(arguments[1], "undo") == 0     ? undo
                       : strcmp(arguments[1], "empties") == 0  ? empties
                                                               : load;
    for (int round = 0;; round++) {
        run(round);
        work();
        look();
    }
}
