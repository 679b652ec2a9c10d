// The data of a page, as `content.py` writes it. This file has types only.

/** @typedef {"approved" | "rejected" | "retake" | "open" | "comment"} State */
/** @typedef {State | "changed"} Shown state of a row; changed: its audio is not what was decided about */

/**
 * A line of reviews.jsonl.
 * @typedef {object} Decision
 * @property {string} id
 * @property {number} take
 * @property {string | null} sha256
 * @property {State} state
 * @property {string} comment
 * @property {number | null} at_s
 * @property {string} [reviewer]
 * @property {string} [time]
 */

/** @typedef {[string, string, number]} Reason kind, text and weight */

/**
 * A transcript of a take: pieces of the text, and what differs in it.
 * @typedef {object} Transcript
 * @property {number} error
 * @property {"words" | "characters"} unit
 * @property {number} longest
 * @property {string} by
 * @property {[string, string?][]} heard
 */

/**
 * @typedef {object} Take
 * @property {number} take
 * @property {string} [sha256]
 * @property {number} [seed]
 * @property {number} [audio_s]
 * @property {string} [status]
 * @property {string[]} [suspect] kinds of reasons, if it is an alternative
 * @property {string} [url]
 * @property {boolean} [is_older]
 * @property {boolean} [is_other]
 * @property {string} [said] text that the model got, if it is another one
 * @property {string} [written] text as in the manifest, if it is another one
 * @property {string | null} [waveform]
 * @property {number} [level_dbfs]
 * @property {Transcript} [asr]
 * @property {number[]} [mos]
 * @property {number[]} [words]
 * @property {string[]} [unsure]
 */

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {number} index place in the page's data
 * @property {number} group 0 failed, 1 suspect, 2 ok
 * @property {string} status
 * @property {string} [voice]
 * @property {string} [character]
 * @property {string} [chapter]
 * @property {Record<string, string>} extra
 * @property {Record<string, string | undefined>} facets values that rows can be filtered by
 * @property {string} [text]
 * @property {string} [spoken_text]
 * @property {number} [text_chars]
 * @property {string} [error]
 * @property {string} [finish_reason]
 * @property {string} [language]
 * @property {string} [instruct]
 * @property {number} [attempts]
 * @property {number} [rate]
 * @property {number} [level_dbfs]
 * @property {number} [peak_dbfs]
 * @property {number} [clipped_share]
 * @property {number[]} [silences_s]
 * @property {number} [run]
 * @property {number} place
 * @property {number} order place in the manifest
 * @property {Reason[]} reasons
 * @property {number} severity
 * @property {number[][]} [parts]
 * @property {number} chosen
 * @property {Take[]} takes
 */

/** @typedef {{run_id?: string, started?: string | null, model?: string | null, command: string[]}} Run */
/** @typedef {{voice: string, rows: number, marks: number[], outliers: [number, number][]}} VoiceFigures */
/** @typedef {{voices: VoiceFigures[], left_out: number}} Figures */
/** @typedef {{name: string, rows: number | null, wall_s: number, seconds: number[]}} RunTime */
/** @typedef {{stages: string[], time: RunTime[], rate: Figures, level: Figures, mos: Figures}} Charts */

/**
 * @typedef {object} Totals
 * @property {number} rows
 * @property {number} ok
 * @property {number} failed
 * @property {number} suspect
 * @property {number} audio_s
 * @property {number | null} xrt
 * @property {number} voices
 * @property {number} runs
 * @property {number} missing
 * @property {number} garbage
 */

/**
 * @typedef {object} Data
 * @property {{path: string, name: string}} folder
 * @property {string} made
 * @property {string} letters
 * @property {Record<string, string>} kinds
 * @property {Totals} totals
 * @property {Run[]} runs
 * @property {string[]} last
 * @property {Charts} charts
 * @property {Decision[]} decisions
 * @property {Row[]} rows
 * @property {{stamp: string, reviewer: string}} [server]
 */

/** @typedef {{number: number, id: string, takes: number, state: string, num_done: number, error: string}} Job */
/** @typedef {{revision: number, decisions: Decision[], busy: string | null, stamp: string, jobs: Job[]}} Changes */

export {};
