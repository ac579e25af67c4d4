// A list of any length of which only the rows in sight are elements, for mouse, keyboard and screen readers.

import { el } from "./dom.js";

/** Rows above and below those in sight, so that scrolling shows no gap. */
const SPARE = 8;

export class Rows {
  #grid;
  #body;
  #height;
  #fill;
  #make;
  #pool = [];
  #keys = [];
  #active = null;
  #open;
  #head;

  /**
   * `grid` is the element that scrolls, `head` its first row or nothing. `make` makes the content of a row, `fill(row,
   * key)` shows an item in it, `open(key)` is called when a row is chosen.
   */
  constructor(grid, { head, height, make, fill, open }) {
    this.#grid = grid;
    this.#height = height;
    this.#make = make;
    this.#fill = fill;
    this.#open = open;
    this.#head = head;
    if (head) grid.append(el("div", { role: "rowgroup", class: "head" }, head));
    this.#body = el("div", { role: "rowgroup", class: "body" });
    grid.append(this.#body);
    grid.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(grid);
    grid.addEventListener("keydown", (event) => this.#key(event));
    this.#body.addEventListener("click", (event) => {
      const row = event.target.closest("[role=row]");
      if (!row?.dataset.key) return;
      this.#active = row.dataset.key;
      this.draw();
      this.#open(this.#active, event);
    });
  }

  get active() {
    return this.#active;
  }

  /** Shows these items, by their keys. A list that is scrolled stays where it is, whatever comes before. */
  show(keys) {
    const top = this.#grid.scrollTop;
    const first = Math.floor(top / this.#height);
    const anchor = this.#keys[first];
    this.#keys = keys;
    this.#body.style.height = `${keys.length * this.#height}px`;
    this.#grid.setAttribute("aria-rowcount", keys.length + (this.#head ? 1 : 0));
    if (first > 0 && keys[first] !== anchor) {
      const now = keys.indexOf(anchor);
      if (now >= 0) this.#grid.scrollTop = top + (now - first) * this.#height;
    }
    this.draw();
  }

  /** Brings the rows in sight up to date. */
  draw() {
    const seen = this.#grid.clientHeight;
    if (seen === 0) return;
    const above = Math.max(0, Math.floor(this.#grid.scrollTop / this.#height) - SPARE);
    const needed = Math.min(this.#keys.length - above, Math.ceil(seen / this.#height) + 2 * SPARE);
    while (this.#pool.length < needed) {
      const row = el("div", { role: "row", class: "row" });
      row.append(...this.#make(row));
      this.#pool.push(row);
      this.#body.append(row);
    }
    let activeRow = null;
    this.#pool.forEach((row, n) => {
      const index = above + n;
      row.hidden = n >= needed;
      if (row.hidden) {
        delete row.dataset.key;
        return;
      }
      const key = this.#keys[index];
      row.dataset.key = key;
      row.id = `${this.#grid.id}-${index}`;
      row.style.transform = `translateY(${index * this.#height}px)`;
      row.setAttribute("aria-rowindex", index + (this.#head ? 2 : 1));
      row.setAttribute("aria-selected", key === this.#active);
      row.classList.toggle("odd", index % 2 === 1);
      if (key === this.#active) activeRow = row;
      this.#fill(row, key);
    });
    if (activeRow) this.#grid.setAttribute("aria-activedescendant", activeRow.id);
    else this.#grid.removeAttribute("aria-activedescendant");
  }

  /** The rows in sight, with their keys. */
  *inSight() {
    for (const row of this.#pool) if (!row.hidden) yield [row, row.dataset.key];
  }

  select(key) {
    this.#active = key;
    this.draw();
  }

  #key(event) {
    if (event.target !== this.#grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#grid.clientHeight / this.#height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && this.#active !== null) {
      this.#open(this.#active, event);
    } else if (event.key in steps) {
      this.#move(steps[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  #move(step) {
    if (this.#keys.length === 0) return;
    const at = this.#keys.indexOf(this.#active);
    // The first key goes to the first row in sight.
    const from = at >= 0 ? at + step : Math.ceil(this.#grid.scrollTop / this.#height);
    const index = Math.min(this.#keys.length - 1, Math.max(0, at < 0 && !Number.isFinite(step) ? step : from));
    this.#active = this.#keys[index];
    const head = this.#head?.offsetHeight ?? 0;
    const top = index * this.#height;
    const seen = this.#grid.clientHeight - head;
    if (top < this.#grid.scrollTop) this.#grid.scrollTop = top;
    else if (top + this.#height > this.#grid.scrollTop + seen) this.#grid.scrollTop = top + this.#height - seen;
    this.draw();
  }
}
