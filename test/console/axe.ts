// axe-core in a page: what it finds that is serious, in words.
import axe from "axe-core";
import type { Page } from "playwright-core";

const SERIOUS = new Set(["serious", "critical"]);

/** Each finding with the first elements that have it. The page's policy forbids inline scripts, so the code is evaluated instead. */
export async function seriousFindings(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() =>
    // What passed is counted, and not described: that takes half of the time.
    (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ["violations"] }),
  );
  return violations
    .filter(({ impact }) => SERIOUS.has(impact ?? ""))
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes
          .slice(0, 3)
          .map(({ html }) => html)
          .join(" ")}`,
    );
}
