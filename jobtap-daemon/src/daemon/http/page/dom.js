// Elements, made of text only: nothing here or elsewhere parses HTML.

export const $ = (id) => document.getElementById(id);

/** An element with attributes and children, which are elements or text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** Sets a text, if it is another one: what stays the same is not painted or read out again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Calls `work` soon, and at most once in `pause` milliseconds, however often the result is called. */
export function throttled(pause, work) {
  let waiting = false;
  let last = 0;
  return () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      last = performance.now();
      work();
    }, Math.max(0, last + pause - performance.now()));
  };
}

/** A color of the style sheet, for canvases. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
