/* SPDX-License-Identifier: MIT */
/* The time axis of a memctx report: the bytes of the largest contexts at each mark, as bands one on
   the other. */
"use strict";
const makeTimeView = (model, page) => {
  const BANDS = 12,
    {samples, rows, rest} = model.data.series,
    canvas = $("time"),
    last = samples.length - 1;
  const others = [...rest];
  rows.slice(BANDS).forEach(([, ...bytes]) =>
    bytes.forEach((value, k) => {
      others[k] += value;
    })
  );
  const bands = rows
    .slice(0, BANDS)
    .map(([index, ...bytes]) => ({index, bytes, title: model.pathOf(index, 3)}));
  if (others.some((bytes) => bytes > 0))
    bands.push({index: -1, bytes: others, title: "all others"});
  const sums = samples.map((_, k) =>
    bands.reduce((sum, band) => sum + Math.max(0, band.bytes[k]), 0)
  );
  let chosenSample = last,
    chosenBand = -1,
    place = () => 0,
    lines = [];

  const titleOf = (k) => {
    const [name, seconds] = samples[k];
    const word = k === last ? "now" : name ? `mark ${name}` : "mark";
    const age = seconds < 10 ? seconds.toFixed(1) + " s" : ageText(Math.round(seconds));
    return `${word}, ${age} after the start`;
  };
  const textOf = (k, b) =>
    `${titleOf(k)}: ${bytesText(sums[k])} requested`
    + (bands[b] ? `\n${bytesText(bands[b].bytes[k])} by ${bands[b].title}` : "");
  // Neighbouring bands differ in hue by the golden angle, so that they look different.
  const colourOf = (band, b) =>
    band.index < 0
      ? style("--line")
      : !model.isMatch(band.index)
        ? fadedColour()
        : `hsl(${(30 + b * 137.5) % 360}, ${dark() ? "38%, 29%" : "62%, 78%"})`;

  // Writes a band's name at the place where the band is thickest.
  const label = (pen, band, low, high, width) => {
    let best = 0;
    low.forEach((_, k) => {
      if (low[k] - high[k] > low[best] - high[best]) best = k;
    });
    if (low[best] - high[best] < 18) return;
    const text = fitText(pen, band.title, width / 3),
      middle = place(best) - pen.measureText(text).width / 2;
    pen.fillStyle = style("--text");
    pen.fillText(
      text,
      Math.max(place(0) + 6, Math.min(width - pen.measureText(text).width - 12, middle)),
      (low[best] + high[best]) / 2
    );
  };
  const draw = () => {
    const height = Math.max(260, Math.min(460, innerHeight - 330)),
      [pen, width] = prepare(canvas, height);
    const left = 70,
      foot = 22,
      first = samples[0][1],
      span = samples[last][1] - first || 1,
      most = Math.max(1, ...sums);
    place = (k) => left + ((width - left - 8) * (samples[k][1] - first)) / span;
    const y = (bytes) => (height - foot) * (1 - bytes / most) + (4 * bytes) / most,
      floor = samples.map(() => 0);
    lines = bands.map((band, b) => {
      const low = floor.map(y);
      band.bytes.forEach((bytes, k) => {
        floor[k] += Math.max(0, bytes);
      });
      const high = floor.map(y);
      pen.fillStyle = colourOf(band, b);
      pen.strokeStyle = style("--back");
      pen.lineWidth = 0.6;
      pen.beginPath();
      high.forEach((at, k) => pen.lineTo(place(k), at));
      for (let k = last; k >= 0; k--) pen.lineTo(place(k), low[k]);
      pen.closePath();
      pen.fill();
      pen.stroke();
      label(pen, band, low, high, width);
      return {low, high};
    });
    if (lines[chosenBand]) {
      pen.strokeStyle = style("--link");
      pen.lineWidth = 2;
      pen.beginPath();
      lines[chosenBand].high.forEach((at, k) => pen.lineTo(place(k), at));
      for (let k = last; k >= 0; k--) pen.lineTo(place(k), lines[chosenBand].low[k]);
      pen.closePath();
      pen.stroke();
    }
    pen.fillStyle = style("--text");
    for (const part of [0, 0.5, 1])
      pen.fillText(
        bytesText(Math.round(most * part)),
        2,
        Math.min(height - foot, y(most * part) + 6)
      );
    let free = 0;
    samples.forEach(([name], k) => {
      const mine = k === chosenSample,
        text = name || "mark";
      pen.fillStyle = style(mine ? "--link" : "--soft");
      pen.fillRect(place(k) - (mine ? 1 : 0.25), 0, mine ? 2 : 0.5, height - foot);
      const from = Math.min(place(k), width - pen.measureText(text).width);
      if (from < free && !mine) return;
      pen.fillText(text, from, height - foot / 2);
      free = from + pen.measureText(text).width + 10;
    });
    canvas.dataset.bands = bands.length;
  };
  const choose = (k, b) => {
    chosenSample = Math.max(0, Math.min(last, k));
    chosenBand = Math.max(-1, Math.min(bands.length - 1, b));
    showDetail(textOf(chosenSample, chosenBand).replace("\n", "  ·  "));
    if (bands[chosenBand] && bands[chosenBand].index > 0) model.chosen = bands[chosenBand].index;
    draw();
  };
  const pointed = (event) => {
    const at = canvas.getBoundingClientRect(),
      x = event.clientX - at.left,
      y = event.clientY - at.top;
    let best = 0;
    sums.forEach((_, k) => {
      if (Math.abs(place(k) - x) < Math.abs(place(best) - x)) best = k;
    });
    return [best, lines.findIndex((line) => y >= line.high[best] && y < line.low[best])];
  };
  canvas.addEventListener("mousemove", (event) => showTip(event, textOf(...pointed(event))));
  canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
  canvas.addEventListener("click", (event) => choose(...pointed(event)));
  canvas.addEventListener("keydown", (event) => {
    const {key} = event;
    if (key === "ArrowLeft" || key === "ArrowRight")
      choose(chosenSample + (key === "ArrowRight" ? 1 : -1), chosenBand);
    else if (key === "ArrowUp" || key === "ArrowDown")
      choose(chosenSample, chosenBand + (key === "ArrowUp" ? 1 : -1));
    else if (key === "Enter") page.compareSince(chosenSample);
    else return;
    event.preventDefault();
  });
  return {draw};
};
