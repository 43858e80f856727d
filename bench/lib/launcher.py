# SPDX-License-Identifier: MIT
"""Runs one workload once under one peer, and checks the result."""

import dataclasses
import glob
import hashlib
import os
import re
import shutil
import signal
import statistics
import subprocess


class RunError(Exception):
    """The run is invalid: it crashed, hung, or gave a wrong answer."""


@dataclasses.dataclass
class Sample:
    """The figures of one workload under one peer in one round."""
    wall_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    peak_rss_kib: int = 0
    end_rss_kib: int = 0
    live_bytes: int = 0  # requested bytes live at the end; only for memctx
    value: float = 0.0  # the workload's measure
    digest: str = ""  # of the output; equal under all peers


class Site:
    """The directories of one benchmark run, and the environment that every command gets."""

    def __init__(self, out, tmp):
        self.out = out
        self.tmp = tmp
        self.read_end = False  # True: stop each program at its end, to read its resident set
        self.inputs = os.path.join(out, "inputs")
        self.programs = os.path.join(out, "programs")
        self.stdout = os.path.join(tmp, "stdout")
        self.stderr = os.path.join(tmp, "stderr")
        self.runtime = os.path.join(tmp, "run")
        self.records = os.path.join(tmp, "records")
        self.compilers = {"{%s}" % name: subprocess.run(
            ["gcc", "-print-prog-name=" + name], capture_output=True, text=True,
            check=True).stdout.strip() for name in ("cc1", "cc1plus")}
        os.makedirs(self.runtime, mode=0o700, exist_ok=True)
        os.makedirs(self.records, exist_ok=True)
        os.chmod(self.records, 0o1777)  # postgres writes here as its own user

    def expand(self, words):
        """Replaces {inputs}, {programs}, {cc1} and {cc1plus} in the words of a command."""
        names = {"{inputs}": self.inputs, "{programs}": self.programs, **self.compilers}
        out = []
        for word in words:
            for name, value in names.items():
                word = word.replace(name, value)
            out.append(word)
        return out

    def environment(self, peer, workload):
        """The environment of a measured program. Of the caller's environment it has only PATH."""
        env = {"PATH": os.environ["PATH"], "HOME": self.tmp, "TMPDIR": self.tmp, "LANG": "C.UTF-8",
               "XDG_RUNTIME_DIR": self.runtime, "GIT_CONFIG_NOSYSTEM": "1"}
        if peer.name == "heaptrack":
            # heaptrack locks its output file, so each process of a program with children needs a
            # file of its own.
            env["DUMP_HEAPTRACK_OUTPUT"] = (os.path.join(self.records, "heaptrack.$$")
                                            if workload.children else "/dev/null")
        mine = {key: value.replace("{records}", self.records) for key, value in peer.env.items()}
        return {**env, **workload.env, **mine}

    def clear(self):
        """Removes the output files of the last run."""
        for path in [self.stdout, self.stderr, *glob.glob(os.path.join(self.records, "*"))]:
            if os.path.exists(path):
                os.unlink(path)

    def keep_error(self, label, text):
        """Stores the output of a failed run below out/bench/errors."""
        directory = os.path.join(self.out, "errors")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, label + ".txt"), "w", encoding="utf-8") as file:
            file.write(text + "\n")
            for path in (self.stdout, self.stderr):
                file.write(f"--- {os.path.basename(path)}\n{read_text(path)[-20000:]}\n")


