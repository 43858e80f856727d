#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""find_path.py FILE [FIGURE=VALUE...] -- PATTERN... - checks that the dump has call paths that
match the patterns, and whose figures have these sums. A pattern is a regular expression for the
whole name of a frame. The first pattern is for the innermost frame, the next for its caller, and so
on. "..." stands for any number of frames, "END" for the end of the path. A frame's name is its
function, "[label]" of a labelled node, or else "module+offset" (the module without its directory).
Functions inlined into a frame are frames before that frame. The "self" figures of all matching
paths are added up. Exits 0 if the sums are the given values; else prints the paths and exits 1."""
import json
import os
import re
import sys


def frame_name(frame):
    if frame.get("function"):
        return frame["function"]
    return f"{os.path.basename(frame.get('module') or '')}+{frame.get('offset')}"


def context_names(context):
    """The names of one context, innermost first."""
    frame = context["frame"]
    if frame is None:  # the root context
        return []
    return [frame_name(inlined) for inlined in frame["inlined"]] + [frame_name(frame)]


def path_fits(path, patterns):
    if not patterns:
        return True
    if patterns == ["END"]:
        return not path
    if patterns[0] == "...":
        return any(path_fits(path[start:], patterns[1:]) for start in range(len(path) + 1))
    return bool(path) and bool(re.fullmatch(patterns[0], path[0])) and \
        path_fits(path[1:], patterns[1:])


def main():
    arguments = sys.argv[1:]
    if "--" not in arguments[1:]:
        sys.exit(__doc__)
    split = arguments.index("--")
    figures = dict(argument.split("=") for argument in arguments[1:split])
    patterns = arguments[split + 1:]
    with open(arguments[0], encoding="utf-8") as file:
        dump = json.load(file)
    contexts = {context["id"]: context for context in dump["contexts"]}
    sums = dict.fromkeys(figures, 0)
    found = 0
    paths = []
    for context in dump["contexts"]:
        if context["self"]["allocs"] == 0:
            continue
        path, at = [], context
        while at is not None:
            path += context_names(at)
            at = contexts.get(at["parent"])
        paths.append((context["self"]["requested_bytes"], context["self"]["allocs"], path))
        if path_fits(path, patterns):
            found += 1
            for key in figures:
                sums[key] += context["self"][key]
    if found and all(sums[key] == int(value) for key, value in figures.items()):
        return 0
    print(f"{found} paths like {' < '.join(patterns)}: {sums}, expected {figures or 'any'}")
    for requested, allocs, path in sorted(paths, reverse=True)[:25]:
        print(f"    {requested} bytes, {allocs} allocs: {' < '.join(path)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
