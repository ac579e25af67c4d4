// Values as people read them, and the manager's notations for sets.

const DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** A job id in its short form. */
export function shortId(id) {
  let rest = BigInt(id);
  let text = "";
  do {
    text = DIGITS[Number(rest % 58n)] + text;
    rest /= 58n;
  } while (rest > 0n);
  return `ƒ${text}`;
}

/** The number of a job id in its short form, as text. */
export const longId = (text) => String([...text.slice(1)].reduce((id, c) => id * 58n + BigInt(DIGITS.indexOf(c)), 0n));

const two = (number) => String(number).padStart(2, "0");

/** A duration in seconds: `0.4s`, `12s`, `3:05`, `1:03:05`, `2d 03:05`. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.floor(Math.max(0, seconds));
  if (whole < 10) return `${Math.max(0, seconds).toFixed(1)}s`;
  if (whole < 60) return `${whole}s`;
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, rest] = [Math.floor(whole / 60) % 60, whole % 60];
  if (days) return `${days}d ${two(hours)}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** A short time in seconds, such as that of a call. */
export function moment(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const [unit, size] = seconds < 1e-3 ? ["µs", 1e-6] : seconds < 1 ? ["ms", 1e-3] : ["s", 1];
  const count = seconds / size;
  return `${count < 10 ? count.toPrecision(2) : Math.round(count)} ${unit}`;
}

/** A point in time, with its day if it is another one than today. */
export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const date = new Date(seconds * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

export const number = (value) => Number(value ?? 0).toLocaleString("en");

/** `1 job`, `2 jobs`. */
export const counted = (count, what) => `${number(count)} ${what}${count === 1 ? "" : "s"}`;

/** The members of an idset, such as `0-3,7`. */
export function idset(text) {
  const ids = [];
  for (const part of String(text ?? "").replace(/[[\]]/g, "").split(",")) {
    const [first, last = first] = part.split("-").map((end) => parseInt(end, 10));
    for (let id = first; id <= last; id++) ids.push(id);
  }
  return ids;
}

/** The number of members of an idset. They may be millions, so they are not listed. */
export function idsetCount(text) {
  let count = 0;
  for (const part of text.split(",").filter(Boolean)) {
    const [first, last = first] = part.split("-").map(Number);
    count += last - first + 1;
  }
  return count;
}

/** The hosts of a hostlist, such as `rack[1-2]n[01-16],login`. */
export function hosts(text) {
  const parts = String(text ?? "").match(/(?:[^,[]|\[[^\]]*\])+/g) ?? [];
  return parts.flatMap(expanded);
}

function expanded(part) {
  const set = /\[([^\]]*)\]/.exec(part);
  if (!set) return [part];
  const [before, after] = [part.slice(0, set.index), expanded(part.slice(set.index + set[0].length))];
  return set[1].split(",").flatMap((range) => {
    const [first, last = first] = range.split("-");
    const all = [];
    for (let id = parseInt(first, 10); id <= parseInt(last, 10); id++) {
      for (const rest of after) all.push(before + String(id).padStart(first.length, "0") + rest);
    }
    return all;
  });
}
