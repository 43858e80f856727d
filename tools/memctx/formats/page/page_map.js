/* SPDX-License-Identifier: MIT */
/* The view "Page map": every page of the heap, a cell each, before and now. */
"use strict";
const makePageMapView = (model) => {
  const {data, nameOf, pathOf, isMatch} = model;
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
      !model.isSearch()
      || (cell.owner >= 0 ? isMatch(cell.owner) : cell.shares.some(([index]) => isMatch(index)));
    if (!mine) return dark() ? "#23272e" : "#eceef2";
    if (cell.live === 0) return dark() ? "#4a4f58" : "#c3c8d0";
    const mode = $("page-colour").value;
    if (mode === "age") return ramp(1 - Math.sqrt(cell.age / (oldest || 1)));
    if (mode === "context")
      return cell.owner >= 0 ? model.colourOf(cell.owner) : dark() ? "#5c4b73" : "#d5c7ea";
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
          : "a page of one context"
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
    showDetail(cellText(map, i));
    if (map.now && map.cells[i].owner > 0) model.chosen = map.cells[i].owner;
    drawMap(map);
  };
  const draw = () => {
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
  $("page-colour").addEventListener("change", draw);
  if (data.before && data.before.cells)
    makeMap(`Before (${data.before.title})`, data.before.cells, false);
  makeMap(data.before ? `After (${data.title})` : "Pages", data.cells, true);

  // --- where the reader is ---

  const place = () => ({colour: $("page-colour").value, cells: maps.map((map) => map.at)});
  const restore = (kept) => {
    $("page-colour").value = kept.colour;
    kept.cells.forEach((at, i) => {
      if (maps[i] && at < maps[i].cells.length) maps[i].at = at;
    });
  };
  return {draw, place, restore, canvases: maps.map((map) => map.canvas)};
};
