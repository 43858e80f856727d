# SPDX-License-Identifier: MIT
"""Faults in the agent: its file, its unit, the examples."""

UNIT = "scripts/memctx-agent.service.in"
EXAMPLE = "examples/agent/agent.toml"

MUTANTS = {
    # --- the agent: its file, its unit, the examples ---
    "agent-takes-unknown-keys": (
        "tools/memctx/agent/config.c", "        if (!key)\n            return fail_at(",
        "        if (!key)\n            continue;\n        if (!key)\n            return fail_at(",
        ["serve:the-file-is-read-strictly"]),
    "agent-takes-values-of-any-kind": (
        "tools/memctx/agent/config.c", "    case KEY_BOOLEAN: return value->kind == TOML_BOOLEAN;",
        "    case KEY_BOOLEAN: return true;", ["serve:the-file-is-read-strictly"]),
    "agent-takes-two-tables-serve": (
        "tools/memctx/agent/config.c",
        "        if (!table->repeated || kind == PART_WATCH || kind == PART_PUSH)",
        "        if (true)", ["serve:the-file-is-read-strictly"]),
    "agent-parts-share-a-group": (
        "tools/memctx/agent/config.c",
        "    return read_keys(reading, kind, table, part) && check_group(reading, part);",
        "    return read_keys(reading, kind, table, part);", ["serve:the-file-is-read-strictly"]),
    "agent-tables-forget-the-common-match": (
        "tools/memctx/agent/config.c", "        reading->match = match;", "        (void)match;",
        ["serve:the-file-becomes-command-lines"]),
    "agent-memory-has-no-least-value": (
        "tools/memctx/agent/config.c",
        "    if (!good || (number > 0 && number << shift < MEMORY_LEAST_BYTES))",
        "    if (!good)", ["serve:the-file-is-read-strictly"]),
    "agent-reads-no-lists": (
        "tools/memctx/agent/config.c", "    for (size_t i = 0; i < value->count; i++)\n",
        "    for (size_t i = 0; i < value->count && i < 1; i++)\n",
        ["serve:the-file-becomes-command-lines"]),
    "unit-ends-the-parts-beside-the-agent": (
        UNIT, "KillMode=mixed", "KillMode=control-group",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-tries-a-bad-file-for-ever": (
        UNIT, "RestartPreventExitStatus=2", "RestartPreventExitStatus=3",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-gives-another-directory": (
        UNIT, "StateDirectory=memctx", "StateDirectory=memctx-agent",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-waits-for-another-file": (
        UNIT, "ConditionPathExists=/etc/memctx/agent.toml",
        "ConditionPathExists=/etc/memctx.toml",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-keeps-too-few-rights": (
        UNIT, "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE",
        "CapabilityBoundingSet=CAP_DAC_OVERRIDE",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-keeps-too-many-rights": (
        UNIT, "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE",
        "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE CAP_SYS_ADMIN",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-forbids-local-sockets": (
        UNIT, "RestrictAddressFamilies=AF_UNIX AF_INET", "RestrictAddressFamilies=AF_INET",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-allows-less-memory-than-one-part-takes": (
        UNIT, "MemoryHigh=512M", "MemoryHigh=128M",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-does-not-start": (
        UNIT, "Type=exec", "Type=executable", ["serve:the-unit-and-the-example-are-valid"]),
    "unit-shares-its-directory": (
        "docs/watch.md", "StateDirectory=memctx-my-service", "StateDirectory=memctx",
        ["serve:no-other-unit-has-the-directory-of-the-agent"]),
    "example-has-an-unknown-key": (
        EXAMPLE, "keep = 3", "kept = 3", ["serve:the-unit-and-the-example-are-valid"]),
    "example-has-a-wrong-condition": (
        EXAMPLE, "rss>90%limit", "rss>90%limits", ["serve:the-unit-and-the-example-are-valid"]),
    "example-writes-elsewhere": (
        EXAMPLE, 'dir = "/var/lib/memctx"', 'dir = "/var/tmp"',
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "example-listens-to-everybody": (
        EXAMPLE, 'listen = "127.0.0.1:9464"', 'listen = "0.0.0.0:9464"',
        ["serve:the-unit-and-the-example-are-valid"]),
    "docs-start-the-agent-without-its-directory": (
        "docs/agent.md", "install -d /var/lib/memctx  ", "install -d /var/lib/other  ",
        ["serve:the-printed-start-works"]),
    "manifest-preloads-nothing": (
        "examples/kubernetes/app.yaml", "LD_PRELOAD, value: /memctx/libmemctx.so",
        "LD_PRELOAD, value: /opt/libmemctx.so",
        ["serve:the-manifest-of-a-program-preloads-the-library"]),
    "manifest-takes-another-right": (
        "examples/kubernetes/agent.yaml", 'add: ["SYS_PTRACE", "DAC_OVERRIDE"]',
        'add: ["SYS_ADMIN", "DAC_OVERRIDE"]',
        ["serve:the-manifest-of-the-agent-fits-its-file",
         "serve:the-unit-fits-the-agent-and-its-example"]),
    "manifest-sees-one-pod": (
        "examples/kubernetes/agent.yaml", "hostPID: true", "hostPID: false",
        ["serve:the-manifest-of-the-agent-fits-its-file"]),
}
