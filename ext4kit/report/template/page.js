"use strict";
// Sorting, searching and unfolding of tables. Text goes in and out as text alone.
const FEW = 25;

function keyOf(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.v;
  return value === undefined ? cell.textContent : Number(value);
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function enliven(card) {
  const table = card.querySelector("table");
  const body = table.tBodies[0];
  const tools = card.querySelector(".tools");
  const search = tools.querySelector("input");
  const told = tools.querySelector("output");
  const more = card.querySelector(".more");
  const printed = card.querySelector(".printed");
  const rows = Array.from(body.rows, (row) => ({ row, text: row.textContent.toLowerCase() }));
  let unfolded = false;

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let fitting = 0;
    for (const { row, text } of rows) {
      const fits = words.every((word) => text.includes(word));
      fitting += fits;
      row.hidden = !fits || (!unfolded && fitting > FEW);
    }
    const shown = unfolded ? fitting : Math.min(fitting, FEW);
    printed.hidden = shown === rows.length;
    printed.textContent = `${shown} of ${rows.length} rows are printed; the page on a screen can show and print all.`;
    told.textContent = fitting === rows.length ? `${fitting} rows` : `${fitting} of ${rows.length} rows`;
    more.hidden = fitting <= FEW;
    more.textContent = unfolded ? `Show the first ${FEW}` : `Show all ${fitting}`;
  }

  function sort(heading, column) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const way = down ? -1 : 1;
    rows.sort((a, b) => way * compare(keyOf(a.row, column), keyOf(b.row, column)));
    body.append(...rows.map(({ row }) => row));
    show();
  }

  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading, column));
    heading.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(heading, column);
      }
    });
  });
  search.addEventListener("input", show);
  more.addEventListener("click", () => {
    unfolded = !unfolded;
    show();
  });
  tools.hidden = false;
  show();
}

document.querySelectorAll(".listing").forEach(enliven);

// Paper cannot be unfolded.
let opened = [];
addEventListener("beforeprint", () => {
  opened = Array.from(document.querySelectorAll("details:not([open])"));
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
});
