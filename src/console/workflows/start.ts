// What a start form sends, made from what was filled in. It is pure; the service checks it.

export interface Options {
  readonly entrypoint: string;
  readonly businessKey: string;
  /** Empty: both run. */
  readonly onConflict: string;
  /** From 1 to 5. Empty: the usual one. */
  readonly priority: string;
  readonly fairnessKey: string;
  /** One `name=value` a line. */
  readonly labels: string;
  readonly dryRun: boolean;
}

interface Started {
  readonly id: string;
  readonly version: number;
  readonly tenant_id?: string | null;
}

export function startBody(
  { id, version, tenant_id }: Started,
  inputs: unknown,
  { entrypoint, businessKey, onConflict, priority, fairnessKey, labels: text, dryRun }: Options,
): object {
  const { labels } = labelsOf(text);
  return {
    ...{ workflow_id: id, version, inputs },
    ...(tenant_id !== undefined && { tenant_id }),
    ...(entrypoint !== "" && { entrypoint }),
    ...(businessKey !== "" && { business_key: businessKey }),
    ...(businessKey !== "" && onConflict !== "" && { on_conflict: onConflict }),
    ...(priority !== "" && { priority: Number(priority) }),
    ...(fairnessKey !== "" && { fairness_key: fairnessKey }),
    ...(labels && Object.keys(labels).length > 0 && { labels }),
    ...(dryRun && { dry_run: true }),
  };
}

export interface Labels {
  readonly labels?: Readonly<Record<string, string>>;
  readonly fault?: string;
}

export function labelsOf(text: string): Labels {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const wrong = lines.find((line) => !/^\s*[^=\s]+\s*=\s*\S/.test(line));
  if (wrong !== undefined) return { fault: `"${wrong.trim()}" is no label: write name=value.` };
  return { labels: Object.fromEntries(lines.map(labelOf)) };
}

function labelOf(line: string): readonly [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}
