// What the pages have read. Each principal has a store of its own.
import { QueryClient } from "@tanstack/react-query";
import { isPassing } from "./client.js";

/** A node that is replaced answers nothing for a while, or 503: the page goes on by itself. */
const MAX_TRIES = 20;

export const newQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        retry: (failures, error) => isPassing(error) && failures < MAX_TRIES,
        retryDelay: (failures) => Math.min(250 * 2 ** failures, 5_000),
        // The browser may believe to be offline while a service on this machine answers.
        networkMode: "always",
        staleTime: 1_000,
      },
      mutations: { retry: false, networkMode: "always" },
    },
  });
