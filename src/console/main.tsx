// The program of the console: it mounts the pages. What it shows is read from the public API, at the same origin.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { App } from "./app.js";
import { ApiError } from "./browser/client.js";
import "./style.css";
import "./parts/tabs.css";

/** A node that is replaced answers nothing for a while, or 503: the page goes on by itself. A refusal stays one. */
const MAX_TRIES = 20;
const isPassing = (error: Error) => !(error instanceof ApiError) || error.status === 503;

const queries = new QueryClient({
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

const root = document.getElementById("console");
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Router base="/console">
          <App />
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
