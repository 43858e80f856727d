/* SPDX-License-Identifier: MIT */
/* The view "Occupancy": how much of the contexts' own pages is alive, as histograms. */
"use strict";
const makeOccupancyView = (model) => {
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
  const draw = () => {
    const all = [0, 0, 0, 0, 0, 0, 0];
    const rows = model.data.occupancy.filter(([index]) => model.isMatch(index));
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
          histogram(`context ${model.contexts.id[index]}: ${model.pathOf(index, 3)}`, bins)
        )
    );
  };
  return {draw};
};
