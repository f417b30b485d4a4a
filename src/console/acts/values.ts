// What the texts in an act's fields say, and the request that follows from it. What a value means is for the service to check.
import { type Parsed, parseJson, parseObject } from "../parts/json-text.js";
import type { ActName, Field } from "./acts.js";

export type Texts = Readonly<Record<string, string>>;
export type Values = Readonly<Record<string, unknown>>;

export interface Read {
  readonly values: Values;
  /** Faults by the name of the field. */
  readonly faults: Readonly<Record<string, string>>;
}

/** Fields that are left empty have no value. */
export function valuesOf(fields: readonly Field[], texts: Texts): Read {
  const values: Record<string, unknown> = {};
  const faults: Record<string, string> = {};
  for (const field of fields) {
    const text = (texts[field.name] ?? "").trim();
    if (text === "") continue;
    const { value, fault } = read(field, text);
    if (fault === undefined) values[field.name] = value;
    else faults[field.name] = fault;
  }
  return { values, faults };
}

function read({ kind }: Field, text: string): Parsed {
  switch (kind) {
    case "number":
      return { value: Number(text) };
    case "check":
      return { value: text === "true" };
    case "json":
      return parseJson(text);
    case "object":
      return parseObject(text);
    default:
      return { value: text };
  }
}

/** The values as the API names them. */
export const paramsOf = ({ skip_undo, assume_effects, ...given }: Values): Values => ({
  ...given,
  ...(skip_undo === true && { compensate: false }),
  ...(assume_effects === true && { effects: "assume" }),
});

/** Where the act on one run is sent, below the run. */
export const pathOf = (name: ActName, { signal_name }: Values): string =>
  name === "signal" ? `signal/${encodeURIComponent(String(signal_name))}` : name;

/** What is sent there: the name of a signal is in the path. */
export const bodyOf = (name: ActName, values: Values): Values =>
  name === "signal" ? { payload: values.payload ?? {} } : paramsOf(values);
