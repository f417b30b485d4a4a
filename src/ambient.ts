// The ambient ports of a process: its clocks, its timers and its random numbers. The code of a node has them from here and from nowhere else, so that a
// simulation can put a world of its own in their place, in which a cluster runs again from a seed (test/simulation). Node's names are kept.
import {
  randomBytes as bytesOfHost,
  randomInt as choiceOfHost,
  randomFillSync,
  randomUUID as uuidOfHost,
} from "node:crypto";
import type { Duplex } from "node:stream";
import { setTimeout as delayOfHost } from "node:timers/promises";

export interface DelayOptions {
  /** Its abort rejects the delay. */
  readonly signal?: AbortSignal;
  /** False: the process may end meanwhile. */
  readonly ref?: boolean;
}

export interface Ambient {
  /** Milliseconds since an arbitrary moment, never set. */
  monotonic(): number;
  /** The host's own clock, epoch milliseconds: it may be set. Nothing is due by it (law 8). */
  wallTime(): number;
  setTimeout(callback: () => void, ms: number): NodeJS.Timeout;
  clearTimeout(timer: NodeJS.Timeout | undefined): void;
  setInterval(callback: () => void, ms: number): NodeJS.Timeout;
  clearInterval(timer: NodeJS.Timeout | undefined): void;
  /** In a later turn of the event loop. */
  setImmediate(callback: () => void): void;
  delay(ms: number, options: DelayOptions): Promise<void>;
  /** Aborted after the time, with a TimeoutError. */
  timeoutSignal(ms: number): AbortSignal;
  /** From 0 to 1, for choices that nothing depends on. */
  random(): number;
  randomBytes(count: number): Buffer;
  /** An integer from 0 to below the end, that cannot be guessed. */
  randomInt(end: number): number;
  randomFill(target: BigInt64Array): void;
  randomUUID(): string;
  /** The way to Postgres, in place of a socket of the host's. Absent: the host's. */
  connectToStore?(): Duplex;
}

/** Looked up at each call, because tests replace the globals. */
const HOST: Ambient = {
  monotonic: () => globalThis.performance.now(),
  wallTime: () => Date.now(),
  setTimeout: (callback, ms) => globalThis.setTimeout(callback, ms),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  setInterval: (callback, ms) => globalThis.setInterval(callback, ms),
  clearInterval: (timer) => globalThis.clearInterval(timer),
  setImmediate: (callback) => void globalThis.setImmediate(callback),
  delay: (ms, options) => delayOfHost(ms, undefined, options),
  timeoutSignal: (ms) => AbortSignal.timeout(ms),
  random: () => Math.random(),
  randomBytes: bytesOfHost,
  randomInt: choiceOfHost,
  randomFill: (target) => void randomFillSync(target),
  randomUUID: uuidOfHost,
};

let present = HOST;

/** For a simulation: from now on everything here is answered by its world. Undefined: by the host again. */
export function replaceAmbient(world: Ambient | undefined): void {
  present = world ?? HOST;
}

export const performance = { now: (): number => present.monotonic() };

export const wallTime = (): number => present.wallTime();

export function setTimeout<Given extends readonly unknown[]>(
  callback: (...given: Given) => void,
  ms: number,
  ...given: Given
): NodeJS.Timeout {
  return present.setTimeout(given.length === 0 ? (callback as () => void) : () => callback(...given), ms);
}

export const clearTimeout = (timer: NodeJS.Timeout | undefined): void => present.clearTimeout(timer);

export const setInterval = (callback: () => void, ms: number): NodeJS.Timeout => present.setInterval(callback, ms);

export const clearInterval = (timer: NodeJS.Timeout | undefined): void => present.clearInterval(timer);

export const setImmediate = (callback: () => void): void => present.setImmediate(callback);

/** Settles in a later turn of the event loop, after what this turn still leads to. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => present.setImmediate(resolve));

export async function delay<Value = void>(ms: number, value?: Value, options: DelayOptions = {}): Promise<Value> {
  await present.delay(ms, options);
  return value as Value;
}

export const timeoutSignal = (ms: number): AbortSignal => present.timeoutSignal(ms);

export const random = (): number => present.random();

export const randomBytes = (count: number): Buffer => present.randomBytes(count);

export const randomInt = (end: number): number => present.randomInt(end);

export const randomFill = (target: BigInt64Array): void => present.randomFill(target);

export const randomUUID = (): string => present.randomUUID();

/** For the options of the driver. */
export const storeSocket = (): { readonly socket?: () => Duplex } => {
  const { connectToStore } = present;
  return connectToStore ? { socket: () => connectToStore() } : {};
};
