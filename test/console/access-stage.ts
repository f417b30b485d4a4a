// A service with access control for the tests of the console: API keys of every role, made as the CLI makes them, and what a person does to log in.
import type { Page } from "playwright-core";
import { makeKey } from "../../src/access/key-text.js";
import { insertKey } from "../../src/store/lists/api-keys.js";
import { openPage, type PageOptions, type Watched } from "../harness/browser.js";
import type { TestDatabase } from "../harness/database.js";
import type { ServiceProcess } from "../harness/service.js";
import { startService } from "./runs-service.js";

export const TENANT = "0190a000-0000-7000-8000-0000000000f1";

export interface Key {
  readonly id: string;
  readonly key: string;
}

export class LockedService {
  private constructor(
    readonly service: ServiceProcess,
    readonly database: TestDatabase,
  ) {}

  static async open(env: Readonly<Record<string, string>> = {}): Promise<LockedService> {
    const { service, database } = await startService({ SAGA_AUTH: "api_key", ...env });
    return new LockedService(service, database);
  }

  get url(): string {
    return this.service.url;
  }

  async newKey(roles: readonly string[], more: { readonly workflows?: readonly string[] } = {}): Promise<Key> {
    const { id, key, secretHash } = makeKey();
    const tenant = roles.includes("platform") ? {} : { tenantId: TENANT };
    await insertKey(this.database.sql, { id, secretHash, name: "test", roles, createdBy: "cli", ...tenant, ...more });
    return { id, key };
  }

  async call<T>({ key }: Key, method: string, path: string, body?: unknown): Promise<T> {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetch(`${this.url}/api/v1${path}`, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }

  /** A page of a browser without a session. All pages of the tests have the same cookies. */
  async openPage(path: string, options: PageOptions = {}): Promise<Watched> {
    const watched = await openPage(this.url, path, options);
    await watched.page.context().clearCookies();
    // With the cookie of the test before, the page may be at another address by now.
    await watched.page.goto(`${this.url}${path}`);
    return watched;
  }

  async openAs(key: Key, path: string, options: PageOptions = {}): Promise<Watched> {
    const watched = await this.openPage(path, options);
    await logIn(watched.page, key.key);
    await watched.page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
    return watched;
  }
}

export async function logIn(page: Page, key: string): Promise<void> {
  await page.getByLabel("API key", { exact: true }).fill(key);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

/** Elsewhere: the pages that are open are not told. */
export const endSessions = ({ database }: LockedService) => database.sql`delete from sessions`;
