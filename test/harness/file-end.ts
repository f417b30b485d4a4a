// Cleanup at the end of a test file, for processes that it started. Workers keep their modules between files, so a hook at the top
// of a module would run for the first file only; `setup.ts` calls `endWithFile` after every file.

const endings = new Set<() => Promise<void>>();

/** Calls `end` after the current test file: what was begun last ends first. */
export function atFileEnd(end: () => Promise<void>): void {
  endings.add(end);
}

export async function endWithFile(): Promise<void> {
  const due = [...endings].reverse();
  endings.clear();
  for (const end of due) await end();
}
