"use strict";
// Draws a report from the numbers inside the page. Nothing is fetched, and names are only ever set as text.
(() => {
  const root = document.documentElement;
  const drawn = new Set();
  let numbers = null;

  // ------------------------------------------------------------------------------------------------ unpacking
  async function decompress(id) {
    const text = document.getElementById(id).textContent.trim();
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function unpack(value) {
    if (Array.isArray(value)) return value.map(unpack);
    if (value === null || typeof value !== "object") return value;
    if (!("packed" in value)) return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, unpack(each)]));
    const bytes = Uint8Array.from(atob(value.bytes), (each) => each.charCodeAt(0)).buffer;
    const raw = value.packed === "u4" ? new Uint32Array(bytes) : new Uint16Array(bytes);
    let flat = raw;
    if (value.packed === "q") {
      flat = new Float64Array(raw.length);
      for (let place = 0; place < raw.length; place++) {
        const exact = raw[place] === 65535 ? NaN : value.low + value.step * raw[place];
        flat[place] = value.power_of_ten ? 10 ** exact : exact;
      }
    }
    if (value.shape.length === 1) return flat;
    const size = value.shape[1] * (value.shape[2] || 1);
    const rows = [];
    for (let row = 0; row < value.shape[0]; row++) rows.push(flat.subarray(row * size, (row + 1) * size));
    return rows;
  }

  // ------------------------------------------------------------------------------------------------ themes
  const printing = { on: false };
  const dark = () => !printing.on && root.dataset.theme === "dark";
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const SOLES = ["estimate", "reference", "truth", "measured"];

  function roleStyle(role) {
    if (role.startsWith("sole-")) {
      const shade = colour(SOLES[Number(role.slice(5))]);
      return { line: { color: shade, width: 1.6, dash: ["solid", "dot", "dash", "dashdot"][Number(role.slice(5))] }, marker: { color: shade } };
    }
    const lines = {
      measured: { width: 4, dash: "solid" }, reference: { width: 1.4, dash: "dot" },
      estimate: { width: 1.6, dash: "solid" }, truth: { width: 1.2, dash: "dash" },
    };
    return { line: { color: colour(role), ...lines[role] }, marker: { color: colour(role) } };
  }

  function styled(figure) {
    const data = figure.data.map((trace) => {
      const role = trace.meta && trace.meta.role;
      const made = { ...trace };
      if (role === "correlation") {
        made.colorscale = [[0, "#b35806"], [0.5, dark() ? "#22272d" : "#f7f7f7"], [1, "#2166ac"]];
        made.colorbar = { title: { text: "" }, thickness: 12, outlinewidth: 0 };
      } else if (role) {
        const style = roleStyle(role);
        if (trace.type === "scatter" && trace.mode === "lines") made.line = style.line;
        made.marker = { ...style.marker, ...trace.marker };
      }
      return made;
    });
    const layout = structuredClone(figure.layout);
    if (narrow() && layout.grid && layout.grid.columns === 2) {
      layout.grid = { ...layout.grid, rows: 2 * layout.grid.rows, columns: 1, ygap: 0.4 };
      layout.margin = { ...layout.margin, t: 84 };
    }
    Object.assign(layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { namelength: -1 }, dragmode: layout.dragmode || "zoom",
    });
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        layout[key] = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), ...layout[key] };
        if (layout[key].matches === null) delete layout[key].matches;
      }
    }
    return { data, layout };
  }

  const narrow = () => !printing.on && innerWidth < 640;
  const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "toImage"], showTips: false };

  // ------------------------------------------------------------------------------------------------ figures
  const unpacked = new Map();
  function figureOf(key) {
    if (!unpacked.has(key)) unpacked.set(key, unpack(numbers.figures[key]));
    return unpacked.get(key);
  }

  async function draw(div) {
    if (drawn.has(div) || div.closest("[hidden]")) return;
    drawn.add(div);
    if (div.dataset.scene) await drawScene(div);
    else {
      const { data, layout } = styled(figureOf(div.dataset.figure));
      if (narrow() && layout.grid && layout.grid.columns === 1 && layout.grid.rows > 2) div.style.height = `${1.8 * parseFloat(div.style.height)}px`;
      await Plotly.newPlot(div, data, layout, CONFIG);
    }
    div.dataset.drawn = "true";
  }

  function redraw() {
    for (const div of drawn) {
      if (div.dataset.scene) restyleScene();
      else {
        const { data, layout } = styled(figureOf(div.dataset.figure));
        Plotly.react(div, data, layout, CONFIG);
      }
    }
  }

  // robot.js

  // ------------------------------------------------------------------------------------------------ tables and tabs
  function sortBy(button) {
    const heading = button.closest("th"), table = heading.closest("table"), body = table.tBodies[0];
    const place = [...heading.parentNode.children].indexOf(heading);
    const numeric = !heading.classList.contains("text");
    const order = heading.getAttribute("aria-sort") === (numeric ? "descending" : "ascending") ? (numeric ? "ascending" : "descending") : (numeric ? "descending" : "ascending");
    heading.parentNode.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.children[place];
      return numeric ? (cell.dataset.value === "" ? NaN : Number(cell.dataset.value)) : cell.textContent.trim();
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([one], [other]) => {
      if (!numeric) return sign * one.localeCompare(other);
      if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
      return sign * (one - other);
    });
    body.append(...rows.map(([, row]) => row));
  }

  function choose(tab) {
    const list = tab.closest("[role=tablist]");
    for (const each of list.querySelectorAll("[role=tab]")) {
      const selected = each === tab;
      each.setAttribute("aria-selected", String(selected));
      each.tabIndex = selected ? 0 : -1;
      const panel = document.getElementById(each.getAttribute("aria-controls"));
      panel.hidden = !selected;
      if (selected && numbers) panel.querySelectorAll(".plot").forEach(draw);
    }
  }

  document.querySelectorAll(".sort").forEach((button) => button.addEventListener("click", () => sortBy(button)));
  document.querySelectorAll("[role=tab]").forEach((tab) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const all = [...tab.parentNode.querySelectorAll("[role=tab]")];
      const next = all[(all.indexOf(tab) + step + all.length) % all.length];
      next.focus();
      choose(next);
    });
  });

  // ------------------------------------------------------------------------------------------------ theme, print, start
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    redraw();
  });
  const copy = document.getElementById("copy");
  if (copy) copy.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById("command"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
    copy.textContent = "Copied";
  });

  let before = null;
  window.addEventListener("beforeprint", () => {
    if (!numbers) return;
    before = root.dataset.theme;
    printing.on = true;
    root.dataset.theme = "light";
    for (const panel of document.querySelectorAll("[role=tabpanel][hidden]")) { panel.hidden = false; panel.dataset.unfolded = "true"; }
    for (const div of document.querySelectorAll(".plot[data-figure]")) {
      const { data, layout } = styled(figureOf(div.dataset.figure));
      drawn.add(div);
      div.dataset.drawn = "true";
      Plotly.react(div, data, { ...layout, width: 680, height: parseFloat(div.style.height), autosize: false }, CONFIG);
    }
  });
  window.addEventListener("afterprint", () => {
    if (before === null) return;
    printing.on = false;
    for (const panel of document.querySelectorAll("[data-unfolded]")) { panel.hidden = true; delete panel.dataset.unfolded; }
    root.dataset.theme = before;
    before = null;
    redraw();
  });

  function fail(error) {
    const box = document.getElementById("trouble");
    box.textContent = `The plots could not be drawn (${error.message}); the tables are complete. Try a newer browser.`;
    box.hidden = false;
    console.error(error);
  }

  async function start() {
    const [library, text] = await Promise.all([decompress("library"), decompress("numbers")]);
    const script = document.createElement("script");
    script.textContent = library;
    document.head.append(script);
    numbers = JSON.parse(text);
    numbers.scene = unpack(numbers.scene);
    for (const name of ["colouring", "moment", "surfaces", "com", "ellipsoids", "labels"])
      document.querySelectorAll(`input[name="${name}"]`).forEach((each) => each.addEventListener("change", () => restyleScene().catch(fail)));
    document.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => turn(button.dataset.view)));
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target).catch(fail); }
    }, { rootMargin: "600px" });
    document.querySelectorAll(".plot").forEach((div) => watcher.observe(div));
    // The robot is drawn at once: paper needs its picture before anybody has scrolled there.
    await draw(document.getElementById("robot-view"));
    root.dataset.ready = "true";
  }
  start().catch(fail);
})();
