// A click on the head of a column sorts the table by it: numbers by their value, the largest first, words by the alphabet.
// An empty first cell means the one above.
"use strict";
for (const table of document.querySelectorAll("article table")) {
  const heads = [...table.querySelectorAll("thead th")];
  const value = (row, column) => row.cells[column].textContent.trim();
  const compare = (one, other) => parseFloat(other) - parseFloat(one) || one.localeCompare(other);
  heads.forEach((head, column) => {
    head.ariaSort = "none";
    head.tabIndex = 0;
    const sort = () => {
      const turn = head.ariaSort === "descending" ? -1 : 1;
      for (const each of heads) each.ariaSort = "none";
      head.ariaSort = turn === 1 ? "descending" : "ascending";
      const rows = [...table.tBodies[0].rows];
      rows.forEach((row, at) => { if (at && !value(row, 0)) row.cells[0].innerHTML = rows[at - 1].cells[0].innerHTML; });
      rows.sort((one, other) => turn * compare(value(one, column), value(other, column)));
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}
