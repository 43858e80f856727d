#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""statistic.py NAME FILE - prints one figure of `memctx dump --self --json`."""
import json
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    name, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        print(int(json.load(file)["figures"][name]))


if __name__ == "__main__":
    main()
