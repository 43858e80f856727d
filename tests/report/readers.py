# SPDX-License-Identifier: MIT
"""The pages for readers with weak eyes or without a mouse: contrast, zoom and focus."""
from browser import until
from harness import check, check_equal, test
from live import EVERY, a_later_moment, click, growing, ready, showing
from serving import Server

LEAST = 4.5  # the contrast of text that WCAG 2.1 asks for at level AA

# Functions for the page: the contrast of two colours; the colour behind an element.
COLOURS = """
const pen = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => rgba(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
};
const behind = (at) => {
    for (; at; at = at.parentElement) {
        const colour = getComputedStyle(at).backgroundColor;
        if (rgba(colour)[3] === 255) return colour;
    }
    return style('--back');
};
"""

# Each visible text whose contrast is too small. Also counts the texts.
TEXTS = "(least) => {" + COLOURS + """
    const all = [...document.querySelectorAll('body *')].filter((at) => at.offsetWidth &&
        (at.tagName === 'INPUT' ||
         [...at.childNodes].some((node) => node.nodeType === 3 && node.data.trim())));
    return [all.length, all.filter((at) => contrast(getComputedStyle(at).color, behind(at)) < least)
        .map((at) => `${at.tagName} ${getComputedStyle(at).color} on ${behind(at)}: ` +
                     at.textContent.slice(0, 20))];
}"""

# The least contrast of the text of a picture with any colour that it may stand on.
PICTURES = "() => {" + COLOURS + """
    const many = [...Array(101).keys()].map((i) => i / 100), names = [...Array(2000).keys()],
        model = makeModel(DATA), text = style('--text');
    const least = (colours) => Math.min(...colours.map((one) => contrast(one, text)));
    return {changes: least(many.map(ramp)), faded: contrast(fadedColour(), text),
            names: least(names.map((name) => model.colourOfName(`name_${name}`)))};
}"""

TABS = "[...document.querySelectorAll('[role=tab]')].map((one) => one.id)"


@test
def text_has_contrast():
    """In each view, light and dark, each text has a contrast of 4.5 with its background, also in
    the row that was chosen, and in the pictures on each colour."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        for scheme in ("light", "dark"):
            with showing(f"{server.address}p/{target.pid}/", scheme) as page:
                ready(page)
                for tab in page.evaluate(TABS):
                    click(page, "#" + tab)
                    if tab == "tab-table":
                        click(page, "#table tbody tr:nth-child(2)")
                        until(page, "document.querySelector('#table tr.chosen')")
                    count, weak = page.evaluate(TEXTS, LEAST)
                    check(count > 20, f"{tab}: {count} texts")
                    check_equal(weak, [], f"{scheme}, {tab}: texts of little contrast")
                data = server.get(f"/p/{target.pid}/data.json").decode()
                found = page.evaluate(PICTURES.replace("DATA", data))
                check(min(found.values()) >= LEAST, f"{scheme}: pictures: {found}")


@test
def all_views_at_a_zoom_of_400_percent():
    """A window of 1280 x 1024 pixels has 320 x 256 at a zoom of 400 %. There, each list and each
    picture is high enough to read, nothing but the last line stays in place, and that line takes at
    most a quarter."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            page.set_viewport_size({"width": 320, "height": 256})
            ready(page)
            for tab in page.evaluate(TABS):
                click(page, "#" + tab)
                until(page, "document.documentElement.scrollWidth <= 320")
                low = page.evaluate("""[...document.querySelectorAll(
                    '#report .scroll, #report .map, #report canvas')].filter((at) =>
                        at.offsetWidth && at.clientHeight < Math.min(190, at.scrollHeight))
                    .map((at) => [at.className || at.id, at.clientHeight, at.scrollHeight])""")
                check_equal(low, [], f"{tab}: too low")
            for width in (320, 640):
                page.set_viewport_size({"width": width, "height": width * 4 // 5})
                check_equal(page.evaluate("getComputedStyle(document.querySelector('header'))"
                                          ".position"), "static", f"the head at {width} pixels")
                part = page.evaluate("document.querySelector('footer').offsetHeight / innerHeight")
                check(part <= 0.25, f"the last line takes {part} of the window")


def focused(page):
    """Text of the element that has the focus."""
    return page.evaluate("document.activeElement.textContent.split('\\n')[0].replace(/ [▲▼]/, '')")


@test
def keys_keep_their_place():
    """The element that the keyboard has reached keeps the focus when new figures come, when the
    reader takes another figure, and when a list is chosen from; Enter on a row leads to the
    graph."""
    with growing() as target, Server(target.runtime, target.pid, *EVERY) as server:
        with showing(f"{server.address}p/{target.pid}/") as page:
            ready(page)
            click(page, "#tab-table")
            page.focus("#table thead th:nth-child(4) button")
            title = focused(page)
            target.ask("grow 4")
            a_later_moment(page)
            check_equal(focused(page), title, "the head of a column after new figures")
            page.keyboard.press("m")
            check_equal(focused(page), title, "the head of a column after the key m")
            page.keyboard.press("Enter")
            check_equal(page.get_attribute("#table thead th:nth-child(4)", "aria-sort"),
                        "descending", "sorted by the key Enter")

            page.focus("#metric")
            for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
                page.keyboard.press(key)
            check_equal((page.evaluate("document.activeElement.id"), page.input_value("#metric")),
                        ("metric", "allocs"), "a choice by keys")
            target.ask("grow 4")
            a_later_moment(page)
            check_equal(page.evaluate("document.activeElement.id"), "metric",
                        "the choice after new figures")

            page.focus("#table tbody tr:nth-child(2)")
            index = page.evaluate("document.activeElement.dataset.index")
            page.keyboard.press("m")
            check_equal(page.evaluate("document.activeElement.dataset.index"), index,
                        "the row after the key m")
            page.keyboard.press("Enter")
            check_equal(page.evaluate("document.activeElement.id"), "graph", "after Enter on a row")
            if page.locator("#tab-threads").count():
                click(page, "#tab-threads")
                page.focus("#threads tbody tr:nth-child(1)")
                target.ask("grow 4")
                a_later_moment(page)
                check_equal(page.evaluate("document.activeElement.dataset.thread !== undefined"),
                            True, "a thread's row after new figures")
