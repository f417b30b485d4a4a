// What holds a run until a person lets it go on: an operator's pause, or a quarantine. Both may hold it at once. Read from the audit rows.
import { kindOf, type Row, typeOf } from "./rows.js";

/** As the API names the reasons of a pause. */
export type Halt = "operator" | "quarantine";

const BEGINS: Readonly<Record<string, Halt>> = { pause: "operator", quarantine: "quarantine" };
/** A cancel ends either. */
const ENDS: Readonly<Record<string, readonly Halt[]>> = {
  resume: ["operator"],
  release: ["quarantine"],
  cancel: ["operator", "quarantine"],
  terminate: ["operator", "quarantine"],
};

const kind = (row: Row): string => (typeOf(row) === "log" ? (kindOf(row) ?? "") : "");

export const haltBy = (row: Row): Halt | undefined => BEGINS[kind(row)];

export const letGoBy = (row: Row): readonly Halt[] => ENDS[kind(row)] ?? [];

export function haltsAfter(before: readonly Halt[], row: Row): readonly Halt[] {
  const halt = haltBy(row);
  const left = before.filter((one) => one !== halt && !letGoBy(row).includes(one));
  return halt === undefined ? left : [...left, halt];
}

/** Of several, the one that the state of the run names. */
export const mainHalt = (halts: readonly Halt[]): Halt | undefined =>
  halts.includes("quarantine") ? "quarantine" : halts[0];
