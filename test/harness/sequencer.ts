// The order of test files: those that start most begin first, so that at the end there are only short ones to wait for. It does not know how long a
// file takes: where vitest has measured that, files of one rank begin with the longest, else with the largest. A file that waits for minutes, rather than
// computes, says `// @waits`, and begins before all others: the others compute meanwhile.
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The imports of a module of `test/`, in its own text. */
const IMPORTED = /(?:from|import) "(\.[^"]+)\.js"/g;

export default class MostFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const ranked = (await super.sort(files)).map((file) => ({ file, rank: rank(file) }));
    return ranked.sort((one, other) => byRank(one.rank, other.rank)).map(({ file }) => file);
  }
}

const WAITS = /^\/\/ @waits$/m;

/** The greatest first. The difference of two that wait is none. */
const byRank = (one: number, other: number) => (one === other ? 0 : other - one);

/** The number of modules of `test/` that it imports, itself or through others: databases, services, clients and rigs are such modules. */
function rank({ moduleId }: TestSpecification): number {
  if (WAITS.test(readFileSync(moduleId, "utf8"))) return Number.POSITIVE_INFINITY;
  const reached = new Set<string>();
  const reach = (path: string) => {
    if (reached.has(path) || !path.includes("/test/") || !existsSync(path)) return;
    reached.add(path);
    for (const [, name = ""] of readFileSync(path, "utf8").matchAll(IMPORTED))
      reach(`${resolve(dirname(path), name)}.ts`);
  };
  reach(moduleId);
  return reached.size;
}
