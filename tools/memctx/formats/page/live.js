/* SPDX-License-Identifier: MIT */
/* The live page of memctx serve: the figures that the server sends, the time axis and the kept
   moments of one process, or the list of all processes. The page sends GET requests only. */
"use strict";
(() => {
  const BANDS = 8, // rows of the table
    SAMPLES = 3600, // greatest number of samples, as many as the server keeps
    ANSWER_MS = 120000, // longest time until an answer comes
    QUIET_MS = 15000; // shortest time without an event after which the page connects again
  const word = location.pathname.match(/\/p\/[^/]+\/?$/);
  const base = new URL(
    word ? location.pathname.replace(/\/?$/, "/") : location.pathname,
    location.origin
  );
  const untouched = $("report").cloneNode(true);
  const wait = (ms) =>
    new Promise((done) => {
      setTimeout(done, ms);
    });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.classList.toggle("dark", scheme.matches);

  // --- asking ---

  // The token comes from the form, or from the part of the address after #, which a browser does
  // not send. The page sends it only in a header.
  const KEY = "memctx-token";
  let token = sessionStorage.getItem(KEY);
  if (location.hash.startsWith("#token=")) {
    token = decodeURIComponent(location.hash.slice(7));
    history.replaceState(null, "", location.pathname + location.search);
  }
  const askToken = () =>
    new Promise((done) => {
      $("login").hidden = false;
      document.querySelector(".live-columns").hidden = $("axis-help").hidden = true;
      tell("a token is needed", "bad");
      $("token").focus();
      $("login").onsubmit = (event) => {
        event.preventDefault();
        token = $("token").value.trim();
        $("token").value = "";
        $("login").hidden = true;
        document.querySelector(".live-columns").hidden = $("axis-help").hidden = !word;
        done();
      };
    });
  let login = null; // promise of the form for the token, which all requests share
  const ask = async (path, more = {}) => {
    for (;;) {
      const sent = token,
        response = await fetch(new URL(path, base), {
          signal: AbortSignal.timeout(ANSWER_MS),
          ...more,
          cache: "no-store",
          headers: sent ? {Authorization: `Bearer ${sent}`} : {}
        });
      if (response.status !== 401) {
        if (sent && response.ok) sessionStorage.setItem(KEY, sent);
        return response;
      }
      sessionStorage.removeItem(KEY);
      if (sent === token) {
        login =
          login
          || askToken().finally(() => {
            login = null;
          });
        await login;
      }
    }
  };
  const reason = async (response) => (await response.text()).trim().replace(/^memctx: /, "");

  // --- words ---

  // Writes a text only if it has changed, because a screen reader reads each written text out.
  const write = (id, text) => {
    if ($(id).textContent !== text) $(id).textContent = text;
  };
  const tell = (text, kind = "") => {
    write("live-state", text);
    $("live-state").className = kind;
  };
  const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
  const signedRate = (value, unit) =>
    value === null ? "?" : (value > 0 ? "+" : "") + unit(value) + "/s";
  const row = (tag, texts) =>
    element(
      "tr",
      {},
      ...texts.map((text) =>
        element(tag, tag === "th" ? {textContent: text, scope: "col"} : {textContent: text})
      )
    );

  // --- the list of processes ---

  const list = async () => {
    document.querySelector(".live-columns").hidden = $("axis-help").hidden = true;
    for (const id of ["live-follow", "live-before"]) $(id).hidden = true;
    document.title = "memctx";
    const response = await ask("processes.json");
    if (!response.ok) {
      tell(await reason(response), "bad");
      return;
    }
    const processes = await response.json();
    tell(`${processes.length} processes are served`, "live");
    const table = $("processes").querySelector("table");
    table.tHead.replaceChildren(row("th", ["program", "process", "pid", "resident"]));
    table.tBodies[0].replaceChildren(
      ...processes.map((one) => {
        const line = row("td", ["", one.process, one.pid, bytesText(one.rss_bytes)]);
        line.cells[0].append(
          element("a", {href: new URL(`p/${one.pid}/`, base), textContent: one.program})
        );
        return line;
      })
    );
    $("processes").hidden = false;
  };
  if (!word) {
    list().catch((error) => tell(String(error), "bad"));
    return;
  }

  // --- what is known ---

  let samples = [],
    moments = [],
    every = 1000,
    ended = false;
  let shown = 0; // id of the moment that is shown; 0: the last one
  let before = 0; // id of the moment with which the shown one is compared; 0: none
  let cursor = 0; // id of the moment at the cursor; 0: the last one
  const last = () => moments[moments.length - 1];
  const momentOf = (id) => (id ? moments.find((one) => one.id === id) : last());
  const nearest = (ms) =>
    moments.reduce(
      (best, one) => (!best || Math.abs(one.ms - ms) < Math.abs(best.ms - ms) ? one : best),
      null
    );

  // --- the report of a moment ---

  const KNOWS_OPEN = CSS.supports("selector(:open)");
  const listIsOpen = () =>
    KNOWS_OPEN
      ? document.querySelector("select:open")
      : document.activeElement?.tagName === "SELECT";
  let report = null,
    drawn = "",
    busy = false;
  const fill = (data, compares) => {
    const kept = report && report.state();
    if (report) report.end();
    const fresh = untouched.cloneNode(true);
    $("report").replaceWith(fresh);
    fresh.hidden = false;
    if (kept && compares) kept.tab = "changes";
    report = makeReport(data, kept);
    document.title = `${$("title").textContent} - memctx`;
    if (!kept && compares) report.open("changes");
  };
  const wanted = () =>
    momentOf(shown)
    && `data.json?moment=${momentOf(shown).id}` + (before ? `&before=${before}` : "");
  // Loads the chosen moment unless the page shows it already. If the user chooses another moment
  // meanwhile, loads that moment next.
  const load = async () => {
    if (busy) return;
    busy = true;
    try {
      // Waits while a list of choices is open, because new figures would close it.
      for (let address; (address = wanted()) && address !== drawn && !document.hidden;) {
        if (
          report
          && listIsOpen()
          && !shown
          && new URL(address, base).searchParams.get("before") === compared
        )
          break;
        const response = await ask(address);
        if (response.status === 404) {
          $("live-shown").textContent = await reason(response);
          break;
        }
        if (!response.ok) {
          $("live-shown").textContent = await reason(response);
          await wait(1000);
          continue;
        }
        const data = await response.json(),
          next = new URL(address, base).searchParams.get("before");
        if (address !== wanted() && shown) continue;
        fill(data, next !== compared && next);
        compared = next;
        drawn = address;
        document.documentElement.dataset.drawn = address;
        draw();
      }
    } catch (error) {
      $("live-shown").textContent = `the figures could not be loaded; ${error.message}`;
    } finally {
      busy = false;
    }
  };
  // id of the moment with which the shown report is compared, from its address; null: none
  let compared = null;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      load();
      draw();
    }
  });
  // A browser that does not know :open cannot tell an open list from a field that has the focus.
  // There, a field loses the focus after a choice, so that new figures come again.
  if (!KNOWS_OPEN)
    document.addEventListener("change", (event) => {
      if (event.target.tagName === "SELECT") event.target.blur();
    });

  // --- the time axis ---

  const canvas = $("axis"),
    LEFT = 74,
    FOOT = 20;
  let place = () => 0;
  const drawLine = (pen, k, y, colour) => {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.6;
    pen.beginPath();
    samples.forEach((sample) => pen.lineTo(place(sample[0]), y(sample[k])));
    pen.stroke();
  };
  const drawMoments = (pen, height) => {
    const marks = [
      [before, "--warning"],
      [shown || last()?.id, "--link"]
    ];
    for (const moment of moments) {
      const mark = marks.find(([id]) => id === moment.id),
        at = place(moment.ms);
      pen.fillStyle = style(mark ? mark[1] : "--soft");
      pen.fillRect(
        at - (mark ? 1 : 0.5),
        mark ? 0 : height - FOOT - 8,
        mark ? 2 : 1,
        mark ? height - FOOT : 8
      );
      if (moment !== momentOf(cursor)) continue;
      pen.beginPath();
      pen.moveTo(at, height - FOOT - 2);
      pen.lineTo(at - 5, height - FOOT + 7);
      pen.lineTo(at + 5, height - FOOT + 7);
      pen.fillStyle = style("--text");
      pen.fill();
    }
  };
  const drawAxis = () => {
    const height = 170,
      [pen, width] = prepare(canvas, height);
    canvas.dataset.samples = samples.length;
    canvas.dataset.moments = moments.length;
    if (!samples.length) return;
    const first = Math.min(samples[0][0], moments[0]?.ms ?? Infinity),
      end = Math.max(samples[samples.length - 1][0], last()?.ms ?? 0);
    const most = samples.reduce((top, sample) => Math.max(top, sample[1], sample[2]), 1),
      span = end - first || 1;
    place = (ms) => LEFT + ((width - LEFT - 10) * (ms - first)) / span;
    const y = (bytes) => (height - FOOT) * (1 - bytes / most) + (6 * bytes) / most;
    pen.fillStyle = style("--bar");
    pen.globalAlpha = 0.45;
    pen.beginPath();
    pen.moveTo(place(samples[0][0]), y(0));
    samples.forEach((sample) => pen.lineTo(place(sample[0]), y(sample[2])));
    pen.lineTo(place(samples[samples.length - 1][0]), y(0));
    pen.fill();
    pen.globalAlpha = 1;
    drawLine(pen, 2, y, style("--bar"));
    drawLine(pen, 1, y, style("--text"));
    drawMoments(pen, height);
    pen.fillStyle = style("--text");
    for (const part of [0, 0.5, 1])
      pen.fillText(
        bytesText(Math.round(most * part)),
        2,
        Math.min(height - FOOT - 4, y(most * part) + 6)
      );
    pen.fillText(clock(first), LEFT, height - 6);
    pen.fillText(clock(end), width - pen.measureText(clock(end)).width - 4, height - 6);
    const legend = "line: resident, area: requested";
    const clocks = pen.measureText(clock(first) + clock(end)).width;
    if (pen.measureText(legend).width + clocks + LEFT + 20 < width)
      pen.fillText(legend, (LEFT + width - pen.measureText(legend).width) / 2, height - 6);
  };
  const momentText = (moment) => {
    const near = samples.reduce(
      (best, one) =>
        !best || Math.abs(one[0] - moment.ms) < Math.abs(best[0] - moment.ms) ? one : best,
      null
    );
    return (
      `moment ${clock(moment.ms)}`
      + (near
        ? `: ${bytesText(near[1])} resident, ${bytesText(near[2])} requested in `
          + `${numberText(near[3])} chunks`
        : "")
    );
  };
  const draw = () => {
    if (document.hidden) return;
    drawAxis();
    const at = momentOf(cursor),
      compare = before && momentOf(before);
    write("axis-text", at ? momentText(at) : "no moment is kept yet");
    $("live-follow").disabled = !shown;
    $("live-before").disabled = !at;
    $("live-before").textContent = before
      ? "End comparing"
      : "Compare since the moment at the cursor";
    $("live-shown").textContent = !momentOf(shown)
      ? "the first moment is being taken"
      : `shown: ${shown ? "moment " + clock(momentOf(shown).ms) : "the last moment"}`
        + (compare ? `, compared with ${clock(compare.ms)}` : "");
    canvas.dataset.cursor = at ? at.id : 0;
    canvas.dataset.shown = shown;
    canvas.dataset.before = before;
  };
  const change = () => {
    draw();
    load();
  };
  const step = (by) => {
    const at = moments.indexOf(momentOf(cursor)) + by,
      next = moments[Math.max(0, Math.min(moments.length - 1, at))];
    if (next) cursor = next.id;
    draw();
  };
  const show = () => {
    const at = momentOf(cursor);
    if (!at) return;
    shown = at === last() && !ended ? 0 : at.id;
    change();
  };
  const compareSince = (id) => {
    before = id === before ? 0 : id;
    change();
  };
  const follow = () => {
    shown = cursor = 0;
    change();
  };
  const pointed = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return moments.reduce(
      (best, one) =>
        !best || Math.abs(place(one.ms) - x) < Math.abs(place(best.ms) - x) ? one : best,
      null
    );
  };
  canvas.addEventListener("keydown", (event) => {
    const {key} = event;
    if (key === "ArrowLeft" || key === "ArrowRight") step(key === "ArrowRight" ? 1 : -1);
    else if (key === "Home" || key === "End") step(key === "End" ? Infinity : -Infinity);
    else if (key === "Enter") show();
    else if (key === " ") {
      if (momentOf(cursor)) compareSince(momentOf(cursor).id);
    } else if (key === "Escape" && before) compareSince(before);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("click", (event) => {
    const moment = pointed(event);
    if (!moment) return;
    cursor = moment.id;
    if (event.shiftKey) compareSince(moment.id);
    else show();
  });
  canvas.addEventListener("mousemove", (event) => {
    const moment = pointed(event);
    showTip(event, moment ? momentText(moment) : "");
  });
  canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
  $("live-follow").addEventListener("click", follow);
  $("live-before").addEventListener("click", () => {
    if (momentOf(cursor)) compareSince(before || momentOf(cursor).id);
  });
  document.addEventListener("keydown", (event) => {
    if (!isPageKey(event)) return;
    if (event.key === "a") {
      canvas.focus();
      canvas.scrollIntoView({block: "nearest"});
    } else if (event.key === "l") follow();
  });
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(draw, 80);
  });
  const redraw = () => setTimeout(draw, 0); // after the colours have changed
  new MutationObserver(redraw).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["class"]
  });
  scheme.addEventListener("change", () => {
    document.documentElement.classList.toggle("dark", scheme.matches);
  });

  // --- events ---

  const takeFigures = (now) => {
    if (samples.length && now.ms <= samples[samples.length - 1][0]) return;
    samples.push([
      now.ms,
      now.rss_bytes,
      now.requested_bytes,
      now.live_chunks,
      now.allocs,
      now.contexts
    ]);
    if (samples.length > SAMPLES) samples.shift();
    tell("live", "live");
    $("live-sums").textContent =
      `${bytesText(now.rss_bytes)} resident, ${bytesText(now.requested_bytes)} requested `
      + `(${signedRate(now.growth_per_s, bytesText)}), ${numberText(now.live_chunks)} chunks, `
      + `${signedRate(now.allocs_per_s, numberText).replace("+", "")} allocations, `
      + `${numberText(now.contexts)} contexts`;
    const growing = new Set(now.grows.map(([id]) => id));
    const rows = [
      ...now.grows.slice(0, 4),
      ...now.top.filter(([id]) => !now.grows.slice(0, 4).some(([other]) => other === id))
    ].slice(0, BANDS);
    $("live-top").tHead.replaceChildren(
      row("th", ["grows or holds most now", "live", "growth", "allocs"])
    );
    $("live-top").tBodies[0].replaceChildren(
      ...rows.map(([id, name, live, growth, allocs]) => {
        const line = row("td", [
          name,
          bytesText(live),
          signedRate(growth, bytesText),
          signedRate(allocs, numberText).replace("+", "")
        ]);
        line.cells[0].title = name;
        line.className = growing.has(id) ? "grows" : "";
        line.dataset.id = id;
        return line;
      })
    );
    draw();
  };
  let pastTimer = 0;
  // Takes a moment from the process's recording. Many such events come at once, so drawing waits
  // for the last.
  const takePast = (sample) => {
    if (samples.some(([ms]) => ms === sample[0])) return;
    samples.push([...sample, null, null]);
    samples.sort((a, b) => a[0] - b[0]);
    if (samples.length > SAMPLES) samples.shift();
    clearTimeout(pastTimer);
    pastTimer = setTimeout(draw, 50);
  };
  const takeMoment = (moment) => {
    moments = moments.filter((one) => one.id !== moment.id);
    moments.push(moment);
    change();
  };
  // The server has dropped a moment: if it was shown, compared or at the cursor, takes the nearest
  // moment in its place.
  const takeGone = ({id}) => {
    const gone = moments.find((one) => one.id === id);
    if (!gone) return;
    moments = moments.filter((one) => one !== gone);
    const next = nearest(gone.ms)?.id || 0;
    [shown, before, cursor] = [shown, before, cursor].map((chosen) =>
      chosen === id ? next : chosen
    );
    change();
  };
  const takeEnd = ({how}) => {
    ended = true;
    tell(how ? `the process has ended: ${how}` : "the process has ended", "bad");
    draw();
  };
  const takeEvent = (text) => {
    const lines = text.split("\n"),
      event = lines.find((line) => line.startsWith("event: "))?.slice(7);
    const data = JSON.parse(lines.find((line) => line.startsWith("data: "))?.slice(6) || "{}");
    if (event === "figures") takeFigures(data);
    else if (event === "moment") takeMoment(data);
    else if (event === "gone") takeGone(data);
    else if (event === "past") takePast(data);
    else if (event === "silent") tell(`no answer: ${data.how}`, "bad");
    else if (event === "ended") takeEnd(data);
  };
  const takeHistory = async () => {
    const response = await ask("history.json");
    if (!response.ok)
      throw Object.assign(new Error(await reason(response)), {
        final: response.status === 404 || response.status === 400
      });
    const told = await response.json();
    // A server that was started again numbers its moments from 1 on.
    const times = new Map(told.moments.map(({id, ms}) => [id, ms]));
    if (!times.size || moments.some(({id, ms}) => times.has(id) && times.get(id) !== ms)) {
      shown = before = cursor = 0;
      drawn = "";
    }
    ({samples, moments} = told);
    every = told.every_ms;
    $("live").dataset.every = every;
    if (before && !momentOf(before)) before = 0;
    if (shown && !momentOf(shown)) shown = 0;
    if (cursor && !momentOf(cursor)) cursor = 0;
    if (told.how && told.ended) takeEnd(JSON.parse(told.how));
    change();
  };
  // The server sends an event after each look. If it is suspended, or the network drops everything,
  // the connection stays open without any.
  const readEvents = async () => {
    const ending = new AbortController(),
      quiet = Math.max(QUIET_MS, 3 * every);
    let timer = 0;
    const expect = (ms) => {
      clearTimeout(timer);
      timer = setTimeout(
        () => ending.abort(new Error(`nothing was heard for ${Math.round(ms / 1000)} s`)),
        ms
      );
    };
    try {
      expect(ANSWER_MS);
      const response = await ask("events", {signal: ending.signal});
      if (!response.ok) throw new Error(await reason(response));
      await takeHistory(); // the figures from before the first event
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        expect(quiet);
        const {value, done} = await reader.read();
        if (done) return;
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        parts.forEach(takeEvent);
      }
    } finally {
      clearTimeout(timer);
    }
  };
  const run = async () => {
    for (let pause = 500; !ended; pause = Math.min(10000, 2 * pause)) {
      try {
        await takeHistory();
        if (ended) return;
        await readEvents();
        pause = 250;
        if (!ended) tell("the connection broke off; trying again", "bad");
      } catch (error) {
        tell(`${error.message}${error.final ? "" : "; trying again"}`, "bad");
        if (error.final) return;
      }
      if (!ended) await wait(pause);
    }
  };
  run();
})();
