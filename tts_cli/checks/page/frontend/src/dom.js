// Elements, figures and small helpers. No string ever becomes markup.

/** @typedef {Node | string | null | undefined | false | 0} Child */
/** @typedef {keyof HTMLElementTagNameMap} Tag */
/** @template {string} S @typedef {S extends `${infer T extends Tag}.${string}` ? T : S extends Tag ? S : never} TagOf */

/** @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export const byId = id => /** @type {T} */ (document.getElementById(id));

/**
 * Return an element, as in `h("p.hint", { dir: "auto" }, "Text")`: a tag with classes, which are never data;
 * then attributes, if there are any, where `on...` are listeners; then children, of which empty ones are left out.
 * @template {Tag | `${Tag}.${string}`} S
 * @param {S} selector @param {Record<string, any> | Child | Child[]} [first] @param {...(Child | Child[])} others
 * @returns {HTMLElementTagNameMap[TagOf<S>]}
 */
export function h(selector, first, ...others) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag);
  if (tag === "button") element.setAttribute("type", "button");
  if (classes.length) element.className = classes.join(" ");
  const hasAttributes = first?.constructor === Object;
  for (const [name, value] of Object.entries(hasAttributes ? first : {})) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const children = hasAttributes ? others : [/** @type {Child} */ (first), ...others];
  for (const child of children.flat()) if (child) element.append(child);
  return /** @type {any} */ (element);
}

/** @type {Record<string, string>} */
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
  approve: "M9.500 18.500L3.500 12.500l2-2 4 4 9-9 2 2z",
  reject: "M6 4l6 6 6-6 2 2-6 6 6 6-2 2-6-6-6 6-2-2 6-6-6-6z",
};

/** @param {string} name */
export function icon(name) {
  const [picture, path] = ["svg", "path"].map(tag => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const attributes = { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" };
  for (const [key, value] of Object.entries(attributes)) picture.setAttribute(key, value);
  path.setAttribute("d", ICONS[name]);
  picture.append(path);
  return picture;
}

/** @param {HTMLElement} button @param {string} name */
export function setIcon(button, name) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  button.replaceChildren(icon(name));
}

/** @param {string} label @param {string | null} name of the icon @param {() => void} onclick @param {Record<string, any>} [more] */
export function button(label, name, onclick, more = {}) {
  return h("button.plain", { onclick, ...more }, name && icon(name), label);
}

/** @param {string} value @param {string} [text] */
export const option = (value, text = value) => h("option", { value }, text);

/** Return seconds as 7.4 s, 3:05 or 1:02:09. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const all = Math.round(seconds);
  const minutes = Math.floor(all / 60) % 60;
  const rest = String(all % 60).padStart(2, "0");
  if (all < 3600) return `${minutes}:${rest}`;
  return `${Math.floor(all / 3600)}:${String(minutes).padStart(2, "0")}:${rest}`;
}

const format = new Intl.NumberFormat("en");
/** @param {number} number */
export const whole = number => format.format(number);
/** @param {number} number @param {string} one @param {string} [many] */
export const counted = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;
/** @param {number} number */
export const signed = number => number.toFixed(1).replace("-", "\u2212");
/** @param {number} level */
export const decibels = level => `${signed(level)} dBFS`;
/** @param {(string | number | null | undefined | false)[]} texts those that are empty are left out */
export const dotted = texts => texts.filter(Boolean).join(" \u00b7 ");

let toastTimer = 0;
/** Show a message for a moment, to eyes and to screen readers. @param {string} text */
export function say(text) {
  const toast = byId("toast");
  byId("said").textContent = toast.textContent = text;
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.hidden = true), 2500);
}

/** Show the error of a request. @param {Error} error */
export const complain = error => say(error.message);

/** @param {string} text @param {string} what */
export function copy(text, what) {
  const done = navigator.clipboard?.writeText(text) ?? Promise.reject();
  done.then(() => say(`Copied ${what}`)).catch(() => say(`The browser did not allow copying ${what}`));
}

/** What the browser stores for a page; private windows may store nothing. */
export const memory = {
  /** @param {string} name @returns {any} */
  get(name) {
    try {
      return JSON.parse(localStorage.getItem(name) ?? "null");
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {unknown} value */
  set(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      say("The browser stores nothing for this page: save your decisions as a file");
    }
  },
};
