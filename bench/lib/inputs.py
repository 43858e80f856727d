# SPDX-License-Identifier: MIT
"""Generates the inputs of the real programs into out/bench/inputs/. They are equal on every
machine, apart from unit.ii, which has the C++ headers of this one."""

import os
import random
import subprocess

SQL = """\
PRAGMA temp_store = MEMORY;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, price REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
INSERT INTO item SELECT i, printf('item-%08x', (i * 2654435761) % 4294967296), i % 997,
    (i * 7919 % 100000) / 100.0, substr('abcdefghijklmnopqrstuvwxyz', i % 20 + 1, i % 7 + 3) FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_grp ON item(grp, price);
SELECT count(*), count(DISTINCT name), sum(grp), round(sum(price), 2) FROM item;
SELECT grp, count(*), group_concat(note, '') FROM item WHERE grp < 5 GROUP BY grp;
SELECT a.name FROM item a JOIN item b ON b.grp = a.id % 997 AND b.price < 20 WHERE a.id <= 300
    ORDER BY a.name, b.price LIMIT 20;
"""

PYTHON = """\
import json
rows = [{"id": i, "name": "row-%d" % i, "tags": ["t%d" % (i % 7), "u%d" % (i % 11)],
         "point": {"x": i * 0.5, "y": -i}} for i in range(40000)]
text = json.dumps(rows)
total = 0
for _ in range(3):
    back = json.loads(text)
    index = {}
    for row in back:
        index.setdefault(row["tags"][0] + row["tags"][1], []).append(row)
    total += sum(len(v) * len(k) for k, v in index.items())
words = {}
for i in range(600000):
    word = "w%d" % (i * 7919 % 50021)
    words[word] = words.get(word, 0) + 1
print(len(text), total, len(words), max(words.values()))
"""

TREES = """\
import argparse, ast, inspect, pickle, typing
nodes = size = 0
for module in (argparse, typing, inspect, pickle):
    with open(module.__file__) as file:
        text = file.read()
    tree = ast.parse(text)
    size += len(ast.dump(tree))
    nodes += sum(1 for _ in ast.walk(tree))
    compile(text, module.__file__, "exec")
print(nodes, size)
"""

CXX = """\
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <variant>
#include <vector>
template <int N> struct level {
    using table = std::map<std::string, std::tuple<int, std::vector<double>, level<N - 1>>>;
    std::variant<int, std::string, std::shared_ptr<table>> value;
    std::string text() const {
        std::ostringstream out;
        std::visit([&out](const auto &v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::shared_ptr<table>>) {
                for (const auto &[key, entry] : *v)
                    out << key << std::get<0>(entry) << std::get<2>(entry).text();
            } else {
                out << v;
            }
        }, value);
        return out.str();
    }
};
template <> struct level<0> {
    std::string text() const { return "."; }
};
std::string all(const level<6> &top, const std::string &pattern) {
    std::vector<std::function<std::string(std::string)>> steps;
    steps.emplace_back([&](std::string in) { return in + top.text(); });
    steps.emplace_back([&](std::string in) {
        return std::regex_replace(in, std::regex(pattern), "x");
    });
    std::string out;
    for (const auto &step : steps)
        out = step(out);
    std::sort(out.begin(), out.end());
    return out;
}
"""

RECUR = """\
walk() {
    local depth=$1 at=$2 left right
    if [ "$depth" -eq 0 ]; then
        result=$at
        return
    fi
    walk $((depth - 1)) "$at${depth}l"; left=$result
    case $at in
        *3*) walk $((depth - 1)) "$at${depth}r"; right=$result ;;
        *) for side in a b; do walk $((depth - 1)) "$at$side"; right=$result; done ;;
    esac
    result=${left:0:6}${right:0:6}
}
for round in 1 2; do
    walk 8 "r$round"
    echo "$result"
done
"""

PERL = """\
use strict;
my %count;
my @lines;
my $x = 12345;
for my $i (1 .. 350_000) {
    $x = ($x * 1103515245 + 12345) % 2147483648;
    my $word = join('-', 'key', $x % 30011, $i % 3);
    $count{$word}++;
    push @{ $lines[$x % 1000] }, "$word:$i";
}
my $text = '';
for my $list (@lines) {
    my @sorted = sort { $a cmp $b } @$list;
    $text .= join(',', map { (split /:/)[0] } @sorted) . "\\n";
}
my $hits = () = $text =~ /key-1\\d+-2/g;
printf "%d %d %d %d\\n", scalar(keys %count), length($text), $hits, $x;
"""

NODE = """\
const rows = [];
for (let i = 0; i < 60000; i++) {
    rows.push({id: i, name: 'row-' + i, tags: ['a' + (i % 13), 'b' + (i % 7)],
               at: {x: i / 4, y: -i}});
}
const text = JSON.stringify(rows);
let total = 0;
for (let round = 0; round < 6; round++) {
    const back = JSON.parse(text);
    const byTag = new Map();
    for (const row of back) {
        const key = row.tags.join('/');
        byTag.set(key, (byTag.get(key) || 0) + row.id);
    }
    total += byTag.size + Buffer.from(JSON.stringify(back)).length;
}
console.log(text.length, total);
"""

JAVA = """\
import java.util.Map;
import java.util.TreeMap;
public class Start {
    public static void main(String[] arguments) {
        Map<String, Integer> counts = new TreeMap<>();
        for (int i = 0; i < 20000; i++) {
            counts.merge("key" + i % 1000, i, Integer::sum);
        }
        System.out.println(counts.size() + " " + counts.get("key7"));
    }
}
"""

