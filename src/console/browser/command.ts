// A command to the service, sent until the service has decided on it: with one idempotency key, so that it takes effect once however
// often it is sent. What a page shows for it is for the page.
import { useMutation } from "@tanstack/react-query";
import { ApiError, post } from "./client.js";

const MAX_TRIES = 8;
const isPassing = (error: Error) => !(error instanceof ApiError) || error.status === 503;

interface Sent {
  readonly path: string;
  readonly body?: unknown;
}

export function useCommand<T>(onSuccess?: (answer: T) => void) {
  const { mutate, ...state } = useMutation({
    mutationFn: ({ path, body, key }: Sent & { key: string }) => post<T>(path, body, { idempotencyKey: key }),
    retry: (failures, error) => isPassing(error) && failures < MAX_TRIES,
    retryDelay: (failures) => Math.min(250 * 2 ** failures, 5_000),
    ...(onSuccess && { onSuccess }),
  });
  return { ...state, send: (path: string, body?: unknown) => mutate({ path, body, key: newKey() }) };
}

/** `crypto.randomUUID` is missing where the page has no TLS. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("");
