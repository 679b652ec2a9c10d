// The top of the page: totals, progress of the review, notices, the theme.

import { emit, on } from "./bus.js";
import { byId, counted, duration, h, icon, memory, whole } from "./dom.js";
import { facets, facetsOf, GROUP_OF, model, stateOf } from "./model.js";
import { server } from "./server.js";
import { tableOf } from "./charts.js";

function showNames() {
  const { data } = model;
  const models = [...new Set(data.runs.map((run) => run.model).filter(Boolean))];
  const made = data.server ? null : `made on ${data.made.slice(0, 16).replace("T", " ")} UTC`;
  byId("title").textContent = data.folder.name || data.folder.path;
  byId("subtitle").textContent = [models.join(", "), data.totals.runs && counted(data.totals.runs, "run"), made].filter(Boolean).join(" \u00b7 ");
}

function showTotals() {
  const { totals } = model.data;
  const approved = model.rows.filter((row) => stateOf(row) === "approved").length;
  /** @type {[string, string, string?][]} */
  const tiles = [["Rows", whole(totals.rows)], ["Spoken", whole(totals.ok)], ["Failed", whole(totals.failed), "failed"], ["Suspect", whole(totals.suspect), "suspect"]];
  if (approved || server.isThere) tiles.push(["Approved", `${whole(approved)} of ${whole(totals.rows)}`]);
  tiles.push(["Audio", duration(totals.audio_s)]);
  if (totals.xrt) tiles.push(["Real time", `${totals.xrt.toFixed(1)}\u00d7`]);
  tiles.push(["Voices", whole(totals.voices)]);
  byId("totals").replaceChildren(...tiles.map(([name, value, group]) => h("div", { class: "tile", "data-group": group && value !== "0" ? GROUP_OF[group] : null }, h("dt", { text: name }), h("dd", { text: value }))));
}

function showNotice() {
  const { missing, garbage } = model.data.totals;
  const notices = [];
  if (server.busy) notices.push(`A run is in progress (${server.busy}): the page is read-only until it ends.`);
  if (missing) notices.push(`The audio of ${counted(missing, "row")} is no longer in the folder; the next run of synth synthesizes ${missing === 1 ? "it" : "them"} again.`);
  if (garbage) notices.push(`${counted(garbage, "line")} of timings.jsonl could not be read.`);
  byId("notice").textContent = notices.join(" ");
  byId("notice").hidden = !notices.length;
}

const STATES = ["approved", "rejected", "retake", "open"];

/** Show how much is approved, by character and by chapter. */
function showProgress() {
  const details = /** @type {HTMLDetailsElement} */ (byId("progress"));
  const names = ["Character", "Chapter"].filter((name) => facets().has(name));
  details.hidden = !names.length;
  if (!details.open || details.hidden) return;
  byId("progress-tables").replaceChildren(...names.map((name) => {
    /** @type {Map<string, number[]>} */
    const counts = new Map();
    for (const row of model.rows) {
      const value = facetsOf(row)[name] ?? "none";
      const found = counts.get(value) ?? [0, 0, 0, 0];
      const state = stateOf(row);
      found[STATES.indexOf(state === "changed" ? "open" : state)] += 1;
      counts.set(value, found);
    }
    const lines = [...counts].map(([value, [approved, ...rest]]) => {
      const all = approved + rest.reduce((sum, one) => sum + one, 0);
      return [value, `${whole(approved)} of ${whole(all)}`, ...rest.map(whole)];
    });
    return h("section", { class: "card" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Approved rows by ${name}` }, tableOf([name, "approved", "rejected", "retake", "undecided"], lines)));
  }));
}

/** @param {string | null} theme */
export function setTheme(theme) {
  const shown = theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = shown;
  const other = shown === "dark" ? "light" : "dark";
  const control = byId("theme");
  control.replaceChildren(icon(other), other === "dark" ? "Dark" : "Light");
  control.onclick = () => {
    memory.set("tts-cli-theme", other);
    setTheme(other);
  };
  emit("theme");
}

export const storedTheme = () => ["dark", "light"].find((one) => one === memory.get("tts-cli-theme")) ?? null;

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(storedTheme()));
byId("progress").addEventListener("toggle", showProgress);
on(["rows"], () => {
  showNames();
  showNotice();
});
on(["rows", "decided", "picked"], () => {
  showTotals();
  showProgress();
});
on(["server"], showNotice);