FORKS_SCRIPT = "n=0\nwhile [ $n -lt 1000 ]; do ( : ); n=$((n + 1)); done\necho $n\n"
COMMANDS_SCRIPT = "n=0\nwhile [ $n -lt 1000 ]; do /bin/true; n=$((n + 1)); done\necho $n\n"


def c_source(rng):
    """A translation unit of 170 functions with structs, loops, switches and calls."""
    lines = ["typedef unsigned long word;", "extern word sink(word);"]
    for number in range(170):
        lines.append(f"struct s{number} {{ word a, b; int list[{rng.randrange(4, 40)}]; "
                     f"struct s{number} *next; }};")
        lines.append(f"word f{number}(struct s{number} *s, word x, int n) {{")
        lines.append(f"    word r = x ^ {rng.randrange(1 << 30)}u;")
        lines.append("    for (int i = 0; i < n && s; i++, s = s->next) {")
        lines.append(f"        switch ((r >> {rng.randrange(1, 9)}) & 7) {{")
        for case in range(8):
            call = f"f{rng.randrange(number)}(0, r, {rng.randrange(9)})" if number else "sink(r)"
            lines.append(f"        case {case}: r += s->a * {rng.randrange(99)} + {call}; "
                         f"s->list[i & 3] ^= (int)(r >> {rng.randrange(1, 30)}); break;")
        lines.append("        }")
        lines.append(f"        if (s->b > r) r = sink(r - s->b) * {rng.randrange(3, 77)}; "
                     "else s->b = r;")
        lines.append("    }")
        lines.append("    return r;\n}")
    return "\n".join(lines) + "\n"


def xml_document(rng):
    """About 10 MB of nested elements with attributes and text."""
    parts = ["<?xml version=\"1.0\"?>\n<catalog>\n"]
    for number in range(56000):
        words = " ".join(f"word{rng.randrange(5000)}" for _ in range(8))
        parts.append(f"<item id=\"i{number}\" group=\"g{rng.randrange(50)}\"><name>name {number}"
                     f"</name><price currency=\"eur\">{rng.randrange(100000) / 100}</price>"
                     f"<text>{words}</text></item>\n")
    parts.append("</catalog>\n")
    return "".join(parts)


def text_lines(rng):
    """About 42 MB of log-like text for the compressor."""
    hosts = [f"host-{rng.randrange(10 ** 6):06d}.example" for _ in range(300)]
    lines = []
    for number in range(600000):
        lines.append(f"{1700000000 + number // 7} {hosts[rng.randrange(300)]} request "
                     f"id={rng.getrandbits(48):012x} took {rng.randrange(9000)} us ok\n")
    return "".join(lines)


def fast_import_stream(rng):
    """1 500 commits on 60 files of 200 lines; each commit changes four lines in three files."""
    files = [[f"line {rng.getrandbits(60):x} of file {f}" for _ in range(200)] for f in range(60)]
    out = []
    for commit in range(1500):
        message = f"change {commit}"
        out.append(f"commit refs/heads/main\ncommitter A <a@example.org> "
                   f"{1600000000 + commit * 60} +0000\ndata {len(message)}\n{message}\n")
        for _ in range(3):
            number = rng.randrange(60)
            for _ in range(4):
                files[number][rng.randrange(200)] = f"line {rng.getrandbits(60):x} at {commit}"
            text = "\n".join(files[number]) + "\n"
            out.append(f"M 100644 inline dir{number % 7}/file{number}.txt\n"
                       f"data {len(text)}\n{text}\n")
    return "".join(out)


def create_repository(path, stream):
    """A bare repository made from a fast-import stream."""
    part = path + ".part"
    subprocess.run(["rm", "-rf", part], check=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", part], check=True)
    subprocess.run(["git", "-C", part, "fast-import", "--quiet"], input=stream.encode(), check=True)
    os.rename(part, path)


def create_class(path, source):
    """Makes the class file `path` from a source that is written beside it."""
    directory = os.path.dirname(path)
    with open(os.path.join(directory, "Start.java"), "w", encoding="ascii") as file:
        file.write(source)
    subprocess.run(["javac", "-d", directory, os.path.join(directory, "Start.java")], check=True)


def ensure(directory):
    """Writes the short inputs, and those long ones that are missing. A text gets its name when it
    is complete."""
    os.makedirs(directory, exist_ok=True)
    short = {
        "load.sql": SQL, "work.py": PYTHON, "work.pl": PERL, "work.js": NODE,
        "forks.sh": FORKS_SCRIPT, "commands.sh": COMMANDS_SCRIPT, "trees.py": TREES,
        "unit.cc": CXX, "recur.sh": RECUR,
    }
    long = {"unit.c": c_source, "catalog.xml": xml_document, "log.txt": text_lines}
    for name in (*short, *long):
        path = os.path.join(directory, name)
        if name in short or not os.path.exists(path):
            with open(path + ".part", "w", encoding="ascii") as file:
                file.write(short[name] if name in short else long[name](random.Random(name)))
            os.rename(path + ".part", path)
    # cc1plus, which the benchmark runs, does not know the include paths, so g++ -E preprocesses.
    subprocess.run(["g++", "-std=c++17", "-E", "-o", os.path.join(directory, "unit.ii"),
                    os.path.join(directory, "unit.cc")], check=True)
    repository = os.path.join(directory, "repository.git")
    if not os.path.exists(repository):
        create_repository(repository, fast_import_stream(random.Random("repository")))
    if not os.path.exists(os.path.join(directory, "Start.class")):
        create_class(os.path.join(directory, "Start.class"), JAVA)
