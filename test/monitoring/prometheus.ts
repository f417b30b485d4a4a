// Prometheus as Debian packages it, as a process of its own: it scrapes a service, evaluates rules, and answers queries.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { freePorts } from "../harness/ports.js";
import { until } from "../harness/until.js";

export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  /** When it is of, and what it is. */
  readonly value: readonly [at: number, value: string];
}

export interface RuleState {
  readonly name: string;
  readonly query: string;
  readonly health: "ok" | "err" | "unknown";
  readonly lastError?: string;
}

function works(program: string): boolean {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const isHere = works("prometheus") && works("promtool");

export const describeWithPrometheus = (name: string, suite: () => void) =>
  describe.skipIf(!isHere)(`${name} (needs Prometheus: Debian's package prometheus)`, suite);

/** Throws with what the tool says. */
export function promtool(...args: readonly string[]): string {
  try {
    return execFileSync("promtool", args, { encoding: "utf8", stdio: "pipe" });
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: string; readonly stderr: string };
    throw new Error(`promtool ${args.join(" ")}:\n${stdout}${stderr}`);
  }
}

interface PrometheusOptions {
  /** The page that it scrapes. */
  readonly target: URL;
  readonly rules: string;
  readonly token?: string;
}

export class Prometheus {
  private constructor(
    private readonly child: ChildProcess,
    private readonly url: string,
    private readonly folder: string,
  ) {}

  static async start({ target, rules, token }: PrometheusOptions): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), "saga-prometheus-"));
    const [port = 0] = await freePorts(1);
    const config = {
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: [rules],
      scrape_configs: [
        {
          ...{ job_name: "saga", metrics_path: target.pathname },
          ...(token !== undefined && { authorization: { credentials: token } }),
          static_configs: [{ targets: [target.host] }],
        },
      ],
    };
    // JSON is YAML, too.
    writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
    const args = [
      ...[`--config.file=${join(folder, "prometheus.yml")}`, `--storage.tsdb.path=${join(folder, "data")}`],
      ...[`--web.listen-address=127.0.0.1:${port}`, "--enable-feature=exemplar-storage"],
    ];
    const child = spawn("prometheus", args, { stdio: "ignore" });
    const prometheus = new Prometheus(child, `http://127.0.0.1:${port}`, folder);
    await until(async () => (await fetch(`${prometheus.url}/-/ready`)).ok, { within: 60_000, what: "Prometheus" });
    return prometheus;
  }

  /** Throws where the query is none. */
  async query(query: string): Promise<readonly Sample[]> {
    const { result } = await this.get<{ readonly result: readonly Sample[] }>("query", { query });
    return result;
  }

  /** Those of the last hour, their labels. */
  async exemplars(query: string): Promise<readonly Readonly<Record<string, string>>[]> {
    const end = Date.now() / 1_000;
    const range = { start: String(end - 3_600), end: String(end + 60) };
    type Answer = readonly { readonly exemplars: readonly { readonly labels: Readonly<Record<string, string>> }[] }[];
    const found = await this.get<Answer>("query_exemplars", { query, ...range });
    return found.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels));
  }

  async rules(): Promise<readonly RuleState[]> {
    const { groups } = await this.get<{ readonly groups: readonly { readonly rules: readonly RuleState[] }[] }>(
      "rules",
    );
    return groups.flatMap(({ rules }) => rules);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGTERM");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async get<T>(path: string, parameters: Readonly<Record<string, string>> = {}): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters)}`);
    const { data, error } = (await answer.json()) as { readonly data: T; readonly error?: string };
    if (error !== undefined) throw new Error(error);
    return data;
  }
}
