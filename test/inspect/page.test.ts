// The page of the inspector: what a browser may load for it, and what its script does with the two sides that it connects.
import { createHash } from "node:crypto";
import { createContext, runInContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { inspectPage } from "../../src/inspect/index.js";
import type { InspectedRun } from "../../src/store/lists/inspected-runs.js";

const ID = asRunId("01900000-0000-7000-8000-000000000042");
const RUN: InspectedRun = {
  ...{ id: ID, workflowId: "order:eu", version: 3, definitionId: "d", parentRunId: null, parentStepId: null },
  ...{ parentBranchId: null, state: "running", startedAt: new Date(0), lastSeq: 0, terminal: false },
};
const UI = 'https://inspector.example/view?a="b"&c=<d>';
const { html, policy } = inspectPage(RUN, { ui: UI, console: true });
const alone = inspectPage(RUN, { ui: UI, console: false });
const INSTEAD = `/console/runs/${ID}`;

const between = (from: string, to: string) => html.slice(html.indexOf(from) + from.length, html.indexOf(to));
const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

describe("the page", () => {
  it("may run its script, use its style and embed the inspector, and nothing else", () => {
    expect(policy.split("; ")).toEqual([
      "default-src 'none'",
      `style-src ${hashOf(between("<style>", "</style>"))}`,
      `script-src ${hashOf(between("<script>", "</script>"))}`,
      "frame-src https://inspector.example",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
    expect(html).not.toMatch(/ on\w+="|javascript:| style="/);
  });

  it("names the inspector, says what to do without it, and links the run", () => {
    // The inspector gives its word once: it is asked for when the page listens, at the end of its script.
    expect(html).not.toMatch(/<iframe[^>]* src=/);
    expect(html).toContain('data-ui="https://inspector.example/view?a=&#34;b&#34;&#38;c=&#60;d&#62;"');
    expect(html).toContain("SAGA_INSPECT_UI");
    const links = [...html.matchAll(/href="([^"]+)"/g)].map(([, link]) => link?.replaceAll("&#38;", "&"));
    expect(links).toEqual([
      INSTEAD,
      ...["", "/explain", "/events"].map((part) => `/api/v1/sagas/${ID}${part}`),
      "/api/v1/workflows/order%3Aeu/machine?version=3",
      "/api/v1/workflows/order%3Aeu/machine?version=3&format=mermaid",
    ]);
  });

  it("knows the console only where it is, and may do the same without it", () => {
    expect(html).toContain(`data-instead="${INSTEAD}"`);
    expect(html).toContain("Without an answer in 5 s this page leads to the console.");
    expect(alone.html).not.toContain("console");
    expect(alone.policy).toBe(policy);
  });
});

describe("the page of a service without an inspector", () => {
  const without = inspectPage(RUN, { console: true });

  it("loads, runs and connects to nothing, and names no host", () => {
    expect(without.policy.split("; ")).toEqual([
      "default-src 'none'",
      `style-src ${hashOf(between("<style>", "</style>"))}`,
      ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ]);
    expect(without.html).not.toMatch(/<script|<iframe| src=|https?:|\/\/\w/);
  });

  it("says how to set one and where run data then goes, and links the run", () => {
    expect(without.html).toMatch(
      /set <code>SAGA_INSPECT_UI<\/code>[^<]*data of the runs\s+that are shown then goes to its host/,
    );
    const linksOf = (page: string) => [...page.matchAll(/href="([^"]+)"/g)].map(([, link]) => link);
    expect(linksOf(without.html)).toEqual(linksOf(html));
    expect(inspectPage(RUN, { console: false }).html).not.toContain("console");
  });
});

interface Message {
  readonly source: unknown;
  readonly origin: string;
  readonly data: unknown;
}

/** The script with a window, a frame and sockets of the test. */
function browser(instead?: string) {
  const posted: unknown[] = [];
  const led: string[] = [];
  const sockets: { url: string; closed: boolean; onmessage?: (message: { data: string }) => void }[] = [];
  const inspector = { postMessage: (data: unknown, site: string) => posted.push([data, site]) };
  const elements = { inspector: { src: "", contentWindow: inspector }, state: { textContent: "" } };
  let hear: (message: Message) => void = () => {};
  let late: () => void = () => {};
  const context = createContext({
    document: {
      getElementById: (id: keyof typeof elements) => elements[id],
      body: { dataset: { run: ID, ui: UI, instead } },
    },
    location: { origin: "https://saga.example", replace: (path: string) => void led.push(path) },
    URL,
    addEventListener: (_: string, listener: typeof hear) => {
      hear = listener;
    },
    setTimeout: (callback: typeof late) => {
      late = callback;
    },
    WebSocket: class {
      readonly closed = false;
      constructor(readonly url: string) {
        sockets.push(this as never);
      }
      close() {
        Object.assign(this, { closed: true });
      }
    },
  });
  runInContext(between("<script>", "</script>"), context);
  return {
    posted,
    sockets,
    led,
    inspector,
    state: elements.state,
    hear: (message: Message) => hear(message),
    late: () => late(),
  };
}

describe("its script", () => {
  const data = { type: "@statelyai.connected" };
  const origin = "https://inspector.example";

  it("connects when the inspector is there, and hands it every frame", () => {
    const { posted, sockets, inspector, hear } = browser();
    expect(sockets).toEqual([]);
    hear({ source: inspector, origin, data });
    expect(sockets.map(({ url }) => url)).toEqual([`wss://saga.example/api/v1/sagas/${ID}/inspect`]);
    sockets[0]?.onmessage?.({ data: '{"type":"@xstate.actor"}' });
    expect(posted).toEqual([[{ type: "@xstate.actor" }, origin]]);
    hear({ source: inspector, origin, data });
    expect(sockets.map(({ closed }) => closed)).toEqual([true, false]);
  });

  it("hears no other window and no other site", () => {
    const { sockets, inspector, hear } = browser();
    hear({ source: {}, origin, data });
    hear({ source: inspector, origin: "https://evil.example", data });
    hear({ source: inspector, origin, data: { type: "else" } });
    hear({ source: inspector, origin, data: null });
    expect(sockets).toEqual([]);
  });

  it("leads to the console when the inspector has not answered, and says so where there is none", () => {
    const { state, led, late } = browser(INSTEAD);
    late();
    expect(led).toEqual([INSTEAD]);
    expect(state.textContent).toContain("has not answered");
    const without = browser();
    without.late();
    expect(without.led).toEqual([]);
    expect(without.state.textContent).toContain("has not answered");
  });

  it("stays when the inspector has answered", () => {
    const { led, inspector, hear, late } = browser(INSTEAD);
    hear({ source: inspector, origin, data });
    late();
    expect(led).toEqual([]);
  });
});
