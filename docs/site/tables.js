// A click on the head of a column sorts the table by it: numbers by their value, the largest first, then words by the
// alphabet. What is missing, –, stays last. An empty first cell means the one above.
"use strict";
for (const table of document.querySelectorAll("article table")) {
  const heads = [...table.querySelectorAll("thead th")];
  const value = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replaceAll(",", ""));
  const missing = (text) => ["", "–"].includes(text);
  const order = (one, other) =>
    isNaN(number(one)) - isNaN(number(other)) || number(other) - number(one) || one.localeCompare(other);
  const compare = (one, other, turn) => missing(one) - missing(other) || turn * order(one, other);
  heads.forEach((head, column) => {
    head.ariaSort = "none";
    head.tabIndex = 0;
    const sort = () => {
      const turn = head.ariaSort === "descending" ? -1 : 1;
      for (const each of heads) each.ariaSort = "none";
      head.ariaSort = turn === 1 ? "descending" : "ascending";
      const rows = [...table.tBodies[0].rows];
      rows.forEach((row, at) => { if (at && !value(row, 0)) row.cells[0].innerHTML = rows[at - 1].cells[0].innerHTML; });
      rows.sort((one, other) => compare(value(one, column), value(other, column), turn));
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}
