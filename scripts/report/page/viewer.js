// The tree viewer. Texts of models reach the page by textContent alone.
"use strict";
(() => {
  const { answers } = JSON.parse(document.getElementById("data").textContent).trees;
  if (!answers.length) return;
  const [question, first, second, slider, play] = ["question", "first", "second", "step", "play"].map((id) =>
    document.getElementById(id));
  const SVG = "http://www.w3.org/2000/svg";
  const LETTERS = 16, ABOUT = 24, WIDE = 7.3, HIGH = 34, GAP = 26;
  const opened = new Map();
  let shown = [];
  let asked = 0;
  let timer = null;

  function make(parent, name, text = "", className = "") {
    const node = parent.appendChild(document.createElement(name));
    node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function draw(parent, name, attributes, text) {
    const node = parent.appendChild(document.createElementNS(SVG, name));
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // An answer's trees, unpacked once; each step gets the place of its first token in the answer.
  async function open(answer) {
    if (!opened.has(answer)) {
      const bytes = Uint8Array.from(atob(answer.packed), (one) => one.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      const trees = await new Response(stream).json();
      let at = 1;
      for (const step of trees.steps) {
        step.at = at;
        at += step.path.length;
      }
      opened.set(answer, trees);
    }
    return opened.get(answer);
  }

  function textOf(trees, token) {
    const text = trees.texts[token];
    return text === undefined || text === "" ? `⟨${token}⟩` : text;
  }

  // The class of a token by how it came. depth: in the draft tree.
  function wayOf(depth) {
    return depth < 3 ? `d${depth}` : depth < 5 ? "d3" : "d4";
  }

  // The whole answer as spans; returns them with their steps.
  function writeAnswer(pane, trees) {
    const box = make(pane, "p", "", "answer");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The answer, each token by how it came");
    const spans = [];
    const add = (token, step, way, about) => {
      const span = make(box, "span", textOf(trees, token).replaceAll("\n", "⏎\n"), way);
      span.title = about;
      spans.push({ span, step });
    };
    if (trees.steps.length) add(trees.steps[0].tokens[0], -1, "prefill", "decided by prefill");
    trees.steps.forEach((step, number) => {
      step.path.slice(1).forEach((node, depth) =>
        add(step.tokens[node], number, wayOf(depth + 1), `step ${number + 1}: drafted and accepted at depth ${depth + 1}`));
      add(step.bonus, number, "bonus", `step ${number + 1}: bonus token`);
    });
    box.addEventListener("click", (event) => {
      const hit = spans.find(({ span }) => span === event.target);
      if (hit && hit.step >= 0) go(shown[0].trees.steps.findLastIndex((one) => one.at <= trees.steps[hit.step].at) + 1);
    });
    return spans;
  }

  // Depth, row and children of every node: a leaf takes a row of its own, a parent stands beside its first child.
  function layOut(step) {
    const children = step.tokens.map(() => []);
    step.parents.forEach((parent, node) => parent >= 0 && children[parent].push(node));
    const depth = [], row = [];
    let rows = 0;
    const last = step.path.at(-1);
    const place = (node, level) => {
      depth[node] = level;
      row[node] = rows;
      if (node === last) rows += 1; // the bonus token stands beside it
      children[node].forEach((child) => place(child, level + 1));
      if (!children[node].length && node !== last) rows += 1;
    };
    place(0, 0);
    return { depth, row, rows };
  }

  function drawTree(pane, trees, step) {
    const { depth, row, rows } = layOut(step);
    const path = new Set(step.path);
    const short = (text, most) => [...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text;
    const label = (token) => short(textOf(trees, token).replaceAll("\n", "⏎").replaceAll(" ", "·"), LETTERS);
    const about = (node) => [
      step.probabilities && node ? step.probabilities[node].toFixed(3) : "",
      step.parts ? step.parts[node] : "",
      node ? "" : "root",
    ].filter(Boolean).join(" ");
    const last = step.path.at(-1);
    const nodes = step.tokens.map((token, node) => ({
      text: label(token), about: about(node), column: depth[node], row: row[node], parent: step.parents[node],
      full: textOf(trees, token), kind: `${path.has(node) ? "accepted" : "refused"}${node ? "" : " root"}`,
    }));
    nodes.push({
      text: label(step.bonus), about: "bonus", column: depth[last] + 1, row: row[last], parent: last,
      full: textOf(trees, step.bonus), kind: "bonus",
    });
    const columns = [];
    for (const node of nodes) {
      const letters = Math.max([...node.text].length * 1.25, Math.min(node.about.length, ABOUT), 4);
      columns[node.column] = Math.max(columns[node.column] || 0, letters * WIDE + 12);
    }
    const left = [4];
    columns.forEach((width, column) => left.push(left[column] + width + GAP));
    const svg = document.createElementNS(SVG, "svg");
    const size = { width: left.at(-1), height: Math.max(rows, 1) * (HIGH + 6) + 6 };
    for (const [key, value] of Object.entries(size)) svg.setAttribute(key, value);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Draft tree: ${step.tokens.length - 1} nodes; accepted: ` +
      `${step.path.slice(1).map((node) => textOf(trees, step.tokens[node])).join("")}; bonus token: ${textOf(trees, step.bonus)}`);
    const top = (node) => 4 + node.row * (HIGH + 6);
    for (const node of nodes.filter((one) => one.parent >= 0)) {
      const parent = nodes[node.parent];
      const [x0, y0] = [left[parent.column] + columns[parent.column], top(parent) + HIGH / 2];
      const [x1, y1] = [left[node.column], top(node) + HIGH / 2];
      const way = `M${x0} ${y0}C${x0 + GAP / 2} ${y0} ${x1 - GAP / 2} ${y1} ${x1} ${y1}`;
      draw(svg, "path", { d: way, class: node.kind });
    }
    for (const node of nodes) {
      const group = draw(svg, "g", { class: node.kind });
      draw(group, "title", {}, `${node.full}\n${node.about}`);
      const whole = `“${node.full.replaceAll("\n", "⏎")}” ${node.about}`;
      group.addEventListener("pointerover", () => (pane.node.textContent = whole)); // a tap is one too
      draw(group, "rect", { x: left[node.column], y: top(node), width: columns[node.column], height: HIGH, rx: 5 });
      draw(group, "text", { x: left[node.column] + 6, y: top(node) + 14 }, node.text);
      draw(group, "text", { x: left[node.column] + 6, y: top(node) + 28, class: "about" }, short(node.about, ABOUT));
    }
    pane.node.textContent = "Point at a node, or tap it, to read it in full here.";
    pane.tree.replaceChildren(svg);
  }

  function showStep(pane, number) {
    const { trees } = pane;
    const step = trees.steps[number];
    const drafted = step.tokens.length - 1, accepted = step.path.length - 1;
    pane.status.textContent = `Step ${number + 1} of ${trees.steps.length}: ${drafted} drafted, ${accepted} accepted, ` +
      `and the bonus token.${trees.steps_left_out ? ` ${trees.steps_left_out} later steps were not kept.` : ""}`;
    for (const { span, step: own } of pane.spans) {
      span.classList.toggle("later", own > number);
      span.classList.toggle("now", own === number);
    }
    const now = pane.spans.find(({ step: own }) => own === number);
    if (now) now.span.parentNode.scrollTop = now.span.offsetTop - now.span.parentNode.offsetTop - 80;
    drawTree(pane, trees, step);
  }

  // The first method at a step, from 1; the second at its step that covers the same place in the answer.
  function go(number) {
    slider.value = number;
    const steps = shown[0].trees.steps;
    if (!steps.length) return;
    const at = steps[Number(slider.value) - 1].at;
    slider.setAttribute("aria-valuetext", `step ${slider.value} of ${steps.length}`);
    for (const pane of shown) {
      const covering = pane.trees.steps.findLastIndex((step) => step.at <= at);
      if (covering >= 0) showStep(pane, pane === shown[0] ? Number(slider.value) - 1 : covering);
    }
  }

  function fill(id, select, trees) {
    const box = document.getElementById(id);
    box.replaceChildren();
    if (!trees) return null;
    make(box, "h3", select.value);
    const prompt = make(box, "details");
    make(prompt, "summary", "The end of the prompt");
    make(prompt, "p", trees.prompt, "answer");
    const spans = writeAnswer(box, trees);
    const status = make(box, "p", trees.steps.length ? "" : "No step was needed.", "status");
    if (select === first) status.setAttribute("aria-live", "polite");
    const node = make(box, "p", "", "node");
    const tree = make(box, "div", "", "tree");
    tree.tabIndex = 0;
    tree.setAttribute("role", "region");
    tree.setAttribute("aria-label", "Draft tree, to scroll");
    return { trees, spans, status, node, tree };
  }

  async function refresh() {
    const mine = ++asked;
    const chosen = [first, second].map((select) =>
      answers.find((one) => one.question === question.value && one.run === select.value));
    const [one, other] = await Promise.all(chosen.map((answer) => answer && open(answer)));
    if (mine !== asked) return; // another choice was made meanwhile
    shown = [fill("pane-first", first, one), fill("pane-second", second, other)].filter(Boolean);
    slider.max = Math.max(1, shown[0].trees.steps.length);
    go(Math.min(Number(slider.value), Number(slider.max)));
  }

  function choose(select, values, chosen) {
    select.replaceChildren();
    for (const value of values) {
      const option = make(select, "option", value || "no other method");
      option.value = value;
    }
    select.value = values.includes(chosen) ? chosen : values[0];
  }

  // The methods that answered the question; those chosen before, where they did.
  function offer() {
    const runs = answers.filter((one) => one.question === question.value).map((one) => one.run);
    choose(first, runs, first.value);
    const other = runs.find((run) => run !== first.value);
    choose(second, ["", ...runs], second.options.length ? second.value : other || "");
    stop();
    return refresh();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) go(1);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => (slider.value === slider.max ? stop() : go(Number(slider.value) + 1)), 700);
  });
  slider.addEventListener("input", () => go(Number(slider.value)));
  document.getElementById("whole").addEventListener("change", (event) =>
    document.querySelector(".panes").classList.toggle("whole", event.target.checked));
  question.addEventListener("change", offer);
  for (const select of [first, second]) select.addEventListener("change", refresh);
  choose(question, [...new Set(answers.map((one) => one.question))]);
  offer();
})();
