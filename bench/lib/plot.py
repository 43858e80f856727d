# SPDX-License-Identifier: MIT
"""A plot of ratios to glibc, as SVG: one line per row, one mark per peer, logarithmic."""

import html
import math

COLOURS = {"jemalloc": "#c2703d", "mimalloc": "#5b8c3a", "tcmalloc": "#8a63b8", "memctx": "#0b57d0",
           "memctx-depth0": "#7fb2ff", "heaptrack": "#c5221f", "mimalloc3": "#a3c585",
           "snmalloc": "#c9a227", "rpmalloc": "#7d6b5d"}
LEFT, WIDTH, ROW, TOP, GAP = 330, 520, 20, 62, 46
LOW, HIGH = 0.25, 32.0


def place(ratio):
    """The x coordinate of a ratio. A ratio outside the scale is drawn at the scale's end."""
    inside = min(max(ratio, LOW), HIGH)
    return LEFT + WIDTH * math.log(inside / LOW) / math.log(HIGH / LOW)


def text(x, y, words, anchor="start", weight="normal", fill="#202124"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{fill}">{html.escape(words)}</text>')


def mark(peer, ratio, y):
    """A dot, larger for memctx, with an arrow if the ratio is outside the scale."""
    colour, radius = COLOURS.get(peer, "#5f6368"), 5.5 if peer == "memctx" else 3.8
    title = f"<title>{html.escape(peer)}: {ratio:.2f}</title>"
    x = place(ratio)
    out = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" stroke="#ffffff" '
           f'stroke-width="0.8">{title}</circle>']
    if ratio > HIGH:
        out.append(text(x + 8, y + 4, f"{ratio:.0f}", fill=colour))
    return "".join(out)


def panel(title, rows, top):
    """Returns the SVG lines of one panel and its lower end. `rows`: (label, {peer: ratio}, peers
    that failed)."""
    bottom = top + ROW * len(rows)
    out = [text(LEFT, top - 24, title, weight="bold")]
    value = LOW
    while value <= HIGH:
        x = place(value)
        stroke = "#202124" if value == 1 else "#dadce0"
        out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{stroke}"/>')
        out.append(text(x, top - 6, f"{value:g}", "middle", fill="#5f6368"))
        value *= 2
    for index, (label, ratios, failed) in enumerate(rows):
        y = top + ROW * index + ROW / 2
        if index % 2 == 0:
            out.insert(0, f'<rect x="0" y="{y - ROW / 2}" width="{LEFT + WIDTH + 40}" '
                          f'height="{ROW}" fill="#f6f8fa"/>')
        out.append(text(LEFT - 12, y + 4, label, "end"))
        for peer in sorted(ratios, key=lambda name: name == "memctx"):
            out.append(mark(peer, ratios[peer], y))
        if failed:
            out.append(text(LEFT + WIDTH + 36, y + 4, "error: " + ", ".join(failed), "end",
                            fill="#c5221f"))
    return out, bottom


def render(panels, peers):
    """The whole picture. `panels`: (title, rows)."""
    body = []
    x = 12.0
    for peer in peers:
        body.append(f'<circle cx="{x + 6}" cy="18" r="5" fill="{COLOURS.get(peer, "#5f6368")}"/>')
        body.append(text(x + 16, 22, peer, weight="bold" if peer == "memctx" else "normal"))
        x += 36 + 8 * len(peer)
    top = TOP + 22
    for title, rows in panels:
        lines, bottom = panel(title, rows, top)
        body += lines
        top = bottom + GAP + 16
    height, width = top - GAP, LEFT + WIDTH + 40
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(body)
            + "\n</svg>\n")
