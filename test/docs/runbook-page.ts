// docs/runbook.md as a script: the curl commands of its stories, in their order. A command that is written in any other way is an error, so
// that the test can send what a reader of the page would.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import type { Client } from "../faults/client.js";
import { until } from "../harness/until.js";

interface Command {
  readonly method: "GET" | "POST";
  /** Below `$API`, with its query. */
  readonly path: string;
  readonly key: string | undefined;
  /** The JSON of the body. */
  readonly json: string | undefined;
  /** The file with the body. */
  readonly file: string | undefined;
}

/** What the variables of the page stand for: `$RUN`, `$JOB`. */
export type Names = Readonly<Record<string, string>>;

const URL = String.raw`"\$API(?<path>/[^"\s]*)"`;
const KEY = `(?: -H "Idempotency-Key: (?<key>[^"]+)")?`;
const BODY = String.raw`(?: --json (?:@(?<file>\S+)|(?<json>'[^']*'(?:\$[A-Z]+'[^']*')*)))?`;
const CURL = new RegExp(`^curl -sS(?<post> -X POST)? ${URL}${KEY}${BODY}$`);

/** Throws if the command is written in another way than those of the page. */
export function commandOf(text: string): Command {
  const { path = "", post, key, file, json } = CURL.exec(text)?.groups ?? {};
  if (path === "") throw new Error(`the runbook has a command that the test cannot read: ${text}`);
  const method = post !== undefined || json !== undefined || file !== undefined ? "POST" : "GET";
  return { method, path, key, file, json: json?.replaceAll("'", "") };
}

/** The commands of the stories by their headings. */
function readStories(): ReadonlyMap<string, readonly Command[]> {
  const page = readFileSync(join(packageRoot(), "docs", "runbook.md"), "utf8");
  const sections = page.split(/^## /m).slice(1);
  return new Map(sections.map((section) => [section.slice(0, section.indexOf("\n")), commandsIn(section)]));
}

function commandsIn(section: string): readonly Command[] {
  const blocks = [...section.matchAll(/^```sh\n([\s\S]*?)\n```$/gm)].map(([, text = ""]) => text);
  return blocks.flatMap((block) => block.split(/\n(?=curl )/).map(commandOf));
}

export const STORIES = readStories();

/** Sends the commands of one story, one after another. Each must be accepted, with all members of its body. */
export class Story {
  private readonly left: Command[];

  constructor(
    title: string,
    private readonly client: Client,
    private readonly files: Readonly<Record<string, object>> = {},
  ) {
    this.left = [...(STORIES.get(title) ?? [])];
  }

  /** Sends the next command of the page, which is to this route, and returns the body of the answer. */
  ask(route: string, names: Names = {}) {
    return this.send(this.next(route), names);
  }

  /** The same, again and again until the answer is as the page says. */
  until(route: string, isSo: (body: Body) => boolean, names: Names = {}) {
    const command = this.next(route);
    const answered = async () => {
      const body = await this.send(command, names);
      return isSo(body) && body;
    };
    return until(answered, { pause: 100, what: `the end of ${route}` });
  }

  /** Nothing of the page is left. */
  end(): void {
    expect(this.left).toEqual([]);
  }

  private next(route: string): Command {
    const command = this.left.shift();
    const path = command?.path.replaceAll(/\$[A-Z]+/g, "{id}").split("?")[0];
    expect(`${command?.method} ${path}`, "the next command of the page").toBe(route);
    return command as Command;
  }

  private async send({ method, path, key, json, file }: Command, names: Names): Promise<Body> {
    const body = file === undefined ? json && JSON.parse(filled(json, names)) : this.files[file];
    const sent = filled(path, names);
    const answer = await this.client.send(this.client.url, method, sent, body, key);
    const { status, headers } = answer;
    expect({ sent, status: status < 300 || answer, ignored: headers.get("saga-ignored-fields") }).toEqual({
      ...{ sent, status: true, ignored: null },
    });
    return answer.body;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the test reads answers of any shape, and fails if the shape is wrong.
type Body = any;

function filled(text: string, names: Names): string {
  return text.replaceAll(/\$([A-Z]+)/g, (_, name: string) => {
    const value = names[name];
    if (value === undefined) throw new Error(`the page uses $${name}, which the test does not know`);
    return value;
  });
}
