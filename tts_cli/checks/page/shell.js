// Commands to paste into a shell.

const PLAIN_WORD = /^[A-Za-z0-9_@%+=:,.\/-]+$/;
const MORE_TAKES = 3; // the same seed would give the same speech
const MANIFEST = "MANIFEST"; // where the folder does not tell it
const MOST_CHARS = 100000; // of one argument; Linux takes 131,072 bytes

const quoted = (word) => (PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
const shellLine = (words) => words.map(quoted).join(" ");

// The folder this page lies in, also after it was moved; over http the one it was made in.
function folderPath() {
  if (location.protocol !== "file:") return data.folder.path;
  const path = decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "") || "/";
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path;
}

// Whether an id can be named to a command: bad rows without one are called #7.
const isNamed = (row) => !row.id.startsWith("#");

// Commands that speak more takes of rows, one for each way they were spoken.
function againCommands(rows) {
  const groups = new Map();
  for (const row of rows.filter(isNamed)) {
    const run = row.run === undefined ? data.last : data.runs[row.run].command;
    const key = shellLine(run);
    let group = groups.get(key);
    if (!group || group.chars > MOST_CHARS) groups.set(key, (group = { run, ids: [], chars: 0, all: group }));
    group.ids.push(row.id);
    group.chars += 3 * row.id.length + 1;
  }
  const commands = [];
  for (let group of groups.values()) {
    for (; group; group = group.all) {
      const only = group.ids.join(",");
      // An id may begin with a dash.
      const chosen = only.startsWith("-") ? [`--only=${only}`] : ["--only", only];
      commands.push(shellLine(["tts-cli", ...group.run, "--out", folderPath(), ...chosen, "--takes", String(MORE_TAKES)]));
    }
  }
  return commands;
}

// The command that chooses takes: pairs of a row and the number of a take.
function pickCommand(picks) {
  const words = picks.map(([row, take]) => `${row.id}=${take}`);
  const dash = words.some((word) => word.startsWith("-")) ? ["--"] : [];
  return shellLine(["tts-cli", "pick", folderPath(), ...dash, ...words]);
}
