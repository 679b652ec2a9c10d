// Elements, figures and small things that the other parts use. No string ever becomes markup.

const byId = (id) => document.getElementById(id);

// An element: attributes by name, `on...` as listeners, `text` as text; children are nodes or texts.
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "hidden") element.hidden = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const ICONS = {
  play: "M7 4.5v15l12.5-7.5z",
  pause: "M6.5 4.5h4v15h-4zM13.5 4.5h4v15h-4z",
  up: "M12 5l7 8h-5v6h-4v-6H5z",
  down: "M12 19l-7-8h5V5h4v6h5z",
  copy: "M8 3h12v14H8zM10 5v10h8V5zM4 7h2v12h10v2H4z",
  again: "M12 5a7 7 0 1 1-6.700 5h2.200A5 5 0 1 0 12 7v3L7 6l5-4z",
  light: "M12 7a5 5 0 1 1 0 10 5 5 0 0 1 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4z",
  dark: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
  more: "M12 8l7 8H5z",
  less: "M12 16l-7-8h14z",
};

function icon(name) {
  const shape = svg("path", { d: ICONS[name] });
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, shape);
}

function setIcon(button, name) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  button.replaceChildren(icon(name));
}

// 7.4 s, 3:05, 1:02:09
function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = String(whole % 60).padStart(2, "0");
  if (whole < 3600) return `${minutes}:${rest}`;
  return `${Math.floor(whole / 3600)}:${String(minutes).padStart(2, "0")}:${rest}`;
}

const whole = new Intl.NumberFormat("en");
const counted = (number, one, many = `${one}s`) => `${whole.format(number)} ${number === 1 ? one : many}`;
const decibels = (level) => `${level.toFixed(1).replace("-", "\u2212")} dBFS`;

// Say something to eyes and to screen readers alike, for a moment.
let toastTimer = 0;
function say(text) {
  const toast = byId("toast");
  byId("said").textContent = toast.textContent = text;
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { toast.hidden = true; }, 2500);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or over http: the way of old.
    const field = h("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
    field.value = text;
    (document.querySelector("dialog[open]") || document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) {
      say(`The browser did not allow copying ${what}`);
      return;
    }
  }
  say(`Copied ${what}`);
}

// What a browser remembers of a page, where it does.
const memory = {
  get(name) {
    try {
      return JSON.parse(localStorage.getItem(name));
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      // Private windows may keep nothing.
    }
  },
};
