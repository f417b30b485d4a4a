// Numbers with their noun. English needs two forms.

/** `1 attempt`, `2 attempts`. A noun with another plural names it. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count.toLocaleString()} ${count === 1 ? noun : plural}`;
