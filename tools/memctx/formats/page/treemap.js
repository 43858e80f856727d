/* SPDX-License-Identifier: MIT */
/* The view "Treemap": the contexts as tiles, as large as their figure. Squarified (Bruls, Huizing,
   van Wijk 2000). */
"use strict";
const makeTreemapView = (model, page) => {
  const TILES_MAX = 600;
  let tiles = [];
  const leaves = () => {
    const {metric} = model,
      list = [];
    for (let i = 0; i < model.count; i++) if (metric.of(i) > 0) list.push(i);
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
  const draw = () => {
    const {metric} = model,
      list = leaves(),
      height = Math.max(300, innerHeight - 260);
    const [pen, width] = prepare($("treemap"), height);
    const items = list.slice(0, TILES_MAX).map((index) => ({index, value: metric.of(index)}));
    const rest = list.slice(TILES_MAX).reduce((sum, index) => sum + metric.of(index), 0);
    if (rest > 0) items.push({index: -1, value: rest, others: list.length - TILES_MAX});
    tiles = [];
    squarify(items, 0, 0, width, height, tiles);
    for (const tile of tiles) {
      pen.fillStyle =
        tile.index < 0
          ? style("--panel")
          : model.isMatch(tile.index)
            ? model.colourOf(tile.index)
            : fadedColour();
      pen.fillRect(tile.x, tile.y, Math.max(0.5, tile.width - 1), Math.max(0.5, tile.height - 1));
      if (tile.index === model.chosen && tile.index > 0) {
        pen.strokeStyle = style("--link");
        pen.lineWidth = 2;
        pen.strokeRect(tile.x + 1, tile.y + 1, tile.width - 3, tile.height - 3);
      }
      if (tile.height > 16) {
        pen.fillStyle = style("--text");
        pen.fillText(
          fitText(
            pen,
            tile.index < 0 ? `${tile.others} others` : model.nameOf(tile.index),
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

  // --- events ---

  $("treemap").addEventListener("mousemove", (event) => {
    const tile = boxAt(tiles, event);
    showTip(
      event,
      !tile
        ? ""
        : tile.index < 0
          ? `${tile.others} other contexts: ${model.metric.unit(tile.value)}`
          : `${model.describe(tile.index)}\n${model.pathOf(tile.index, 6)}`
    );
  });
  $("treemap").addEventListener("mouseleave", (event) => showTip(event, ""));
  const pointTile = (tile) => {
    if (!tile || tile.index < 0) return;
    page.choose(tile.index);
    draw();
  };
  $("treemap").addEventListener("click", (event) => pointTile(boxAt(tiles, event)));
  $("treemap").addEventListener("keydown", (event) => {
    const at = tiles.findIndex((tile) => tile.index === model.chosen);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (step) pointTile(tiles[at < 0 ? 0 : at + step]);
    else if (event.key === "Enter") page.show(model.chosen);
    else return;
    event.preventDefault();
  });
  return {draw};
};
