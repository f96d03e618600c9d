// Tabs, and links to definitions. Without scripts the page shows all its sections, one below the other.
"use strict";
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
