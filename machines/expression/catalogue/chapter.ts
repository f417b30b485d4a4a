// The form of a chapter of docs/functions.md.
import type { Json } from "../../values/json.js";

export interface Described {
  readonly name: string;
  /** How it is called. */
  readonly call: string;
  readonly does: string;
  readonly example: string;
  readonly result: Json;
}

export interface Chapter {
  readonly title: string;
  readonly about: string;
  readonly functions: readonly Described[];
}

type Row = readonly [name: string, call: string, does: string, example: string, result: Json];

export const chapter = (title: string, about: string, rows: readonly Row[]): Chapter => ({
  title,
  about,
  functions: rows.map(([name, call, does, example, result]) => ({ name, call, does, example, result })),
});
