/* SPDX-License-Identifier: MIT */
/* The view "Before and after": the sums and the contexts of two states, side by side. */
"use strict";
const makeChangesView = (model) => {
  const {data} = model,
    {before} = data;
  const draw = () => {
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
        && (index >= 0 ? model.isMatch(index) : model.isTextMatch(path))
    );
    replaceRows(
      $("changes").tBodies[0],
      rows.slice(0, 500).map(([index, path, from, to, chunksFrom, chunksTo]) => {
        const row = element("tr", {tabIndex: 0});
        row.dataset.index = index;
        row.append(
          element("td", {
            textContent: index >= 0 ? model.pathOf(index, 4) : path,
            title: index >= 0 ? model.pathOf(index) : path
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
  return {draw};
};
