/* SPDX-License-Identifier: MIT */
/* The view "Table": each context a row, sorted by a figure or by name. */
"use strict";
const makeTableView = (model) => {
  const {contexts, METRICS, nameOf, pathOf} = model;
  let sortBy = "requested",
    falling = true,
    shown = 200;
  const draw = () => {
    const head = element("tr");
    for (const one of [{id: "name", title: "context, innermost frame first"}, ...METRICS]) {
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
    replaceRows($("table").tHead, [head]);
    const list = [];
    for (let i = 0; i < model.count; i++) {
      const any = model.ofThread
        ? model.ofThread.live_chunks[i] || model.ofThread.allocs[i]
        : contexts.live_chunks[i] || contexts.allocs[i] || contexts.reserved_bytes[i];
      if (any && model.isMatch(i)) list.push(i);
    }
    const key = METRICS.find((one) => one.id === sortBy);
    list.sort(
      key
        ? (a, b) => key.of(b) - key.of(a) || a - b
        : (a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b)
    );
    if (!falling) list.reverse();
    const rows = list.slice(0, shown).map((index) => {
      const row = element("tr", {
        tabIndex: 0,
        className: index === model.chosen && index > 0 ? "chosen" : ""
      });
      row.dataset.index = index;
      row.append(
        element("td", {
          textContent: index > 0 ? pathOf(index, 4) : "[no call path]",
          title: pathOf(index)
        })
      );
      for (const one of METRICS) row.append(element("td", {textContent: one.unit(one.of(index))}));
      return row;
    });
    replaceRows($("table").tBodies[0], rows);
    $("table-count").textContent =
      `${numberText(rows.length)} of ${numberText(list.length)} contexts`;
    $("table-more").hidden = rows.length === list.length;
  };
  // Sorts by a figure, the largest first, without drawing.
  const sortDown = (id) => {
    sortBy = id;
    falling = true;
  };
  const showChosen = () =>
    $("table").querySelector("tr.chosen")?.scrollIntoView({block: "center"});

  // --- events ---

  $("table-more").addEventListener("click", () => {
    shown += 1000;
    draw();
  });
  $("table").tHead.addEventListener("click", (event) => {
    const id = event.target.dataset.sort;
    if (!id) return;
    falling = id === sortBy ? !falling : id !== "name";
    sortBy = id;
    draw();
    $("table").querySelector(`[data-sort="${id}"]`).focus();
  });

  // --- where the reader is ---

  const place = () => ({sortBy, falling, shown});
  const restore = (kept) => {
    ({sortBy, falling, shown} = kept);
  };
  return {draw, sortDown, showChosen, place, restore};
};
