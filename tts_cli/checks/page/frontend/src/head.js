// The top of the page: totals, progress of the review, notices, the theme.

import { emit, on } from "./bus.js";
import { byId, counted, duration, h, icon, memory, whole } from "./dom.js";
import { facets, GROUP_OF, model, stateOf } from "./model.js";
import { server } from "./server.js";
import { tableOf } from "./charts.js";

function showNames() {
  const { data } = model;
  const models = [...new Set(data.runs.map((run) => run.model).filter(Boolean))];
  const made = data.server ? null : `made on ${data.made.slice(0, 16).replace("T", " ")} UTC`;
  byId("title").textContent = data.folder.name || data.folder.path;
  const facts = [models.join(", "), data.totals.runs && counted(data.totals.runs, "run"), made];
  byId("subtitle").textContent = facts.filter(Boolean).join(" \u00b7 ");
}

function showTotals() {
  const { totals } = model.data;
  const approved = model.rows.filter((row) => stateOf(row) === "approved").length;
  /** @type {[string, string, string?][]} */
  const tiles = [
    ["Rows", whole(totals.rows)], ["Synthesized", whole(totals.ok)],
    ["Failed", whole(totals.failed), "failed"], ["Suspect", whole(totals.suspect), "suspect"],
  ];
  if (approved || server.isThere) tiles.push(["Approved", `${whole(approved)} of ${whole(totals.rows)}`]);
  tiles.push(["Audio", duration(totals.audio_s)]);
  if (totals.xrt) tiles.push(["Real time", `${totals.xrt.toFixed(1)}\u00d7`]);
  tiles.push(["Voices", whole(totals.voices)]);
  byId("totals").replaceChildren(...tiles.map(([name, value, status]) => {
    const group = status && value !== "0" ? GROUP_OF[status] : null;
    return h("div", { class: "tile", "data-group": group }, h("dt", { text: name }), h("dd", { text: value }));
  }));
}

function showNotice() {
  const { missing, garbage } = model.data.totals;
  const notices = [];
  if (server.busy) notices.push(`A run is in progress (${server.busy}): the page is read-only until it ends.`);
  const again = "the next run of synth makes it again";
  if (missing) notices.push(`The audio of ${counted(missing, "row")} is no longer in the folder; ${again}.`);
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
    const values = [...new Set(model.rows.map((row) => row.facets[name] ?? "none"))];
    const lines = new Map(values.map((value) => [value, STATES.map(() => 0)]));
    for (const row of model.rows) {
      const state = stateOf(row);
      const counts = lines.get(row.facets[name] ?? "none") ?? [];
      counts[STATES.indexOf(state === "changed" ? "open" : state)] += 1;
    }
    const cells = [...lines].map(([value, counts]) => {
      const all = counts.reduce((sum, one) => sum + one);
      return [value, `${whole(counts[0])} of ${whole(all)}`, ...counts.slice(1).map(whole)];
    });
    const heads = [name, "approved", "rejected", "retake", "undecided"];
    return h("section", { class: "card" }, tableOf(`Approved rows by ${name}`, heads, cells));
  }));
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** Show the theme that the user chose, or that of the system. */
export function showTheme() {
  const theme = memory.get("tts-cli-theme") ?? (prefersDark.matches ? "dark" : "light");
  const other = theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  byId("theme").replaceChildren(icon(other), other === "dark" ? "Dark" : "Light");
  byId("theme").onclick = () => {
    memory.set("tts-cli-theme", other);
    showTheme();
  };
  emit("theme");
}

prefersDark.addEventListener("change", showTheme);
byId("progress").addEventListener("toggle", showProgress);
on(["rows"], showNames);
on(["rows", "server"], showNotice);
on(["rows", "decided", "picked"], showTotals);
on(["rows", "decided", "picked"], showProgress);
