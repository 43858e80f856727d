/* SPDX-License-Identifier: MIT */
/* The view "Threads": the figures of each thread. The other views show the thread that the reader
   chooses. */
"use strict";
const makeThreadsView = (model, page) => {
  const {THREAD_METRICS, threadTitle} = model;
  const draw = () => {
    const {list, sums, left_out: leftOut} = model.data.threads,
      most = Math.max(1, ...sums.map((one) => Math.abs(one[0])));
    $("threads").tHead.replaceChildren(
      element(
        "tr",
        {},
        ...["thread", ...THREAD_METRICS.map((one) => one.title), ""].map((text) =>
          element("th", {textContent: text, scope: "col"})
        )
      )
    );
    const order = list.map((_, k) => k).sort((a, b) => sums[b][0] - sums[a][0] || a - b);
    replaceRows(
      $("threads").tBodies[0],
      order.map((k) => {
        const fill = element("div", {className: "fill"}),
          row = element("tr", {tabIndex: 0});
        fill.style.width = (100 * Math.max(0, sums[k][0])) / most + "%";
        row.dataset.thread = k;
        row.append(
          element("td", {textContent: threadTitle(k)}),
          ...THREAD_METRICS.map((one, f) => element("td", {textContent: one.unit(sums[k][f])})),
          element("td", {className: "share"}, fill)
        );
        return row;
      })
    );
    showDetail(
      leftOut
        ? `${numberText(leftOut)} small figures of threads in contexts are left out of the graph`
        : "\u00a0"
    );
  };
  const choose = (event) => {
    const row = event.target.closest("tr[data-thread]");
    if (!row) return;
    page.setThread(Number(row.dataset.thread));
    page.open("graph");
  };

  $("threads").tBodies[0].addEventListener("click", choose);
  $("threads").tBodies[0].addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose(event);
  });
  return {draw};
};
