// The size of the program that a regular expression compiles to, from its source alone: bounded repetition makes a hundred thousand
// instructions out of a thousand characters, and whether that is so must be known before it is done.

/** The begin of a group or flags, an escape, a class with its brackets, a repetition, or a single character. */
const TOKEN =
  /\(\?(?:[a-zA-Z-]*[:)]|P?<\w+>)|\\[pP]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\w+:\]|[^\]\\])*\]?|\{(\d{1,4})(,?)(\d{0,4})\}|[\s\S]/g;

/** About the number of instructions, never less than half of it. Malformed patterns have any size. */
export function programSize(source: string): number {
  const count = new InstructionCount();
  for (const token of source.matchAll(TOKEN)) count.read(token);
  return count.total;
}

class InstructionCount {
  /** The groups that are open, the innermost last. `last` is the size of the newest part, which a repetition multiplies. */
  private readonly groups = [{ before: 0, last: 0 }];

  get total(): number {
    return this.groups.reduce((sum, { before, last }) => sum + before + last, 0);
  }

  read([text, least, comma, most]: RegExpMatchArray): void {
    if (least !== undefined) this.repeat(Number(least), comma === "" ? least : most);
    else if (text.startsWith("(")) this.open(text);
    else if (text === ")") this.close();
    else if (text === "*" || text === "+" || text === "?") this.inner.last++;
    else this.add(1);
  }

  private get inner() {
    return this.groups.at(-1) ?? { before: 0, last: 0 };
  }

  private add(size: number): void {
    const { inner } = this;
    inner.before += inner.last;
    inner.last = size;
  }

  /** A group that captures keeps where it begins and ends. Flags alone open no group. */
  private open(text: string): void {
    if (text.endsWith(")")) return;
    this.add(0);
    this.groups.push({ before: text.endsWith(":") ? 0 : 2, last: 0 });
  }

  private close(): void {
    const group = this.groups.length > 1 ? this.groups.pop() : undefined;
    if (group) this.inner.last += group.before + group.last;
  }

  /** Each time beyond the least is optional, which is an instruction more. */
  private repeat(least: number, most: string | undefined): void {
    const { inner } = this;
    const times = most ? Number(most) : Math.max(1, least);
    inner.last = times === 0 ? 1 : inner.last * times + Math.max(1, times - least);
  }
}
