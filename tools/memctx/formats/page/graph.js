/* SPDX-License-Identifier: MIT */
/* The view "Flame graph": the call paths, the callers of each site, or what changed, as boxes. */
"use strict";
const makeGraphView = (model, page) => {
  const {contexts, count, children, level, states, nameOf, pathOf, isMatch} = model;
  const ROW = 19;
  const graph = {kind: "outward", root: 0, at: 0, boxes: [], canvas: $("graph"), tree: null};
  const outwardTree = () => ({
    parent: contexts.parent,
    children,
    level,
    total: model.totalOfMetric(),
    name: nameOf,
    hit: isMatch,
    context: (node) => node,
    colour: model.colourOf,
    describe: model.describe,
    path: pathOf
  });
  const inwardTree = () => {
    const {metric} = model,
      tree = trees.inverted(contexts.parent, contexts.name, model.ownFigures());
    const name = (node) => (node === 0 ? "all" : model.data.names[tree.name[node]]);
    return {
      ...tree,
      name,
      context: (node) => tree.context[node],
      colour: (node) => model.colourOfName(name(node)),
      hit: (node) => model.isNameMatch(tree.name[node]),
      describe: (node) =>
        `${name(node)}\n${metric.title}: ${metric.unit(tree.total[node])} `
        + `(${percent(tree.total[node], tree.total[0])})`,
      path: (node) => {
        const names = [];
        for (let at = node; at > 0; at = tree.parent[at]) names.unshift(name(at));
        return names.join(" < ") || "all";
      }
    };
  };
  let since = 0;
  const signed = (bytes) => (bytes > 0 ? "+" : "") + bytesText(bytes);
  const changeTree = () => {
    const state = states[since],
      now = Float64Array.from(contexts.requested_bytes, (bytes) => bytes || 0);
    const tree = trees.changed(contexts.parent, state.before, now, state.gone);
    const name = (node) => (node < count ? nameOf(node) : `gone: ${state.gone[node - count].path}`);
    const growth = (node) => tree.after[node] - tree.before[node];
    return {
      ...tree,
      name,
      context: (node) => (node < count ? node : 0),
      hit: (node) => (node < count ? isMatch(node) : model.isTextMatch(name(node))),
      colour: (node) =>
        ramp(0.5 - 0.5 * Math.max(-1, Math.min(1, growth(node) / (tree.total[node] || 1)))),
      describe: (node) =>
        `${name(node)}\nrequested: ${bytesText(tree.before[node])} before, `
        + `${bytesText(tree.after[node])} now, ${signed(growth(node))}`,
      path: (node) => (node < count ? pathOf(node) : name(node))
    };
  };
  const makeTree = () => {
    graph.tree = {outward: outwardTree, inward: inwardTree, change: changeTree}[graph.kind]();
  };
  const layout = (width) => {
    const {total, level: levels, children: below, parent} = graph.tree,
      boxes = [];
    let deepest = levels[graph.root];
    // The boxes from the root to the zoomed node have the full width.
    const outside = [];
    for (let at = graph.root; at > 0; at = parent[at]) outside.unshift(parent[at]);
    for (const index of outside)
      boxes.push({index, x: 0, width, level: levels[index], outside: true});
    const placeBelow = (index, x, scale) => {
      const stack = [[index, x]];
      while (stack.length) {
        const [at, left] = stack.pop();
        const box = {index: at, x: left, width: total[at] * scale, level: levels[at]};
        if (box.width < 0.4) continue;
        boxes.push(box);
        deepest = Math.max(deepest, box.level);
        let from = left;
        const sorted =
          below[at].length > 1 ? [...below[at]].sort((a, b) => total[b] - total[a]) : below[at];
        for (const child of sorted) {
          stack.push([child, from]);
          from += total[child] * scale;
        }
      }
    };
    if (total[graph.root] > 0) placeBelow(graph.root, 0, width / total[graph.root]);
    graph.boxes = boxes;
    return deepest + 1;
  };
  const draw = () => {
    makeTree();
    const probe = graph.canvas.parentElement.clientWidth - 2,
      tree = graph.tree;
    const rows = layout(probe),
      height = rows * ROW + 4;
    const [pen] = prepare(graph.canvas, height);
    const down = $("icicle").checked,
      ink = style("--text");
    for (const box of graph.boxes) {
      box.height = ROW;
      box.y = down ? box.level * ROW : height - (box.level + 1) * ROW;
      pen.fillStyle = box.outside
        ? style("--panel")
        : !tree.hit(box.index)
          ? fadedColour()
          : tree.colour(box.index);
      pen.fillRect(box.x, box.y, Math.max(0.5, box.width - 0.6), ROW - 1);
      if (box.index === graph.at) {
        pen.strokeStyle = style("--link");
        pen.lineWidth = 2;
        pen.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 2.6), ROW - 3);
      }
      const text = fitText(pen, tree.name(box.index), box.width - 6);
      if (text) {
        pen.fillStyle = ink;
        pen.fillText(text, box.x + 4, box.y + ROW / 2);
      }
    }
    graph.canvas.dataset.boxes = graph.boxes.length;
    graph.canvas.dataset.root = graph.root;
    graph.canvas.dataset.kind = graph.kind;
    $("since-choice").hidden = graph.kind !== "change";
    $("graph-note").textContent =
      graph.kind === "change"
        ? ["orange grew, blue shrank", states[since].note].filter(Boolean).join("; ")
        : model.ofThread
          ? `thread ${$("thread").selectedOptions[0].textContent}`
          : "";
  };
  const pick = (node) => {
    graph.at = node;
    if (graph.kind === "outward") {
      page.choose(node);
      return;
    }
    if (!graph.tree) makeTree();
    model.chosen = graph.tree.context(node);
    const text = graph.tree.describe(node).replace("\n", "  ·  ");
    showDetail(`${text}  ·  ${graph.tree.path(node)}`);
  };
  const zoom = (node) => {
    graph.root = node;
    pick(node);
    draw();
  };
  const setKind = (kind) => {
    if (kind === "change" && !states.length) return;
    graph.kind = kind;
    $("graph-kind").value = kind;
    makeTree();
    zoom(0);
  };
  // Shows a context in the graph of call paths.
  const show = (context) => {
    if (graph.kind !== "outward") setKind("outward");
    page.open("graph");
    zoom(context);
    graph.canvas.focus();
  };
  const moveBy = (key) => {
    const {total, children: below, parent} = graph.tree,
      sorted = (list) => [...list].sort((a, b) => total[b] - total[a]);
    const inward = $("icicle").checked ? "ArrowDown" : "ArrowUp",
      outward = $("icicle").checked ? "ArrowUp" : "ArrowDown";
    if (key === inward) {
      const best = sorted(below[graph.at])[0];
      if (best !== undefined) pick(best);
    } else if (key === outward) {
      if (graph.at > 0) pick(parent[graph.at]);
    } else if (graph.at > 0) {
      const list = sorted(below[parent[graph.at]]),
        next = list[list.indexOf(graph.at) + (key === "ArrowRight" ? 1 : -1)];
      if (next !== undefined) pick(next);
    }
    draw();
  };
  // Shows what changed since a mark.
  const compareSince = (sample) => {
    const found = states.findIndex((state) => state.sample === sample);
    if (found < 0) return;
    since = found;
    $("since").value = String(since);
    page.open("graph");
    setKind("change");
    graph.canvas.focus();
  };
  // Shows a kind of graph, or the call paths if the graph is of this kind already.
  const toggleKind = (kind) => {
    page.open("graph");
    setKind(graph.kind === kind ? "outward" : kind);
    graph.canvas.focus();
  };
  // Zooms out, without drawing.
  const zoomOut = () => {
    graph.root = graph.at = 0;
  };
  // Called when the reader has chosen a thread: changes are known only for all threads together.
  const leaveChange = () => {
    if (graph.kind === "change") setKind("outward");
    zoomOut();
  };

  // --- events ---

  graph.canvas.addEventListener("mousemove", (event) => {
    const box = boxAt(graph.boxes, event);
    showTip(event, box ? graph.tree.describe(box.index) : "");
  });
  graph.canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
  graph.canvas.addEventListener("click", (event) => {
    const box = boxAt(graph.boxes, event);
    if (box) zoom(box.index);
  });
  graph.canvas.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) moveBy(event.key);
    else if (event.key === "Enter") zoom(graph.at);
    else if (event.key === "Backspace") zoom(graph.root > 0 ? graph.tree.parent[graph.root] : 0);
    else return;
    event.preventDefault();
  });
  $("graph-out").addEventListener("click", () => zoom(0));
  $("icicle").addEventListener("change", draw);
  if (states.length)
    $("graph-kind").append(element("option", {value: "change", textContent: "what changed"}));
  states.forEach((state, i) =>
    $("since").append(element("option", {value: i, textContent: state.title}))
  );
  $("graph-kind").addEventListener("change", () => setKind($("graph-kind").value));
  $("since").addEventListener("change", () => {
    since = Number($("since").value);
    zoom(0);
  });

  // --- where the reader is ---

  // Returns how to find a node again in the next page: its context's id or, in the inverted graph
  // with its merged nodes, the names on the path to it.
  const wayTo = (node) => {
    if (graph.kind !== "inward") return node < count ? contexts.id[node] : null;
    const names = [];
    if (!graph.tree) makeTree();
    for (let at = node; at > 0; at = graph.tree.parent[at]) names.unshift(graph.tree.name(at));
    return names;
  };
  const nodeOf = (way) => {
    if (!Array.isArray(way)) return Math.max(0, contexts.id.indexOf(way));
    let node = 0;
    for (const name of way) {
      const next = graph.tree.children[node].find((child) => graph.tree.name(child) === name);
      if (next === undefined) break;
      node = next;
    }
    return node;
  };
  const place = () => ({
    kind: graph.kind,
    icicle: $("icicle").checked,
    root: wayTo(graph.root),
    at: wayTo(graph.at),
    since: states[since]?.title
  });
  const restore = (kept) => {
    $("icicle").checked = kept.icicle;
    since = Math.max(
      0,
      states.findIndex((one) => one.title === kept.since)
    );
    if (states.length) $("since").value = String(since);
    if (kept.kind !== "change" || states.length) graph.kind = kept.kind;
    $("graph-kind").value = graph.kind;
    makeTree();
    graph.root = graph.kind === kept.kind ? nodeOf(kept.root) : 0;
    pick(graph.kind === kept.kind ? nodeOf(kept.at) : 0);
  };
  return {draw, show, compareSince, toggleKind, zoomOut, leaveChange, place, restore};
};
