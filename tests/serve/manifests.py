# SPDX-License-Identifier: MIT
"""Checks the Kubernetes manifests in examples/ by rules in this file, and runs the agent with
exactly the rights that they give."""
import os
import re
import shutil
import subprocess
import tempfile

import harness
from harness import (ROOT, Skip, build_program, check, check_equal, clean_env, run_cli, test,
                     wait_until)

POD = {"initContainers", "containers", "volumes", "hostPID", "automountServiceAccountToken"}
CONTAINER = {"name", "image", "command", "args", "env", "ports", "securityContext", "resources",
             "volumeMounts"}
RIGHTS = {"privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsUser",
          "runAsNonRoot", "capabilities"}
TOP = {"ConfigMap": ("v1", {"data"}), "Deployment": ("apps/v1", {"spec"}),
       "DaemonSet": ("apps/v1", {"spec"})}


def load(name):
    """Reads a manifest: {kind: document}."""
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip("python3-yaml is not installed") from None
    with open(f"{ROOT}/examples/kubernetes/{name}", encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    found = {one["kind"]: one for one in documents}
    check_equal(len(found), len(documents), "kinds")
    for kind, document in found.items():
        version, keys = TOP[kind]
        check_equal(document["apiVersion"], version, f"version of {kind}")
        check_equal(set(document), {"apiVersion", "kind", "metadata"} | keys, f"keys of {kind}")
        check(re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", document["metadata"]["name"]), "name")
    return found


def pod_of(document):
    """The pod of a Deployment or DaemonSet. Checks that its selector, labels and volumes match."""
    template = document["spec"]["template"]
    wanted = document["spec"]["selector"]["matchLabels"]
    check(wanted and wanted.items() <= template["metadata"]["labels"].items(),
          f"the selector {wanted} does not find the pod")
    pod = template["spec"]
    check(set(pod) <= POD, f"keys of the pod {set(pod) - POD}")
    volumes = {one["name"]: one for one in pod["volumes"]}
    for volume in volumes.values():
        kinds = set(volume) - {"name"}
        check(len(kinds) == 1 and kinds <= {"emptyDir", "configMap", "secret"},
              f"a volume is {kinds}")
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        check(set(container) <= CONTAINER, f"keys of a container {set(container) - CONTAINER}")
        check(re.fullmatch(r"[\w./-]+:[\w.]+", container["image"]), f"image {container['image']}")
        check(set(container["securityContext"]) <= RIGHTS, f"rights {container['securityContext']}")
        check(container["securityContext"]["allowPrivilegeEscalation"] is False, "rights may grow")
        check("memory" in container["resources"]["limits"], "memory is not limited")
        for mount in container["volumeMounts"]:
            check(mount["name"] in volumes and mount["mountPath"].startswith("/"), f"{mount}")
            check(set(mount) <= {"name", "mountPath", "readOnly"}, f"{mount}")
    return pod


@test
def the_manifest_of_a_program_preloads_the_library():
    pod = pod_of(load("app.yaml")["Deployment"])
    (copier,), (program,) = pod["initContainers"], pod["containers"]
    places = [{mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
              for one in (copier, program)]
    program_word, source, target = copier["command"]
    variables = {one["name"]: one["value"] for one in program["env"]}
    check_equal((program_word, source, places[0]), ("cp", "/usr/lib/libmemctx.so", places[1]),
                "the copy")
    check_equal(variables["LD_PRELOAD"], target, "LD_PRELOAD")
    check_equal(os.path.dirname(target), places[1]["memctx"], "the folder of the library")
    check_equal(os.path.basename(source), os.path.basename(harness.LIB), "the name of the library")
    # The library accepts the value of MEMCTX_MARKS.
    done = run_cli("run", "--marks", variables["MEMCTX_MARKS"], "--", "/bin/true")
    check_equal((done.returncode, done.stderr), (0, ""), "MEMCTX_MARKS")


def agent_rights(container):
    rights = container["securityContext"]
    check_equal((rights["privileged"], rights["runAsUser"], rights["capabilities"]["drop"]),
                (False, 0, ["ALL"]), "rights")
    return rights["capabilities"]["add"]


@test
def the_manifest_of_the_agent_fits_its_file():
    documents = load("agent.yaml")
    pod, text = pod_of(documents["DaemonSet"]), documents["ConfigMap"]["data"]["agent.toml"]
    container, = pod["containers"]
    check_equal(agent_rights(container), ["SYS_PTRACE", "DAC_OVERRIDE"], "capabilities")
    check_equal((pod["hostPID"], pod["automountServiceAccountToken"], container["args"]),
                (True, False, ["agent"]), "pod")
    volumes = {one["name"]: one for one in pod["volumes"]}
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    check_equal(volumes["config"]["configMap"]["name"], documents["ConfigMap"]["metadata"]["name"],
                "ConfigMap")
    check_equal(places["config"], "/etc/memctx", "the folder of agent.toml")
    port, = container["ports"]
    check(f':{port["containerPort"]}"' in text, "ports")
    with tempfile.TemporaryDirectory(prefix="mctx-", dir="/tmp") as where:
        for name in ("token", "snapshots"):
            check(f'"{places[name]}' in text, f"{places[name]} is not in the file")
        with open(f"{where}/token", "w", encoding="ascii", opener=lambda path,
                  flags: os.open(path, flags, 0o600)) as file:
            file.write(32 * "t")
        for whole in (text, text.replace("# [push]", "[push]").replace("# otlp", "otlp")):
            with open(f"{where}/agent.toml", "w", encoding="utf-8") as file:
                file.write(whole.replace(places["token"], where).replace(places["snapshots"],
                                                                         where))
            done = run_cli("agent", "--config", f"{where}/agent.toml", "--check")
            check_equal((done.returncode, done.stderr), (0, ""), "the file")


@test
def the_job_of_prometheus_finds_the_agent():
    agent = load("agent.yaml")["DaemonSet"]
    import yaml  # pylint: disable=import-outside-toplevel
    with open(f"{ROOT}/examples/kubernetes/prometheus.yml", encoding="utf-8") as file:
        job, = yaml.safe_load(file)["scrape_configs"]
    check_equal(job["kubernetes_sd_configs"],
                [{"role": "pod", "namespaces": {"names": [agent["metadata"]["namespace"]]}}],
                "pods")
    labels = agent["spec"]["template"]["metadata"]["labels"]
    for rule in job["relabel_configs"]:
        if rule.get("action") == "keep":
            label = rule["source_labels"][0].removeprefix("__meta_kubernetes_pod_label_")
            check(re.fullmatch(rule["regex"], labels[label]), f"{rule} drops the agent")
    # Annotations would let other jobs scrape the agent, without the token.
    check("annotations" not in agent["spec"]["template"]["metadata"], "annotations of the pod")
    check_equal(os.path.basename(job["authorization"]["credentials_file"]), "token",
                "the key of the Secret")


@test
def the_image_can_be_built():
    """The first stage uses only programs that debian:12 has or that it has installed before, and
    copies no binaries that were built on this machine."""
    there = {"apt-get"}
    with open(f"{ROOT}/examples/kubernetes/Containerfile", encoding="utf-8") as file:
        stage = file.read().replace("\\\n", " ").split("\nFROM ")[1]
    commands = [command.split() for line in re.findall("^RUN (.*)", stage, re.M)
                for command in line.split("&&")]
    check(["apt-get", "update"] in commands, f"no package lists: {commands}")
    for program, *words in commands:
        check(program in there, f"{program} is not installed: {commands}")
        if words[:1] == ["install"]:
            there |= set(words[1:])
    check("make" in there, "make is not run")
    with open(f"{ROOT}/.dockerignore", encoding="utf-8") as file:
        check("out" in file.read().splitlines(), "out/ is copied into the image")


@test
def these_rights_are_enough_and_needed():
    """With the manifest's rights the agent reads a process of another user in other namespaces;
    without one of them it cannot."""
    tools = [shutil.which(one) for one in ("unshare", "setpriv", "mount")]
    if os.geteuid() != 0 or not all(tools):
        raise Skip("needs root, unshare, setpriv and mount")
    container, = load("agent.yaml")["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    capabilities = [one.lower() for one in agent_rights(container)]
    program = build_program("tests/serve/served.c", f"pod{os.getpid()}", flags=["-O0"])
    try:
        inside = ("mount -t tmpfs none /run && mount -t tmpfs -o mode=1777 none /var/tmp && mkdir "
                  "-p /var/tmp/r && chown 65534 /var/tmp/r && chmod 700 /var/tmp/r && exec "
                  "setpriv --reuid 65534 --regid 65534 --clear-groups env MEMCTX_CONTROL=eager "
                  f"XDG_RUNTIME_DIR=/var/tmp/r LD_PRELOAD={harness.LIB} {program}")
        if subprocess.run(["unshare", "-pm", "--fork", "--mount-proc", "true"], capture_output=True,
                          timeout=60, check=False).returncode:
            raise Skip("namespaces cannot be made here")
        with subprocess.Popen(["unshare", "-pm", "--fork", "--mount-proc", "sh", "-c", inside],
                              stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, env=clean_env()) as pod:
            try:
                check_equal(pod.stdout.readline(), "ready\n", "first line")
                pid = wait_until(lambda: pid_of(program), "the process")

                def ask(kept):
                    keep = ",".join(["-all", *(f"+{one}" for one in kept)])
                    return subprocess.run(["setpriv", "--bounding-set", keep, "--inh-caps", "-all",
                                           "--no-new-privs", harness.CLI,
                                           "dump", str(pid), "--json"], capture_output=True,
                                          text=True, timeout=60,
                                          env=clean_env(), check=False)

                done = wait_until(lambda: (lambda one: one if one.returncode == 0
                                           else None)(ask(capabilities)), "an answer")
                check('"requested_bytes":' in done.stdout, "no figures")
                for one in capabilities:
                    less = ask([other for other in capabilities if other != one])
                    check(less.returncode != 0,
                          f"{one} is not needed: {less.stdout[:300]} {less.stderr}")
            finally:
                pod.stdin.close()
    finally:
        os.unlink(program)


def pid_of(program):
    for word in os.listdir("/proc"):
        try:
            if word.isdigit() and os.readlink(f"/proc/{word}/exe") == program:
                return int(word)
        except OSError:
            continue
    return None
