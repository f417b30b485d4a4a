// The steps that one state becomes: a chain whose first step has the state's id, and whose others have a suffix. It knows nothing of states.
import type { Json, JsonObject } from "../../values/json.js";

export type Step = { [name: string]: Json };

export class Chain {
  readonly steps: Step[] = [];
  /** The last step that leads on. */
  private open: Step | undefined;

  constructor(
    /** The id for a suffix; that of the state for none. */
    private readonly idFor: (suffix: string) => string,
    private readonly head: JsonObject,
  ) {}

  /** Adds a step that follows the last one, and gives its id. */
  add(suffix: string, type: string, members: JsonObject): string {
    const first = this.open === undefined;
    const step: Step = { id: this.idFor(first ? "" : suffix), type, ...(first && this.head), ...members };
    if (this.open) this.open.next = step.id ?? null;
    this.steps.push(step);
    this.open = step;
    return String(step.id);
  }

  /** Adds a step beside the chain: nothing of the chain leads to it by itself. */
  aside(suffix: string, type: string, members: JsonObject): string {
    const id = this.idFor(suffix);
    this.steps.push({ id, type, ...members });
    return id;
  }

  /** The id that a step of this suffix has, or will have. */
  idOf(suffix: string): string {
    return this.idFor(suffix);
  }

  /** The last step leads to this one. A chain without steps gets one that does nothing. */
  close(next: string): readonly Step[] {
    if (!this.open) this.add("", "noop", {});
    if (this.open) this.open.next = next;
    return this.steps;
  }

  /** The last step says itself where it leads. */
  ended(): readonly Step[] {
    return this.steps;
  }
}
