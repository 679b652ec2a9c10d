// What was decided while listening, as commands and files; what the reviewer still has to do with it.

import { on } from "./bus.js";
import { button, byId, copy, counted, h } from "./dom.js";
import { ledger } from "./ledger.js";
import { picks } from "./model.js";
import { request } from "./retake.js";
import { clear, retakeRows, saveFile } from "./review.js";
import { server } from "./server.js";
import { againCommands, MANIFEST, MORE_TAKES, pickCommand } from "./shell.js";

const dialog = /** @type {HTMLDialogElement} */ (byId("commands"));

function show() {
  const again = retakeRows().length;
  const texts = [
    !server.isThere && picks.size && `${counted(picks.size, "take")} selected`,
    again && `${counted(again, "row")} marked for more takes`,
    !server.isThere && ledger.own.size && `${counted(ledger.own.size, "decision")} to save`,
  ].filter(Boolean);
  byId("basket").hidden = !texts.length;
  document.body.classList.toggle("has-basket", texts.length > 0);
  byId("basket-text").textContent = texts.join(", ");
}

function open() {
  const again = retakeRows();
  const nodes = [];
  if (ledger.own.size && !server.isThere) {
    const hint = "Whoever has the folder adds them with `tts-cli review DIR --import FILE`.";
    nodes.push(h("h3", "Send your decisions"), button("Save the decisions as a file", "copy", saveFile));
    nodes.push(h("p.hint", hint));
  }
  if (picks.size && !server.isThere) nodes.push(...block("Choose these takes", [pickCommand([...picks])]));
  const title = `Synthesize ${MORE_TAKES} more takes of each of these rows`;
  if (again.length) nodes.push(...block(title, againCommands(again)));
  const make = () => {
    dialog.close();
    for (const row of again) request(row, MORE_TAKES);
  };
  if (again.length && server.isThere) nodes.push(button("Make them now", "again", make));
  byId("commands-body").replaceChildren(...nodes);
  byId("commands-clear").hidden = server.isThere;
  dialog.showModal();
}

/** @param {string} title @param {string[]} commands */
function block(title, commands) {
  const nodes = commands.map(command => {
    const copyIt = button("Copy", "copy", () => copy(command, "the command"));
    return h("div.command", h("code", { tabindex: "0" }, command), copyIt);
  });
  const hint = `Replace ${MANIFEST} with the path of your manifest; the folder does not record it.`;
  const isUnknown = commands.some(command => command.includes(` ${MANIFEST} `));
  return [h("h3", title), ...nodes, ...(isUnknown ? [h("p.hint", hint)] : [])];
}

byId("basket-open").onclick = open;
byId("commands-clear").onclick = clear;
on(["rows", "decided", "picked"], show);
