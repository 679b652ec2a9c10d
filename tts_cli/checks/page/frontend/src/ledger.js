// Decisions by the audio that they are about: the last one counts.

/** @import { Decision, Shown } from "./types.js" */

/** @param {string} id @param {string | null} sha256 */
const keyOf = (id, sha256) => `${id}\n${sha256 ?? ""}`;

export const ledger = {
  /** Decisions that are stored in the folder. @type {Decision[]} */ stored: [],
  /** Decisions that are not: of this browser, or on their way. @type {Set<Decision>} */ own: new Set(),
  /** @type {Map<string, Decision>} */ states: new Map(),
  /** @type {Map<string, Decision>} */ lasts: new Map(), // by id
  /** @type {Map<string, Map<string, Decision>>} */ remarks: new Map(),

  /** Sort all decisions anew, after `stored` or `own` has lost some. */
  rebuild() {
    for (const map of [this.states, this.lasts, this.remarks]) map.clear();
    for (const one of [...this.stored, ...this.own]) this.enter(one);
  },

  /** @param {Decision} one */
  enter(one) {
    const key = keyOf(one.id, one.sha256);
    if (one.state !== "comment") {
      this.states.set(key, one);
      this.lasts.set(one.id, one);
    }
    if (!one.comment && one.state !== "comment") return;
    const found = this.remarks.get(key) ?? new Map();
    found.set(`${one.at_s ?? ""} ${one.reviewer ?? ""}`, one);
    this.remarks.set(key, found);
  },

  /** @param {string} id @param {string | null} sha256 @returns {Shown} */
  state(id, sha256) {
    const found = this.states.get(keyOf(id, sha256));
    if (found) return /** @type {Shown} */ (found.state);
    const last = this.lasts.get(id);
    return last && last.state !== "open" ? "changed" : "open";
  },

  /** @param {string} id @param {string | null} sha256 */
  comments(id, sha256) {
    const found = [...(this.remarks.get(keyOf(id, sha256))?.values() ?? [])].filter(one => one.comment);
    return found.sort((a, b) => (a.at_s ?? 0) - (b.at_s ?? 0));
  },
};
