/* SPDX-License-Identifier: MIT */
/* Words and numbers as the pages write them, and shorthands for the browser's functions. */
"use strict";
const $ = (id) => document.getElementById(id);

// True if a key is meant for the page, not for the browser or for a field that takes text.
const isPageKey = (event) =>
  !(event.ctrlKey || event.metaKey || event.altKey) &&
  !/^(INPUT|SELECT)$/.test(event.target.tagName);

// --- words and numbers ---

const bytesText = (value) => {
  if (value === null || value === undefined) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(value),
    unit = 0;
  while (size >= (unit ? 1023.95 : 1024) && unit < 4) {
    size /= 1024;
    unit++;
  }
  return (value < 0 ? "-" : "") + (unit ? size.toFixed(1) : String(size)) + " " + units[unit];
};
const numberText = (value) =>
  value === null || value === undefined ? "?" : value.toLocaleString("en");
const percent = (part, whole) =>
  whole > 0 ? ((100 * part) / whole).toFixed(part / whole < 0.1 ? 2 : 1) + " %" : "";
const ageText = (seconds) =>
  seconds < 120
    ? seconds + " s"
    : seconds < 7200
      ? Math.round(seconds / 60) + " min"
      : seconds < 172800
        ? (seconds / 3600).toFixed(1) + " h"
        : (seconds / 86400).toFixed(1) + " d";
const element = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
// Replaces the rows of a part of a table. The row with the keyboard's focus passes the focus on to
// the row that takes its place.
const replaceRows = (part, rows) => {
  const old = document.activeElement?.closest?.("tr"),
    place = [...part.rows].indexOf(old),
    key = document.activeElement?.dataset.sort,
    index = old?.dataset.index;
  part.replaceChildren(...rows);
  if (place < 0) return;
  const next = rows.find((row) => index && row.dataset.index === index) || rows[place];
  const at = key ? next?.querySelector(`[data-sort="${key}"]`) : next;
  at?.focus({preventScroll: true});
};
