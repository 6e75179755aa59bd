  // A part of page.js, put in its place when a page is made: it shares what is unpacked, themes and errors with it.
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
    scene.distance = 1.12 * Math.max(1, Math.hypot(...spans) / longest / 1.1);
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
      ? ["0 %", "100 %", SEQUENTIAL, "Share of mass and centre of mass determined by the recordings rather than the model file."]
      : [`−${most} % or less`, `+${most} % or more`, DIVERGING, "Change of mass relative to the model file."];
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

