"use strict";
// Draws what the tables cannot: learning curves and policy maps. No library, no request; the data is in the page.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const DASHES = ["", "7 4", "8 3 2 3", "2 3"];

  const set = (node, attributes) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const add = (parent, node, ...children) => (node.append(...children), parent.append(node), node);
  const html = (name, attributes = {}) => set(document.createElement(name), attributes);
  const svg = (name, attributes = {}) => set(document.createElementNS("http://www.w3.org/2000/svg", name), attributes);

  const show = (value) => {
    if (value === null || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    const text = size >= 1e6 ? `${+(value / 1e6).toPrecision(3)} M`
      : size >= 1000 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(4)}`;
    return text.replace("-", "−");
  };

  // ---------------------------------------------------------------- theme
  const theme = document.getElementById("theme");
  const setTheme = (name) => {
    document.documentElement.dataset.theme = name;
    theme.textContent = name === "dark" ? "Light" : "Dark";
    theme.setAttribute("aria-pressed", String(name === "dark"));
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  setTheme(system.matches ? "dark" : "light");
  system.addEventListener("change", () => chosen || setTheme(system.matches ? "dark" : "light"));
  theme.addEventListener("click", () => {
    chosen = true;
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });

  // ---------------------------------------------------------------- statistics over seeds
  const T975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
    2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];

  // Centred moving mean of what is there, `window` points wide.
  const smoothed = (values, window) => {
    if (window <= 1) return values;
    const before = Math.floor((window - 1) / 2), after = window - 1 - before;
    const sums = [0], counts = [0];
    values.forEach((value, i) => {
      sums.push(sums[i] + (value ?? 0));
      counts.push(counts[i] + (value === null ? 0 : 1));
    });
    return values.map((_, i) => {
      const low = Math.max(0, i - before), high = Math.min(values.length, i + after + 1);
      const count = counts[high] - counts[low];
      return count ? (sums[high] - sums[low]) / count : null;
    });
  };

  // Mean, lowest and highest of the band at every point; each seed is smoothed first.
  const summary = (series, window, band) => {
    const seeds = series.values.map((values) => smoothed(values, window));
    const points = data.x.values.map((_, i) => {
      const found = seeds.map((seed) => seed[i]).filter((value) => value !== null);
      const n = found.length;
      if (!n) return null;
      const mean = found.reduce((a, b) => a + b, 0) / n;
      const spread = n > 1 ? Math.sqrt(found.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1)) : 0;
      const half = band === "std" ? spread : band === "mean" ? (T975[n - 2] ?? 1.96) * spread / Math.sqrt(n) : 0;
      return { mean, low: mean - (n > 1 ? half : 0), high: mean + (n > 1 ? half : 0) };
    });
    return { seeds, points };
  };

  const ticks = (low, high, count) => {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step / 1e6 ? 0 : value);
    return found;
  };

  // ---------------------------------------------------------------- learning curves
  const HEIGHT = 300, LEFT = 56, RIGHT = 12, TOP = 12, BOTTOM = 42, MANY = 12;

  function drawGroup(home, group) {
    const state = { hidden: new Set(), window: Math.max(1, Math.round(data.x.values.length / 40)), band: "mean", cursor: null };
    const card = add(home, html("div", { class: "card curves" }));
    if (group.label) add(card, html("h3")).textContent = group.label;
    const tools = add(card, html("div", { class: "tools" }));
    const schemes = add(tools, html("div", { class: "schemes", role: "group", "aria-label": "Schemes" }));
    const labels = new Map();
    group.charts.forEach((chart) => chart.series.forEach((series) => labels.set(series.label, series.colour)));
    const charts = [];
    const redraw = () => charts.forEach((chart) => chart.draw());
    const buttons = new Map();
    const turn = (label, on) => {
      on ? state.hidden.delete(label) : state.hidden.add(label);
      buttons.get(label).setAttribute("aria-pressed", String(on));
    };
    for (const [label, colour] of labels) {
      const button = add(schemes, html("button", { type: "button", class: "scheme", "aria-pressed": "true" }), stroke(colour), label);
      buttons.set(label, button);
      button.addEventListener("click", () => { turn(label, state.hidden.has(label)); redraw(); });
    }
    if (labels.size > MANY) for (const [text, on] of [["All", true], ["None", false]])
      add(schemes, html("button", { type: "button", class: "every" }), text)
        .addEventListener("click", () => { for (const label of labels.keys()) turn(label, on); redraw(); });
    [...labels.keys()].slice(MANY).forEach((label) => turn(label, false));
    const smooth = add(tools, html("label"), "Smoothing");
    const slider = add(smooth, html("input", { type: "range", min: 1, max: Math.max(2, Math.floor(data.x.values.length / 5)), value: state.window, class: "smoothing" }));
    const told = add(smooth, html("output"));
    const bin = data.x.values.length > 1 ? data.x.values[1] - data.x.values[0] : 1;
    const tell = () => { told.textContent = state.window > 1 ? `${show(state.window * bin)} ${data.x.label.toLowerCase()}s`.replace(/ss$/, "s") : "off"; };
    slider.addEventListener("input", () => { state.window = Number(slider.value); tell(); redraw(); });
    tell();
    const bands = add(add(tools, html("label"), "Band"), html("select", { class: "band" }));
    for (const [value, text] of [["mean", "95% interval of the mean"], ["std", "standard deviation over seeds"], ["seeds", "every seed"]])
      add(bands, html("option", { value })).textContent = text;
    bands.addEventListener("change", () => { state.band = bands.value; redraw(); });
    const row = add(card, html("div", { class: "charts" }));
    for (const chart of group.charts) charts.push(drawChart(row, chart, state, redraw));
    redraw();
  }

  const stroke = (colour) => {
    const picture = svg("svg", { viewBox: "0 0 22 6", "aria-hidden": "true" });
    add(picture, svg("line", { x1: 0, x2: 22, y1: 3, y2: 3, "stroke-width": 3, style: `stroke: var(--c${colour % 8})`, "stroke-dasharray": DASHES[Math.floor(colour / 8) % 4] }));
    return picture;
  };

  function drawChart(home, chart, state, redraw) {
    const figure = add(home, html("figure", { class: "chart", "data-metric": chart.metric }));
    const caption = add(figure, html("figcaption"));
    add(caption, html("strong")).textContent = chart.label;
    if (chart.better) caption.append(` ${chart.better} is better`);
    const picture = add(figure, svg("svg", { role: "img", tabindex: 0,
      "aria-label": `${chart.label} by ${data.x.label}. Arrow keys move a cursor; the values are read below.` }));
    const values = add(figure, html("div", { class: "values", role: "status", "aria-live": "polite" }));
    const xs = data.x.values, x0 = Math.min(0, xs[0]), x1 = xs[xs.length - 1];
    let width = 560, made = [];
    const px = (x) => LEFT + (width - LEFT - RIGHT) * (x - x0) / (x1 - x0 || 1);

    const path = (points, y) => {
      let text = "", pen = "M";
      points.forEach((point, i) => {
        if (point === null) { pen = "M"; return; }
        text += `${pen}${px(xs[i]).toFixed(1)} ${y(point).toFixed(1)}${pen === "M" ? "h0" : ""}`;
        pen = "L";
      });
      return text;
    };

    const area = (points, y) => {
      const there = points.map((point, i) => (point ? i : -1)).filter((i) => i >= 0);
      const edge = (list, end) => list.map((i) => `${px(xs[i]).toFixed(1)} ${y(points[i][end]).toFixed(1)}`).join("L");
      return there.length ? `M${edge(there, "high")}L${edge([...there].reverse(), "low")}Z` : "";
    };

    const draw = () => {
      width = Math.max(260, figure.clientWidth || width);
      picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      made = chart.series.filter((series) => !state.hidden.has(series.label))
        .map((series) => ({ series, ...summary(series, state.window, state.band) }));
      const all = made.flatMap(({ seeds, points }) => state.band === "seeds" ? seeds.flat().filter((v) => v !== null)
        : points.filter(Boolean).flatMap((p) => [p.low, p.high]));
      let low = all.reduce((a, b) => Math.min(a, b), Infinity), high = all.reduce((a, b) => Math.max(a, b), -Infinity);
      if (!all.length) [low, high] = [0, 1];
      if (low === high) [low, high] = [low - 1, high + 1];
      const pad = (high - low) * 0.04;
      const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (high + pad - value) / (high - low + 2 * pad);
      picture.replaceChildren();
      for (const value of ticks(low, high, 5)) {
        add(picture, svg("line", { class: "tick", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
        add(picture, svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" })).textContent = show(value);
      }
      add(picture, svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
      for (const value of ticks(x0, x1, 5))
        add(picture, svg("text", { x: px(value), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" })).textContent = show(value);
      add(picture, svg("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" })).textContent = data.x.label;
      for (const { series, seeds, points } of made) {
        const style = `--c: var(--c${series.colour % 8})`, dash = DASHES[Math.floor(series.colour / 8) % 4];
        if (state.band === "seeds") for (const seed of seeds)
          add(picture, svg("path", { class: "seed", d: path(seed, y), fill: "none", stroke: "var(--c)", "stroke-width": 0.8, opacity: 0.5, style }));
        else add(picture, svg("path", { class: "band", d: area(points, y), fill: "var(--c)", opacity: 0.16, style }));
        add(picture, svg("path", { class: "mean", "data-label": series.label, d: path(points.map((p) => p && p.mean), y),
          fill: "none", stroke: "var(--c)", "stroke-width": 2, "stroke-dasharray": dash, "stroke-linejoin": "round", "stroke-linecap": "round", style }));
      }
      drawCursor(y);
    };

    const drawCursor = (y) => {
      values.replaceChildren();
      if (state.cursor === null) {
        values.textContent = "Point at the curves, or focus them and use the arrow keys, to read values.";
        return;
      }
      const i = state.cursor;
      add(picture, svg("line", { class: "cursor", x1: px(xs[i]), x2: px(xs[i]), y1: TOP, y2: HEIGHT - BOTTOM }));
      add(values, html("span"), `${data.x.label} ${show(xs[i])}`);
      for (const { series, points } of made) {
        const point = points[i];
        if (point) add(picture, svg("circle", { cx: px(xs[i]), cy: y(point.mean), r: 4, style: `fill: var(--c${series.colour % 8})` }));
        const item = add(values, html("span"));
        add(item, html("i", { class: "swatch", style: `--c: var(--c${series.colour % 8})` }));
        item.append(`${series.label} `);
        add(item, html("b")).textContent = point ? show(point.mean) : "–";
        if (point && state.band !== "seeds" && series.values.length > 1) item.append(` (${show(point.low)} to ${show(point.high)})`);
      }
    };

    const move = (index) => {
      state.cursor = index === null ? null : Math.min(xs.length - 1, Math.max(0, index));
      redraw();
    };
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const x = x0 + ((event.clientX - box.left) / box.width * width - LEFT) / (width - LEFT - RIGHT) * (x1 - x0);
      let best = 0;
      xs.forEach((value, i) => { if (Math.abs(value - x) < Math.abs(xs[best] - x)) best = i; });
      if (best !== state.cursor) move(best);
    });
    picture.addEventListener("pointerleave", () => document.activeElement === picture || move(null));
    picture.addEventListener("keydown", (event) => {
      const far = Math.max(1, Math.round(xs.length / 20)), from = state.cursor ?? -1;
      const to = { ArrowRight: from + 1, ArrowLeft: from - 1, PageUp: from + far, PageDown: from - far, Home: 0, End: xs.length - 1, Escape: null }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      move(to);
    });
    new ResizeObserver(() => { if (Math.abs(figure.clientWidth - width) > 1 && figure.clientWidth >= 260) draw(); }).observe(figure);
    return { draw };
  }

  // ---------------------------------------------------------------- policy maps
  const STOPS = [[0, 34, 78], [58, 76, 107], [112, 113, 115], [167, 156, 118], [228, 205, 112], [255, 234, 70]];
  const ARROWS = { up: [0, -1], right: [1, 0], down: [0, 1], left: [-1, 0] };
  const SIZE = 34;

  const colour = (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1), index = Math.min(Math.floor(place), STOPS.length - 2);
    return STOPS[index].map((a, k) => Math.round(a + (place - index) * (STOPS[index + 1][k] - a)));
  };

  function drawMap(home, map) {
    const grid = data.grid, cliff = new Set(grid.cliff);
    const card = add(home, html("figure", { class: "card map" }));
    const caption = add(card, html("figcaption"));
    add(caption, html("strong")).textContent = map.label;
    const told = add(caption, html("span"));
    const frame = add(card, html("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `Policy of ${map.label}` }));
    const picture = add(frame, svg("svg", { viewBox: `0 0 ${grid.width * SIZE} ${grid.height * SIZE}`, role: "img", "aria-label": `Greedy policy of ${map.label}` }));
    if (grid.width > 20) picture.style.minWidth = `${grid.width * 20}px`;
    const tools = add(card, html("div", { class: "tools" }));
    const play = add(tools, html("button", { type: "button", class: "play", "aria-pressed": "false" }));
    const seeds = add(add(tools, html("label"), "Seed"), html("select", { class: "seed" }));
    map.runs.forEach((run, i) => { add(seeds, html("option", { value: i })).textContent = run.seed; });
    const legend = add(tools, html("span", { class: "legend" }));
    const centre = (cell) => [(cell % grid.width + 0.5) * SIZE, (Math.floor(cell / grid.width) + 0.5) * SIZE];
    let timer = null, step = 0, agent = null, run = map.runs[0];

    const stand = () => { const [x, y] = centre(run.path[step]); set(agent, { cx: x, cy: y }); };
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; play.setAttribute("aria-pressed", "false"); };
    const start = () => {
      if (step >= run.path.length - 1) step = 0;
      play.textContent = "Pause";
      play.setAttribute("aria-pressed", "true");
      stand();
      timer = setInterval(() => { if (step < run.path.length - 1) { step += 1; stand(); } else stop(); }, still ? 700 : 220);
    };
    play.addEventListener("click", () => (timer === null ? start() : stop()));
    seeds.addEventListener("change", () => { stop(); run = map.runs[Number(seeds.value)]; draw(); });

    const drawCell = (cell, low, high) => {
      const x = cell % grid.width * SIZE, y = Math.floor(cell / grid.width) * SIZE, value = run.values[cell];
      const box = (attributes) => add(picture, svg("rect", { x: x + 1, y: y + 1, width: SIZE - 2, height: SIZE - 2, rx: 3, ...attributes }));
      const write = (text) => { add(picture, svg("text", { x: x + SIZE / 2, y: y + SIZE / 2 })).textContent = text; };
      if (cliff.has(cell)) return void box({ class: "cliff" });
      if (cell === grid.goal) { box({ class: "goal" }); return void write("G"); }
      if (value === null) { box({ class: "void" }); return void write("?"); }
      const rgb = colour(high > low ? (value - low) / (high - low) : 0.5);
      const ink = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140 ? "#000" : "#fff";
      add(box({ fill: `rgb(${rgb})` }), svg("title")).textContent = `value ${show(value)}`;
      grid.actions.forEach((action, bit) => {
        if (!(run.moves[cell] >> bit & 1)) return;
        const [dx, dy] = ARROWS[action], cx = x + SIZE / 2, cy = y + SIZE / 2, tip = [cx + 9 * dx, cy + 9 * dy];
        const wing = (side) => `${cx + 4 * dx + 5 * side * dy} ${cy + 4 * dy + 5 * side * dx}`;
        add(picture, svg("path", { d: `M${cx - 9 * dx} ${cy - 9 * dy}L${tip.join(" ")}M${wing(1)}L${tip.join(" ")}L${wing(-1)}`, stroke: ink, "stroke-width": 2, fill: "none" }));
      });
    };

    const draw = () => {
      const known = run.values.filter((value, cell) => value !== null && !cliff.has(cell) && cell !== grid.goal);
      const low = Math.min(...known), high = Math.max(...known);
      picture.replaceChildren();
      for (let cell = 0; cell < grid.width * grid.height; cell += 1) drawCell(cell, low, high);
      const end = run.path[run.path.length - 1], steps = run.path.length - 1;
      add(picture, svg("path", { class: "path", d: `M${run.path.map((cell) => centre(cell).join(" ")).join("L")}` }));
      agent = add(picture, svg("circle", { class: "agent", r: 8 }));
      step = 0;
      stand();
      const ending = end === grid.goal ? `reaches the goal in ${steps} steps${grid.shortest === steps ? ", the shortest way" : ""}`
        : cliff.has(end) ? `falls off the cliff after ${steps} steps` : `never ends: it goes in circles`;
      told.textContent = ` greedy path ${ending}`;
      legend.replaceChildren(show(low), html("i"), show(high));
    };
    stop();
    draw();
  }

  // ---------------------------------------------------------------- replays
  for (const figure of document.querySelectorAll(".replay")) {
    const image = figure.querySelector("img"), button = figure.querySelector("button"), first = image.src;
    button.addEventListener("click", () => {
      const playing = button.getAttribute("aria-pressed") === "true";
      image.src = playing ? first : image.dataset.gif;
      button.textContent = playing ? "Play" : "Stop";
      button.setAttribute("aria-pressed", String(!playing));
    });
  }

  // ---------------------------------------------------------------- paper
  const closed = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) { details.open = true; closed.push(details); }
  });
  addEventListener("afterprint", () => { for (const details of closed.splice(0)) details.open = false; });

  const charts = document.getElementById("charts"), maps = document.getElementById("maps");
  if (charts) data.groups.forEach((group) => drawGroup(charts, group));
  if (maps) {
    const room = (home) => add(home, html("div", { class: data.grid.width > 20 ? "" : "grid" }));
    const first = room(maps), rest = data.maps.slice(MANY);
    data.maps.slice(0, MANY).forEach((map) => drawMap(first, map));
    if (rest.length) {
      const more = add(maps, html("details"));
      add(more, html("summary", { class: "button" }), `${rest.length} more`);
      more.addEventListener("toggle", () => { const home = room(more); rest.forEach((map) => drawMap(home, map)); }, { once: true });
    }
  }
})();
