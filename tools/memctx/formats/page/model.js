/* SPDX-License-Identifier: MIT */
/* The figures of a report as the views need them: the tree of contexts, the earlier states, and the
   figure, the thread and the search that the reader chose. Draws nothing. */
"use strict";
const makeModel = (data) => {
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

  const model = {
    data,
    contexts,
    count,
    metric: null, // the figure that the views show
    ofThread: null, // figures of the chosen thread; null: the figures of all threads are shown
    chosen: 0 // the context that the reader pointed at last
  };

  // --- the tree ---

  const nameOf = (index) => (index === 0 ? "all" : data.names[contexts.name[index]]);
  const {children, level} = trees.finish(contexts.parent, new Array(count).fill(0));
  const pathOf = (index, most = 40) => {
    const names = [];
    for (let at = index; at > 0 && names.length < most; at = contexts.parent[at])
      names.push(nameOf(at));
    return names.join(" < ") || "all";
  };

  // --- figures ---

  const column = (name) => (i) => {
    if (!model.ofThread) return contexts[name][i] || 0;
    return model.ofThread[name] ? model.ofThread[name][i] : null;
  };
  const METRICS = [
    {id: "requested", title: "requested", unit: bytesText, of: column("requested_bytes")},
    {id: "chunks", title: "chunks alive", unit: numberText, of: column("live_chunks")},
    {id: "allocs", title: "allocations", unit: numberText, of: column("allocs")},
    {
      id: "waste",
      title: "waste",
      unit: bytesText,
      of: (i) =>
        model.ofThread
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
  const THREAD_METRICS = ["requested", "chunks", "allocs", "churn"].map((id) =>
    METRICS.find((one) => one.id === id)
  );
  model.metric = METRICS[0];
  const ownFigures = () =>
    Float64Array.from({length: count}, (_, i) => Math.max(0, model.metric.of(i)));
  const totals = new Map(); // sums over subtrees, by the figure's id
  const totalOfMetric = () => {
    if (totals.has(model.metric.id)) return totals.get(model.metric.id);
    const sums = ownFigures();
    for (let i = count - 1; i > 0; i--) sums[contexts.parent[i]] += sums[i];
    totals.set(model.metric.id, sums);
    return sums;
  };
  const describe = (index) => {
    const {metric} = model,
      total = totalOfMetric(),
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

  // --- threads ---

  const threadTitle = (k) => {
    const [tid, name] = data.threads.list[k];
    return tid === 0 ? "exited and new threads" : `${name || "?"} (${tid})`;
  };
  // Takes the figures of one thread instead of all threads; -1: of all threads.
  const setThread = (k) => {
    model.ofThread = null;
    if (k >= 0) {
      model.ofThread = {};
      data.threads.figures.forEach((figure) => {
        model.ofThread[figure] = new Array(count).fill(0);
      });
      for (const [thread, context, ...values] of data.threads.rows) {
        if (thread === k)
          values.forEach((value, f) => {
            model.ofThread[data.threads.figures[f]][context] = value;
          });
      }
    }
    totals.clear();
  };

  // --- search ---

  let needle = "",
    matched = null; // matched[number of a name]: it matches the search; null: no search
  const search = (text) => {
    needle = text.trim().toLowerCase();
    matched = needle ? data.names.map((name) => name.toLowerCase().includes(needle)) : null;
  };
  // Takes the number of a name; the root of an inverted tree has the number -1 and never matches.
  const isNameMatch = (name) => matched === null || Boolean(matched[name]);
  const isMatch = (index) => matched === null || (index > 0 && matched[contexts.name[index]]);
  const isTextMatch = (text) => matched === null || text.toLowerCase().includes(needle);
  // Returns how many contexts match, and the sum of their subtrees.
  const sumOfMatches = () => {
    let sum = 0,
      found = 0;
    const below = new Uint8Array(count); // 1: the node is a match or below one
    for (let i = 1; i < count; i++) {
      const hit = isMatch(i);
      below[i] = below[contexts.parent[i]] || hit ? 1 : 0;
      found += hit ? 1 : 0;
      if (below[i]) sum += Math.max(0, model.metric.of(i));
    }
    return {found, sum};
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
  const colourOfName = (name) => `hsl(${hueOf(name)}, ${dark() ? "38%, 29%" : "62%, 78%"})`;
  const colourOf = (index) => colourOfName(nameOf(index));

  // --- earlier states ---

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

  return Object.assign(model, {
    METRICS,
    THREAD_METRICS,
    children,
    level,
    states,
    nameOf,
    pathOf,
    describe,
    ownFigures,
    totalOfMetric,
    threadTitle,
    setThread,
    search,
    isSearch: () => matched !== null,
    isNameMatch,
    isMatch,
    isTextMatch,
    sumOfMatches,
    colourOfName,
    colourOf
  });
};
