/* SPDX-License-Identifier: MIT */
/* The program of a memctx report: the figures of one process, drawn and listed. No library, no
   network. */
"use strict";
const $ = (id) => document.getElementById(id);

// True if a key is meant for the page, not for the browser or for a field that takes text.
const isPageKey = (event) =>
  !(event.ctrlKey || event.metaKey || event.altKey) &&
  !/^(INPUT|SELECT)$/.test(event.target.tagName);

// --- words and numbers ---

const bytesText = (value) => {
  if (value === null || value === undefined) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(value),
    unit = 0;
  while (size >= (unit ? 1023.95 : 1024) && unit < 4) {
    size /= 1024;
    unit++;
  }
  return (value < 0 ? "-" : "") + (unit ? size.toFixed(1) : String(size)) + " " + units[unit];
};
const numberText = (value) =>
  value === null || value === undefined ? "?" : value.toLocaleString("en");
const percent = (part, whole) =>
  whole > 0 ? ((100 * part) / whole).toFixed(part / whole < 0.1 ? 2 : 1) + " %" : "";
const ageText = (seconds) =>
  seconds < 120
    ? seconds + " s"
    : seconds < 7200
      ? Math.round(seconds / 60) + " min"
      : seconds < 172800
        ? (seconds / 3600).toFixed(1) + " h"
        : (seconds / 86400).toFixed(1) + " d";
const element = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// --- drawing ---

const dark = () => document.documentElement.classList.contains("dark");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const showTip = (event, text) => {
  const tip = $("tip");
  tip.textContent = text;
  tip.hidden = !text;
  if (!text) return;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
};
// Makes a canvas as sharp as the screen; returns its context and width.
const prepare = (canvas, height) => {
  const width = canvas.parentElement.clientWidth - 2,
    scale = devicePixelRatio || 1;
  canvas.width = Math.max(1, width * scale);
  canvas.height = Math.max(1, height * scale);
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  return [pen, width];
};
const fitText = (pen, text, width) => {
  if (width < 24) return "";
  const needed = pen.measureText(text).width;
  if (needed <= width) return text;
  return text.slice(0, Math.max(1, Math.floor(((text.length * width) / needed) * 0.95) - 2)) + "…";
};

// --- the page ---

