// The page that shows a run in the Stately inspector: a frame with the inspector, and a script that hands it the frames of our WebSocket.
// It connects when the inspector says that it is there, and otherwise leads to the console. What is written here is all that the page may load or run.
// Without an inspector it says how to set one, and loads and runs nothing.
import { createHash } from "node:crypto";
import type { InspectedRun } from "../store/lists/inspected-runs.js";

export interface Page {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

export interface Shown {
  /** The page of the inspector. Absent: the operator has named none, and no run may go to another host. */
  readonly ui?: string;
  /** The console is there, too: it shows the run if the inspector does not. */
  readonly console: boolean;
}

/** How long the inspector may take to say that it is there. A frame that cannot be loaded says nothing to the page around it. */
const PATIENCE_S = 5;

const STYLE = `
* { margin: 0; box-sizing: border-box; }
html, body { height: 100%; }
body { display: flex; flex-direction: column; font: 14px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff; }
header { padding: 8px 16px; border-bottom: 1px solid #ccc; }
h1 { font-size: 16px; }
a { color: #0645ad; }
iframe { flex: 1; width: 100%; border: 0; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #1c1c1c; }
  a { color: #8ab4f8; }
}
`;

/** The same for every run, so that its hash is. Frames go to the inspector's site alone, and only its word counts. */
const SCRIPT = `
const frame = document.getElementById("inspector");
const say = (text) => { document.getElementById("state").textContent = text; };
const { run, ui, instead } = document.body.dataset;
const site = new URL(ui).origin;
const url = location.origin.replace(/^http/, "ws") + "/api/v1/sagas/" + run + "/inspect";
let socket;
addEventListener("message", ({ source, origin, data }) => {
  if (source !== frame.contentWindow || origin !== site || !data || data.type !== "@statelyai.connected") return;
  if (socket) { socket.onclose = null; socket.close(); }
  socket = new WebSocket(url);
  socket.onopen = () => say("Connected: the run is shown as it goes on.");
  socket.onmessage = (message) => frame.contentWindow.postMessage(JSON.parse(message.data), site);
  socket.onclose = ({ code, reason }) =>
    say(code === 1000 ? "The run has ended; all of it is shown." : "The connection was closed (" + code + " " + reason + "). Reload the page to connect again.");
});
setTimeout(() => {
  if (socket) return;
  say("The inspector has not answered. See below what to do.");
  if (instead) location.replace(instead);
}, ${PATIENCE_S * 1_000});
// It is asked for now that its word is heard: it gives it once.
frame.src = ui;
`;

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

export function inspectPage(run: InspectedRun, { ui, console }: Shown): Page {
  const instead = console ? `/console/runs/${run.id}` : undefined;
  const ofInspector =
    ui === undefined ? [] : [`script-src ${hashOf(SCRIPT)}`, `frame-src ${new URL(ui).origin}`, "connect-src 'self'"];
  const policy = [
    "default-src 'none'",
    `style-src ${hashOf(STYLE)}`,
    ...ofInspector,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  const html = ui === undefined ? pageWithout(run, instead) : pageWith(ui, run, instead);
  return { html, policy: policy.join("; ") };
}

/** The inspector, and what to do if it does not appear. */
function pageWith(ui: string, run: InspectedRun, instead: string | undefined): string {
  const waiting = instead ? ` Without an answer in ${PATIENCE_S} s this page leads to the console.` : "";
  const head = `<p id="state" role="status">Waiting for the inspector.${waiting}</p>
<p>The inspector is a page of ${escaped(new URL(ui).origin)}. If it does not appear below, this browser cannot reach it: check the network, or set
<code>SAGA_INSPECT_UI</code> to an inspector that it can reach. The run without it: ${linksOf(run, instead)}.</p>`;
  const below = `<iframe id="inspector" title="Stately inspector" referrerpolicy="no-referrer"
 sandbox="allow-scripts allow-same-origin allow-popups allow-forms"></iframe>
<script>${SCRIPT}</script>`;
  const data = ` data-ui="${escaped(ui)}"${instead ? ` data-instead="${instead}"` : ""}`;
  return htmlOf(run, { data, head, below });
}

function pageWithout(run: InspectedRun, instead: string | undefined): string {
  const head = `<p>This service has no inspector. To show runs in one, set <code>SAGA_INSPECT_UI</code> to the address of a Stately inspector: the data of the runs
that are shown then goes to its host. The run without it: ${linksOf(run, instead)}.</p>`;
  return htmlOf(run, { data: "", head, below: "" });
}

interface Parts {
  /** Further attributes of the body. */
  readonly data: string;
  readonly head: string;
  readonly below: string;
}

function htmlOf({ id, workflowId }: InspectedRun, { data, head, below }: Parts): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Run ${id}</title>
<style>${STYLE}</style>
</head>
<body data-run="${id}"${data}>
<header>
<h1>${escaped(workflowId)}, run ${id}</h1>
${head}
</header>
${below}
</body>
</html>
`;
}

/** The run without the inspector. `console`: its page there. */
function linksOf({ id, workflowId, version }: InspectedRun, console: string | undefined): string {
  const api = `/api/v1/sagas/${id}`;
  const machine = `/api/v1/workflows/${encodeURIComponent(workflowId)}/machine?version=${version}`;
  const links = {
    ...(console && { console }),
    ...{ run: api, explanation: `${api}/explain`, events: `${api}/events` },
    ...{ machine, diagram: `${machine}&format=mermaid` },
  };
  return Object.entries(links)
    .map(([name, link]) => `<a href="${escaped(link)}">${name}</a>`)
    .join(", ");
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
