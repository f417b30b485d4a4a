// A real Chromium, headless, for the tests of pages: Debian's, or the one at CHROMIUM_PATH. A page of a test that throws, breaks the
// Content-Security-Policy or asks another host fails the test's file.
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { describe, onTestFinished } from "vitest";
import { atFileEnd } from "./file-end.js";
import { LONG } from "./long.js";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
/** What a page shows comes over the network and from other processes. */
const PATIENCE_MS = 30_000;

function executable(): string | undefined {
  const folders = (process.env.PATH ?? "").split(":");
  const candidates = [
    process.env.CHROMIUM_PATH,
    ...NAMES.flatMap((name) => folders.map((folder) => join(folder, name))),
  ];
  return candidates.find((path) => path !== undefined && path !== "" && isExecutable(path));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export function describeWithBrowser(name: string, suite: () => void): void {
  describe.skipIf(executable() === undefined)(`${name} (needs Chromium at CHROMIUM_PATH)`, suite);
}

/** In the long form only. */
export const describeLongWithBrowser: typeof describeWithBrowser = LONG ? describeWithBrowser : () => {};

let running: Promise<Browser> | undefined;

/** One browser for a test process, as it is one second of a processor to start. It ends with the process. */
function browser(): Promise<Browser> {
  // As root it has no sandbox; a page of ours is all that it opens.
  const options = { executablePath: executable(), args: ["--no-sandbox", "--disable-dev-shm-usage"] };
  running ??= chromium.launch(options as Parameters<typeof chromium.launch>[0]);
  return running;
}

const WIDE = { viewport: { width: 1280, height: 900 } };

let shared: Promise<BrowserContext> | undefined;

/** The pages of a file have one context, and with it one cache, unless a test wants a browser with options of its own. */
async function contextFor(options: BrowserContextOptions): Promise<BrowserContext> {
  if (Object.keys(options).length === 0 && shared) return shared;
  const created = browser().then((running) => running.newContext({ ...WIDE, ...options }));
  if (Object.keys(options).length === 0) shared = created;
  atFileEnd(async () => {
    if (shared === created) shared = undefined;
    await (await created).close();
  });
  return created;
}

export interface Watched {
  readonly page: Page;
  /** What went wrong in the page: uncaught errors, broken policies, requests to other hosts. */
  readonly faults: readonly string[];
}

export interface PageOptions extends BrowserContextOptions {
  /** Other origins that the page may ask. */
  readonly allowed?: readonly string[];
}

/** A page of a test at an address of `origin`. Failed requests to it are no faults: a node may be away. */
export async function openPage(
  origin: string,
  path: string,
  { allowed = [], ...options }: PageOptions = {},
): Promise<Watched> {
  const hosts = [origin, ...allowed].map((url) => new URL(url).host);
  const page = await (await contextFor(options)).newPage();
  // An open page goes on asking the service.
  onTestFinished(() => page.close());
  page.setDefaultTimeout(PATIENCE_MS);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(`uncaught: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection to/.test(text)) faults.push(text);
  });
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (/^(https?|wss?):$/.test(protocol) && !hosts.includes(host)) faults.push(`asked ${request.url()}`);
  });
  await page.goto(`${origin}${path}`);
  return { page, faults };
}

/** Kept as an artefact of the run, in the folder SAGA_TEST_SCREENSHOTS. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SAGA_TEST_SCREENSHOTS;
  if (folder === undefined || folder === "") return;
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