// Fills the page with these figures. `kept` is the result of state() of the previous page, so that
// a live page keeps the reader's place. Before the call, end() has ended the previous page, and
// untouched elements have replaced its elements.
const makeReport = (data, kept = null) => {
  const ending = new AbortController();
  // To be small, the data has differences instead of ids and parents, and rows only for contexts
  // with figures (report_data.c).
  const contexts = {id: [], parent: [], name: data.contexts.name},
    count = contexts.name.length;
  data.contexts.id_step.reduce((last, step) => {
    contexts.id.push(last + step);
    return last + step;
  }, 0);
  data.contexts.parent_step.forEach((step, i) => contexts.parent.push(i - step));
  data.contexts.figures.forEach((figure) => {
    contexts[figure] = new Array(count).fill(0);
  });
  data.contexts.rows.reduce((last, [step, ...values]) => {
    values.forEach((value, k) => {
      contexts[data.contexts.figures[k]][last + step] = value;
    });
    return last + step;
  }, 0);

  // --- the tree ---

  const nameOf = (index) => (index === 0 ? "all" : data.names[contexts.name[index]]);
  const {children, level} = trees.finish(contexts.parent, new Array(count).fill(0));
  const pathOf = (index, most = 40) => {
    const names = [];
    for (let at = index; at > 0 && names.length < most; at = contexts.parent[at])
      names.push(nameOf(at));
    return names.join(" < ") || "all";
  };

  // Figures of the chosen thread; null: the figures of all threads are shown.
  let ofThread = null;
  const column = (name) => (i) =>
    ofThread ? (ofThread[name] ? ofThread[name][i] : null) : contexts[name][i] || 0;
  const METRICS = [
    {id: "requested", title: "requested", unit: bytesText, of: column("requested_bytes")},
    {id: "chunks", title: "chunks alive", unit: numberText, of: column("live_chunks")},
    {id: "allocs", title: "allocations", unit: numberText, of: column("allocs")},
    {
      id: "waste",
      title: "waste",
      unit: bytesText,
      of: (i) =>
        ofThread
          ? null
          : Math.max(0, (contexts.reserved_bytes[i] || 0) - (contexts.requested_bytes[i] || 0))
    },
    {id: "pinned", title: "pinned", unit: bytesText, of: column("pinned_bytes")},
    {id: "resident", title: "resident", unit: bytesText, of: column("resident_bytes")},
    {id: "reserved", title: "reserved", unit: bytesText, of: column("reserved_bytes")},
    {id: "sole", title: "sole-pinned", unit: bytesText, of: column("sole_pinned_bytes")},
    {
      id: "churn",
      title: "requested since start",
      unit: bytesText,
      of: column("requested_cum_bytes")
    }
  ];
  let metric = METRICS[0];
  const totals = new Map();
  const totalOf = (wanted) => {
    // setThread clears `totals`
    if (totals.has(wanted.id)) return totals.get(wanted.id);
    const sums = new Float64Array(count);
    for (let i = 0; i < count; i++) sums[i] = Math.max(0, wanted.of(i));
    for (let i = count - 1; i > 0; i--) sums[contexts.parent[i]] += sums[i];
    totals.set(wanted.id, sums);
    return sums;
  };

  // --- search ---

  let needle = "",
    matched = null; // matched[number of a name]: it matches the search; null: no search
  const isMatch = (index) => matched === null || (index > 0 && matched[contexts.name[index]]);
  const search = (text) => {
    needle = text.trim().toLowerCase();
    matched = needle ? data.names.map((name) => name.toLowerCase().includes(needle)) : null;
    if (!matched) {
      $("found").textContent = "";
    } else {
      let sum = 0,
        found = 0;
      const below = new Uint8Array(count); // 1: the node is below a match
      for (let i = 1; i < count; i++) {
        const hit = matched[contexts.name[i]];
        below[i] = below[contexts.parent[i]] || hit ? 1 : 0;
        found += hit ? 1 : 0;
        if (below[i]) sum += Math.max(0, metric.of(i));
      }
      $("found").textContent =
        `${numberText(found)} contexts, ${metric.unit(sum)} (${percent(sum, totalOf(metric)[0])})`;
    }
    draw();
  };

  // --- colours ---

  const hues = new Map();
  const hueOf = (name) => {
    let hue = hues.get(name);
    if (hue === undefined) {
      hue = 0;
      for (let i = 0; i < name.length && name[i] !== "("; i++)
        hue = (hue * 31 + name.charCodeAt(i)) % 3600;
      hues.set(name, (hue = hue / 10));
    }
    return hue;
  };
  const fadedColour = () => (dark() ? "#2a2f37" : "#e7e9ee");
  const colourOfName = (name) => `hsl(${hueOf(name)}, ${dark() ? "38%, 36%" : "62%, 78%"})`;
  const colourOf = (index, faded) => (faded ? fadedColour() : colourOfName(nameOf(index)));
  // From orange through the background's grey to blue: colours that people with red-green blindness
  // can tell apart.
  const ramp = (part) => {
    const far = Math.abs(part - 0.5) * 2;
    const light = dark() ? 34 + 18 * far : 84 - 30 * far;
    return `hsl(${part < 0.5 ? 24 : 212}, ${20 + 65 * far}%, ${light}%)`;
  };

  // --- the pointer ---

  const detail = $("detail");
  const describe = (index) => {
    const total = totalOf(metric),
      own = metric.of(index);
    return (
      `${nameOf(index)}\n${metric.title}: ${metric.unit(total[index])} `
      + `(${percent(total[index], total[0])})`
      + (own > 0 && own !== total[index] ? `, itself ${metric.unit(own)}` : "")
      + (index > 0
        ? `; context ${contexts.id[index]}, ${numberText(contexts.live_chunks[index])} chunks alive`
        : "")
    );
  };
  let chosen = 0;
  const choose = (index) => {
    chosen = index;
    detail.textContent =
      index > 0
        ? `${describe(index).replace("\n", "  ·  ")}  ·  ${pathOf(index)}`
        : describe(0).replace("\n", "  ·  ");
  };

  // --- flame graph and icicle ---

  const ROW = 19;
  const graph = {kind: "outward", root: 0, at: 0, boxes: [], canvas: $("graph"), tree: null};
  const ownFigures = () => Float64Array.from({length: count}, (_, i) => Math.max(0, metric.of(i)));
  const outwardTree = () => ({
    parent: contexts.parent,
    children,
    level,
    total: totalOf(metric),
    name: nameOf,
    hit: isMatch,
    context: (node) => node,
    colour: (node) => colourOf(node),
    describe,
    path: pathOf
  });
  const inwardTree = () => {
    const tree = trees.inverted(contexts.parent, contexts.name, ownFigures());
    const name = (node) => (node === 0 ? "all" : data.names[tree.name[node]]);
    return {
      ...tree,
      name,
      context: (node) => tree.context[node],
      colour: (node) => colourOfName(name(node)),
      hit: (node) => matched === null || (node > 0 && matched[tree.name[node]]),
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
  // The earlier states with which the present one can be compared: the state that the user asked
  // for, and each mark.
  const states = [];
  if (data.before) {
    const before = Float64Array.from(contexts.requested_bytes, (bytes) => bytes || 0),
      gone = [];
    for (const [index, path, from] of data.before.changes) {
      if (index >= 0) before[index] = from;
      else gone.push({path, bytes: from});
    }
    states.push({
      title: data.before.title,
      before,
      gone,
      note:
        data.before.changed > data.before.changes.length
          ? `the ${numberText(data.before.changes.length)} largest of `
            + `${numberText(data.before.changed)} changes`
          : ""
    });
  }
  if (data.series) {
    data.series.samples.slice(0, -1).forEach(([name, seconds], k) => {
      const before = Float64Array.from(contexts.requested_bytes, (bytes) => bytes || 0);
      for (const [index, ...bytes] of data.series.rows) before[index] = bytes[k];
      states.push({
        title: `mark ${name || "?"} at ${seconds.toFixed(1)} s`,
        sample: k,
        before,
        gone: [],
        note: data.series.rest.some((bytes) => bytes > 0)
          ? `the ${numberText(data.series.rows.length)} largest contexts`
          : ""
      });
    });
  }
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
      hit: (node) =>
        node < count
          ? isMatch(node)
          : matched === null || name(node).toLowerCase().includes(needle),
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
  const layoutGraph = (width) => {
    const {total, level: levels, children: below, parent} = graph.tree,
      boxes = [];
    let deepest = levels[graph.root];
    // The boxes from the root to the zoomed node have the full width.
    const outside = [];
    for (let at = graph.root; at > 0; at = parent[at]) outside.unshift(parent[at]);
    for (const index of outside)
      boxes.push({index, x: 0, width, level: levels[index], outside: true});
    const place = (index, x, scale) => {
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
    if (total[graph.root] > 0) place(graph.root, 0, width / total[graph.root]);
    graph.boxes = boxes;
    return deepest + 1;
  };
  const drawGraph = () => {
    makeTree();
    const probe = graph.canvas.parentElement.clientWidth - 2,
      tree = graph.tree;
    const rows = layoutGraph(probe),
      height = rows * ROW + 4;
    const [pen] = prepare(graph.canvas, height);
    const down = $("icicle").checked,
      ink = style("--text");
    for (const box of graph.boxes) {
      box.y = down ? box.level * ROW : height - (box.level + 1) * ROW;
      pen.fillStyle = box.outside
        ? style("--panel")
        : matched && !tree.hit(box.index)
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
        : ofThread
          ? `thread ${$("thread").selectedOptions[0].textContent}`
          : "";
  };
  const pick = (node) => {
    graph.at = node;
    if (graph.kind === "outward") {
      choose(node);
      return;
    }
    if (!graph.tree) makeTree();
    chosen = graph.tree.context(node);
    const text = graph.tree.describe(node).replace("\n", "  ·  ");
    detail.textContent = `${text}  ·  ${graph.tree.path(node)}`;
  };
  const zoom = (node) => {
    graph.root = node;
    pick(node);
    drawGraph();
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
    open("graph");
    zoom(context);
  };
  const boxAt = (boxes, event) => {
    const at = event.target.getBoundingClientRect(),
      x = event.clientX - at.left,
      y = event.clientY - at.top;
    return boxes.find(
      (box) =>
        x >= box.x
        && x < box.x + Math.max(1, box.width)
        && y >= box.y
        && y < box.y + (box.height || ROW)
    );
  };

  const moveInGraph = (key) => {
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
    drawGraph();
  };

  // --- treemap: squarified (Bruls, Huizing, van Wijk 2000) ---

  const TREEMAP_MAX = 600;
  let tiles = [];
  const leaves = () => {
    const list = [];
    for (let i = 0; i < count; i++) if (metric.of(i) > 0) list.push(i);
    return list.sort((a, b) => metric.of(b) - metric.of(a));
  };
  const squarify = (items, x, y, width, height, out) => {
    let sum = items.reduce((all, item) => all + item.value, 0),
      from = 0;
    while (from < items.length && width > 0.5 && height > 0.5 && sum > 0) {
      const side = Math.min(width, height),
        scale = (width * height) / sum;
      let row = 0,
        worst = Infinity,
        end = from;
      for (; end < items.length; end++) {
        const next = row + items[end].value * scale;
        const large = items[from].value * scale,
          small = items[end].value * scale;
        const ratio = Math.max(
          (side * side * large) / (next * next),
          (next * next) / (side * side * small)
        );
        if (ratio > worst) break;
        worst = ratio;
        row = next;
      }
      const thick = row / side;
      let along = 0;
      for (let i = from; i < end; i++) {
        const length = (items[i].value * scale) / thick;
        out.push(
          width >= height
            ? {...items[i], x, y: y + along, width: thick, height: length}
            : {...items[i], x: x + along, y, width: length, height: thick}
        );
        along += length;
        sum -= items[i].value;
      }
      if (width >= height) {
        x += thick;
        width -= thick;
      } else {
        y += thick;
        height -= thick;
      }
      from = end;
    }
  };
  const drawTreemap = () => {
    const list = leaves(),
      height = Math.max(300, innerHeight - 260);
    const [pen, width] = prepare($("treemap"), height);
    const items = list.slice(0, TREEMAP_MAX).map((index) => ({index, value: metric.of(index)}));
    const rest = list.slice(TREEMAP_MAX).reduce((sum, index) => sum + metric.of(index), 0);
    if (rest > 0) items.push({index: -1, value: rest, others: list.length - TREEMAP_MAX});
    tiles = [];
    squarify(items, 0, 0, width, height, tiles);
    for (const tile of tiles) {
      pen.fillStyle =
        tile.index < 0 ? style("--panel") : colourOf(tile.index, matched && !isMatch(tile.index));
      pen.fillRect(tile.x, tile.y, Math.max(0.5, tile.width - 1), Math.max(0.5, tile.height - 1));
      if (tile.index === chosen && chosen > 0) {
        pen.strokeStyle = style("--link");
        pen.lineWidth = 2;
        pen.strokeRect(tile.x + 1, tile.y + 1, tile.width - 3, tile.height - 3);
      }
      if (tile.height > 16) {
        pen.fillStyle = style("--text");
        pen.fillText(
          fitText(
            pen,
            tile.index < 0 ? `${tile.others} others` : nameOf(tile.index),
            tile.width - 8
          ),
          tile.x + 4,
          tile.y + 10
        );
        if (tile.height > 32)
          pen.fillText(
            fitText(pen, metric.unit(tile.value), tile.width - 8),
            tile.x + 4,
            tile.y + 25
          );
      }
    }
    $("treemap").dataset.tiles = tiles.length;
  };

  // --- table ---

  const COLUMNS = METRICS.map((one) => ({...one}));
  let sortBy = "requested",
    falling = true,
    shown = 200,
    byContext = false;
  const drawTable = () => {
    const head = element("tr");
    for (const one of [{id: "name", title: "context, innermost frame first"}, ...COLUMNS]) {
      const button = element("button", {
        type: "button",
        textContent: one.title + (one.id === sortBy ? (falling ? " ▼" : " ▲") : "")
      });
      button.dataset.sort = one.id;
      const cell = element("th", {scope: "col"}, button);
      cell.setAttribute(
        "aria-sort",
        one.id !== sortBy ? "none" : falling ? "descending" : "ascending"
      );
      head.append(cell);
    }
    $("table").tHead.replaceChildren(head);
    const list = [];
    for (let i = 0; i < count; i++) {
      const any = ofThread
        ? ofThread.live_chunks[i] || ofThread.allocs[i]
        : contexts.live_chunks[i] || contexts.allocs[i] || contexts.reserved_bytes[i];
      if (any && (!matched || isMatch(i))) list.push(i);
    }
    const key = COLUMNS.find((one) => one.id === sortBy);
    list.sort(
      key
        ? (a, b) => key.of(b) - key.of(a) || a - b
        : (a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b)
    );
    if (!falling) list.reverse();
    const rows = list.slice(0, shown).map((index) => {
      const row = element("tr", {
        tabIndex: 0,
        className: index === chosen && index > 0 ? "chosen" : ""
      });
      row.dataset.index = index;
      row.append(
        element("td", {
          textContent: index > 0 ? pathOf(index, 4) : "[no call path]",
          title: pathOf(index)
        })
      );
      for (const one of COLUMNS) row.append(element("td", {textContent: one.unit(one.of(index))}));
      return row;
    });
    $("table").tBodies[0].replaceChildren(...rows);
    $("table-count").textContent =
      `${numberText(rows.length)} of ${numberText(list.length)} contexts`;
    $("table-more").hidden = rows.length === list.length;
  };

  // --- page map ---

  const KINDS = {1: "its own", 2: "mixed", 3: "large chunk"},
    STATES = ["current", "full", "with free blocks"];
  // The numbers of a cell are in the order of write_cell (report_data.c).
  const decode = (cells) => {
    let at = 0;
    return cells.map((one) => {
      at += one[0];
      const shares = [];
      for (let i = 11; i + 1 < one.length; i += 2) shares.push([one[i], one[i + 1]]);
      const touched = one[2] * 1024;
      return {
        kib: at,
        size: one[1],
        touched,
        alive: one[3],
        owner: one[4],
        kind: one[5],
        state: one[6],
        pages: one[7],
        live: one[8],
        capacity: one[9],
        age: one[10],
        shares,
        part: touched > 0 ? Math.min(1, one[3] / touched) : 0
      };
    });
  };
  const maps = [];
  const cellColour = (cell, oldest) => {
    const mine =
      !matched
      || (cell.owner >= 0 ? isMatch(cell.owner) : cell.shares.some(([index]) => isMatch(index)));
    if (!mine) return dark() ? "#23272e" : "#eceef2";
    if (cell.live === 0) return dark() ? "#4a4f58" : "#c3c8d0";
    const mode = $("page-colour").value;
    if (mode === "age") return ramp(1 - Math.sqrt(cell.age / (oldest || 1)));
    if (mode === "context")
      return cell.owner >= 0 ? colourOf(cell.owner) : dark() ? "#5c4b73" : "#d5c7ea";
    return ramp(cell.part);
  };
  const drawMap = (map) => {
    const cells = map.cells,
      side = cells.length < 3000 ? 13 : cells.length < 15000 ? 8 : 5;
    const width = map.canvas.parentElement.clientWidth - 2,
      columns = Math.max(1, Math.floor(width / side));
    const [pen] = prepare(map.canvas, Math.ceil(cells.length / columns) * side + 2);
    const oldest = cells.reduce((most, cell) => Math.max(most, cell.age), 0);
    map.side = side;
    map.columns = columns;
    cells.forEach((cell, i) => {
      pen.fillStyle = cellColour(cell, oldest);
      pen.fillRect((i % columns) * side, Math.floor(i / columns) * side, side - 1, side - 1);
    });
    if (map.at >= 0) {
      pen.strokeStyle = style("--text");
      pen.lineWidth = 2;
      pen.strokeRect(
        (map.at % columns) * side - 0.5,
        Math.floor(map.at / columns) * side - 0.5,
        side,
        side
      );
    }
    map.canvas.dataset.cells = cells.length;
  };
  const cellText = (map, i) => {
    const cell = map.cells[i];
    if (!cell) return "";
    const who =
      cell.owner >= 0
        ? map.now
          ? pathOf(cell.owner, 3)
          : "a context of its own"
        : cell.shares.length
          ? "shared: "
            + cell.shares
              .map(([index, live]) => `${map.now ? nameOf(index) : "?"} (${live})`)
              .join(", ")
          : "nothing in it";
    const what = cell.pages > 1 ? `${cell.pages} pages, ` : "";
    const pins =
      cell.live > 0 && cell.part < 1
        ? `\n${numberText(cell.live)} chunks, ${bytesText(cell.alive)}, pin `
          + `${bytesText(Math.max(0, cell.touched - cell.alive))} of free blocks`
        : "";
    return (
      `0x${(cell.kib * 1024).toString(16)}: ${what}${bytesText(cell.size * 1024)}, `
      + `${KINDS[cell.kind] || "?"}, ${STATES[cell.state] || "?"}; `
      + `${numberText(cell.live)} of ${numberText(cell.capacity)} blocks alive `
      + `(${percent(cell.part, 1) || "0 %"} of what was touched); made ${ageText(cell.age)} ago`
      + `\n${who}${pins}`
    );
  };
  const cellAt = (map, event) => {
    const at = map.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - at.left) / map.side),
      y = Math.floor((event.clientY - at.top) / map.side);
    const i = y * map.columns + x;
    return x < map.columns && i < map.cells.length ? i : -1;
  };
  const pointCell = (map, i) => {
    if (i < 0 || i >= map.cells.length) return;
    map.at = i;
    detail.textContent = cellText(map, i);
    if (map.now && map.cells[i].owner > 0) chosen = map.cells[i].owner;
    drawMap(map);
  };
  const drawPages = () => {
    const mode = $("page-colour").value;
    const steps =
      mode === "occupancy"
        ? [
            ["0 %", null],
            ["1 %", 0.01],
            ["25 %", 0.25],
            ["50 %", 0.5],
            ["75 %", 0.75],
            ["100 %", 1]
          ]
        : [];
    $("page-legend").replaceChildren(
      ...(mode === "occupancy"
        ? steps.map(([text, part]) => {
            const box = element("i");
            box.style.background = part === null ? (dark() ? "#4a4f58" : "#c3c8d0") : ramp(part);
            return element("span", {}, box, part === null ? "empty, kept" : text + " alive");
          })
        : [
            element("span", {
              textContent:
                mode === "age"
                  ? "orange: made long ago; blue: just now"
                  : "violet: mixed pages, of many contexts"
            })
          ])
    );
    maps.forEach(drawMap);
  };
  const makeMap = (title, cells, now) => {
    const canvas = element("canvas", {tabIndex: 0});
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Every page of the heap, a cell each");
    const map = {canvas, cells: decode(cells), at: -1, now};
    $("page-maps").append(
      element("h2", {textContent: `${title}: ${numberText(cells.length)} cells`}),
      element("div", {className: "map"}, canvas)
    );
    canvas.addEventListener("mousemove", (event) =>
      showTip(event, cellText(map, cellAt(map, event)))
    );
    canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
    canvas.addEventListener("click", (event) => pointCell(map, cellAt(map, event)));
    canvas.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: map.columns, ArrowUp: -map.columns}[
        event.key
      ];
      if (step === undefined) return;
      event.preventDefault();
      pointCell(map, map.at < 0 ? 0 : map.at + step);
    });
    maps.push(map);
  };

  // --- histograms ---

  const BINS = ["<= 6 %", "<= 12 %", "<= 25 %", "<= 50 %", "<= 75 %", "< 100 %", "100 %"];
  const histogram = (title, bins) => {
    const most = Math.max(1, ...bins),
      grid = element("div", {className: "histogram"});
    bins.forEach((value, i) => {
      const fill = element("div", {className: "fill"});
      fill.style.width = (100 * value) / most + "%";
      grid.append(
        element("span", {textContent: BINS[i]}),
        element("div", {}, fill),
        element("span", {textContent: numberText(value)})
      );
    });
    return element("div", {}, element("h3", {textContent: title}), grid);
  };
  const drawOccupancy = () => {
    const all = [0, 0, 0, 0, 0, 0, 0];
    const rows = data.occupancy.filter(([index]) => !matched || isMatch(index));
    for (const [, ...bins] of rows)
      bins.forEach((value, i) => {
        all[i] += value;
      });
    rows.sort((a, b) => b[1] + b[2] + b[3] - (a[1] + a[2] + a[3]));
    $("histograms").replaceChildren(
      histogram(`all ${numberText(rows.length)} contexts with pages of their own`, all),
      ...rows
        .slice(0, 12)
        .map(([index, ...bins]) =>
          histogram(`context ${contexts.id[index]}: ${pathOf(index, 3)}`, bins)
        )
    );
  };

  // --- overview and changes ---

  const drawLedger = (table, state) => {
    table.replaceChildren(
      ...[["resident set, as the kernel counts it", state.rss_bytes], ...state.ledger].map(
        ([name, bytes]) => {
          const fill = element("div", {className: "fill"});
          fill.style.width =
            Math.min(100, Math.max(0, (100 * bytes) / (state.rss_bytes || 1))) + "%";
          return element(
            "tr",
            {},
            element("td", {textContent: bytesText(bytes)}),
            element("td", {textContent: percent(bytes, state.rss_bytes)}),
            element("td", {textContent: name}),
            element("td", {}, fill)
          );
        }
      )
    );
  };
  const drawFindings = () => {
    $("findings").replaceChildren(
      ...data.findings.map((one) => {
        const box = element(
          "div",
          {className: `finding ${one.severity}`},
          element("h3", {
            textContent:
              `${one.severity}: ${one.title}` + (one.bytes > 0 ? ", " + bytesText(one.bytes) : "")
          })
        );
        if (one.path) box.append(element("p", {className: "path", textContent: one.path}));
        for (const part of one.parts)
          box.append(element("p", {className: "path part", textContent: part}));
        if (one.part_count > one.parts.length)
          box.append(
            element("p", {
              className: "path part",
              textContent: `and ${one.part_count - one.parts.length} more`
            })
          );
        box.append(element("p", {textContent: one.evidence}));
        for (const [label, text] of [
          ["Since: ", one.since],
          ["Out: ", one.out],
          ["Why: ", one.why],
          ["Fix: ", one.fix],
          ["Sure: ", one.sure]
        ])
          if (text) box.append(element("p", {className: "soft", textContent: label + text}));
        if (one.now)
          box.append(
            element("p", {}, "Now: ", element("code", {textContent: one.now}), ` ${one.effect}`)
          );
        else if (one.effect)
          box.append(element("p", {className: "soft", textContent: "Now: " + one.effect}));
        if (one.action)
          box.append(element("p", {}, "Next: ", element("code", {textContent: one.action})));
        if (one.context > 0) {
          const button = element("button", {type: "button", textContent: "Show it in the graph"});
          button.addEventListener("click", () => show(one.context));
          box.append(button);
        }
        return box;
      })
    );
    if (!data.findings.some((one) => one.severity !== "info")) {
      $("findings").append(
        element("p", {
          textContent: data.findings.length
            ? "None of these findings is a problem by itself."
            : "No memory problem was found."
        })
      );
    }
  };
  const drawChanges = () => {
    const before = data.before;
    if (!before) return;
    const sums = [["", "before", "after", "change"]];
    const add = (name, from, to, unit = bytesText) => {
      if (from || to)
        sums.push([
          name,
          unit(from),
          unit(to),
          from === null || to === null ? "?" : (to > from ? "+" : "") + unit(to - from)
        ]);
    };
    const SUMS = {
      requested_bytes: ["requested by the program", bytesText],
      live_chunks: ["chunks alive", numberText],
      allocs: ["allocations since the start", numberText],
      frees: ["frees since the start", numberText],
      requested_cum_bytes: ["requested since the start", bytesText]
    };
    for (const [key, from, to] of before.sums)
      if (SUMS[key]) add(SUMS[key][0], from, to, SUMS[key][1]);
    if (before.totals) {
      add("resident set", before.rss_bytes, data.rss_bytes);
      before.ledger.forEach(([name, bytes]) => {
        const now = data.ledger.find(([other]) => other === name);
        if (now) add(name, bytes, now[1]);
      });
    }
    $("change-sums").replaceChildren(
      ...sums.map((cells, i) =>
        element("tr", {}, ...cells.map((text) => element(i ? "td" : "th", {textContent: text})))
      )
    );
    $("change-title").textContent = `${before.title}, and now`;
    $("changes").tHead.replaceChildren(
      element(
        "tr",
        {},
        ...["context", "growth", "before", "after", "chunks before", "chunks after"].map((text) =>
          element("th", {textContent: text, scope: "col"})
        )
      )
    );
    const rows = before.changes.filter(
      ([index, path, from, to, chunksFrom, chunksTo]) =>
        (from !== to || chunksFrom !== chunksTo)
        && (!matched || (index >= 0 ? isMatch(index) : path.toLowerCase().includes(needle)))
    );
    $("changes").tBodies[0].replaceChildren(
      ...rows.slice(0, 500).map(([index, path, from, to, chunksFrom, chunksTo]) => {
        const row = element("tr", {tabIndex: 0});
        row.dataset.index = index;
        row.append(
          element("td", {
            textContent: index >= 0 ? pathOf(index, 4) : path,
            title: index >= 0 ? pathOf(index) : path
          })
        );
        for (const text of [
          bytesText(to - from),
          bytesText(from),
          bytesText(to),
          numberText(chunksFrom),
          numberText(chunksTo)
        ])
          row.append(element("td", {textContent: text}));
        return row;
      })
    );
  };

  // --- threads ---

  const THREAD_COLUMNS = ["requested", "chunks", "allocs", "churn"].map((id) =>
    METRICS.find((one) => one.id === id)
  );
  const threadTitle = (k) => {
    const [tid, name] = data.threads.list[k];
    return tid === 0 ? "threads that have ended" : `${name || "?"} (${tid})`;
  };
  const setThread = (k) => {
    ofThread = null;
    if (k >= 0) {
      ofThread = {};
      data.threads.figures.forEach((figure) => {
        ofThread[figure] = new Array(count).fill(0);
      });
      for (const [thread, context, ...values] of data.threads.rows) {
        if (thread === k)
          values.forEach((value, f) => {
            ofThread[data.threads.figures[f]][context] = value;
          });
      }
    }
    totals.clear();
    $("thread").value = String(k);
    for (const option of $("metric").options)
      option.disabled = k >= 0 && !THREAD_COLUMNS.some((one) => one.id === option.value);
    if (graph.kind === "change") setKind("outward");
    graph.root = graph.at = 0;
    setMetric(k >= 0 && !THREAD_COLUMNS.includes(metric) ? "requested" : metric.id);
    choose(0);
  };
  const drawThreads = () => {
    const {list, sums, left_out: leftOut} = data.threads,
      most = Math.max(1, ...sums.map((one) => Math.abs(one[0])));
    $("threads").tHead.replaceChildren(
      element(
        "tr",
        {},
        ...["thread", ...THREAD_COLUMNS.map((one) => one.title), ""].map((text) =>
          element("th", {textContent: text, scope: "col"})
        )
      )
    );
    const order = list.map((_, k) => k).sort((a, b) => sums[b][0] - sums[a][0] || a - b);
    $("threads").tBodies[0].replaceChildren(
      ...order.map((k) => {
        const fill = element("div", {className: "fill"}),
          row = element("tr", {tabIndex: 0});
        fill.style.width = (100 * Math.max(0, sums[k][0])) / most + "%";
        row.dataset.thread = k;
        row.append(
          element("td", {textContent: threadTitle(k)}),
          ...THREAD_COLUMNS.map((one, f) => element("td", {textContent: one.unit(sums[k][f])})),
          element("td", {className: "share"}, fill)
        );
        return row;
      })
    );
    detail.textContent = leftOut
      ? `${numberText(leftOut)} small figures of threads in contexts are left out of the graph`
      : "\u00a0";
  };
  const chooseThread = (event) => {
    const row = event.target.closest("tr[data-thread]");
    if (!row) return;
    setThread(Number(row.dataset.thread));
    open("graph");
  };

  // --- time ---

  const compareSince = (sample) => {
    const found = states.findIndex((state) => state.sample === sample);
    if (found < 0) return;
    since = found;
    $("since").value = String(since);
    open("graph");
    setKind("change");
    graph.canvas.focus();
  };
  const time =
    data.series
    && makeTimeView({
      series: data.series,
      canvas: $("time"),
      bytesText,
      ageText,
      pathOf,
      prepare,
      style,
      dark,
      fitText,
      showTip,
      tell: (text) => {
        detail.textContent = text;
      },
      fadedColour,
      fades: (index) => matched && !isMatch(index),
      chose: (index) => {
        chosen = index;
      },
      compareSince
    });

  // --- tabs ---

  const TABS = [
    ["overview", "Overview", () => {}],
    ["graph", "Flame graph", drawGraph],
    ["table", "Table", drawTable],
    ["treemap", "Treemap", drawTreemap],
    ["pages", "Page map", drawPages],
    ["occupancy", "Occupancy", drawOccupancy],
    ["threads", "Threads", drawThreads],
    ["time", "Time", () => time.draw()],
    ["changes", "Before and after", drawChanges]
  ].filter(
    ([id]) =>
      ({threads: data.threads, time: data.series, changes: data.before})[id] !== undefined
      || !["threads", "time", "changes"].includes(id)
  );
  let current = "overview";
  const draw = () => TABS.find(([id]) => id === current)[2]();
  const open = (id) => {
    current = id;
    for (const [other] of TABS) {
      $(`view-${other}`).hidden = other !== id;
      const tab = $(`tab-${other}`);
      tab.setAttribute("aria-selected", String(other === id));
      tab.tabIndex = other === id ? 0 : -1;
    }
    showTip(null, "");
    draw();
  };
  TABS.forEach(([id, title], i) => {
    const tab = element("button", {type: "button", id: `tab-${id}`, textContent: title});
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", `view-${id}`);
    $(`view-${id}`).setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => open(id));
    tab.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = TABS[(i + step + TABS.length) % TABS.length][0];
      open(next);
      $(`tab-${next}`).focus();
    });
    $("tabs").append(tab);
  });

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
    if (event.key.startsWith("Arrow")) moveInGraph(event.key);
    else if (event.key === "Enter") zoom(graph.at);
    else if (event.key === "Backspace") zoom(graph.root > 0 ? graph.tree.parent[graph.root] : 0);
    else return;
    event.preventDefault();
  });
  $("treemap").addEventListener("mousemove", (event) => {
    const tile = boxAt(tiles, event);
    showTip(
      event,
      !tile
        ? ""
        : tile.index < 0
          ? `${tile.others} other contexts: ${metric.unit(tile.value)}`
          : `${describe(tile.index)}\n${pathOf(tile.index, 6)}`
    );
  });
  $("treemap").addEventListener("mouseleave", (event) => showTip(event, ""));
  const pointTile = (tile) => {
    if (!tile || tile.index < 0) return;
    choose(tile.index);
    drawTreemap();
  };
  $("treemap").addEventListener("click", (event) => pointTile(boxAt(tiles, event)));
  $("treemap").addEventListener("keydown", (event) => {
    const at = tiles.findIndex((tile) => tile.index === chosen);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (step) pointTile(tiles[at < 0 ? 0 : at + step]);
    else if (event.key === "Enter") show(chosen);
    else return;
    event.preventDefault();
  });
  $("graph-out").addEventListener("click", () => zoom(0));
  $("icicle").addEventListener("change", drawGraph);
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
  $("page-colour").addEventListener("change", drawPages);
  $("table-more").addEventListener("click", () => {
    shown += 1000;
    drawTable();
  });
  $("table").tHead.addEventListener("click", (event) => {
    const id = event.target.dataset.sort;
    if (!id) return;
    falling = id === sortBy ? !falling : id !== "name";
    sortBy = id;
    drawTable();
    $("table").querySelector(`[data-sort="${id}"]`).focus();
  });
  const chooseRow = (event) => {
    const row = event.target.closest("tr[data-index]");
    const index = row ? Number(row.dataset.index) : -1;
    if (index < 0) return;
    choose(index);
    for (const other of row.parentElement.children) other.classList.toggle("chosen", other === row);
    if (event.type === "dblclick" || event.key === "Enter") show(index);
  };
  for (const id of ["table", "changes"]) {
    $(id).tBodies[0].addEventListener("click", chooseRow);
    $(id).tBodies[0].addEventListener("dblclick", chooseRow);
    $(id).tBodies[0].addEventListener("keydown", (event) => {
      if (event.key === "Enter") chooseRow(event);
    });
  }
  if (data.threads) {
    $("thread-choice").hidden = false;
    $("thread").append(
      element("option", {value: "-1", textContent: "all"}),
      ...data.threads.list.map((_, k) =>
        element("option", {value: String(k), textContent: threadTitle(k)})
      )
    );
    $("thread").addEventListener("change", () => setThread(Number($("thread").value)));
    $("threads").tBodies[0].addEventListener("click", chooseThread);
    $("threads").tBodies[0].addEventListener("keydown", (event) => {
      if (event.key === "Enter") chooseThread(event);
    });
  }
  METRICS.forEach((one) =>
    $("metric").append(element("option", {value: one.id, textContent: one.title}))
  );
  const setMetric = (id) => {
    metric = METRICS.find((one) => one.id === id);
    $("metric").value = id;
    if (COLUMNS.some((one) => one.id === id)) sortBy = id;
    falling = true;
    search($("search").value);
  };
  const nextMetric = () => {
    const list = ofThread ? THREAD_COLUMNS : METRICS;
    return list[(list.indexOf(metric) + 1) % list.length].id;
  };
  $("metric").addEventListener("change", () => setMetric($("metric").value));
  let typing = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => search($("search").value), 120);
  });
  $("theme").addEventListener("click", () => {
    document.documentElement.classList.toggle("dark");
    draw();
  });
  $("help").addEventListener("click", () => {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", String(!$("keys").hidden));
  });
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented) return;
      if (event.key === "Escape") {
        $("search").value = "";
        graph.root = 0;
        graph.at = 0;
        search("");
        return;
      }
      if (!isPageKey(event)) return;
      if (event.key === "/") {
        event.preventDefault();
        $("search").focus();
      } else if (event.key === "m") setMetric(nextMetric());
      else if (event.key === "i" || event.key === "d") {
        const kind = event.key === "i" ? "inward" : "change";
        open("graph");
        setKind(graph.kind === kind ? "outward" : kind);
        graph.canvas.focus();
      } else if (event.key === "t") {
        open("table");
        $("table").querySelector("tr.chosen")?.scrollIntoView({block: "center"});
      } else if (TABS[Number(event.key) - 1]) {
        const [id] = TABS[Number(event.key) - 1];
        open(id);
        $(`tab-${id}`).focus();
      }
    },
    {signal: ending.signal}
  );
  let resizing = 0;
  addEventListener(
    "resize",
    () => {
      clearTimeout(resizing);
      resizing = setTimeout(draw, 80);
    },
    {signal: ending.signal}
  );
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  if (!kept) document.documentElement.classList.toggle("dark", scheme.matches);
  scheme.addEventListener(
    "change",
    () => {
      document.documentElement.classList.toggle("dark", scheme.matches);
      draw();
    },
    {signal: ending.signal}
  );

  // --- where the reader is, for the page with the next figures ---

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
  const boxes = () => [...document.querySelectorAll("#report .scroll, #report .map")];
  const state = () => {
    const focus = document.activeElement,
      row = focus?.closest?.("tr[data-index]"),
      tid = ofThread && data.threads.list[Number($("thread").value)][0];
    return {
      tab: current,
      metric: metric.id,
      search: $("search").value,
      sortBy,
      falling,
      shown,
      kind: graph.kind,
      icicle: $("icicle").checked,
      root: wayTo(graph.root),
      at: wayTo(graph.at),
      chosen: contexts.id[chosen],
      since: states[since]?.title,
      colour: $("page-colour").value,
      keys: !$("keys").hidden,
      tid,
      cells: maps.map((map) => map.at),
      scrolled: boxes().map((box) => [box.scrollTop, box.scrollLeft]),
      focus:
        !focus || !$("report").contains(focus)
          ? null
          : focus.id
            ? {id: focus.id}
            : row
              ? {body: row.closest("table").id, context: contexts.id[row.dataset.index]}
              : {map: maps.findIndex((map) => map.canvas === focus)},
      cursor: focus === $("search") ? [focus.selectionStart, focus.selectionEnd] : null
    };
  };
  const focusAgain = ({focus, cursor}) => {
    const at = !focus
      ? null
      : focus.id
        ? $(focus.id)
        : focus.body
          ? $(focus.body).querySelector(`tr[data-index="${contexts.id.indexOf(focus.context)}"]`)
          : maps[focus.map]?.canvas;
    at?.focus({preventScroll: true});
    if (cursor) $("search").setSelectionRange(...cursor);
  };
  const restore = () => {
    $("search").value = kept.search;
    $("icicle").checked = kept.icicle;
    $("page-colour").value = kept.colour;
    if (kept.keys) $("help").click();
    shown = kept.shown;
    const thread =
      kept.tid === null || !data.threads
        ? -1
        : data.threads.list.findIndex(([tid]) => tid === kept.tid);
    if (thread >= 0) setThread(thread);
    setMetric(kept.metric);
    [sortBy, falling] = [kept.sortBy, kept.falling];
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
    chosen = Math.max(0, contexts.id.indexOf(kept.chosen));
    kept.cells.forEach((at, i) => {
      if (maps[i] && at < maps[i].cells.length) maps[i].at = at;
    });
    open(TABS.some(([id]) => id === kept.tab) ? kept.tab : "overview");
    boxes().forEach((box, i) => {
      [box.scrollTop, box.scrollLeft] = kept.scrolled[i] || [0, 0];
    });
    focusAgain(kept);
  };
  const end = () => {
    ending.abort();
    clearTimeout(resizing);
    clearTimeout(typing);
    showTip(null, "");
  };

  // --- begin ---

  // The name of a program may differ from the name of its file: redis-server is a link to
  // redis-check-rdb.
  $("title").textContent =
    `${data.exe.endsWith("/" + data.program) ? data.exe : data.program} (pid ${data.pid})`;
  $("title").title = data.exe;
  $("subtitle").textContent =
    `up ${data.uptime_s.toFixed(1)} s, taken ${data.taken}: ${bytesText(data.rss_bytes)} resident, `
    + `of which the program asked for ${bytesText(data.totals.requested_bytes)} in `
    + `${numberText(data.totals.live_chunks)} chunks from ${numberText(count)} contexts`
    + (data.how
      ? "; " + data.how
      : data.exact
        ? ""
        : "; not exact: some operations could not be charged");
  drawLedger($("ledger"), data);
  drawFindings();
  if (data.before && data.before.cells)
    makeMap(`Before (${data.before.title})`, data.before.cells, false);
  makeMap(data.before ? `After (${data.title})` : "Pages", data.cells, true);
  choose(0);
  if (kept) restore();
  else open("overview");
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  return {state, end, open, draw: () => draw()};
};
