/* SPDX-License-Identifier: MIT */
/* The view "Overview": where the resident set goes, and the findings. Is filled once. */
"use strict";
const makeOverview = (data, page) => {
  const drawLedger = () => {
    $("ledger").replaceChildren(
      ...[["resident set, as the kernel counts it", data.rss_bytes], ...data.ledger].map(
        ([name, bytes]) => {
          const fill = element("div", {className: "fill"});
          fill.style.width =
            Math.min(100, Math.max(0, (100 * bytes) / (data.rss_bytes || 1))) + "%";
          return element(
            "tr",
            {},
            element("td", {textContent: bytesText(bytes)}),
            element("td", {textContent: percent(bytes, data.rss_bytes)}),
            element("td", {textContent: name}),
            element("td", {}, fill)
          );
        }
      )
    );
  };
  const drawFindings = () => {
    $("findings").replaceChildren(
      ...data.findings.map((one) => {
        const box = element(
          "div",
          {className: `finding ${one.severity}`},
          element("h3", {
            textContent:
              `${one.severity}: ${one.title}` + (one.bytes > 0 ? ", " + bytesText(one.bytes) : "")
          })
        );
        if (one.path) box.append(element("p", {className: "path", textContent: one.path}));
        for (const part of one.parts)
          box.append(element("p", {className: "path part", textContent: part}));
        if (one.part_count > one.parts.length)
          box.append(
            element("p", {
              className: "path part",
              textContent: `and ${one.part_count - one.parts.length} more`
            })
          );
        box.append(element("p", {textContent: one.evidence}));
        for (const [label, text] of [
          ["Since: ", one.since],
          ["Out: ", one.out],
          ["Why: ", one.why],
          ["Fix: ", one.fix],
          ["Sure: ", one.sure]
        ])
          if (text) box.append(element("p", {className: "soft", textContent: label + text}));
        if (one.now)
          box.append(
            element("p", {}, "Now: ", element("code", {textContent: one.now}), ` ${one.effect}`)
          );
        else if (one.effect)
          box.append(element("p", {className: "soft", textContent: "Now: " + one.effect}));
        if (one.action)
          box.append(element("p", {}, "Next: ", element("code", {textContent: one.action})));
        if (one.context > 0) {
          const button = element("button", {type: "button", textContent: "Show it in the graph"});
          button.addEventListener("click", () => page.show(one.context));
          box.append(button);
        }
        return box;
      })
    );
    if (!data.findings.some((one) => one.severity !== "info")) {
      $("findings").append(
        element("p", {
          textContent: data.findings.length
            ? "None of these findings is a problem by itself."
            : "No memory problem was found."
        })
      );
    }
  };
  drawLedger();
  drawFindings();
};
