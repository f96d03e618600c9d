// Tabs, links to definitions, and tables as CSV. Without scripts the page shows all its parts, one below the other.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const list = document.querySelector("[role=tablist]");
  const tabs = [...list.children];
  const panel = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

  function show(chosen) {
    for (const tab of tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      panel(tab).hidden = !on;
    }
    document.dispatchEvent(new CustomEvent("tab", { detail: panel(chosen).id }));
  }

  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target && target.closest("section");
    show(section ? document.getElementById(`tab-${section.id}`) : tabs[0]);
    if (target && target !== section) target.scrollIntoView();
  }

  list.hidden = false;
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) show(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const tab = tabs[(next + tabs.length) % tabs.length];
    tab.focus();
    show(tab);
  });
  addEventListener("hashchange", follow);
  follow();

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-csv]");
    if (!button) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data.csv[button.dataset.csv]], { type: "text/csv" }));
    link.download = `${button.dataset.csv.replace(/[^\w.-]+/g, "_")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
})();
