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

  // ------------------------------------------------------------------------------------------------ the robot
  const DIVERGING = [[122, 62, 157], [214, 214, 214], [214, 110, 0]];
  const SEQUENTIAL = [[68, 58, 131], [33, 145, 140], [253, 231, 37]];
  const PLAIN = "rgb(150,158,168)";
  const scene = { div: null, links: [], places: {} };

  function between(scale, share) {
    const place = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
    const low = Math.min(Math.floor(place), scale.length - 2);
    const mix = scale[low].map((each, axis) => Math.round(each + (place - low) * (scale[low + 1][axis] - each)));
    return `rgb(${mix.join(",")})`;
  }

  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  const ticked = (name) => document.querySelector(`input[name="${name}"]`).checked;

  function linkColour(link) {
    const by = chosen("colouring");
    if (by === "plain") return PLAIN;
    if (by === "determined") return between(SEQUENTIAL, link.determined / 100);
    if (link.change === null) return PLAIN;
    return between(DIVERGING, 0.5 + 0.5 * link.change / numbers.scene.most_change);
  }

  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const signed = (value, digits) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);

  function hover(link) {
    const change = link.change === null ? "" : ` (${signed(link.change, 1)} %)`;
    return `<b>${escaped(link.name).replaceAll("%", "&#37;")}</b><br>${link.mass[0].toFixed(3)} → ${link.mass[1].toFixed(3)} kg${change}` +
      (link.interval === null ? "" : `<br>± ${link.interval.toFixed(3)} kg (95 %)`) + `<br>data: ${link.determined.toFixed(0)} %<extra></extra>`;
  }

  function ball(rings = 8, spokes = 14) {
    const points = [[0, 0, 1]], triangles = [];
    for (let ring = 1; ring < rings; ring++)
      for (let spoke = 0; spoke < spokes; spoke++) {
        const up = Math.PI * ring / rings, round = 2 * Math.PI * spoke / spokes;
        points.push([Math.sin(up) * Math.cos(round), Math.sin(up) * Math.sin(round), Math.cos(up)]);
      }
    points.push([0, 0, -1]);
    const at = (ring, spoke) => 1 + (ring - 1) * spokes + (spoke % spokes), last = points.length - 1;
    for (let spoke = 0; spoke < spokes; spoke++) {
      triangles.push([0, at(1, spoke), at(1, spoke + 1)], [last, at(rings - 1, spoke + 1), at(rings - 1, spoke)]);
      for (let ring = 1; ring < rings - 1; ring++) {
        triangles.push([at(ring, spoke), at(ring + 1, spoke), at(ring + 1, spoke + 1)]);
        triangles.push([at(ring, spoke), at(ring + 1, spoke + 1), at(ring, spoke + 1)]);
      }
    }
    return { points, triangles };
  }

  function ellipsoids(links, moment) {
    const unit = ball(), xyz = [[], [], []], ijk = [[], [], []];
    for (const link of links) {
      const com = link.com[moment], axes = link.ellipsoid[moment];
      if (axes[0][0] === null || com[0] === null) continue;
      const start = xyz[0].length;
      for (const point of unit.points)
        for (let axis = 0; axis < 3; axis++)
          xyz[axis].push(com[axis] + axes[axis][0] * point[0] + axes[axis][1] * point[1] + axes[axis][2] * point[2]);
      for (const triangle of unit.triangles) triangle.forEach((corner, place) => ijk[place].push(start + corner));
    }
    return { xyz, ijk };
  }

  function wires(links, moment) {
    const xyz = [[], [], []];
    for (const link of links) {
      const com = link.com[moment], axes = link.ellipsoid[moment];
      if (axes[0][0] === null || com[0] === null) continue;
      for (const [one, other] of [[0, 1], [1, 2], [2, 0]]) {
        for (let step = 0; step <= 32; step++) {
          const round = 2 * Math.PI * step / 32;
          for (let axis = 0; axis < 3; axis++)
            xyz[axis].push(com[axis] + Math.cos(round) * axes[axis][one] + Math.sin(round) * axes[axis][other]);
        }
        xyz.forEach((each) => each.push(null));
      }
    }
    return xyz;
  }

  function sceneTraces() {
    const links = scene.links, traces = [];
    const add = (name, trace) => { (scene.places[name] ||= []).push(traces.length); traces.push(trace); };
    scene.places = {};
    for (const link of links) {
      if (!link.vertices.length) continue;
      const axis = (place) => Float32Array.from(link.vertices, (each) => each[place]);
      const corner = (place) => Uint32Array.from(link.triangles, (each) => each[place]);
      add("surfaces", {
        type: "mesh3d", x: axis(0), y: axis(1), z: axis(2), i: corner(0), j: corner(1), k: corner(2),
        color: linkColour(link), opacity: surfaceOpacity(), hovertemplate: hover(link), flatshading: false, meta: { link: link.name },
        lighting: { ambient: 0.55, diffuse: 0.75, specular: 0.08, roughness: 0.8 }, lightposition: { x: 4000, y: 6000, z: 9000 },
      });
    }
    const bones = numbers.scene.joints;
    const sticks = [[], [], []];
    for (const bone of bones) for (let axis = 0; axis < 3; axis++) sticks[axis].push(bone[axis], bone[3 + axis], null);
    add("sticks", { type: "scatter3d", mode: "lines", x: sticks[0], y: sticks[1], z: sticks[2], hoverinfo: "skip", line: { color: colour("soft"), width: 3 } });
    ["before", "after"].forEach((name, moment) => {
      const there = links.filter((link) => link.com[moment][0] !== null);
      const filled = moment === 1;
      add(`com-${name}`, {
        type: "scatter3d", mode: "markers", x: there.map((link) => link.com[moment][0]), y: there.map((link) => link.com[moment][1]), z: there.map((link) => link.com[moment][2]),
        marker: { symbol: filled ? "circle" : "circle-open", size: filled ? 4 : 6, color: colour(filled ? "estimate" : "reference"), line: { width: 2, color: colour(filled ? "estimate" : "reference") } },
        text: there.map((link) => escaped(link.name)), hovertemplate: `centre of mass of %{text}, ${filled ? "identified" : "model file"}<extra></extra>`,
      });
    });
    const wire = wires(links, 0), solid = ellipsoids(links, 1);
    add("ellipsoids-before", { type: "scatter3d", mode: "lines", x: wire[0], y: wire[1], z: wire[2], hoverinfo: "skip", line: { color: colour("reference"), width: 2 } });
    add("ellipsoids-after", { type: "mesh3d", x: solid.xyz[0], y: solid.xyz[1], z: solid.xyz[2], i: solid.ijk[0], j: solid.ijk[1], k: solid.ijk[2], color: colour("estimate"), opacity: 0.35, hoverinfo: "skip" });
    const named = links.filter((link) => link.com[1][0] !== null);
    add("labels", { type: "scatter3d", mode: "text", x: named.map((link) => link.com[1][0]), y: named.map((link) => link.com[1][1]), z: named.map((link) => link.com[1][2]), text: named.map((link) => escaped(link.name)), textfont: { size: 10, color: colour("ink") }, hoverinfo: "skip" });
    const shown = visibility();
    for (const [name, places] of Object.entries(scene.places)) for (const place of places) traces[place].visible = shown[name];
    return traces.map((trace) => ({ ...trace, showlegend: false }));
  }

  function visibility() {
    const moment = chosen("moment"), before = moment !== "after", after = moment !== "before";
    const bodies = ticked("surfaces");
    return {
      surfaces: bodies, sticks: !bodies || (scene.places.surfaces || []).length < scene.links.length, labels: ticked("labels"),
      "com-before": ticked("com") && before, "com-after": ticked("com") && after,
      "ellipsoids-before": ticked("ellipsoids") && before, "ellipsoids-after": ticked("ellipsoids") && after,
    };
  }

  const VIEWS = { oblique: [1.0, 0.68, 0.25], front: [1.25, 0, 0.1], side: [0, 1.25, 0.1], back: [-1.25, 0, 0.1] };
  const usualView = (name) => VIEWS[name].map((each) => each * scene.distance);
  const cameraAt = (eye) => ({ eye: { x: eye[0], y: eye[1], z: eye[2] }, up: { x: 0, y: 0, z: 1 }, center: { x: 0, y: 0, z: 0 } });

  function sceneLayout() {
    // The same box whatever is shown, so that a ball stays a ball.
    const unit = ball().points;
    const boxes = [0, 1, 2].map((place) => {
      let least = Infinity, most = -Infinity;
      const see = (value) => { if (Number.isFinite(value)) { least = Math.min(least, value); most = Math.max(most, value); } };
      for (const link of scene.links) {
        for (const vertex of link.vertices) see(vertex[place]);
        link.com.forEach((com, moment) => {
          if (com[place] === null) return;
          see(com[place]);
          const axes = link.ellipsoid[moment];
          if (axes[0][0] !== null) for (const point of unit) see(com[place] + axes[place][0] * point[0] + axes[place][1] * point[1] + axes[place][2] * point[2]);
        });
      }
      for (const bone of numbers.scene.joints) { see(bone[place]); see(bone[3 + place]); }
      return [least - 0.01, most + 0.01];
    });
    const axis = (place) => ({ visible: false, showspikes: false, autorange: false, range: boxes[place] });
    const spans = boxes.map(([least, most]) => most - least);
    const longest = Math.max(...spans);
    // A sturdy robot fills more of the view than a slender one of the same height.
    scene.distance = 1.02 * Math.max(1, Math.hypot(...spans) / longest / 1.1);
    return {
      paper_bgcolor: "rgba(0,0,0,0)", margin: { l: 0, r: 0, t: 0, b: 0 }, autosize: true, uirevision: "robot",
      font: { color: colour("ink") }, hoverlabel: { align: "left" },
      scene: { aspectmode: "manual", aspectratio: { x: spans[0] / longest, y: spans[1] / longest, z: spans[2] / longest }, xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), camera: cameraAt(usualView("oblique")), dragmode: "orbit" },
    };
  }

  async function drawScene(div) {
    // The wheel scrolls the page; the buttons go nearer.
    div.addEventListener("wheel", (event) => event.stopImmediatePropagation(), { capture: true, passive: true });
    scene.div = div;
    scene.links = numbers.scene.links;
    await Plotly.newPlot(div, sceneTraces(), sceneLayout(), { ...CONFIG, modeBarButtonsToRemove: ["toImage", "resetCameraLastSave3d", "tableRotation"], scrollZoom: false });
    showScale();
    await takePicture();
  }

  // What is inside a link shows through it.
  const surfaceOpacity = () => (ticked("ellipsoids") || ticked("com") ? 0.25 : 1);

  function restyleScene() {
    if (!scene.div || !scene.div.dataset.drawn) return Promise.resolve();
    const shown = visibility();
    const all = Object.entries(scene.places).flatMap(([name, places]) => places.map((place) => [place, shown[name]]));
    all.sort((one, other) => one[0] - other[0]);
    const update = Plotly.restyle(scene.div, { visible: all.map((each) => each[1]) }, all.map((each) => each[0]));
    const places = scene.places.surfaces || [];
    const links = scene.links.filter((link) => link.vertices.length);
    if (places.length) Plotly.restyle(scene.div, { color: links.map(linkColour), opacity: surfaceOpacity() }, places);
    showScale();
    return Promise.resolve(update).then(snapshot);
  }

  function showScale() {
    const by = chosen("colouring"), box = document.getElementById("scale");
    box.hidden = by === "plain";
    const most = numbers.scene.most_change;
    const [low, high, scale, words] = by === "determined"
      ? ["0 %", "100 %", SEQUENTIAL, "How much the recordings, rather than the model file, decided mass and centre of mass."]
      : [`−${most} % or less`, `+${most} % or more`, DIVERGING, "Change of mass against the model file."];
    box.querySelector(".low").textContent = low;
    box.querySelector(".high").textContent = high;
    box.querySelector(".bar").style.background = `linear-gradient(90deg, ${scale.map((each) => `rgb(${each.join(",")})`).join(", ")})`;
    document.getElementById("scale-words").textContent = by === "plain" ? "" : words;
  }

  // Paper shows no WebGL: a picture of the view is kept for it.
  let pending = 0;
  async function takePicture() {
    const image = document.getElementById("robot-print");
    image.src = await Plotly.toImage(scene.div, { format: "png", width: 900, height: 700, scale: 1 });
    image.dataset.ready = "true";
  }

  function snapshot() {
    clearTimeout(pending);
    pending = setTimeout(() => takePicture().catch(fail), 150);
  }

  function turn(view) {
    const at = scene.div.layout.scene.camera ? scene.div._fullLayout.scene._scene.getCamera().eye : null;
    let eye = VIEWS[view] && usualView(view);
    if (!eye) {
      eye = [at.x, at.y, at.z];
      const angle = { left: -Math.PI / 8, right: Math.PI / 8 }[view];
      if (angle) eye = [at.x * Math.cos(angle) - at.y * Math.sin(angle), at.x * Math.sin(angle) + at.y * Math.cos(angle), at.z];
      else eye = eye.map((each) => each * (view === "nearer" ? 0.85 : 1.18));
    }
    Plotly.relayout(scene.div, { "scene.camera": cameraAt(eye) }).then(snapshot);
  }

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
    box.textContent = `The plots could not be drawn (${error.message}); the tables are complete. A newer browser may help.`;
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
