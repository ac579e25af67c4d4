// The Gantt charts. The wheel zooms in time, with Shift in cores; dragging moves, a double click shows everything.
"use strict";
const tip = document.getElementById("tip");
for (const canvas of document.querySelectorAll("canvas")) {
  const data = JSON.parse(document.getElementById(canvas.dataset.of).textContent);
  const whole = { from: data.from, to: data.to, low: 0, high: data.cores };
  let view = { ...whole };
  const colour = (user) => `hsl(${(user * 137.508) % 360} 55% 55%)`;
  const day = (t) => `day ${(t / 86400).toFixed(2)}`;
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
    const sx = width / (view.to - view.from), sy = (height - 18) / (view.high - view.low);
    for (const [start, length, row, rows, user] of data.bars) {
      if (start > view.to || start + length < view.from || row > view.high || row + rows < view.low) continue;
      pen.fillStyle = colour(user);
      const x = (start - view.from) * sx, w = Math.max(length * sx - 0.5, 0.6);
      pen.fillRect(x, (row - view.low) * sy, w, Math.max(rows * sy - (sy > 3 ? 0.5 : 0), 0.6));
    }
    pen.fillStyle = getComputedStyle(document.body).color;
    pen.font = "11px system-ui";
    pen.clearRect(0, height - 18, width, 18);
    pen.fillText(day(view.from), 4, height - 5);
    pen.textAlign = "right";
    pen.fillText(day(view.to), width - 4, height - 5);
    pen.textAlign = "center";
    pen.fillText(`cores ${Math.floor(view.low)} to ${Math.ceil(view.high)}`, width / 2, height - 5);
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / (box.height - 18);
    return [view.from + x * (view.to - view.from), view.low + y * (view.high - view.low)];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [t, row] = at(event), factor = Math.exp((event.deltaY || event.deltaX) * 0.0015);
    if (event.shiftKey) {
      view.low = row - (row - view.low) * factor;
      view.high = row + (view.high - row) * factor;
    } else {
      view.from = t - (t - view.from) * factor;
      view.to = t + (view.to - t) * factor;
    }
    fit();
    draw();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const [t, row] = at(event);
    if (event.buttons) {
      const dt = (event.movementX / canvas.clientWidth) * (view.to - view.from);
      const dr = (event.movementY / (canvas.clientHeight - 18)) * (view.high - view.low);
      view.from -= dt; view.to -= dt; view.low -= dr; view.high -= dr;
      fit();
      draw();
    }
    const hit = data.bars.find(([s, l, r, n]) => t >= s && t < s + l && row >= r && row < r + n);
    tip.style.display = hit ? "block" : "none";
    if (hit) {
      const [start, length, , , user, number, cores, wait] = hit;
      tip.textContent = `job ${number}: ${data.users[user]}, ${cores} cores, waited ${Math.round(wait)} s, ran ${Math.round(length)} s from ${day(start)}`;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 340)}px`;
      tip.style.top = `${event.clientY + 12}px`;
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("dblclick", () => { view = { ...whole }; draw(); });
  window.addEventListener("resize", draw);
  fit();
  draw();
}
