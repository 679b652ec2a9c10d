// The top of the page: totals, progress of the review, notices, the theme.

import { emit, on } from "./bus.js";
import { tableOf } from "./charts.js";
import { byId, counted, dotted, duration, h, icon, memory, whole } from "./dom.js";
import { facets, GROUP_OF, model, stateOf } from "./model.js";
import { server } from "./server.js";

function showNames() {
  const { folder, made, runs, server, totals } = model.data;
  const models = [...new Set(runs.map(run => run.model).filter(Boolean))];
  const time = !server && `made on ${made.slice(0, 16).replace("T", " ")} UTC`;
  byId("title").textContent = folder.name || folder.path;
  byId("subtitle").textContent = dotted([models.join(", "), totals.runs && counted(totals.runs, "run"), time]);
}

function showTotals() {
  const { totals } = model.data;
  const approved = model.rows.filter(row => stateOf(row) === "approved").length;
  /** @param {string} name @param {string} value @param {number | false} [group] */
  const tile = (name, value, group = false) => h("div.tile", { "data-group": group }, h("dt", name), h("dd", value));
  const nodes = [
    tile("Rows", whole(totals.rows)),
    tile("Synthesized", whole(totals.ok)),
    tile("Failed", whole(totals.failed), totals.failed > 0 && GROUP_OF.failed),
    tile("Suspect", whole(totals.suspect), totals.suspect > 0 && GROUP_OF.suspect),
    (approved > 0 || server.isThere) && tile("Approved", `${whole(approved)} of ${whole(totals.rows)}`),
    tile("Audio", duration(totals.audio_s)),
    totals.xrt && tile("Real time", `${totals.xrt.toFixed(1)}\u00d7`),
    tile("Voices", whole(totals.voices)),
  ];
  byId("totals").replaceChildren(...nodes.filter(node => node instanceof Node));
}

function showNotice() {
  const { missing, garbage } = model.data.totals;
  const again = "the next run of synth makes it again";
  const notices = [
    server.busy && `A run is in progress (${server.busy}): the page is read-only until it ends.`,
    missing && `The audio of ${counted(missing, "row")} is no longer in the folder; ${again}.`,
    garbage && `${counted(garbage, "line")} of timings.jsonl could not be read.`,
  ];
  byId("notice").textContent = notices.filter(Boolean).join(" ");
  byId("notice").hidden = !byId("notice").textContent;
}

const STATES = ["approved", "rejected", "retake", "open"];

/** Show how much is approved, by character and by chapter. */
function showProgress() {
  const details = /** @type {HTMLDetailsElement} */ (byId("progress"));
  const names = ["Character", "Chapter"].filter(name => facets().has(name));
  details.hidden = !names.length;
  if (details.open && names.length) byId("progress-tables").replaceChildren(...names.map(progressOf));
}

/** @param {string} name of a facet */
function progressOf(name) {
  /** @type {Map<string, number[]>} */
  const lines = new Map();
  for (const row of model.rows) {
    const [value, state] = [row.facets[name] ?? "none", stateOf(row)];
    const counts = lines.get(value) ?? STATES.map(() => 0);
    counts[STATES.indexOf(state === "changed" ? "open" : state)] += 1;
    lines.set(value, counts);
  }
  const cells = [...lines].map(([value, counts]) => {
    const all = counts.reduce((sum, one) => sum + one);
    return [value, `${whole(counts[0])} of ${whole(all)}`, ...counts.slice(1).map(whole)];
  });
  const heads = [name, "approved", "rejected", "retake", "undecided"];
  return h("section.card", tableOf(`Approved rows by ${name}`, heads, cells));
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
