// The query of the page's address, where a view keeps what it shows. It is no store of anything that an address should not have.
import { useCallback } from "react";
import { useLocation, useSearchParams } from "wouter";

export type Changes = Readonly<Record<string, string | number | undefined>>;

/** Absent, undefined and "" are the same. A change replaces the entry of the history, unless `keep` makes a new one. */
export function useAddress(): readonly [URLSearchParams, (changes: Changes, keep?: "keep") => void] {
  const [parameters, set] = useSearchParams();
  const change = useCallback(
    (changes: Changes, keep?: "keep") => set((before) => changed(before, changes), { replace: keep === undefined }),
    [set],
  );
  return [parameters, change];
}

/** The address of this page with other parameters, for a link. */
export function useHref(): (changes: Changes) => string {
  const [parameters] = useSearchParams();
  const [location] = useLocation();
  return (changes) => `${location}?${changed(parameters, changes)}`;
}

export function changed(before: URLSearchParams, changes: Changes): URLSearchParams {
  const after = new URLSearchParams(before);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") after.delete(name);
    else after.set(name, String(value));
  }
  return after;
}

/** A whole number of the address. */
export function numberIn(parameters: URLSearchParams, name: string): number | undefined {
  const text = parameters.get(name);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