def read_text(path):
    """The file's text; empty if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def measure_command(site, peer, workload, command, user=None, preload=None):
    """The words that run `command` under the measuring program."""
    words = [os.path.join(site.programs, "measure"),
             "-t", str(workload.limit_s if workload.server
                       else min(workload.limit_s, peer.limit_s)),
             "-n", str(workload.repeat), "-o", site.stdout, "-e", site.stderr]
    preload = peer.preload if preload is None else preload
    if site.read_end:
        words.append("-r")
    if preload:
        words += ["-p", preload]
    if user is not None:
        words += ["-u", f"{user[0]}:{user[1]}"]
    return words + ["--"] + command


def parse_runs(text):
    """Makes samples of the `done` lines of the measuring program. Raises RunError if a run
    failed."""
    samples = []
    for line in text.splitlines():
        if not line.startswith("done "):
            continue
        _, wall, user, system, peak, end, ending, number = line.split()
        if ending == "timeout":
            raise RunError(f"did not end within {number} s")
        if ending == "signal":
            raise RunError(f"killed by {signal.Signals(int(number)).name}")
        if number != "0":
            raise RunError(f"exit status {number}")
        samples.append(Sample(int(wall) / 1e9, int(user) / 1e6, int(system) / 1e6, int(peak),
                              int(end)))
    if not samples:
        raise RunError("the measuring program gave no figures")
    return samples


def check_preload(site):
    """Raises RunError if the library was not preloaded: the dynamic linker only warns of that."""
    found = re.search(r"ld\.so: object '([^']*)'.*cannot be preloaded", read_text(site.stderr))
    if found:
        raise RunError(f"{found.group(1)} could not be preloaded")


def median_sample(samples):
    """One sample with the medians of the times and the maxima of the memory."""
    return Sample(statistics.median(s.wall_s for s in samples),
                  statistics.median(s.user_s for s in samples),
                  statistics.median(s.system_s for s in samples),
                  max(s.peak_rss_kib for s in samples), max(s.end_rss_kib for s in samples))


def output_digest(site):
    """A hash of what the run wrote to standard output."""
    with open(site.stdout, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def take_value(site, workload, sample):
    """Sets the sample's value (the workload's measure) and digest."""
    if workload.measure == "rss_over_live":
        found = re.fullmatch(r"live (\d+) resident (\d+)\n", read_text(site.stdout))
        if not found:
            raise RunError("the program did not report its memory")
        sample.value = int(found.group(2)) / int(found.group(1))
        sample.digest = found.group(1)
        return
    if workload.measure in ("speedup", "ns"):
        found = re.fullmatch(workload.measure + r" ([\d.]+)\n", read_text(site.stdout))
        if not found:
            raise RunError("the program did not report its figure")
        sample.value, sample.digest = float(found.group(1)), workload.measure
        return
    if workload.measure == "cpu":
        sample.value = sample.user_s + sample.system_s
    else:
        sample.value = sample.wall_s
    sample.digest = output_digest(site)


def live_at_end(site, peer, workload):
    """Runs the program again under memctx; returns the bytes that it has not freed at its end."""
    words = measure_command(site, peer, workload, site.expand(workload.command))
    env = {**site.environment(peer, workload), "MEMCTX_VERBOSE": "2"}
    subprocess.run(words, env=env, capture_output=True, check=False,
                   timeout=workload.limit_s * workload.repeat + 30)
    found = re.findall(r"^live_bytes\t(\d+)", read_text(site.stderr), re.M)
    site.clear()
    return int(found[-1]) if found else 0


def run_program(site, peer, workload):
    """Runs a program to its end, `repeat` times."""
    command = site.expand(workload.command)
    if peer.wrap:
        command = [word.replace("{records}", site.records) for word in peer.wrap] + command[2:]
    words = measure_command(site, peer, workload, command)
    run = subprocess.run(words, env=site.environment(peer, workload), capture_output=True,
                         text=True, check=False, timeout=workload.limit_s * workload.repeat + 30)
    samples = parse_runs(run.stdout)
    if len(samples) != workload.repeat:
        raise RunError(f"{len(samples)} of {workload.repeat} runs")
    check_preload(site)
    sample = median_sample(samples)
    take_value(site, workload, sample)
    if site.read_end and peer.name == "memctx":
        sample.live_bytes = live_at_end(site, peer, workload)
    return sample


def build_programs(site, sources, launcher_source):
    """Compiles the measuring program, and the programs in the folder `sources`, if they are out of
    date."""
    os.makedirs(site.programs, exist_ok=True)
    headers = glob.glob(os.path.join(sources, "*.h"))
    for source in [launcher_source, *sorted(glob.glob(os.path.join(sources, "*.c")))]:
        target = os.path.join(site.programs, os.path.basename(source)[:-2])
        newest = max(os.path.getmtime(path) for path in (source, *headers))
        if os.path.exists(target) and os.path.getmtime(target) > newest:
            continue
        subprocess.run(["gcc", "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread",
                        "-o", target + ".part", source, "-Wl,--as-needed", "-lunwind"],
                       check=True)
        shutil.move(target + ".part", target)
