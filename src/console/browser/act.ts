// Acts of a page on the service: a key that stays the same while one is tried, and what is read again after it. Queries are not sent here.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { backoff } from "../../sdk/backoff.js";
import { ApiError } from "./client.js";

const MAX_TRIES = 8;
const RETRY_MS = { base: 250, cap: 5_000 };

/** No answer, or 503: the outcome is unknown, and a repeat with the same key takes effect once. */
const isUnknown = (error: Error) => !(error instanceof ApiError) || error.status === 503;
const NOT_TRIED = [401, 429];
/** Perhaps after a try whose outcome is unknown: who logs in, or waits, and sends it again has the same key. */
const isGivenAgain = (error: Error) =>
  isUnknown(error) || (error instanceof ApiError && NOT_TRIED.includes(error.status));

interface ActOptions<Output> {
  /** The first members of the keys of queries that show something else afterwards. */
  readonly changes?: readonly string[];
  /** What it changes by itself is changed before the queries are read again. */
  readonly onDone?: (output: Output) => unknown;
}

/** A command that is given again with the same input after an unknown outcome has the same key. */
export function useAct<Input, Output>(
  send: (input: Input, idempotencyKey: string) => Promise<Output>,
  { changes = [], onDone }: ActOptions<Output> = {},
) {
  const queries = useQueryClient();
  const keyFor = useKey();
  return useMutation({
    mutationFn: (input: Input) => send(input, keyFor(input)),
    retry: (failures, error) => isUnknown(error) && failures < MAX_TRIES,
    retryDelay: (failures) => backoff(failures, RETRY_MS),
    onError: (error) => {
      if (!isGivenAgain(error)) keyFor();
    },
    onSuccess: async (output: Output) => {
      keyFor();
      await onDone?.(output);
      await Promise.all(changes.map((key) => queries.invalidateQueries({ queryKey: [key] })));
    },
  });
}

/** The key of this input; called without one, it forgets the key. */
function useKey(): (input?: unknown) => string {
  const last = useRef<{ readonly text: string; readonly key: string } | undefined>(undefined);
  return (input) => {
    const text = JSON.stringify(input ?? null);
    const again = input !== undefined && last.current?.text === text ? last.current : undefined;
    const current = again ?? { text, key: randomKey() };
    last.current = input === undefined ? undefined : current;
    return current.key;
  };
}

/** `crypto.randomUUID` exists at https addresses only. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
