"use strict";

// The slider shows what to expect at a threshold.
const data = document.getElementById("curve-data");
if (data) {
  const curve = JSON.parse(data.textContent);
  const slider = document.getElementById("threshold");
  const marker = document.getElementById("marker");
  const [left, right] = [46, 708];
  const percent = (share) => (share === null ? "–" : (100 * share).toFixed(1) + " %");
  const show = (name, text) => { document.getElementById(name).textContent = text; };
  const move = () => {
    const place = Number(slider.value);
    const threshold = curve.thresholds[place].toFixed(2);
    const x = left + (place / (curve.thresholds.length - 1)) * (right - left);
    marker.setAttribute("transform", `translate(${x - Number(marker.dataset.x)} 0)`);
    slider.setAttribute("aria-valuetext", `threshold ${threshold}`);
    show("at-threshold", threshold);
    show("at-pairs", curve.expected.pairs[place].toLocaleString("en"));
    show("at-precision", percent(curve.expected.precision[place]));
    show("at-recall", percent(curve.expected.recall[place]));
    show("at-command", slider.dataset.command + threshold);
    if (curve.true) {
      show("true-precision", percent(curve.true.precision[place]));
      show("true-recall", percent(curve.true.recall[place]));
    }
  };
  slider.addEventListener("input", move);
  move();
}

// The table: search, kind, order, and explanations that open.
const table = document.getElementById("table");
if (table) {
  const bodies = [...table.tBodies];
  const search = document.getElementById("search");
  const kind = document.getElementById("kind");
  const texts = new Map(bodies.map((body) => [body, body.textContent.toLowerCase()]));

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const body of bodies) {
      const fits = (!kind.value || body.dataset.kind === kind.value)
        && words.every((word) => texts.get(body).includes(word));
      body.hidden = !fits;
      count += fits;
    }
    document.getElementById("count").textContent = `${count} of ${bodies.length} shown`;
  };
  search.addEventListener("input", filter);
  kind.addEventListener("change", filter);
  filter();

  for (const heading of table.tHead.querySelectorAll("th[data-key]")) {
    heading.querySelector("button").addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const key = heading.dataset.key;
      const value = (body) => body.dataset[key];
      const compare = heading.classList.contains("number")
        ? (one, other) => Number(value(one)) - Number(value(other))
        : (one, other) => value(one).localeCompare(value(other));
      const sorted = [...bodies].sort((one, other) => (descending ? -1 : 1) * compare(one, other));
      table.append(...sorted);
    });
  }

  table.addEventListener("click", (event) => {
    const button = event.target.closest(".open");
    if (!button) return;
    const why = button.closest("tbody").querySelector(".why");
    why.hidden = !why.hidden;
    button.setAttribute("aria-expanded", String(!why.hidden));
  });
}
