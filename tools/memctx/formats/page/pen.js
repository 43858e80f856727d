/* SPDX-License-Identifier: MIT */
/* Drawing: canvases, colours, the text at the pointer and the text in the last line. */
"use strict";
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
const showDetail = (text) => {
  $("detail").textContent = text;
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

// Returns the box of a drawing at which the pointer is.
const boxAt = (boxes, event) => {
  const at = event.target.getBoundingClientRect(),
    x = event.clientX - at.left,
    y = event.clientY - at.top;
  return boxes.find(
    (box) =>
      x >= box.x
      && x < box.x + Math.max(1, box.width)
      && y >= box.y
      && y < box.y + box.height
  );
};

const fadedColour = () => (dark() ? "#2a2f37" : "#e7e9ee");
// From orange through the background's grey to blue: colours that people with red-green blindness
// can tell apart, and on which text has a contrast of 4.5 (WCAG AA).
const ramp = (part) => {
  const far = Math.abs(part - 0.5) * 2;
  const light = dark() ? 32 + 4 * far : 84 - 29 * far;
  return `hsl(${part < 0.5 ? 24 : 212}, ${20 + 65 * far}%, ${light}%)`;
};
