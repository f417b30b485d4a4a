// The page that shows a run in the Stately inspector: a frame with the inspector, and a script that hands it the frames of our WebSocket.
// It connects when the inspector says that it is there. What is written here is all that the page may load or run.
import { createHash } from "node:crypto";
import type { InspectedRun } from "../store/inspected-runs.js";

export interface Page {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

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
const site = new URL(frame.src).origin;
const say = (text) => { document.getElementById("state").textContent = text; };
const url = location.origin.replace(/^http/, "ws") + "/api/v1/sagas/" + document.body.dataset.run + "/inspect";
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
setTimeout(() => { if (!socket) say("The inspector has not answered. See below what to do."); }, 10000);
`;

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** `ui`: the page of the inspector. */
export function inspectPage(run: InspectedRun, ui: string): Page {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(SCRIPT)}`,
    `style-src ${hashOf(STYLE)}`,
    `frame-src ${new URL(ui).origin}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return { html: htmlOf(run, ui), policy: policy.join("; ") };
}

function htmlOf({ id, workflowId, version }: InspectedRun, ui: string): string {
  const { origin } = new URL(ui);
  const api = `/api/v1/sagas/${id}`;
  const machine = `/api/v1/workflows/${encodeURIComponent(workflowId)}/machine?version=${version}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Run ${id}</title>
<style>${STYLE}</style>
</head>
<body data-run="${id}">
<header>
<h1>${escaped(workflowId)}, run ${id}</h1>
<p id="state" role="status">Waiting for the inspector.</p>
<p>The inspector is a page of ${escaped(origin)}. If the space below stays empty, this browser cannot reach it: check the network, or set
<code>SAGA_INSPECT_UI</code> to an inspector that it can reach. The run without it:
<a href="${api}">run</a>, <a href="${api}/explain">explanation</a>, <a href="${api}/events">events</a>,
<a href="${escaped(machine)}">machine</a>, <a href="${escaped(`${machine}&format=mermaid`)}">diagram</a>.</p>
</header>
<iframe id="inspector" title="Stately inspector" src="${escaped(ui)}" referrerpolicy="no-referrer"
 sandbox="allow-scripts allow-same-origin allow-popups allow-forms"></iframe>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
