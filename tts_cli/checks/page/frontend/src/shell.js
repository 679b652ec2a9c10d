// Commands to paste into a shell.

/** @import { Row } from "./types.js" */
import { isNamed, model } from "./model.js";

const PLAIN_WORD = /^[A-Za-z0-9_@%+=:,.\/-]+$/;
export const MORE_TAKES = 3; // the same seed would give the same speech
export const MANIFEST = "MANIFEST"; // if the folder does not record it
const MOST_CHARS = 100000; // of one argument; Linux takes 131,072 bytes

/** @param {string} word */
const quoted = word => (PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
/** @param {string[]} words */
export const shellLine = words => words.map(quoted).join(" ");

/** Return the folder of this page, also after it was moved; over http the folder it was made in. */
export function folderPath() {
  if (location.protocol !== "file:") return model.data.folder.path;
  const path = decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "") || "/";
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path;
}

/** Return commands that synthesize more takes of rows, one for each way they were made. @param {Row[]} rows */
export function againCommands(rows) {
  /** @type {{key: string, run: string[], ids: string[], chars: number}[]} */
  const groups = [];
  for (const row of rows.filter(isNamed)) {
    const run = row.run === undefined ? model.data.last : model.data.runs[row.run].command;
    const key = shellLine(run);
    let group = groups.findLast(one => one.key === key);
    if (!group || group.chars > MOST_CHARS) groups.push((group = { key, run, ids: [], chars: 0 }));
    group.ids.push(row.id);
    group.chars += 3 * row.id.length + 1;
  }
  return groups.map(({ run, ids }) => {
    const only = ids.join(",");
    // An id may begin with a dash.
    const chosen = only.startsWith("-") ? [`--only=${only}`] : ["--only", only];
    return shellLine(["tts-cli", ...run, "--out", folderPath(), ...chosen, "--takes", String(MORE_TAKES)]);
  });
}

/** Return the command that chooses takes. @param {[string, number][]} pairs id of a row and number of a take */
export function pickCommand(pairs) {
  const words = pairs.map(([id, take]) => `${id}=${take}`);
  const dash = words.some(word => word.startsWith("-")) ? ["--"] : [];
  return shellLine(["tts-cli", "pick", folderPath(), ...dash, ...words]);
}
