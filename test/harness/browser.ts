// A real Chromium, headless, for the tests of pages: Debian's, or the one at CHROMIUM_PATH. A page of a test that throws, breaks the
// Content-Security-Policy or asks another host fails the test's file.
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { describe, onTestFinished, type TestOptions } from "vitest";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
/** What a page shows comes over the network and from other processes. */
const PATIENCE_MS = 60_000;

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

export function describeWithBrowser(name: string, ...rest: [() => void] | [TestOptions, () => void]): void {
  const [options, suite] = rest.length === 2 ? rest : [{}, rest[0]];
  describe.skipIf(executable() === undefined)(`${name} (needs Chromium at CHROMIUM_PATH)`, options, suite);
}

const WIDE = { width: 1280, height: 900 };

let running: Promise<BrowserContext> | undefined;

/**
 * One browser for a test process, as it is one second of a processor to start. It ends with the process. It has a folder of its own, as a
 * person's browser has: without one it would compile the scripts of the console anew for every page.
 */
function browser(): Promise<BrowserContext> {
  running ??= launch();
  return running;
}

async function launch(): Promise<BrowserContext> {
  // To load it takes a second, also where no page is opened.
  const { chromium } = await import("playwright-core");
  // As root it has no sandbox; a page of ours is all that it opens.
  const options = { executablePath: executable(), args: ["--no-sandbox", "--disable-dev-shm-usage"], viewport: WIDE };
  return chromium.launchPersistentContext("", options as Parameters<typeof chromium.launchPersistentContext>[1]);
}

export interface Watched {
  readonly page: Page;
  /** What went wrong in the page: uncaught errors, broken policies, requests to other hosts. */
  readonly faults: readonly string[];
}

export interface PageOptions {
  /** Other origins that the page may ask. */
  readonly allowed?: readonly string[];
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: "light" | "dark";
  /** What the page would give up after seconds it waits for, however slow the machine is. */
  readonly isPatient?: true;
}

/** Timers of some seconds do not go off. The clock of Playwright would stop for all pages of the browser. */
const NEVER_GIVES_UP = `{
  const { setTimeout } = window;
  window.setTimeout = (done, ms, ...more) => (ms >= 5_000 ? 0 : setTimeout(done, ms, ...more));
}`;

/** A page of a test at an address of `origin`. Failed requests to it are no faults: a node may be away. */
export async function openPage(
  origin: string,
  path: string,
  { allowed = [], viewport, colorScheme, isPatient }: PageOptions = {},
): Promise<Watched> {
  const hosts = [origin, ...allowed].map((url) => new URL(url).host);
  const page = await (await browser()).newPage();
  // An open page goes on asking the service.
  onTestFinished(() => page.close());
  page.setDefaultTimeout(PATIENCE_MS);
  if (viewport) await page.setViewportSize(viewport);
  if (colorScheme) await page.emulateMedia({ colorScheme });
  if (isPatient) await page.addInitScript(NEVER_GIVES_UP);
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

/** A long page takes seconds, and nobody looks at its end. */
const MOST_HIGH_PX = 4_000;

/** Kept as an artefact of the run, in the folder SAGA_TEST_SCREENSHOTS. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SAGA_TEST_SCREENSHOTS;
  if (folder === undefined || folder === "") return;
  await mkdir(folder, { recursive: true });
  const { width, height } = await page.evaluate<{ width: number; height: number }>(
    "({ width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight })",
  );
  const clip = { x: 0, y: 0, width, height: Math.min(height, MOST_HIGH_PX) };
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, clip });
}
