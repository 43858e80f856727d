# SPDX-License-Identifier: MIT
"""Checks the alerts in examples/prometheus by promtool's tests, the dashboard in examples/grafana
by rules in this file, and that all metrics that both name exist."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import ROOT, Skip, check, check_equal, test
from serving import Server, served

ALERTS = f"{ROOT}/examples/prometheus/memctx-alerts.yml"


def promtool(*words):
    if not shutil.which("promtool"):
        raise Skip("promtool is not installed")
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60,
                          check=False,
                          cwd=os.path.dirname(ALERTS))
    check_equal(done.returncode, 0, f"promtool {' '.join(words)} ({done.stdout} {done.stderr})")


def metric_names(text):
    return set(re.findall(r"\bmemctx_\w+", text)) - {"memctx_alerts"}


def check_metrics(text, what):
    """Checks that the server has every metric that the text names."""
    with served(MEMCTX_RULES="keep_rows=slab") as target, Server(target.runtime,
                                                                 target.pid) as server:
        known = set(server.metrics().types)
    unknown = metric_names(text) - known
    check(not unknown, f"{what} names {unknown}, which the server does not have")
    check(len(metric_names(text)) >= 5, f"{what} names hardly any metric")


@test
def alerts_hold_when_they_should():
    promtool("check", "rules", "memctx-alerts.yml")
    promtool("test", "rules", "memctx-alerts-test.yml")
    promtool("check", "config", "--syntax-only", "prometheus.yml")
    with open(ALERTS, encoding="utf-8") as file:
        text = file.read()
    check_metrics(text, "the file of alerts")
    with open(ALERTS.replace(".yml", "-test.yml"), encoding="utf-8") as file:
        tested = set(re.findall(r"alertname: (\w+)", file.read()))
    check_equal(tested, set(re.findall(r"alert: (\w+)", text)), "alerts that are tested")


def check_panel(panel, taken):
    """Checks keys, unit and queries of a panel, and that it lies on no cell of `taken`, the cells
    of earlier panels. Adds its own cells."""
    check_equal(set(panel) - {"options", "description"},
                {"id", "title", "type", "datasource", "gridPos", "fieldConfig", "targets"},
                f"keys of {panel['title']}")
    check(panel["type"] in ("timeseries", "stat") and panel["title"], f"type of {panel['title']}")
    place = panel["gridPos"]
    check(place["x"] >= 0 and 0 < place["w"] <= 24 - place["x"] and place["h"] > 0,
          f"place of {panel['title']}")
    cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])}
    check(not cells & taken, f"{panel['title']} lies on another panel")
    taken |= cells
    check(panel["fieldConfig"]["defaults"]["unit"] in ("bytes", "none", "ops", "s", "percentunit"),
          f"unit of {panel['title']}")
    for target, letter in zip(panel["targets"], "ABC"):
        check_equal(set(target), {"refId", "expr", "legendFormat"}, f"target of {panel['title']}")
        check_equal(target["refId"], letter, "letter")


@test
def the_dashboard_is_one_that_grafana_takes():
    with open(f"{ROOT}/examples/grafana/memctx.json", encoding="utf-8") as file:
        text = file.read()
    board = json.loads(text)
    check(board["title"] and re.fullmatch(r"[\w-]{1,40}", board["uid"]) and
          board["schemaVersion"] >= 30, "head")
    names = [one["name"] for one in board["templating"]["list"]]
    check_equal(names[0], "datasource", "first variable")
    for one in board["templating"]["list"][1:]:
        check(one["type"] == "query" and one["query"]["query"] == one["definition"],
              f"variable {one['name']}")
    check_equal(set(re.findall(r"\$\{?(\w+)", text)) - set(names), {"__all"},
                "variables that do not exist")
    check_equal(len({panel["id"] for panel in board["panels"]}), len(board["panels"]),
                "ids of panels")
    taken = set()
    for panel in board["panels"]:
        check_panel(panel, taken)
    check_metrics(text.replace('"uid": "memctx', ""), "the dashboard")
    # promtool parses each expression.
    rules = "".join(f"  - record: a:b\n    expr: {json.dumps(target['expr'])}\n"
                    for panel in board["panels"] for target in panel["targets"])
    with tempfile.NamedTemporaryFile("w", prefix="mctx-", suffix=".yml", dir="/tmp") as file:
        file.write("groups:\n- name: a\n  rules:\n" + rules)
        file.flush()
        promtool("check", "rules", file.name)
