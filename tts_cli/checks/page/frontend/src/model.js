// The rows of the page, which of them are shown, in which order, and which is the current one.

/** @import { Data, Decision, Row, Shown, Take, Transcript } from "./types.js" */
import { emit } from "./bus.js";
import { ledger } from "./ledger.js";

/** @type {{data: Data, rows: Row[], byName: Map<string, Row>}} */
export const model = { data: /** @type {any} */ (null), rows: [], byName: new Map() };

/** @type {(string | undefined)[]} */
let haystacks = [];

/** @param {Data} data */
export function load(data) {
  model.data = data;
  model.rows = data.rows.map((given, index) => {
    const folder = given.id.slice(0, Math.max(0, given.id.lastIndexOf("/"))) || undefined;
    const usual = { reasons: [], extra: {}, severity: 0, chosen: 0, place: 0, order: index, chapter: folder };
    const row = { ...usual, ...given, index };
    row.group = row.status === "failed" ? 0 : row.reasons.length ? 1 : 2;
    row.facets = { Voice: row.voice, Character: row.character, Chapter: row.chapter, ...row.extra };
    return row;
  });
  model.byName = new Map(model.rows.map(row => [row.id, row]));
  haystacks = new Array(model.rows.length);
  selection.row = model.byName.get(selection.row?.id ?? "") ?? null;
}

/** The current row. @type {{row: Row | null}} */
export const selection = { row: null };

/** @param {Row | null} row @param {{focus?: boolean, scroll?: boolean}} [how] */
export function select(row, how = {}) {
  const before = selection.row;
  selection.row = row;
  emit("select", { ...how, before });
}

/** The current take of a row in the folder. @param {Row} row */
export const takeOf = row => row.takes[row.chosen];

/** Takes that the user has selected here, by id. @type {Map<string, number>} */
export const picks = new Map();

/** Return whether a row has a take that is not its current one. @param {string} id @param {number} take */
export function canPick(id, take) {
  const row = model.byName.get(id);
  return row !== undefined && row.takes.some((one, place) => one.take === take && place !== row.chosen);
}

/** Return the place of the take that is selected, here or in the folder. @param {Row} row */
export function placeOf(row) {
  const place = row.takes.findIndex(take => take.take === picks.get(row.id));
  return place < 0 ? row.chosen : place;
}

/** @param {Row} row */
export const shownTake = row => row.takes[placeOf(row)];
/** Return the take that decisions are about: the row's own; in a static page, where nothing can be chosen, the selected one. @param {Row} row */
export const ratedTake = row => (model.data.server ? takeOf(row) : shownTake(row));
/** @param {Row} row @returns {Shown} */
export const stateOf = row => ledger.state(row.id, ratedTake(row).sha256 ?? null);
/** @param {Row} row @returns {Decision[]} */
export const commentsOf = row => ledger.comments(row.id, shownTake(row).sha256 ?? null);
/** Whether commands can name a row: invalid rows without an id are called #7. @param {Row} row */
export const isNamed = row => !row.id.startsWith("#");

/** @param {Row} row @param {string} kind of its reasons */
export const hasKind = (row, kind) => row.reasons.some(reason => reason[0] === kind);
/** The share of a text that was not transcribed as it is. @param {Transcript} asr */
export const errorText = ({ error, unit }) => `${(100 * error).toFixed(0)} % of ${unit} wrong`;
/** The predicted opinion score, if it is known. @param {Take} take */
export const scoreText = ({ mos }) => mos && `${mos[0].toFixed(1)} of 5`;

export const STATUS_TEXT = ["failed", "suspect", "ok"];
export const GROUPS = ["Failed", "Suspect", "OK"];
export const STATUSES = { all: "All", failed: "Failed", suspect: "Suspect", fine: "OK" };
/** @type {Record<string, number>} */
export const GROUP_OF = { failed: 0, suspect: 1, fine: 2 };

