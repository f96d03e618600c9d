"use strict";

// Tabs, and links to definitions. Without scripts the page shows all its sections, one below the other.
(() => {
  const list = document.querySelector("[role=tablist]");
  const tabs = [...list.children];

  function show(chosen) {
    for (const tab of tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !on;
    }
  }

  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target && target.closest("section");
    show(section ? document.getElementById(`tab-${section.id}`) : tabs[0]);
    if (target && target !== section) target.scrollIntoView();
  }

  list.hidden = false;
  list.addEventListener("click", (event) => {
    if (tabs.includes(event.target)) show(event.target);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const tab = tabs[(next + tabs.length) % tabs.length];
    tab.focus();
    show(tab);
  });
  addEventListener("hashchange", follow);
  follow();
})();

// The tree viewer. Texts of models reach the page by textContent alone.
(() => {
  const { answers } = JSON.parse(document.getElementById("data").textContent);
  if (!answers.length) return;
  const [question, first, second, slider, play] = ["question", "first", "second", "step", "play"].map((id) =>
    document.getElementById(id));
  const opened = new Map();
  let shown = [];
  let asked = 0;
  let timer = null;

  function make(parent, name, text = "", className = "") {
    const node = parent.appendChild(document.createElement(name));
    node.textContent = text;
    node.className = className;
    return node;
  }

  // A part of the page that scrolls, and is reached by the keyboard.
  function region(parent, name, className, label) {
    const node = make(parent, name, "", className);
    node.tabIndex = 0;
    node.setAttribute("role", "region");
    node.setAttribute("aria-label", label);
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
    return trees.texts[token] || `⟨${token}⟩`;
  }

  // The class of a token by how it came. depth: in the draft tree.
  function wayOf(depth) {
    return depth < 3 ? `d${depth}` : depth < 5 ? "d3" : "d4";
  }

  // The whole answer as spans; returns them with their steps.
  function writeAnswer(pane, trees) {
    const box = region(pane, "p", "answer", "The answer, each token by how it came");
    const spans = [];
    const add = (token, step, way, about) => {
      const span = make(box, "span", textOf(trees, token).replaceAll("\n", "⏎\n"), way);
      span.title = about;
      if (step >= 0) span.addEventListener("click", () => go(stepAt(shown[0].trees, trees.steps[step].at) + 1));
      spans.push({ span, step });
    };
    if (trees.steps.length) add(trees.steps[0].tokens[0], -1, "prefill", "decided by prefill");
    trees.steps.forEach((step, number) => {
      step.path.slice(1).forEach((node, depth) =>
        add(step.tokens[node], number, wayOf(depth + 1), `step ${number + 1}: drafted and accepted at depth ${depth + 1}`));
      add(step.bonus, number, "bonus", `step ${number + 1}: bonus token`);
    });
    return spans;
  }

  // Lists in lists: the children of a node stand right of it, the bonus token first.
  function drawTree(pane, trees, step) {
    const path = new Set(step.path);
    const add = (list, kind, token, about) => {
      const item = make(list, "li", "", kind);
      const full = textOf(trees, token).replaceAll("\n", "⏎");
      const box = make(item, "span", "", "token");
      make(box, "b", full.replaceAll(" ", "·"));
      make(box, "small", about);
      box.addEventListener("pointerover", () => (pane.node.textContent = `“${full}” ${about}`)); // a tap is one too
      return make(item, "ul");
    };
    pane.tree.replaceChildren();
    pane.node.textContent = "Point at a node, or tap it, to read it in full here.";
    const lists = [];
    step.tokens.forEach((token, node) => {
      const facts = node ? [step.probabilities?.[node].toFixed(3), step.parts?.[node]] : ["root"];
      const list = lists[step.parents[node]] || make(pane.tree, "ul");
      lists.push(add(list, path.has(node) ? "accepted" : "refused", token, facts.filter(Boolean).join(" ")));
      if (node === step.path.at(-1)) add(lists[node], "bonus", step.bonus, "bonus");
    });
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
    now.span.parentNode.scrollTop = now.span.offsetTop - now.span.parentNode.offsetTop - 80;
    drawTree(pane, trees, step);
  }

  // The step that covers a place in the answer, from 0.
  function stepAt(trees, at) {
    return trees.steps.findLastIndex((step) => step.at <= at);
  }

  // The first method at a step, from 1; the second at its step that covers the same place in the answer.
  function go(number) {
    slider.value = number;
    const steps = shown[0].trees.steps;
    if (!steps.length) return;
    slider.setAttribute("aria-valuetext", `step ${slider.value} of ${steps.length}`);
    for (const pane of shown) {
      const covering = stepAt(pane.trees, steps[Number(slider.value) - 1].at);
      if (covering >= 0) showStep(pane, covering);
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
    return { trees, spans, status, node, tree: region(box, "div", "tree", "Draft tree, to scroll") };
  }

  async function refresh() {
    const mine = ++asked;
    const chosen = [first, second].map((select) =>
      answers.find((one) => one.question === question.value && one.run === select.value));
    const [one, other] = await Promise.all(chosen.map((answer) => answer && open(answer)));
    if (mine !== asked) return; // another choice was made meanwhile
    shown = [fill("pane-first", first, one), fill("pane-second", second, other)].filter(Boolean);
    slider.max = Math.max(1, shown[0].trees.steps.length);
    go(slider.value);
  }

  function choose(select, values, chosen) {
    select.replaceChildren();
    for (const value of values) make(select, "option", value || "no other method").value = value;
    select.value = values.includes(chosen) ? chosen : values[0];
  }

  // The methods that answered the question; those chosen before, where they did.
  function offer() {
    const runs = answers.filter((one) => one.question === question.value).map((one) => one.run);
    choose(first, runs, first.value);
    const other = runs.find((run) => run !== first.value);
    choose(second, ["", ...runs], second.options.length ? second.value : other);
    stop();
    return refresh();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) go(1);
    play.textContent = "Pause";
    timer = setInterval(() => (slider.value === slider.max ? stop() : go(Number(slider.value) + 1)), 700);
  });
  slider.addEventListener("input", () => go(slider.value));
  document.getElementById("whole").addEventListener("change", (event) =>
    document.querySelector(".panes").classList.toggle("whole", event.target.checked));
  question.addEventListener("change", offer);
  for (const select of [first, second]) select.addEventListener("change", refresh);
  choose(question, [...new Set(answers.map((one) => one.question))]);
  offer();
})();
