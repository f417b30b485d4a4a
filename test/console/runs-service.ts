// A service with workflows and runs for the tests of the pages about runs. It speaks the public API; it opens no page.
import type { Page } from "playwright-core";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";

export interface Started {
  readonly service: ServiceProcess;
  readonly database: TestDatabase;
}

export async function startService(env: Readonly<Record<string, string>> = {}): Promise<Started> {
  const database = await createTestDatabase();
  atFileEnd(() => database.drop());
  const service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1", ...env })).start();
  return { service, database };
}

export async function call<T>({ url }: { url: string }, method: string, path: string, body?: unknown): Promise<T> {
  const init =
    body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`${url}/api/v1${path}`, { method, ...init });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

export const publish = (service: { url: string }, id: string, steps: readonly object[], more: object = {}) =>
  call(service, "POST", "/workflows", { id, name: id, start: firstId(steps), steps, published: true, ...more });

const firstId = ([first]: readonly object[]) => (first as { id: string }).id;

export async function start(service: { url: string }, workflowId: string, more: object = {}): Promise<string> {
  const body = { workflow_id: workflowId, ...more };
  return (await call<{ run_id: string }>(service, "POST", "/sagas/start", body)).run_id;
}

/** How far the page scrolls sideways. */
export const widthOver = (page: Page) =>
  page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");
