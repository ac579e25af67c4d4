// The Gantt charts. The wheel zooms in time, with Shift in cores; dragging moves, a double click shows everything.
// Of the keys, + and - zoom in time, ] and [ in cores, arrows move, 0 shows everything.
"use strict";
const LEFT = 46, BOTTOM = 18;
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const TIME_STEPS = [1, 2, 5, 10, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR,
  6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 20 * DAY, 50 * DAY, 100 * DAY, 200 * DAY, 500 * DAY];
const tip = document.getElementById("tip");
const colour = (user) => `hsl(${(user * 137.508) % 360} 55% 55%)`;

// The step of a time axis with at most so many labels, and the label at a time.
const timeStep = (seconds, most) => TIME_STEPS.find((step) => seconds / step <= most) ?? TIME_STEPS.at(-1);
const timeLabel = (t, step) => {
  const date = `day ${Math.floor(t / DAY)}`, two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (step >= DAY) return date;
  const clock = `${two((t % DAY) / HOUR)}:${two((t % HOUR) / MINUTE)}`;
  return step >= MINUTE ? `${date} ${clock}` : `${date} ${clock}:${two(t % MINUTE)}`;
};
const coreStep = (cores, most) => {
  for (let power = 1; ; power *= 10) {
    const step = [1, 2, 5].map((n) => n * power).find((n) => cores / n <= most);
    if (step) return step;
  }
};
const ticks = (from, to, step) => {
  const all = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) all.push(t);
  return all;
};

for (const canvas of document.querySelectorAll("canvas")) {
  const data = JSON.parse(document.getElementById(canvas.dataset.of).textContent);
  const whole = { from: data.from, to: data.to, low: 0, high: data.cores };
  let view = { ...whole };
  const fit = () => {
    const span = Math.min(Math.max(view.to - view.from, 60), whole.to - whole.from);
    const rows = Math.min(Math.max(view.high - view.low, 1), whole.high);
    view.from = Math.min(Math.max(view.from, whole.from), whole.to - span);
    view.low = Math.min(Math.max(view.low, 0), whole.high - rows);
    view.to = view.from + span;
    view.high = view.low + rows;
  };
  const draw = () => {
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const sx = (width - LEFT) / (view.to - view.from), sy = (height - BOTTOM) / (view.high - view.low);
    const text = getComputedStyle(document.body).color;
    for (const [start, length, row, rows, user] of data.bars) {
      if (start > view.to || start + length < view.from || row > view.high || row + rows < view.low) continue;
      pen.fillStyle = colour(user);
      const x = LEFT + (start - view.from) * sx, w = Math.max(length * sx - 0.5, 0.6);
      pen.fillRect(x, (row - view.low) * sy, w, Math.max(rows * sy - (sy > 3 ? 0.5 : 0), 0.6));
    }
    // Bars that begin before the first moment, or end below the last core, must not cover the labels.
    pen.clearRect(0, 0, LEFT, height);
    pen.clearRect(0, height - BOTTOM, width, BOTTOM);
    pen.font = "11px system-ui";
    pen.fillStyle = text;
    pen.strokeStyle = text;
    pen.globalAlpha = 0.25;
    const times = timeStep(view.to - view.from, width / 130), rows = coreStep(view.high - view.low, 8);
    pen.beginPath();
    for (const t of ticks(view.from, view.to, times)) {
      pen.moveTo(LEFT + (t - view.from) * sx, 0);
      pen.lineTo(LEFT + (t - view.from) * sx, height - BOTTOM);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    for (const t of ticks(view.from, view.to, times)) {
      const label = timeLabel(t, times), half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.min(LEFT + (t - view.from) * sx - half, width - 2 * half - 2), height - 5);
    }
    pen.textAlign = "right";
    for (const row of ticks(view.low, view.high, rows)) {
      pen.fillText(row, LEFT - 6, Math.min(Math.max((row - view.low) * sy + 4, 10), height - BOTTOM));
    }
  };
  const zoom = (factor, inCores, [t, row]) => {
    if (inCores) {
      view.low = row - (row - view.low) * factor;
      view.high = row + (view.high - row) * factor;
    } else {
      view.from = t - (t - view.from) * factor;
      view.to = t + (view.to - t) * factor;
    }
    fit();
    draw();
  };
  // By parts of what is shown.
  const move = (right, down) => {
    const dt = right * (view.to - view.from), dr = down * (view.high - view.low);
    view.from += dt; view.to += dt; view.low += dr; view.high += dr;
    fit();
    draw();
  };
  const all = () => { view = { ...whole }; draw(); };
  const isAll = (inCores) => inCores
    ? view.low <= 0 && view.high >= whole.high
    : view.from <= whole.from && view.to >= whole.to;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - LEFT) / (box.width - LEFT), y = (event.clientY - box.top) / (box.height - BOTTOM);
    return [view.from + x * (view.to - view.from), view.low + y * (view.high - view.low)];
  };
  canvas.addEventListener("wheel", (event) => {
    const turned = event.deltaY || event.deltaX;
    // When everything is shown, the wheel scrolls the page on.
    if (turned > 0 && isAll(event.shiftKey)) return;
    event.preventDefault();
    tip.style.display = "none";
    zoom(Math.exp(turned * 0.0015), event.shiftKey, at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const middle = [(view.from + view.to) / 2, (view.low + view.high) / 2];
    const keys = {
      "+": () => zoom(0.7, false, middle), "=": () => zoom(0.7, false, middle), "-": () => zoom(1 / 0.7, false, middle),
      "]": () => zoom(0.7, true, middle), "[": () => zoom(1 / 0.7, true, middle), "0": all,
      ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0),
      ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1),
    };
    const vertical = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key] || (vertical && isAll(true))) return;
    event.preventDefault();
    tip.style.display = "none";
    keys[event.key]();
  });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) {
      move(-event.movementX / (canvas.clientWidth - LEFT), -event.movementY / (canvas.clientHeight - BOTTOM));
    }
    const [t, row] = at(event);
    const hit = t >= view.from && data.bars.find(([s, l, r, n]) => t >= s && t < s + l && row >= r && row < r + n);
    tip.style.display = hit ? "block" : "none";
    if (hit) {
      const [start, length, , , user, number, cores, wait] = hit;
      tip.textContent = `job ${number}: ${data.users[user]}, ${cores} cores, waited ${Math.round(wait)} s, ran ${Math.round(length)} s from ${timeLabel(start, MINUTE)}`;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 340)}px`;
      tip.style.top = `${event.clientY + 12}px`;
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("dblclick", all);
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  fit();
  draw();
}
