// The current row.

/** @import { Row } from "./types.js" */
import { emit, on } from "./bus.js";
import { model } from "./model.js";

/** @type {{row: Row | null}} */
export const selection = { row: null };

/** @param {Row | null} row @param {{focus?: boolean, scroll?: boolean}} [how] */
export function select(row, how = {}) {
  selection.row = row;
  emit("select", how);
}

on(["rows"], () => { selection.row = model.byName.get(selection.row?.id ?? "") ?? null; });
