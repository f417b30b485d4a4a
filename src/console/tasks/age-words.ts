// How long a task waits, and when it is due, in words. Pure.
import { durationWords } from "../story/words.js";

/** What the API answers of the times of a task. */
export interface TimedTask {
  readonly status: string;
  readonly opened_at: string;
  readonly due_at?: string;
  readonly submitted_at?: string;
  readonly submitted_by?: string;
}

/** A part of the line about a task: its words, and the moment that they are about. */
export interface Told {
  readonly words: string;
  readonly at: string;
  /** The words end in front of the time itself. */
  readonly showsTime?: true;
  readonly isLate?: true;
}

export function ageWords({ status, opened_at, submitted_at, submitted_by }: TimedTask, now: number): Told {
  if (submitted_at !== undefined) {
    const by = submitted_by === undefined ? "" : ` by ${submitted_by}`;
    return { words: `submitted${by}`, at: submitted_at, showsTime: true };
  }
  if (status === "open") return { words: `open for ${since(opened_at, now)}`, at: opened_at };
  return { words: `${status}, opened`, at: opened_at, showsTime: true };
}

/** Undefined: nothing is due any more. */
export function dueWords({ status, due_at }: TimedTask, now: number): Told | undefined {
  if (due_at === undefined || status === "submitted") return undefined;
  if (status !== "open") return { words: "was due", at: due_at, showsTime: true };
  const left = Date.parse(due_at) - now;
  if (left < 0) return { words: `overdue by ${durationWords(-left)}`, at: due_at, isLate: true };
  return { words: `due in ${durationWords(left)}`, at: due_at };
}

const since = (time: string, now: number): string => durationWords(Math.max(0, now - Date.parse(time)));