/** @typedef {{label: string, value?: (row: Row) => number | undefined, falls?: boolean}} Sort rows without a value are last */
/** @type {Record<string, Sort>} */
export const SORTS = {
  check: { label: "Needs review" },
  order: { label: "Manifest order", value: row => row.order },
  id: { label: "Id", value: row => row.index },
  spoken: { label: "Synthesized", value: row => row.place },
  suspicion: { label: "Suspicion", value: row => row.severity, falls: true },
  words: { label: "Word errors", value: row => takeOf(row).asr?.error, falls: true },
  mos: { label: "Predicted opinion score", value: row => takeOf(row).mos?.[0] },
  duration: { label: "Duration", value: row => takeOf(row).audio_s ?? 0, falls: true },
  rate: { label: "Rate, letters per second", value: row => row.rate, falls: true },
  level: { label: "Level", value: row => row.level_dbfs, falls: true },
};

const MAX_FACETS = 7;
const MAX_VALUES = 200; // of a facet

/** Return the number of rows by value, for every useful facet. */
export function facets() {
  /** @type {Map<string, Map<string, number>>} */
  const found = new Map();
  for (const [name, value] of model.rows.flatMap(row => Object.entries(row.facets))) {
    const counts = found.get(name) ?? new Map();
    if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + 1);
    found.set(name, counts);
  }
  const useful = [...found].filter(([, { size }]) => size > 1 && size <= MAX_VALUES);
  return new Map(useful.slice(0, MAX_FACETS));
}

/** @type {{search: string, status: string, kind: string, review: string, sort: string, isTurned: boolean, facets: Record<string, string>}} */
export const view = { search: "", status: "all", kind: "", review: "", sort: "check", isTurned: false, facets: {} };

/** @param {Row} row */
function haystack(row) {
  const texts = [row.id, row.text, row.spoken_text, row.voice, row.character];
  return (haystacks[row.index] ??= texts.filter(Boolean).join("\n").toLowerCase());
}

/** @param {Row} row @param {string[]} words */
function matches(row, words) {
  if (view.status !== "all" && row.group !== GROUP_OF[view.status]) return false;
  if (view.kind && !hasKind(row, view.kind)) return false;
  if (view.review === "comment" && !commentsOf(row).length) return false;
  if (view.review && view.review !== "comment" && stateOf(row) !== view.review) return false;
  for (const name in view.facets) if (view.facets[name] && row.facets[name] !== view.facets[name]) return false;
  return words.every(word => haystack(row).includes(word));
}

/** @typedef {{row?: undefined, heading: string, group: number | null, members: Row[]}} Heading */
/** @typedef {{row: Row, number: number} | Heading} Item */

/** Return the rows that are shown, with headings between groups or chapters. @returns {Item[]} */
export function shownItems() {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = model.rows.filter(row => matches(row, words));
  const { value, falls } = SORTS[view.sort];
  const sign = view.isTurned !== (falls ?? false) ? -1 : 1;
  if (value) {
    const ranks = new Map(found.map(row => [row, sign * (value(row) ?? sign * Infinity)]));
    const rank = (/** @type {Row} */ row) => ranks.get(row) ?? 0;
    found.sort((a, b) => (rank(a) === rank(b) ? a.index - b.index : rank(a) - rank(b)));
  } else found.sort((a, b) => a.group - b.group || sign * (b.severity - a.severity || a.index - b.index));
  const hasHeadings = !value || (view.sort === "order" && found.some(row => row.chapter));
  const items = /** @type {Item[]} */ ([]);
  let part = /** @type {Heading | null} */ (null);
  for (const [place, row] of found.entries()) {
    const [heading, group] = value ? [row.chapter ?? "", null] : [GROUPS[row.group], row.group];
    if (hasHeadings && part?.heading !== heading) items.push((part = { heading, group, members: [] }));
    part?.members.push(row);
    items.push({ row, number: place + 1 });
  }
  return items;
}
