/* SPDX-License-Identifier: MIT */
/* The page of a report: the tabs, the keys, the reader's choices and place. Each tab is a view of
   one model. */
"use strict";

// Fills the page with these figures. `kept` is the result of state() of the previous page, so that
// a live page keeps the reader's place. Before the call, end() has ended the previous page, and
// untouched elements have replaced its elements.
const makeReport = (data, kept = null) => {
  const ending = new AbortController(),
    model = makeModel(data),
    {contexts, METRICS, THREAD_METRICS} = model;

  // --- the views; `page` is what a view may ask of the others ---

  const page = {
    open: (id) => open(id),
    show: (context) => graph.show(context),
    compareSince: (sample) => graph.compareSince(sample),
    choose: (index) => {
      model.chosen = index;
      const text = model.describe(index).replace("\n", "  ·  ");
      showDetail(index > 0 ? `${text}  ·  ${model.pathOf(index)}` : text);
    },
    setThread: (k) => {
      model.setThread(k);
      $("thread").value = String(k);
      for (const option of $("metric").options)
        option.disabled = k >= 0 && !THREAD_METRICS.some((one) => one.id === option.value);
      graph.leaveChange();
      setMetric(k >= 0 && !THREAD_METRICS.includes(model.metric) ? "requested" : model.metric.id);
      page.choose(0);
    }
  };
  makeOverview(data, page);
  const graph = makeGraphView(model, page),
    table = makeTableView(model),
    pageMap = makePageMapView(model);

  // --- tabs ---

  const TABS = [
    ["overview", "Overview", {draw: () => {}}],
    ["graph", "Flame graph", graph],
    ["table", "Table", table],
    ["treemap", "Treemap", makeTreemapView(model, page)],
    ["pages", "Page map", pageMap],
    ["occupancy", "Occupancy", makeOccupancyView(model)],
    ["threads", "Threads", data.threads && makeThreadsView(model, page)],
    ["time", "Time", data.series && makeTimeView(model, page)],
    ["changes", "Before and after", data.before && makeChangesView(model)]
  ].filter(([, , view]) => view);
  let current = "overview";
  const draw = () => TABS.find(([id]) => id === current)[2].draw();
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

  // --- choices ---

  const search = (text) => {
    model.search(text);
    $("found").textContent = "";
    if (model.isSearch()) {
      const {found, sum} = model.sumOfMatches();
      $("found").textContent =
        `${numberText(found)} contexts, ${model.metric.unit(sum)} `
        + `(${percent(sum, model.totalOfMetric()[0])})`;
    }
    draw();
  };
  const setMetric = (id) => {
    model.metric = METRICS.find((one) => one.id === id);
    $("metric").value = id;
    table.sortDown(id);
    search($("search").value);
  };
  const nextMetric = () => {
    const list = model.ofThread ? THREAD_METRICS : METRICS;
    return list[(list.indexOf(model.metric) + 1) % list.length].id;
  };
  METRICS.forEach((one) =>
    $("metric").append(element("option", {value: one.id, textContent: one.title}))
  );
  $("metric").addEventListener("change", () => setMetric($("metric").value));
  if (data.threads) {
    $("thread-choice").hidden = false;
    $("thread").append(
      element("option", {value: "-1", textContent: "all"}),
      ...data.threads.list.map((_, k) =>
        element("option", {value: String(k), textContent: model.threadTitle(k)})
      )
    );
    $("thread").addEventListener("change", () => page.setThread(Number($("thread").value)));
  }
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

  // --- rows of contexts, in two views ---

  const chooseRow = (event) => {
    const row = event.target.closest("tr[data-index]");
    const index = row ? Number(row.dataset.index) : -1;
    if (index < 0) return;
    page.choose(index);
    for (const other of row.parentElement.children) other.classList.toggle("chosen", other === row);
    if (event.type === "dblclick" || event.key === "Enter") page.show(index);
  };
  for (const id of ["table", "changes"]) {
    $(id).tBodies[0].addEventListener("click", chooseRow);
    $(id).tBodies[0].addEventListener("dblclick", chooseRow);
    $(id).tBodies[0].addEventListener("keydown", (event) => {
      if (event.key === "Enter") chooseRow(event);
    });
  }

  // --- keys, size and colours of the window ---

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented) return;
      if (event.key === "Escape") {
        $("search").value = "";
        graph.zoomOut();
        search("");
        return;
      }
      if (!isPageKey(event)) return;
      if (event.key === "/") {
        event.preventDefault();
        $("search").focus();
      } else if (event.key === "m") setMetric(nextMetric());
      else if (event.key === "i") graph.toggleKind("inward");
      else if (event.key === "d") graph.toggleKind("change");
      else if (event.key === "t") {
        open("table");
        table.showChosen();
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

  const boxes = () => [...document.querySelectorAll("#report .scroll, #report .map")];
  // The place of an element without an id: the n-th of its kind in the nearest element with an id.
  const likeIt = (within, tag) => [...$(within).querySelectorAll(tag)];
  const placeOf = (at) => {
    const within = at.closest("[id]").id;
    return {within, tag: at.tagName, n: likeIt(within, at.tagName).indexOf(at)};
  };
  const state = () => {
    const focus = document.activeElement,
      row = focus?.closest?.("tr[data-index]"),
      tid = model.ofThread && data.threads.list[Number($("thread").value)][0];
    return {
      tab: current,
      metric: model.metric.id,
      search: $("search").value,
      table: table.place(),
      graph: graph.place(),
      pageMap: pageMap.place(),
      chosen: contexts.id[model.chosen],
      keys: !$("keys").hidden,
      tid,
      scrolled: boxes().map((box) => [box.scrollTop, box.scrollLeft]),
      focus:
        !focus || !$("report").contains(focus)
          ? null
          : focus.id
            ? {id: focus.id}
            : row
              ? {body: row.closest("table").id, context: contexts.id[row.dataset.index]}
              : focus.tagName === "CANVAS"
                ? {map: pageMap.canvases.indexOf(focus)}
                : placeOf(focus),
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
          : focus.within
            ? likeIt(focus.within, focus.tag)[focus.n]
            : pageMap.canvases[focus.map];
    at?.focus({preventScroll: true});
    if (cursor) $("search").setSelectionRange(...cursor);
  };
  const restore = () => {
    $("search").value = kept.search;
    if (kept.keys) $("help").click();
    const thread =
      kept.tid === null || !data.threads
        ? -1
        : data.threads.list.findIndex(([tid]) => tid === kept.tid);
    if (thread >= 0) page.setThread(thread);
    setMetric(kept.metric);
    table.restore(kept.table);
    graph.restore(kept.graph);
    pageMap.restore(kept.pageMap);
    model.chosen = Math.max(0, contexts.id.indexOf(kept.chosen));
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
    + `${numberText(data.totals.live_chunks)} chunks from ${numberText(model.count)} contexts`
    + (data.how
      ? "; " + data.how
      : data.exact
        ? ""
        : "; not exact: some operations could not be charged");
  page.choose(0);
  if (kept) restore();
  else open("overview");
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  return {state, end, open};
};
